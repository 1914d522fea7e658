"""Statistics LeRobot keeps per episode and per data set: min, max, mean, std, count and five quantiles.

Those of a data set follow from those of its episodes: exactly, but for the quantiles, which are the average of the
episodes' quantiles weighted by length, as LeRobot has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinloop.episode import Array

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", *QUANTILES)

Stats = dict[str, Array]
"""One feature: each of NAMES in the shape of the feature, and `count` as int64 of shape (1,).

All are float64, but for the extremes of integers and booleans, which stay what they are.
"""


def feature_stats(rows: Array) -> Stats:
    """Statistics over the first axis; rows is (T, *shape)."""
    values = rows.reshape(len(rows), -1).astype(np.float64)
    ordered = np.sort(values, axis=0)
    table = [ordered[0], ordered[-1], values.mean(axis=0), values.std(axis=0)]
    for quantile in QUANTILES.values():
        place = quantile * (len(rows) - 1)
        low = int(place)
        high = min(low + 1, len(rows) - 1)
        table.append(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
    shape = rows.shape[1:]
    stats = {name: line.reshape(shape) for name, line in zip(NAMES, table, strict=True)}
    return stats | _exact_extremes(rows) | {"count": np.array([len(rows)], np.int64)}


def episode_stats(features: Mapping[str, Array]) -> dict[str, Stats]:
    """`feature_stats` of many features with the same rows, in one pass over all their columns."""
    wide = {name: rows.reshape(len(rows), -1) for name, rows in features.items()}
    together = feature_stats(np.concatenate(list(wide.values()), axis=1, dtype=np.float64))
    ends = np.cumsum([columns.shape[1] for columns in wide.values()])
    result = {}
    for (name, rows), end in zip(features.items(), ends, strict=True):
        part = slice(end - wide[name].shape[1], end)
        stats = {key: together[key][part].reshape(rows.shape[1:]) for key in NAMES}
        result[name] = stats | _exact_extremes(rows) | {"count": together["count"]}
    return result


def _exact_extremes(rows: Array) -> Stats:
    """Extremes of integers and booleans as what they are; nothing for floats."""
    if rows.dtype.kind not in "iub":
        return {}
    exact = np.bool_ if rows.dtype.kind == "b" else np.int64
    return {"min": rows.min(axis=0).astype(exact), "max": rows.max(axis=0).astype(exact)}


class FrameSampler:
    """Statistics of pictures from a sample of frames and pixels, in the shape LeRobot expects: (3, 1, 1) in 0 ... 1."""

    def __init__(self, frames: int, height: int, width: int) -> None:
        wanted = max(1, min(frames, 8 + frames // 100))
        self._take = set(np.linspace(0, frames - 1, wanted).round().astype(int).tolist())
        self._stride = max(1, max(height, width) // 100)
        self._histogram = np.zeros((3, 256), np.int64)
        self._seen = 0
        self._sampled = 0

    def add(self, frame: Array) -> None:
        """Look at the next frame of the episode."""
        if self._seen in self._take:
            sample = frame[:: self._stride, :: self._stride]
            for channel in range(3):
                self._histogram[channel] += np.bincount(sample[..., channel].ravel(), minlength=256)
            self._sampled += 1
        self._seen += 1

    def stats(self) -> Stats:
        """Statistics of what was sampled."""
        levels = np.arange(256) / 255.0
        total = self._histogram.sum(axis=1, keepdims=True)
        share = self._histogram / total
        mean = share @ levels
        cumulative = np.cumsum(share, axis=1)
        present = self._histogram > 0
        table = [
            levels[present.argmax(axis=1)],
            levels[255 - present[:, ::-1].argmax(axis=1)],
            mean,
            np.sqrt(np.maximum(share @ levels**2 - mean**2, 0.0)),
            *[levels[np.minimum((cumulative < q).sum(axis=1), 255)] for q in QUANTILES.values()],
        ]
        stats = {name: line.reshape(3, 1, 1) for name, line in zip(NAMES, table, strict=True)}
        return stats | {"count": np.array([self._sampled], np.int64)}


def aggregate(parts: Sequence[Stats]) -> Stats:
    """Statistics of the union."""
    stacked = {name: np.stack([part[name] for part in parts]) for name in NAMES}
    counts = np.array([int(part["count"][0]) for part in parts], np.float64)
    weight = (counts / counts.sum()).reshape(-1, *[1] * (stacked["mean"].ndim - 1))
    mean = (stacked["mean"] * weight).sum(axis=0)
    variance = ((stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2) * weight).sum(axis=0)
    result = {
        "min": stacked["min"].min(axis=0),
        "max": stacked["max"].max(axis=0),
        "mean": mean,
        "std": np.sqrt(variance),
    }
    for name in QUANTILES:
        result[name] = (stacked[name] * weight).sum(axis=0)
    return result | {"count": np.array([int(counts.sum())], np.int64)}


def to_json(stats: Mapping[str, Stats]) -> dict[str, Any]:
    """Plain lists for `meta/stats.json`."""
    return {
        feature: {name: value.tolist() for name, value in part.items()} for feature, part in stats.items()
    }


def from_json(content: Mapping[str, Any]) -> dict[str, Stats]:
    """The inverse of `to_json`; extremes of integers stay integers."""
    kinds = {"count": np.int64, "min": None, "max": None}
    return {
        feature: {name: np.asarray(value, kinds.get(name, np.float64)) for name, value in part.items()}
        for feature, part in content.items()
    }
