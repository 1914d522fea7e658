"""The layout of a log: how it marks episodes, and sample rows of its channels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.logs.guess import Guess, is_role, map_line
from twinloop.logs.raw_episode import join_blocks
from twinloop.logs.reader import Block, Channel
from twinloop.logs.sources import Log

PARTS = frozenset(
    "left right leader follower master puppet obs observation observations arm gripper base".split()
)
"""Names of groups that hold a part of one recording."""

UNSTAMPED = ("npz", "hdf5", "json")
"""Formats whose channels share their rows, so that a much shorter one is no series."""

PARAMETER_FOLDERS = frozenset(
    "meta metadata param params parameters config calibration calib settings info attrs".split()
)
"""Names of groups that hold no series."""

MAX_PARAMETER_ROWS = 64
"""Rows of gains, limits or a calibration; a series this short is one of a longer recording only by mistake."""

GAP_PERIODS = 20.0
LEAST_GAP_S = 0.5
"""A pause is a gap between episodes if it is longer than both."""

FEWEST_ROWS = 10
"""Rows per episode, on average, for gaps to be its ends."""

SAMPLE_ROWS = 20_000
"""Rows sampled from each channel."""


@dataclass(frozen=True)
class Layout:
    """How a log marks episodes: line for the map, prefix of channel names, names after it, one example group.

    `marked` is False if nothing in the log marks episodes; `parameters` are channels that are not series.
    """

    line: str
    prefix: str
    names: list[str]
    group: str = ""
    marked: bool = True
    parameters: tuple[str, ...] = ()

    @property
    def start(self) -> str:
        """The prefix of the channel names of the example group."""
        return self.prefix.replace("{group}", self.group)


def find_layout(log: Log, channels: Mapping[str, Channel]) -> Layout:
    """Guess from names and lengths of channels how a log marks episodes."""
    parameters = _find_parameters(log, channels)
    series = {name: channel for name, channel in channels.items() if name not in parameters}
    return replace(_find_episodes(log, series), parameters=parameters)


def _find_parameters(log: Log, channels: Mapping[str, Channel]) -> tuple[str, ...]:
    """Find what is stored beside the series of a file: constants, gains, limits, calibrations."""
    constants = [name for name, channel in channels.items() if channel.constant]
    if log.format not in UNSTAMPED:
        return tuple(constants)
    longest = max((channel.count or 0 for channel in channels.values()), default=0)

    def is_parameter(name: str, channel: Channel) -> bool:
        folders = re.split(r"[/.]", name.lower())[:-1]
        few = (channel.count or longest) <= min(MAX_PARAMETER_ROWS, 0.05 * longest)
        return any(folder in PARAMETER_FOLDERS for folder in folders) or few

    return tuple(
        name for name, channel in channels.items() if channel.constant or is_parameter(name, channel)
    )


def _find_episodes(log: Log, channels: Mapping[str, Channel]) -> Layout:
    names = list(channels)
    if log.format == "lerobot":
        return Layout("episodes: {by: parts}   # as the dataset declares", "", names)
    best: tuple[int, int, int, list[str]] | None = None
    for depth in (1, 2, 3):
        sets: dict[str, list[str]] = {}
        for name in names:
            parts = name.split("/")
            if len(parts) > depth and not name.startswith("/"):
                sets.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
        if all(_names_a_part(group.split("/")[-1]) for group in sets):
            continue
        common = Counter(tuple(sorted(suffixes)) for suffixes in sets.values()).most_common(1)
        if common and common[0][1] >= 2:
            covered = sum(len(s) for s in sets.values())
            score = (covered, -len(common[0][0]), depth, list(common[0][0]))
            best = max(best, score) if best else score
    if best is not None and best[0] >= 0.8 * len(names):
        _, _, depth, suffixes = best
        groups = list(dict.fromkeys("/".join(name.split("/")[:depth]) for name in names))
        group = next(g for g in groups if all(f"{g}/{suffix}" in channels for suffix in suffixes))
        guess = Guess("", 0.9, f"{len(groups)} groups of channels with the same names")
        line = _episodes(f'by: groups, groups: "{"/".join(["*"] * depth)}"', guess)
        return Layout(line, "{group}/", suffixes, group)
    shapes = Counter(channels[name].shape for name in names if (channels[name].count or 0) > 1)
    shape, tables = shapes.most_common(1)[0] if shapes else ((1,), 0)
    if log.format in ("npz", "hdf5") and tables > 1 and shape[0] > 4:
        same = [name for name in names if channels[name].shape == shape]
        guess = Guess("", 0.8, f"{tables} tables of {shape[0]} columns, each taken for one episode")
        listed = ", ".join(f'"{name}"' for name in same)
        return Layout(_episodes(f"by: groups, groups: [{listed}]", guess), "{group}", [""], same[0])
    longest = max((channels[name].count or 0 for name in names), default=0)
    if (offsets := _find_offsets(log, channels)) is not None:
        guess = Guess("", 0.95, f"it rises from 0 to {longest}, the number of rows of the others")
        rest = [name for name in names if name != offsets and channels[name].count == longest]
        return Layout(_episodes(f"by: offsets, channel: {offsets}", guess), "", rest)
    for name in names:
        if re.fullmatch(r"episode(_?(index|id|number))?|trial|demo|run", name.lower()):
            guess = Guess("", 0.8, "a channel of this name usually numbers episodes")
            rest = [n for n in names if n != name]
            return Layout(_episodes(f"by: boundary, channel: {name}", guess), "", rest)
    line = _episodes("by: file", Guess("", 0.7, "the log does not mark episodes"))
    return Layout(line, "", names, marked=False)


def find_gaps(time_s: Array) -> Guess | None:
    """Guess the pause (`gap_s`) that separates episodes in a log: far longer than the period, or a clock that restarts."""
    steps = np.diff(time_s)
    forward = steps[steps > 0]
    if len(forward) < 2 * FEWEST_ROWS:
        return None
    limit_s = max(GAP_PERIODS * float(np.median(forward)), LEAST_GAP_S)
    jumps = (steps > limit_s) | (steps < 0)
    if not jumps.any() or len(steps) < FEWEST_ROWS * int(jumps.sum()):
        return None
    usual_s, shortest_s = float(steps[~jumps].max()), float(np.abs(steps[jumps]).min())
    gap_s = float(f"{max(np.sqrt(max(usual_s, 1e-6) * shortest_s), min(LEAST_GAP_S, 0.9 * shortest_s)):.2g}")
    count = int(jumps.sum())
    reason = f"{count} gap{'s' * (count > 1)} of {shortest_s:.3g} s or more between rows at most {usual_s:.3g} s apart"
    return Guess(f"{gap_s:g}", 0.7, reason) if usual_s < gap_s < shortest_s else None


def _names_a_part(word: str) -> bool:
    """Return whether a group's name says which part of the robot or which quantity it holds: it is no episode."""
    return word.lower() in PARTS or is_role(word)


