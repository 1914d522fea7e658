"""The layout of a log: how it marks episodes, and sample rows of its channels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.logs.guess import Guess
from twinloop.logs.reader import Block, Channel
from twinloop.logs.sources import Log

SAMPLE_ROWS = 20_000
"""Rows sampled from each channel."""


@dataclass(frozen=True)
class Sample:
    """The first rows of a channel: `values` (n, *shape), and the log's own time stamps, if any."""

    values: Array
    time_s: Array | None


@dataclass(frozen=True)
class Layout:
    """How a log marks episodes: lines for the map, prefix of channel names, names after it, one example group."""

    lines: list[str]
    prefix: str
    names: list[str]
    group: str = ""

    @property
    def start(self) -> str:
        """The prefix of the channel names of the example group."""
        return self.prefix.replace("{group}", self.group)


def find_layout(log: Log, channels: Mapping[str, Channel]) -> Layout:
    """Guess from names and lengths of channels how a log marks episodes."""
    names = [name for name, channel in channels.items() if not channel.constant]
    if log.format == "lerobot":
        return Layout(["episodes: {by: parts}   # as the dataset declares"], "", names)
    best: tuple[int, int, int, list[str]] | None = None
    for depth in (1, 2, 3):
        sets: dict[str, list[str]] = {}
        for name in names:
            parts = name.split("/")
            if len(parts) > depth and not name.startswith("/"):
                sets.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
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
        pattern = "/".join(["*"] * depth)
        line = f'episodes: {{by: groups, groups: "{pattern}"}}   {guess.comment}'
        return Layout([line], "{group}/", suffixes, group)
    shapes = Counter(channels[name].shape for name in names if (channels[name].count or 0) > 1)
    shape, tables = shapes.most_common(1)[0] if shapes else ((1,), 0)
    if log.format in ("npz", "hdf5") and tables > 1 and shape[0] > 4:
        same = [name for name in names if channels[name].shape == shape]
        guess = Guess("", 0.8, f"{tables} tables of {shape[0]} columns, each taken for one episode")
        listed = ", ".join(f'"{name}"' for name in same)
        return Layout(
            [f"episodes: {{by: groups, groups: [{listed}]}}   {guess.comment}"], "{group}", [""], same[0]
        )
    offsets = _offsets(log, channels)
    if offsets is not None:
        name, guess = offsets
        rest = [
            n for n in names if n != name and channels[n].count == max(channels[m].count or 0 for m in names)
        ]
        return Layout([f"episodes: {{by: offsets, channel: {name}}}   {guess.comment}"], "", rest)
    for name in names:
        if re.fullmatch(r"episode(_?(index|id|number))?|trial|demo|run", name.lower()):
            guess = Guess("", 0.8, "a channel of this name usually numbers episodes")
            rest = [n for n in names if n != name]
            return Layout([f"episodes: {{by: boundary, channel: {name}}}   {guess.comment}"], "", rest)
    guess = Guess("", 0.7, "the log does not mark episodes")
    return Layout([f"episodes: {{by: file}}   {guess.comment}"], "", names)


def _offsets(log: Log, channels: Mapping[str, Channel]) -> tuple[str, Guess] | None:
    counts = [channel.count or 0 for channel in channels.values()]
    for name, channel in channels.items():
        if (
            channel.shape != (1,)
            or np.dtype(_plain(channel.dtype)).kind not in "iu"
            or (channel.count or 0) < 2
        ):
            continue
        values = load_samples(log, [name], limit=1 << 30)[name].values[:, 0]
        if values[0] == 0 and values[-1] == max(counts) and np.all(np.diff(values.astype(np.int64)) > 0):
            return name, Guess(
                "", 0.95, f"it rises from 0 to {int(values[-1])}, the number of rows of the others"
            )
    return None


def _plain(dtype: str) -> str:
    try:
        return np.dtype(dtype).name
    except TypeError:
        return "U1"


def load_samples(log: Log, names: Sequence[str], limit: int = SAMPLE_ROWS) -> dict[str, Sample]:
    """Load the first rows of some channels."""
    parts: dict[str, list[Block]] = {name: [] for name in names}
    for seen, span in enumerate(log.reader.read(log.path, list(names))):
        for name, piece in span.pieces.items():
            if isinstance(piece, Block):
                parts[name].append(piece)
        most = max((sum(len(b.values) for b in blocks) for blocks in parts.values()), default=0)
        if most >= limit or (span.part and seen >= 0):
            break
    samples = {}
    for name, blocks in parts.items():
        if blocks and len({block.values.shape[1:] for block in blocks}) == 1:
            values = np.concatenate([block.values for block in blocks])[:limit]
            times = [block.time_s for block in blocks if block.time_s is not None]
            samples[name] = Sample(values, np.concatenate(times)[:limit] if times else None)
    return samples
