"""The replay gate: a calibrated twin is accepted only if it replays held-out episodes significantly better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from twinloop.episode import Array
from twinloop.identification.predict import Window

CHANCE = 0.05
WORTH = 0.01
"""A smaller relative reduction of the error does not justify a new version, however certain."""
WORSE = 0.05
"""A channel whose error rises by more than this qualifies the verdict."""
_ENOUGH = 6
"""With fewer held-out episodes than this, windows within them are the units of the test."""


@dataclass(frozen=True)
class ReplayError:
    """Root mean square error of one held-out episode's replay, per channel, before and after."""

    episode: str
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True)
class ReplayGate:
    """Whether held-out replay error fell by more than chance.

    `ratio` is the geometric mean of after over before, over units and channels; `p_value` is one-sided, of the signed
    ranks of the units' log ratios. `worse` are channels whose own error rose by more than chance, though the whole fell.
    """

    accepted: bool
    ratio: float
    p_value: float
    units: int
    unit: str
    reason: str
    worse: tuple[str, ...] = ()


def replay_errors(
    ids: Sequence[str], windows: Sequence[Window], before: Array, after: Array
) -> tuple[ReplayError, ...]:
    """Errors per held-out episode from residuals (rows, channels) of all windows."""
    squares: dict[int, list[tuple[Array, Array]]] = {}
    begin = 0
    for window in windows:
        rows = slice(begin, begin + len(window))
        squares.setdefault(window.recording, []).append((before[rows] ** 2, after[rows] ** 2))
        begin += len(window)
    return tuple(
        ReplayError(
            ids[recording],
            tuple(np.sqrt(np.concatenate([b for b, _ in parts]).mean(axis=0)).tolist()),
            tuple(np.sqrt(np.concatenate([a for _, a in parts]).mean(axis=0)).tolist()),
        )
        for recording, parts in squares.items()
    )


def judge(
    windows: Sequence[Window], before: Array, after: Array, sensor: Array, channels: Sequence[str] = ()
) -> ReplayGate:
    """The verdict on residuals (rows, channels) of held-out windows before and after; `channels` are their names."""
    by_episode = len({window.recording for window in windows}) >= _ENOUGH
    sums: dict[tuple[int, int], list[Array]] = {}
    begin = 0
    for number, window in enumerate(windows):
        pieces = 1 if by_episode or len(windows) >= _ENOUGH else int(np.ceil(_ENOUGH / len(windows)))
        for piece, rows in enumerate(np.array_split(np.arange(begin, begin + len(window)), pieces)):
            key = (window.recording, 0) if by_episode else (number, piece)
            errors = np.stack([before[rows] ** 2, after[rows] ** 2]).mean(axis=1)
            sums.setdefault(key, []).append(errors)
        begin += len(window)
    by_channel = []
    for parts in sums.values():
        error = np.sqrt(np.mean(parts, axis=0) + sensor**2)
        by_channel.append(np.log(error[1] / error[0]))
    logs = np.mean(by_channel, axis=1)
    ratio = float(np.exp(np.mean(logs)))
    unit = "episodes" if by_episode else "windows"
    p_value = 1.0
    if len(logs) >= 2 and np.ptp(logs) > 0.0:
        p_value = float(stats.wilcoxon(logs, alternative="less").pvalue)
    accepted = ratio <= 1.0 - WORTH and p_value < CHANCE
    change = f"held-out replay error {'fell' if ratio < 1 else 'rose'} by {abs(1.0 - ratio):.0%}"
    reason = f"{change} over {len(logs)} {unit} (p = {p_value:.2g})"
    if 1.0 - WORTH < ratio < 1.0:
        reason += ", too little to matter"
    elif ratio < 1.0 and not accepted:
        reason += f", not significant at the {CHANCE:.0%} level"
    worse = _worse(np.array(by_channel), channels)
    if worse:
        reason += f"; it rose for {', '.join(worse)}"
    return ReplayGate(accepted, ratio, p_value, len(logs), unit, reason, worse)


def _worse(logs: Array, channels: Sequence[str]) -> tuple[str, ...]:
    """Channels whose error rose by more than `WORSE` and chance, from log ratios (units, channels)."""
    found = []
    for name, column in zip(channels, logs.T, strict=False):
        risen = float(np.mean(column)) > np.log1p(WORSE) and len(column) >= 2 and np.ptp(column) > 0.0
        if risen and stats.wilcoxon(column, alternative="greater").pvalue < CHANCE:
            found.append(name)
    return tuple(found)
