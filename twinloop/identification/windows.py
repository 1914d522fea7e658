"""Which part of the data is fitted, which is held out, and how long the twin runs before its state is reset to the recording."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import WrongUse
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import Recording
from twinloop.measure.noise import FEWEST_ROWS, noise_of
from twinloop.measure.quantization import resolution_of

Array = NDArray[Any]

HELD_OUT_FRACTION = 0.25
MIN_DURATION_S = 0.25
GROWTH = 10.0
"""A window ends before an error in its start has grown by this."""
_PROBE = 1e-4
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


def thinned(windows: Sequence[Window], recordings: Sequence[Recording], seconds: float) -> tuple[Window, ...]:
    """At most about `seconds` of windows, spread evenly over all of them."""
    lengths = [
        recordings[w.recording].time_s[w.stop - 1] - recordings[w.recording].time_s[w.start] for w in windows
    ]
    total = float(sum(lengths))
    if total <= seconds or len(windows) <= 2:
        return tuple(windows)
    count = max(2, int(len(windows) * seconds / total))
    return tuple(windows[i] for i in np.unique(np.linspace(0, len(windows) - 1, count).round().astype(int)))


def find_horizon_s(predictor: Predictor, which: Sequence[int]) -> float | None:
    """How long a window may be before errors of its initial state dominate; None if a whole recording may be.

    Measured in the twin: two simulations from nearly the same state, and how fast they diverge.
    """
    if not predictor.handles:
        return None
    shortest = np.inf
    for index in list(which)[:6]:
        recording = predictor.recordings[index]
        windows = [
            Window(index, start, len(recording))
            for start in (0, len(recording) // 3)
            if start < len(recording) - 3
        ]
        handles = len(predictor.handles)
        offsets = np.zeros((handles + 1, len(windows), handles))
        for handle in range(handles):
            offsets[handle + 1, :, handle] = _PROBE
        residual = predictor.residuals({}, windows, offsets)
        apart = np.abs(residual[1:] - residual[:1]).max(axis=(0, 2))
        begin = 0
        for window in windows:
            grown = np.flatnonzero(apart[begin : begin + len(window)] > GROWTH * _PROBE)
            if len(grown):
                shortest = min(
                    shortest, recording.time_s[window.start + grown[0]] - recording.time_s[window.start]
                )
            begin += len(window)
    return None if np.isinf(shortest) else max(MIN_DURATION_S, float(shortest))


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


def start_deviation(predictor: Predictor, noise: Array) -> Array:
    """How wrong the start of a window may be, per handle: a few times what the sensor allows."""
    gaps = np.concatenate([np.diff(recording.time_s) for recording in predictor.recordings])
    dt_s = float(np.median(gaps))
    channels = {channel.name: index for index, channel in enumerate(predictor.channels)}
    made = []
    for handle in predictor.handles:
        name = handle.label.removesuffix(" speed")
        if name.startswith("object "):
            axis = name[-1]
            name = f"object.turn_{axis}" if " turn " in handle.label else f"object.{axis}"
        sigma = float(noise[channels[name]])
        made.append(3.0 * sigma / (3.0 * dt_s) if handle.speed else 2.0 * sigma)
    return np.array(made)
