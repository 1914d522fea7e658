"""Which part of the data is fitted, which is held out, and how long the twin runs before its state is reset to the recording."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import Recording
from twinloop.measure.noise import FEWEST_ROWS, noise_of
from twinloop.measure.quantization import resolution_of

HELD_OUT_FRACTION = 0.25
MIN_DURATION_S = 0.25
GROWTH = 10.0
"""A window ends before an error in its start has grown by this."""
PROBED_S = 10.0
"""How far simulations from displaced starts are followed."""
NEGLIGIBLE = 0.2
"""A start whose likely error moves every channel by less than this fraction of its noise is taken as it was read."""
_PROBE = 1e-4
SHORTEST_WINDOW_S, USUAL_WINDOW_S = 1.0, 3.0
"""Duration of fitted windows where there is more data than is fitted: long beside what servos remember, short enough for many."""
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
UNMOVED = 1e-3
"""A joint that moves by less than this fraction of its travel has not been excited."""


def split_episodes(ids: Sequence[str], fraction: float = HELD_OUT_FRACTION) -> tuple[list[int], list[int]]:
    """Episodes to fit and episodes to hold out, by the hash of their ids: the same whatever else is in the dataset."""
    if len(ids) < 2:
        raise WrongUse(
            "one episode cannot be both fitted and held out",
            got=len(ids),
            expected="at least 2 episodes",
            remedy="record another, or cut a long recording into episodes in the ingest map",
        )
    order = sorted(range(len(ids)), key=lambda i: hashlib.blake2b(ids[i].encode(), digest_size=8).digest())
    count = min(max(1, round(fraction * len(ids))), len(ids) - 1)
    return sorted(order[count:]), sorted(order[:count])


def cut(recordings: Sequence[Recording], which: Sequence[int], horizon_s: float | None) -> tuple[Window, ...]:
    """Windows of `horizon_s` one after another; whole recordings when it is None. A rest shorter than half is left out."""
    made = []
    for index in which:
        time_s = recordings[index].time_s
        if horizon_s is None or time_s[-1] - time_s[0] <= 1.5 * horizon_s:
            made.append(Window(index, 0, len(time_s)))
            continue
        count = int(np.floor((time_s[-1] - time_s[0]) / horizon_s + 0.5))
        edges = np.searchsorted(time_s, time_s[0] + horizon_s * np.arange(count + 1))
        edges[-1] = min(int(edges[-1]), len(time_s))
        made += [
            Window(index, int(start), int(stop))
            for start, stop in itertools.pairwise(edges)
            if stop - start >= 3
        ]
    return tuple(made)


def duration_s(windows: Sequence[Window], recordings: Sequence[Recording]) -> float:
    """Total duration of windows."""
    return float(
        sum(
            recordings[w.recording].time_s[w.stop - 1] - recordings[w.recording].time_s[w.start]
            for w in windows
        )
    )


def spread(
    recordings: Sequence[Recording], which: Sequence[int], horizon_s: float | None, seconds: float
) -> tuple[Window, ...]:
    """Windows to fit: all of the data if it lasts at most `seconds`, else about `seconds` of it from every recording.

    Windows then are short enough for every recording to give one, and lie at other places in each. With more recordings than
    windows of `SHORTEST_WINDOW_S` fit into `seconds`, recordings are taken evenly.
    """
    everything = cut(recordings, which, horizon_s)
    total = duration_s(everything, recordings)
    if total <= seconds:
        return everything
    length = float(np.clip(seconds / len(which), SHORTEST_WINDOW_S, USUAL_WINDOW_S))
    length = min(length, horizon_s or np.inf)
    most = max(2, int(seconds / length))
    if len(which) > most:
        which = [which[i] for i in np.linspace(0, len(which) - 1, most).round().astype(int)]
    made: list[Window] = []
    for number, index in enumerate(which):
        own = cut(recordings, [index], length)
        count = int(np.clip(round(duration_s(own, recordings) / total * seconds / length), 1, len(own)))
        phase = (0.5 + number * _GOLDEN) % 1.0
        made += [own[int((place + phase) * len(own) / count)] for place in range(count)]
    return tuple(made)


def whole(
    recordings: Sequence[Recording], which: Sequence[int], horizon_s: float | None, seconds: float
) -> tuple[Window, ...]:
    """Windows of whole recordings, evenly chosen: all if they last at most `seconds`, else about as many as that, two at least."""
    mean_s = duration_s(cut(recordings, which, None), recordings) / max(len(which), 1)
    count = int(np.clip(seconds / max(mean_s, 1e-9), min(2, len(which)), len(which)))
    chosen = [which[i] for i in np.linspace(0, len(which) - 1, count).round().astype(int)]
    return cut(recordings, chosen, horizon_s)


@dataclass(frozen=True, eq=False)
class StartEffect:
    """What an error in the start of a window does, measured in the twin by simulations from nearly the same state.

    `horizon_s` is how long a window may be before such errors dominate, None if a whole recording may be. `effect` (handles,
    channels) is the root mean square of what a start off by one does to each channel over a usual window.
    """

    horizon_s: float | None
    effect: Array


def measure_start_effect(predictor: Predictor, which: Sequence[int]) -> StartEffect:
    """Simulate the first recordings of `which` from displaced starts."""
    handles = len(predictor.handles)
    shortest, squares = np.inf, []
    for index in list(which)[:6] if handles else ():
        recording = predictor.recordings[index]
        windows = []
        for start in (0, len(recording) // 3):
            stop = int(np.searchsorted(recording.time_s, recording.time_s[start] + PROBED_S))
            if stop > start + 3:
                windows.append(Window(index, start, stop))
        offsets = np.zeros((handles + 1, len(windows), handles))
        for handle in range(handles):
            offsets[handle + 1, :, handle] = _PROBE
        residual = predictor.residuals({}, windows, offsets)
        moved = np.abs(residual[1:] - residual[:1])
        apart, begin = moved.max(axis=(0, 2)), 0
        for window in windows:
            time_s = recording.time_s[window.start : window.stop] - recording.time_s[window.start]
            rows = slice(begin, begin + len(window))
            squares.append(np.mean(moved[:, rows][:, time_s <= USUAL_WINDOW_S] ** 2, axis=1))
            if len(grown := np.flatnonzero(apart[rows] > GROWTH * _PROBE)):
                shortest = min(shortest, float(time_s[grown[0]]))
            begin += len(window)
    effect = np.sqrt(np.mean(squares, axis=0)) / _PROBE if squares else np.zeros((0, 0))
    return StartEffect(None if np.isinf(shortest) else max(MIN_DURATION_S, shortest), effect)


def find_horizon_s(predictor: Predictor, which: Sequence[int]) -> float | None:
    """How long a window may be before errors of its initial state dominate; None if a whole recording may be."""
    return measure_start_effect(predictor, which).horizon_s


def sensor_noise(recordings: Sequence[Recording]) -> Array:
    """Noise (channels,) of readings over all recordings, no less than what their resolution makes of it."""
    usable = [recording.readings for recording in recordings if len(recording) >= FEWEST_ROWS]
    if not usable:
        return np.full(recordings[0].readings.shape[1], 1e-6)
    noise = np.median([noise_of(readings) for readings in usable], axis=0)
    steps = np.median([[resolution_of(column) for column in readings.T] for readings in usable], axis=0)
    return np.asarray(np.maximum(noise, np.maximum(steps / np.sqrt(12.0), 1e-6)))


def unmoved_noise(noise: Array, recordings: Sequence[Recording], travel: Array) -> Array:
    """Noise (channels,), raised for joints that did not move: their stillness is no measure of the sensor.

    `travel` (channels,) is the range of each. Without this, the rounding error of a gripper that is never commanded would
    outweigh every joint that does move.
    """
    moved = np.max([np.ptp(recording.readings, axis=0) for recording in recordings], axis=0)
    return np.asarray(np.where(moved < UNMOVED * travel, np.maximum(noise, UNMOVED * travel), noise))


def start_deviation(
    predictor: Predictor, noise: Array, windows: Sequence[Window] = (), effect: Array | None = None
) -> Array:
    """How wrong the start of a window may be, per handle: a few times what the sensor allows, 0 where its `effect` is negligible.

    Speeds read off positions at the starts of `windows` may be further off than that.
    """
    gaps = np.concatenate([np.diff(recording.time_s) for recording in predictor.recordings])
    dt_s = float(np.median(gaps))
    channels = {channel.name: index for index, channel in enumerate(predictor.channels)}
    errors = [predictor.recordings[w.recording].speed_error for w in windows]
    at_start = np.array(
        [error[w.start] for error, w in zip(errors, windows, strict=True) if error is not None]
    )
    speed_error = np.sqrt(np.mean(at_start**2, axis=0)) if len(at_start) else np.zeros(len(noise))
    made = []
    for handle in predictor.handles:
        name = handle.label.removesuffix(" speed")
        if name.startswith("object "):
            axis = name[-1]
            name = f"object.turn_{axis}" if " turn " in handle.label else f"object.{axis}"
        sigma = float(noise[channels[name]])
        made.append(max(sigma / dt_s, float(speed_error[channels[name]])) if handle.speed else 2.0 * sigma)
    deviation = np.array(made)
    if effect is None or not len(deviation):
        return deviation
    seen = np.any(deviation[:, None] * effect > NEGLIGIBLE * noise, axis=1)
    return np.where(seen, deviation, 0.0)