def _episodes(rule: str, guess: Guess) -> str:
    return map_line("episodes", f"{{{rule}}}", guess)


def _find_offsets(log: Log, channels: Mapping[str, Channel]) -> str | None:
    """Find a channel of first rows: whole numbers that rise from 0 to the number of rows of the others."""
    longest = max((channel.count or 0 for channel in channels.values()), default=0)
    for name, channel in channels.items():
        whole = re.fullmatch(r"u?int\d+", channel.dtype)
        if channel.shape != (1,) or not whole or (channel.count or 0) < 2:
            continue
        values = load_samples(log, [name], limit=1 << 30)[name].values[:, 0]
        if values[0] == 0 and values[-1] == longest and np.all(np.diff(values.astype(np.int64)) > 0):
            return name
    return None


def load_samples(log: Log, names: Sequence[str], limit: int = SAMPLE_ROWS) -> dict[str, Block]:
    """Load the first rows of some channels."""
    parts: dict[str, list[Block]] = {name: [] for name in names}
    for span in log.reader.read(log.path, list(names)):
        for name, piece in span.pieces.items():
            if isinstance(piece, Block):
                parts[name].append(piece)
        most = max((sum(map(len, blocks)) for blocks in parts.values()), default=0)
        if most >= limit or span.part:
            break
    return {
        name: join_blocks(name, blocks)[:limit]
        for name, blocks in parts.items()
        if blocks and len({block.values.shape[1:] for block in blocks}) == 1
    }
