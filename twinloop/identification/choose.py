"""Model choice: candidate sets of parameters are compared on validation episodes; the simplest that is not worse is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import WrongUse
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.result import Identification
from twinloop.identification.run import identify
from twinloop.identification.solve import Progress
from twinloop.identification.windows import split_episodes
from twinloop.quality.require import require_usable
from twinloop.twins import Twin


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
        """Whether the best one's lead is within one standard error."""
        return self.behind <= self.standard_error + 1e-12


@dataclass(frozen=True)
class Choice:
    """The chosen model, all contenders from simple to rich, and why."""

    chosen: str
    contenders: tuple[Contender, ...]
    validation: tuple[str, ...]
    reason: str


def choose_model(
    twin: Twin,
    real: Iterable[Episode],
    models: Mapping[str, Sequence[str]],
    *,
    config: IdentifyConfig | None = None,
    on_progress: Progress | None = None,
) -> tuple[Choice, Identification]:
    """Fit every model, choose, and identify the chosen one on all but the held-out episodes, which no choice has seen.

    Args:
        twin: The twin to calibrate.
        real: A dataset or episodes, at least 4.
        models: Competing sets of parameters, by label.
        config: As for `identify`.
        on_progress: As for `identify`.

    Returns:
        The choice, and the identification with the chosen model.
    """
    config = config or IdentifyConfig()
    if isinstance(real, Dataset) and config.force is None:
        require_usable(real, "identify")
    episodes = list(real)
    if len(models) < 2:
        raise WrongUse("nothing to choose from", got=list(models), expected="at least 2 models")
    if len(episodes) < 4:
        raise WrongUse(
            "too few episodes to fit, to choose and to judge",
            got=len(episodes),
            expected="at least 4 episodes",
        )
    held = config.held_out
    if config.held_out_every is not None:
        held = [episode.id for episode in episodes[1 :: config.held_out_every]]
    elif held is None:
        held = [episodes[i].id for i in split_episodes([episode.id for episode in episodes])[1]]
    rest = [episode for episode in episodes if episode.id not in held]
    validation = [
        rest[i].id for i in split_episodes([f"choice {episode.id}" for episode in rest], 1.0 / 3.0)[1]
    ]

    def fit(episodes: list[Episode], parameters: Sequence[str], held_out: Sequence[str]) -> Identification:
        priors = {name: bounds for name, bounds in config.priors.items() if name in parameters}
        how = replace(config, held_out=held_out, held_out_every=None, priors=priors)
        return identify(twin, episodes, parameters, config=how, on_progress=on_progress)

    fits = {name: fit(rest, parameters, validation) for name, parameters in models.items()}
    contenders = _compare(fits)
    chosen = next(contender for contender in contenders if contender.not_worse)
    best = min(contenders, key=lambda contender: contender.error)
    result = fit(episodes, chosen.parameters, held)
    return Choice(chosen.name, contenders, tuple(validation), _reason(chosen, best)), result


def _compare(fits: Mapping[str, Identification]) -> tuple[Contender, ...]:
    logs = {
        name: np.log(np.array([error.after for error in fit.errors]) + 1e-12) for name, fit in fits.items()
    }
    means = {name: float(values.mean()) for name, values in logs.items()}
    best = min(means, key=lambda name: means[name])
    made = []
    for name, fit in fits.items():
        lead = (logs[name] - logs[best]).mean(axis=1)
        if len(lead) < 3:
            lead = (logs[name] - logs[best]).reshape(-1)
        spread = float(lead.std(ddof=1) / np.sqrt(len(lead))) if len(lead) > 1 else 0.0
        made.append(Contender(name, fit.names, float(np.exp(means[name])), float(lead.mean()), spread))
    return tuple(sorted(made, key=lambda contender: (len(contender.parameters), contender.error)))


def _reason(chosen: Contender, best: Contender) -> str:
    size = f"{len(chosen.parameters)} parameters"
    if chosen.name == best.name:
        return f"{chosen.name} ({size}) replays validation episodes best, and no simpler model comes within a standard error"
    lead = np.expm1(chosen.behind)
    return (
        f"{chosen.name} ({size}) is the simplest model that is not worse: {best.name} ({len(best.parameters)} parameters) "
        f"is ahead by {lead:.1%}, within a standard error of {np.expm1(chosen.standard_error):.1%}"
    )
