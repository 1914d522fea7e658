"""Sizes of a policy's network, without the network: readable where torch is not installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Head = Literal["regression", "transformer", "flow"]
"""How a chunk of actions is predicted: its mean by one linear map or by a transformer, or a sample by flow matching."""


@dataclass(frozen=True)
class Sight:
    """What images look like to a network: `cameras` of them, `height` x `width` as they come, averaged down to
    `side` x `side`; `features` numbers are made of each."""

    cameras: int
    height: int
    width: int
    side: int
    features: int

    @property
    def size(self) -> int:
        """Numbers made of all images of one moment."""
        return self.cameras * self.features


@dataclass(frozen=True)
class Shape:
    """Sizes of a network: observations of D numbers, H of them, chunks of actions of A numbers, and images if any."""

    observation: int
    history: int
    action: int
    chunk: int
    width: int
    depth: int
    head: Head
    flow_steps: int
    adapter_rank: int = 0
    sight: Sight | None = None


def sight_from_json(words: dict[str, Any] | None) -> Sight | None:
    """What `dataclasses.asdict` made of a sight."""
    return None if words is None else Sight(**words)
