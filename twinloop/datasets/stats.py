"""Statistics LeRobot keeps per episode and per dataset: min, max, mean, std, count and five quantiles.

Statistics of a dataset are computed from those of its episodes: exactly, except for the quantiles, which are averages
of the episodes' quantiles weighted by length, as in LeRobot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinloop.episode import Array, Frames

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", *QUANTILES)

LARGEST = 1e100
"""Larger numbers are scaled before they are squared."""

Stats = dict[str, Array]
"""One feature: each of NAMES in the shape of the feature, and `count` as int64 of shape (1,).

All are float64, except that the extremes of integers and booleans keep their type.
"""


def feature_stats(features: Mapping[str, Array]) -> dict[str, Stats]:
    """Compute the statistics of every feature over the first axis; each array is (T, *shape).

    All features are sorted and summed together: an episode has few rows, so the number of calls dominates the cost.
    """
    flat = [rows.reshape(len(rows), -1) for rows in features.values()]
    values = np.concatenate(flat, axis=1, dtype=np.float64)
    scale = _scale(values)
    values /= scale
    ordered = np.sort(values, axis=0)
    place = np.array([*QUANTILES.values()])[:, None] * (len(values) - 1)
    low = place[:, 0].astype(np.int64)
    high = np.minimum(low + 1, len(values) - 1)
    quantiles = ordered[low] + (ordered[high] - ordered[low]) * (place - low[:, None])
    table = np.stack([ordered[0], ordered[-1], values.mean(axis=0), values.std(axis=0), *quantiles])
    table = _unscale(table, scale)
    count = np.array([len(values)], np.int64)
    result, start = {}, 0
    for (name, rows), columns in zip(features.items(), flat, strict=True):
        stop = start + columns.shape[1]
        lines = table[:, start:stop].reshape(len(NAMES), *rows.shape[1:])
        result[name] = dict(zip(NAMES, lines, strict=True)) | {"count": count}
        if rows.dtype.kind in "iub":
            exact = np.bool_ if rows.dtype.kind == "b" else np.int64
            result[name] |= {"min": rows.min(axis=0).astype(exact), "max": rows.max(axis=0).astype(exact)}
        start = stop
    return result


def _scale(values: Array) -> Array:
    """Return 1 per column, or a power of two near the peak where squares would overflow."""
    peak = np.abs(values).max(axis=0)
    if peak.max() <= LARGEST:
        return np.ones_like(peak)
    return np.where(peak > LARGEST, np.ldexp(1.0, np.frexp(peak)[1] - 1), 1.0)


def _unscale(values: Array, scale: Array) -> Array:
    """Undo the scaling; clipped, so that rounding cannot overflow a mean of the largest floats."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(values * scale, -np.finfo(np.float64).max, np.finfo(np.float64).max))


class FrameSampler:
    """Image statistics from a sample of frames and pixels, in the shape LeRobot expects: (3, 1, 1) in 0 ... 1."""

    def __init__(self, frames: int, height: int, width: int) -> None:
        wanted = max(1, min(frames, 8 + frames // 100))
        self._take = set(np.linspace(0, frames - 1, wanted).round().astype(int).tolist())
        self._stride = max(1, max(height, width) // 100)
        self._histogram = np.zeros((3, 256), np.int64)
        self._seen = 0
        self._sampled = 0

    def add(self, frame: Array) -> None:
        """Add the next frame of the episode."""
        if self._seen in self._take:
            sample = frame[:: self._stride, :: self._stride]
            for channel in range(3):
                self._histogram[channel] += np.bincount(sample[..., channel].ravel(), minlength=256)
            self._sampled += 1
        self._seen += 1

    def stats(self) -> Stats:
        """Return the statistics of the sampled pixels."""
        levels = np.arange(256) / 255.0
        fraction = self._histogram / self._histogram.sum(axis=1, keepdims=True)
        mean = fraction @ levels
        cumulative = np.cumsum(fraction, axis=1)
        present = self._histogram > 0
        table = [
            levels[present.argmax(axis=1)],
            levels[255 - present[:, ::-1].argmax(axis=1)],
            mean,
            np.sqrt(np.maximum(fraction @ levels**2 - mean**2, 0.0)),
            *[levels[np.minimum((cumulative < q).sum(axis=1), 255)] for q in QUANTILES.values()],
        ]
        stats = {name: line.reshape(3, 1, 1) for name, line in zip(NAMES, table, strict=True)}
        return stats | {"count": np.array([self._sampled], np.int64)}


def sample_frame_stats(frames: Frames) -> Stats:
    """Compute image statistics from eight of an episode's frames."""
    rows = np.unique(np.linspace(0, len(frames) - 1, 8).round().astype(int))
    sampler = FrameSampler(len(rows), *frames.shape[1:3])
    for row in rows:
        sampler.add(frames[int(row)])
    return sampler.stats()


def aggregate(parts: Sequence[Stats]) -> Stats:
    """Combine statistics of disjoint parts into those of their union."""
    stacked = {name: np.stack([part[name] for part in parts]) for name in NAMES}
    counts = np.array([int(part["count"][0]) for part in parts], np.float64)
    weight = (counts / counts.sum()).reshape(-1, *[1] * (stacked["mean"].ndim - 1))
    scale = np.maximum(_scale(stacked["mean"]), _scale(stacked["std"]))
    means, deviations = stacked["mean"] / scale, stacked["std"] / scale
    mean = (means * weight).sum(axis=0)
    variance = ((deviations**2 + (means - mean) ** 2) * weight).sum(axis=0)
    result = {
        "min": stacked["min"].min(axis=0),
        "max": stacked["max"].max(axis=0),
        "mean": _unscale(mean, scale),
        "std": _unscale(np.sqrt(variance), scale),
    }
    for name in QUANTILES:
        result[name] = _unscale((stacked[name] / scale * weight).sum(axis=0), scale)
    return result | {"count": np.array([int(counts.sum())], np.int64)}


def to_json(stats: Mapping[str, Stats]) -> dict[str, Any]:
    """Return plain lists for `meta/stats.json`."""
    return {
        feature: {name: value.tolist() for name, value in part.items()} for feature, part in stats.items()
    }


def from_json(content: Mapping[str, Any]) -> dict[str, Stats]:
    """Invert `to_json`; extremes of integers stay integers."""
    kinds = {"count": np.int64, "min": None, "max": None}
    return {
        feature: {name: np.asarray(value, kinds.get(name, np.float64)) for name, value in part.items()}
        for feature, part in content.items()
    }
