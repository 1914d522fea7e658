"""How `identify` fits: what it searches, what it holds out, and how long it may take."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twinloop.errors import UnknownName, WrongUse
from twinloop.twins import Twin


@dataclass(frozen=True)
class IdentifyConfig:
    """Settings of an identification.

    Args:
        priors: Narrower ranges to search, by parameter; default: the twin's bounds.
        given: Signal that holds the known value of a parameter in each run, by parameter.
        signals: Signals to fit; default: positions and poses.
        horizon_s: How long the twin runs before its state is reset to the recording; default: as long as errors of the initial
            state do not dominate.
        held_out: Ids of the episodes that are never fitted and judge the result; default: a quarter, by the hash of their ids.
        held_out_every: Hold out every n-th episode from the second on instead; the same however and whenever they were recorded.
        seconds: Maximum duration of recordings to fit; of more data, windows from every episode. Time and memory grow with it.
        allow_simulated: Fit simulated episodes as if they were real, to try a method on known truth.
        seed: Random seed for the search's starts and the posterior's samples.
        threads: Simulation threads; 0: all cores.
        force: Reason for fitting data that the quality check refuses; it is recorded.
    """

    priors: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    signals: Sequence[str] | None = None
    horizon_s: float | None = None
    held_out: Sequence[str] | None = None
    held_out_every: int | None = None
    seconds: float = 60.0
    allow_simulated: bool = False
    seed: int = 0
    threads: int = 0
    force: str | None = None

    def __post_init__(self) -> None:
        if self.held_out_every is not None and (self.held_out is not None or self.held_out_every < 2):
            raise WrongUse(
                "held_out_every is 2 or more and excludes held_out",
                got=f"held_out_every {self.held_out_every}",
            )


def expand_parameters(twin: Twin, patterns: Sequence[str]) -> list[str]:
    """Names of the twin's parameters that match, in the twin's order within each pattern.

    Args:
        twin: The twin.
        patterns: Names, in which `*` and `?` match.

    Returns:
        The names, each once.

    Raises:
        UnknownName: If a pattern matches nothing.
    """
    known = [parameter.name for parameter in twin.parameters]
    names: list[str] = []
    for pattern in (text.strip() for text in patterns):
        matches = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
        if not matches:
            raise UnknownName(f"parameter of twin {twin.name}", pattern, known)
        names += [name for name in matches if name not in names]
    return names
