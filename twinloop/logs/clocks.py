"""Time stamps: conversion, regularity, common rows of streams, and resampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.log_map import Clock, Method

GAP = 2.0
"""A pause longer than this many median periods is a gap."""

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Stream:
    """Samples with their own time stamps: `time_s` (n,), `values` (n, *shape)."""

    time_s: Array
    values: Array


@dataclass(frozen=True)
class Regularity:
    """How regularly a stream was sampled; `jitter_s` is the standard deviation of the period, gaps excluded."""

    samples: int
    rate_hz: float
    jitter_s: float
    gaps: int
    longest_gap_s: float


def to_seconds(stamps: Array, clock: Clock) -> Array:
    """Convert time stamps to seconds; integer nanoseconds keep the full precision of float64."""
    flat = stamps.reshape(len(stamps), -1)
    if flat.dtype.kind not in "iuf":
        raise LogError(f"clock {clock.channel!r} does not hold numbers")
    if clock.column is None and flat.shape[1] != 1:
        raise LogError(
            f"clock {clock.channel!r} has {flat.shape[1]} elements per row",
            expected="one time stamp per row",
            remedy="clock: {channel: ..., column: ...}",
        )
    if not -flat.shape[1] <= (clock.column or 0) < flat.shape[1]:
        raise LogError(
            f"clock {clock.channel!r} has no column {clock.column}", got=f"{flat.shape[1]} columns"
        )
    times = flat[:, clock.column or 0]
    if clock.unit == "ns" and times.dtype.kind in "iu":
        whole, rest = np.divmod(times, 10**9)
        return np.asarray(whole.astype(np.float64) + rest.astype(np.float64) * 1e-9)
    return np.asarray(times.astype(np.float64) * _SECONDS[clock.unit])


def drop_out_of_order(stream: Stream, clock: Clock, what: str) -> tuple[Stream, int]:
    """Drop samples out of time order and count them; an error if the map says `out_of_order: refuse`."""
    if not np.isfinite(stream.time_s).all():
        row = int(np.flatnonzero(~np.isfinite(stream.time_s))[0])
        raise LogError(f"{what}: time stamp {row} is not a number")
    highest = np.maximum.accumulate(stream.time_s)
    keep = np.ones(len(highest), bool)
    keep[1:] = stream.time_s[1:] > highest[:-1]
    lost = int(len(keep) - keep.sum())
    if lost and clock.out_of_order == "refuse":
        row = int(np.flatnonzero(~keep)[0])
        raise LogError(
            f"{what}: time does not increase at sample {row}",
            got=f"{stream.time_s[row - 1]:.6f} s then {stream.time_s[row]:.6f} s, {lost} such samples",
            remedy="another clock channel, episodes cut where the clock was reset, or `clock: {out_of_order: drop}`",
        )
    return (Stream(stream.time_s[keep], stream.values[keep]), lost) if lost else (stream, 0)


def measure_regularity(time_s: Array) -> Regularity:
    """Measure rate, jitter and gaps of one stream."""
    if len(time_s) < 2:
        return Regularity(len(time_s), 0.0, 0.0, 0, 0.0)
    periods = np.diff(time_s)
    median = float(np.median(periods))
    gaps = periods > GAP * median
    regular = periods[~gaps]
    return Regularity(
        samples=len(time_s),
        rate_hz=1 / median if median > 0 else 0.0,
        jitter_s=float(regular.std()) if len(regular) else 0.0,
        gaps=int(gaps.sum()),
        longest_gap_s=float(periods.max()) if gaps.any() else 0.0,
    )


def find_shared_rows(
    base_s: Array | None, rate_hz: float | None, spans: Mapping[str, tuple[float, float]]
) -> Array:
    """Return row times in the span that every stream covers: those of `base_s`, or evenly spaced."""
    start = max(span[0] for span in spans.values())
    end = min(span[1] for span in spans.values())
    if start > end:
        late = max(spans, key=lambda name: spans[name][0])
        early = min(spans, key=lambda name: spans[name][1])
        raise LogError(
            f"{late} and {early} do not overlap in time",
            got=f"{late} starts at {start:.3f} s, {early} ends at {end:.3f} s",
            remedy="check the clocks in the map: another channel, another unit, or streams of different recordings",
        )
    if base_s is not None:
        rows = base_s[(base_s >= start) & (base_s <= end)]
    else:
        assert rate_hz is not None
        # Multiples of the period, since a running sum would drift.
        rows = start + np.arange(int(np.floor((end - start) * rate_hz + 1e-9)) + 1) / rate_hz
    if not len(rows):
        raise LogError(
            "no row falls into the time span common to all streams", got=f"{start:.3f} to {end:.3f} s"
        )
    return rows


def exact_samples(stream: Stream, rows_s: Array) -> Array | None:
    """Return the sample at the exact time of each row; None if one is missing."""
    places = np.searchsorted(stream.time_s, rows_s)
    if places[-1] < len(stream.time_s) and np.array_equal(stream.time_s[places], rows_s):
        return np.asarray(places)
    return None


def resample(stream: Stream, rows_s: Array, method: Method) -> Array:
    """Resample a stream at the row times; outside its span the nearest end is held."""
    times, values = stream.time_s, stream.values
    if method == "previous":
        return np.asarray(values[np.clip(np.searchsorted(times, rows_s, side="right") - 1, 0, None)])
    if method == "nearest":
        return np.asarray(values[nearest_samples(times, rows_s)])
    after = np.clip(np.searchsorted(times, rows_s), 1, max(len(times) - 1, 1))
    if len(times) == 1:
        return np.repeat(values, len(rows_s), axis=0)
    before = after - 1
    fraction = np.clip((rows_s - times[before]) / (times[after] - times[before]), 0.0, 1.0)
    fraction = fraction.reshape(-1, *([1] * (values.ndim - 1)))
    low, high = values[before].astype(np.float64), values[after].astype(np.float64)
    mixed = _slerp(low, high, fraction) if method == "slerp" else low + fraction * (high - low)
    return np.asarray(mixed if values.dtype == np.float64 else mixed.astype(_float_like(values)))


def nearest_samples(times: Array, rows_s: Array) -> Array:
    """Return the index of the sample closest to each row."""
    after = np.clip(np.searchsorted(times, rows_s), 0, len(times) - 1)
    before = np.clip(after - 1, 0, None)
    closer = np.abs(rows_s - times[before]) <= np.abs(times[after] - rows_s)
    return np.asarray(np.where(closer, before, after))


def _float_like(values: Array) -> np.dtype[np.generic]:
    return values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)


def _slerp(low: Array, high: Array, fraction: Array) -> Array:
    """Spherical interpolation of unit quaternions along the shorter arc."""
    cosine = np.sum(low * high, axis=-1, keepdims=True)
    high = np.where(cosine < 0, -high, high)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    sine = np.sin(angle)
    straight = sine < 1e-8
    safe = np.where(straight, 1.0, sine)
    weight_low = np.where(straight, 1 - fraction, np.sin((1 - fraction) * angle) / safe)
    weight_high = np.where(straight, fraction, np.sin(fraction * angle) / safe)
    mixed = weight_low * low + weight_high * high
    return np.asarray(mixed / np.linalg.norm(mixed, axis=-1, keepdims=True))
