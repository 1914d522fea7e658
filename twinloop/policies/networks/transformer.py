"""A small transformer that turns features into a chunk of actions.

A chunk is cut into short stretches. Each stretch is a token that asks, the features are a few tokens that answer; all look at
each other in every layer, so that what is done later in a chunk can follow from what is done first.
"""

from __future__ import annotations

import torch
from torch import nn

Tensor = torch.Tensor

STRETCH = 5
"""Actions in one token: 0.1 s at 50 Hz. One token for every action would cost five times as much."""

ANSWERS = 4
LAYERS = 2
HEADS = 4


class Layer(nn.Module):
    """Attention among all tokens, then each token by itself; both added to what was there."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.ask = nn.Linear(size, 3 * size)
        self.answer = nn.Linear(size, size)
        self.inner, self.outer = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N, size)."""
        parts = self.ask(self.first_norm(tokens)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        tokens = tokens + self.answer(seen.transpose(1, 2).flatten(2))
        made: Tensor = tokens + self.outer(nn.functional.gelu(self.inner(self.second_norm(tokens))))
        return made


class ChunkTransformer(nn.Module):
    """Features (B, width) to a chunk, flat: (B, chunk * action)."""

    def __init__(self, width: int, chunk: int, action: int) -> None:
        super().__init__()
        size = max(1, width // (2 * HEADS)) * HEADS
        stretches = -(-chunk // STRETCH)
        self.enter = nn.Linear(width, ANSWERS * size)
        self.asking = nn.Parameter(0.02 * torch.randn(stretches, size))
        self.answering = nn.Parameter(0.02 * torch.randn(ANSWERS, size))
        self.layers = nn.Sequential(*(Layer(size) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(size)
        self.leave = nn.Linear(size, STRETCH * action)
        self._flat = chunk * action

    def forward(self, features: Tensor) -> Tensor:
        """The expected chunk."""
        answers = self.enter(features).unflatten(1, (ANSWERS, -1)) + self.answering
        asked = self.asking.expand(features.shape[0], -1, -1)
        tokens = self.norm(self.layers(torch.cat([answers, asked], dim=1)))
        made: Tensor = self.leave(tokens[:, ANSWERS:]).flatten(1)
        return made[:, : self._flat]
