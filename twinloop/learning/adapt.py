"""Feature alignment: extra losses that make an encoder see simulated and real images alike.

Each takes features of simulated windows (n, F) and of real ones (m, F); actions in the real ones need not be known.

- `coral` (Sun and Saenko 2016) compares means and covariances.
- `ot` moves one set onto the other at the least cost (entropic optimal transport). What robots read of themselves counts
  too, so that an image is compared with one in which the arm is at about the same place.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from twinloop.learning.config import Adapt

Tensor = torch.Tensor

SMOOTHING = 0.05
"""Entropy of a transport plan relative to its mean cost: the smaller, the closer to a one-to-one assignment."""

SINKHORN_ROUNDS = 50
STRENGTH: dict[Adapt, float] = {"coral": 1.0, "ot": 0.1}
"""What a weight of one stands for, so that both are of a size with the error of actions."""


class Alignment(nn.Module):
    """How far apart two sets of features are, by one of the words."""

    def __init__(self, kind: Adapt) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, sim: Tensor, real: Tensor, sim_state: Tensor, real_state: Tensor) -> Tensor:
        """The loss; states (n, D) and (m, D) are scaled readings, which only `ot` looks at."""
        made = transport(sim, real, sim_state, real_state) if self.kind == "ot" else coral(sim, real)
        return STRENGTH[self.kind] * made


def coral(sim: Tensor, real: Tensor) -> Tensor:
    """Mean squared difference of means plus that of covariances; zero where both agree."""
    means = (sim.mean(dim=0) - real.mean(dim=0)).square().mean()
    return means + (_covariance(sim) - _covariance(real)).square().sum() / sim.shape[1]


def transport(sim: Tensor, real: Tensor, sim_state: Tensor, real_state: Tensor) -> Tensor:
    """What moving the simulated features onto the real ones costs, each to those the plan sends it to."""
    cost = _distances(sim, real)
    with torch.no_grad():
        plan = sinkhorn(cost + _distances(sim_state, real_state))
    return (plan * cost).sum()


def sinkhorn(cost: Tensor, smoothing: float = SMOOTHING, rounds: int = SINKHORN_ROUNDS) -> Tensor:
    """The plan (n, m), with even margins, that moves at the least cost (n, m) up to smoothing."""
    count, other = cost.shape
    score = -cost / (smoothing * cost.mean()).clamp(min=1e-12)
    first, second = cost.new_zeros(count, 1), cost.new_zeros(1, other)
    for _ in range(rounds):
        first = -math.log(count) - (score + second).logsumexp(dim=1, keepdim=True)
        second = -math.log(other) - (score + first).logsumexp(dim=0, keepdim=True)
    return (score + first + second).exp()


def ramp(done: float) -> float:
    """The share of the full weight after a share of the training: features must mean something before they are aligned."""
    return 2.0 / (1.0 + math.exp(-10.0 * min(done, 1.0))) - 1.0


def _covariance(features: Tensor) -> Tensor:
    centred = features - features.mean(dim=0)
    return centred.T @ centred / max(len(features) - 1, 1)


def _distances(first: Tensor, second: Tensor) -> Tensor:
    """Mean squared difference of every two rows (n, m)."""
    return (first[:, None] - second[None]).square().mean(dim=2)
