"""Sizes of a policy's network, without the network: readable where torch is not installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Head = Literal["regression", "transformer", "flow"]
"""How a chunk of actions is predicted: its mean by one linear map or by a transformer, or a sample by flow matching."""


@dataclass(frozen=True)
class ImageShape:
    """Sizes of the images of a network: `cameras` of them, `height` x `width` each, averaged down to `side` x `side`;
    the encoder makes `features` numbers of each."""

    cameras: int
    height: int
    width: int
    side: int
    features: int

    @property
    def size(self) -> int:
        """Features of all images of one moment."""
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
    images: ImageShape | None = None
