"""Model choice: candidate sets of parameters are compared on validation episodes; the simplest that is not worse is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.identification.accept import WORTH, ReplayError


@dataclass(frozen=True)
class Contender:
    """One model: its parameters, its error on validation episodes, and how much worse than the best, with the standard error.

    Errors are geometric means over episodes and channels; `behind` is the logarithm of the ratio to the best one's.
    """

    name: str
    parameters: tuple[str, ...]
    error: float
    behind: float
    standard_error: float

    @property
    def not_worse(self) -> bool:
        """Whether the best one's lead is within one standard error, or too small to be worth more parameters."""
        return self.behind <= max(self.standard_error, WORTH) + 1e-12


@dataclass(frozen=True)
class Choice:
    """The chosen model, all contenders from simple to rich, and why."""

    chosen: str
    contenders: tuple[Contender, ...]
    validation: tuple[str, ...]
    reason: str


def choose(
    fits: Mapping[str, tuple[Sequence[str], Sequence[ReplayError]]], validation: Sequence[str]
) -> Choice:
    """The simplest model whose errors on validation episodes are not worse than the best one's.

    `fits` holds each model's parameters and its errors on the `validation` episodes, by label.
    """
    logs = {
        name: np.log(np.array([error.after for error in errors]) + 1e-12)
        for name, (_, errors) in fits.items()
    }
    means = {name: float(values.mean()) for name, values in logs.items()}
    best = min(means, key=lambda name: means[name])
    contenders = []
    for name, (parameters, _) in fits.items():
        lead = (logs[name] - logs[best]).mean(axis=1)
        if len(lead) < 3:
            lead = (logs[name] - logs[best]).reshape(-1)
        spread = float(lead.std(ddof=1) / np.sqrt(len(lead))) if len(lead) > 1 else 0.0
        error, behind = float(np.exp(means[name])), float(lead.mean())
        contenders.append(Contender(name, tuple(parameters), error, behind, spread))
    contenders.sort(key=lambda contender: (len(contender.parameters), contender.error))
    chosen = next(contender for contender in contenders if contender.not_worse)
    leader = next(contender for contender in contenders if contender.name == best)
    return Choice(chosen.name, tuple(contenders), tuple(validation), _reason(chosen, leader))


def _reason(chosen: Contender, best: Contender) -> str:
    size = f"{len(chosen.parameters)} parameters"
    if chosen.name == best.name:
        return f"{chosen.name} ({size}) replays validation episodes best, and no simpler model comes within a standard error"
    lead = np.expm1(chosen.behind)
    error = np.expm1(chosen.standard_error)
    small = (
        f"within a standard error of {error:.1%}"
        if lead <= error
        else f"less than {WORTH:.0%}, which is not worth more"
    )
    return (
        f"{chosen.name} ({size}) is the simplest model that is not worse: {best.name} ({len(best.parameters)} parameters) "
        f"is ahead by {lead:.1%}, {small}"
    )
