"""Channels that a log map derives from others by addition and subtraction, such as `tau_meas - tau_fric`.

A formula is read, never executed: channel names with a plus or minus between blanks. Names may contain any other sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.reader import Block, Channel


@dataclass(frozen=True)
class Formula:
    """A signed sum of channels: (sign, channel name) for each term."""

    terms: tuple[tuple[int, str], ...]

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels, as the map writes them."""
        return tuple(name for _, name in self.terms)

    def __str__(self) -> str:
        (_, first), *rest = self.terms
        return " ".join([first, *(f"{'+' if sign > 0 else '-'} {name}" for sign, name in rest)])

    def describe(self, name: str, channels: Mapping[str, Channel]) -> Channel:
        """Return the derived channel; all of its terms must have one shape."""
        used = [channels[term] for term in self.channels]
        if len({channel.shape for channel in used}) > 1:
            sizes = ", ".join(f"{channel.name} {channel.shape}" for channel in used)
            raise LogError(f"the channels of {name} have different shapes", got=sizes)
        return replace(used[0], name=name, dtype="float64")

    def __call__(self, name: str, raw: Callable[[str], Block]) -> Block:
        """Compute the samples from those of the terms, which must be sampled together."""
        blocks = [raw(term) for term in self.channels]
        for block, term in zip(blocks, self.channels, strict=True):
            if block.values.dtype.kind not in "biuf":
                raise LogError(f"{name}: channel {term!r} holds text and cannot be added")
            if len(block) != len(blocks[0]) or _is_apart(block.time_s, blocks[0].time_s):
                raise LogError(
                    f"{name}: {term!r} and {self.channels[0]!r} are not sampled at the same times",
                    got=f"{len(block)} and {len(blocks[0])} samples",
                    remedy="map them to separate signals, which are brought to the same rows",
                )
        signed = (
            sign * block.values.astype(np.float64)
            for (sign, _), block in zip(self.terms, blocks, strict=True)
        )
        return Block(np.sum(list(signed), axis=0), blocks[0].time_s)


def _is_apart(time_s: Array | None, other_s: Array | None) -> bool:
    if time_s is None or other_s is None:
        return time_s is not other_s
    return not np.array_equal(time_s, other_s)


def parse_formula(text: str) -> Formula:
    """Parse `a - b` or `a + b - c`.

    Raises:
        ValueError: A term is missing, or there is only one.
    """
    first, *rest = re.split(r"\s([+-])\s", f" {text.strip()} " if text.strip() else "")
    names = [first, *rest[1::2]]
    signs = [1, *(1 if sign == "+" else -1 for sign in rest[::2])]
    terms = tuple((sign, name.strip()) for sign, name in zip(signs, names, strict=True))
    if len(terms) < 2 or not all(name for _, name in terms):
        raise ValueError("expected channels with + or - between blanks, such as `a - b`")
    return Formula(terms)
