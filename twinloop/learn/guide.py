"""Learning to look: in simulation it is known where things are, and a network with cameras is made to say so.

How to move depends on pictures only a little, so that the error of actions teaches an encoder slowly and by heart. Where the object is
depends on them entirely. What the data knows and the policy will not be told is therefore asked of the trunk's features
beside the actions, while training lasts; nothing of it remains in the policy.

An arm on its way gives away where it is going, and a network would rather look at the arm than at the picture. So what
the arm's own readings tell is taken off first, and only the rest is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from twinloop.learn.interface import SMALLEST_READING

Array = NDArray[Any]
Tensor = torch.Tensor

RIDGE = 1e-3
"""Keeps what readings tell from following chance where they hardly differ."""


class Guide(nn.Module):
    """How wrongly features (B, width) tell what is known (B, K) beyond what readings (B, D), scaled, give away.

    What they give away, by linear terms and products of two, and the spread that errors are measured in are fitted to a sample of
    readings (n, D) and of what is known (n, K).
    """

    gives: Tensor
    scale: Tensor

    def __init__(self, width: int, readings: Tensor, known: Tensor) -> None:
        super().__init__()
        self.tell = nn.Linear(width, known.shape[1])
        terms = _terms(readings).double().numpy()
        wanted = known.double().numpy()
        inner = terms.T @ terms + RIDGE * len(terms) * np.eye(terms.shape[1])
        gives = np.linalg.solve(inner, terms.T @ wanted).astype(np.float32)
        scale = np.maximum(wanted.std(axis=0), SMALLEST_READING).astype(np.float32)
        self.register_buffer("gives", torch.from_numpy(gives), persistent=False)
        self.register_buffer("scale", torch.from_numpy(scale), persistent=False)

    def beyond(self, readings: Tensor, known: Tensor) -> Tensor:
        """What only pictures can tell, (B, K), in units of the spread."""
        return (known - _terms(readings) @ self.gives) / self.scale

    def forward(self, features: Tensor, readings: Tensor, known: Tensor) -> Tensor:
        """Mean absolute error over the rows about which something is known; nothing is NaN."""
        there = known.isfinite().all(dim=1)
        wrong = self.tell(features[there]) - self.beyond(readings[there], known[there])
        error: Tensor = wrong.abs().sum() / max(wrong.numel(), 1)
        return error


def _terms(readings: Tensor) -> Tensor:
    """One, the readings, and the products of every two of them."""
    first, second = torch.triu_indices(readings.shape[1], readings.shape[1]).unbind()
    return torch.cat(
        [torch.ones(len(readings), 1), readings, readings[:, first] * readings[:, second]], dim=1
    )
