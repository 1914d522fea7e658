"""Held-out episodes and their replay in the twin before and after calibration, for overlay plots."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import signal

from twinloop.consent.removal import find_numbers
from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Episode
from twinloop.errors import WrongUse
from twinloop.identification.predict import Predictor
from twinloop.identification.recording import find_channels, read_recording
from twinloop.identification.result import Identification
from twinloop.identification.windows import cut
from twinloop.tasks import make_cell
from twinloop.twins import Twin

FILE = "replays.npz"
PARTS = ("time_s", "real", "before", "after", "half_width")
LONGEST_SEGMENT = 512
"""Rows of a segment whose spectrum is averaged with the others'."""


@dataclass(frozen=True, eq=False)
class ReplayOverlay:
    """One held-out episode: `real`, `before` and `after` with its band, each (T, channels)."""

    episode: str
    task: str
    time_s: Array
    real: Array
    before: Array
    after: Array
    half_width: Array

    def error_spectra(self) -> ErrorSpectra:
        """Power of the replay error over frequency (Welch's method)."""
        rate_hz = 1.0 / float(np.median(np.diff(self.time_s)))
        length = min(LONGEST_SEGMENT, len(self.time_s))
        hz, before = signal.welch(self.before - self.real, rate_hz, nperseg=length, axis=0)
        _, after = signal.welch(self.after - self.real, rate_hz, nperseg=length, axis=0)
        return ErrorSpectra(rate_hz, hz, before, after)


@dataclass(frozen=True, eq=False)
class ErrorSpectra:
    """Power spectral density of replay errors: `hz` (F,), `before` and `after` (F, channels) in squared units per Hz."""

    rate_hz: float
    hz: Array
    before: Array
    after: Array


def save_replays(
    replays: Sequence[ReplayOverlay], folder: str | Path, dataset: Dataset | None = None
) -> Path:
    """Write replays beside the identification that they belong to.

    Args:
        replays: Held-out episodes, each with the twin's replay.
        folder: The calibrated twin's folder.
        dataset: Where the episodes are from: its workspace remembers what shows them.

    Returns:
        The file.
    """
    arrays: dict[str, Array] = {}
    for number, one in enumerate(replays):
        arrays |= {f"{number}.{part}": np.asarray(getattr(one, part)) for part in PARTS}
        arrays[f"{number}.names"] = np.array([one.episode, one.task])
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    file = Path(folder) / FILE
    if dataset is not None:
        numbers = sorted(find_numbers(dataset, [one.episode for one in replays]))
        register_artefact(file, "table", [(dataset, numbers)])
    write_atomically(file, content.getvalue())
    return file


def load_replays(folder: str | Path) -> list[ReplayOverlay]:
    """Read what `save_replays` wrote.

    Args:
        folder: The calibrated twin's folder.

    Returns:
        The replays; none where an identification was saved without them.

    Raises:
        WrongUse: The file holds something else.
    """
    file = Path(folder) / FILE
    if not file.is_file():
        return []
    try:
        with np.load(file, allow_pickle=False) as kept:
            count = len({name.partition(".")[0] for name in kept.files})
            return [_overlay(kept, number) for number in range(count)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise WrongUse(
            f"{file} holds no replays", got=str(error), expected="a file that `twinloop identify` wrote"
        ) from error


def _overlay(kept: Mapping[str, Array], number: int) -> ReplayOverlay:
    episode, task = (str(name) for name in kept[f"{number}.names"])
    time_s, *rest = (np.asarray(kept[f"{number}.{part}"], np.float64) for part in PARTS)
    if time_s.ndim != 1 or any(
        part.ndim != 2 or part.shape != (len(time_s), rest[0].shape[1]) for part in rest
    ):
        raise ValueError("rows and channels do not fit")
    return ReplayOverlay(episode, task, time_s, *rest)


def replay_held_out(
    base: Twin,
    result: Identification,
    episodes: Iterable[Episode],
    *,
    given: Mapping[str, str] | None = None,
    signals: Sequence[str] | None = None,
    most: int = 6,
    threads: int = 0,
) -> list[ReplayOverlay]:
    """Replay up to `most` held-out episodes in the twin before and after calibration."""
    chosen = [episode for episode in episodes if episode.id in result.held_out][:most]
    made: list[list[Array]] = []
    recordings = []
    for twin in (base, result.twin):
        cell = make_cell(twin)
        channels = find_channels(cell, chosen[0], signals)
        recordings = [read_recording(cell, episode, channels, given) for episode in chosen]
        predictor = Predictor(cell, recordings, channels, (), threads)
        parts = []
        for index in range(len(recordings)):
            windows = cut(recordings, [index], result.horizon_s)
            parts.append(predictor.residuals({}, windows)[0])
        made.append(parts)
    replays = []
    for index, (episode, recording) in enumerate(zip(chosen, recordings, strict=True)):
        windows = cut(recordings, [index], result.horizon_s)
        rows = np.concatenate([np.arange(window.start, window.stop) for window in windows])
        widths = np.concatenate([result.bands.half_widths(recording, window) for window in windows])
        real = recording.readings[rows]
        before, after = real + made[0][index], real + made[1][index]
        replays.append(
            ReplayOverlay(episode.id, episode.task, recording.time_s[rows], real, before, after, widths)
        )
    return replays
