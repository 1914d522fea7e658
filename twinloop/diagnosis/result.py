"""`Diagnosis`: success points lost to each dimension, how much of the real drop that explains, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.diagnosis.measured import Measured, measured_randomization
from twinloop.randomization import Randomization
from twinloop.records import SavedRecord, derived, load_record
from twinloop.stats.interval import Interval
from twinloop.twins import Twin

NOTABLE = 0.02
"""A dimension is named when even the low end of its interval costs more success than this."""


@dataclass(frozen=True)
class Cost:
    """What one dimension costs: together with the others (its Shapley value), and alone."""

    dimension: str
    lost: Interval
    alone: float

    @derived
    def named(self) -> bool:
        """Whether the evidence is enough to name it."""
        return self.lost.low > NOTABLE

    @property
    def points(self) -> str:
        """The success points lost, with their interval; or that none are shown, and how many there could be."""
        if round(100.0 * self.lost.value) > 0:
            return self.lost.points
        return f"none shown, at most {100.0 * self.lost.high:.0f}"


@dataclass(frozen=True)
class Rule:
    """A rule of thumb of the field, whether it applies here, and why."""

    name: str
    applies: bool | None
    because: str
    advice: str


@dataclass(frozen=True, eq=False)
class Diagnosis(SavedRecord):
    """The outcome of `diagnose`.

    Attributes:
        in_twin, on_robot, predicted: Success rates in the nominal twin, on the robot, and in the twin with everything measured.
        drop: `in_twin - on_robot`; `explained` is what the measured imperfections account for, `unknown` the rest.
        costs: By dimension, the largest first; with `unknown` they add up to `drop`.
        measured: What was measured of each dimension, as draws of the twin's parameters.
        failures, slices, rules: How runs failed, under which conditions, and rules of thumb that apply.
        verdict, notes: The result in one line, and remarks about the runs.
        trials, scenes, evaluations: Judged real runs, simulated scenes of each combination, and simulated episodes.
        exact: Whether every combination of dimensions was evaluated.
        episodes: Ids of the policy's runs, in the order in which they were recorded.
    """

    FILE, FORMAT, COMMAND = "diagnosis.json", 3, "twinloop diagnose --out FOLDER"

    policy: str
    policy_id: str
    twin: str
    twin_hash: str
    standin: bool
    trials: int
    successes: int
    in_twin: Interval
    on_robot: Interval
    predicted: Interval
    drop: Interval
    explained: Interval
    unknown: Interval
    costs: tuple[Cost, ...]
    measured: tuple[Measured, ...]
    failures: Mapping[str, Mapping[str, int]]
    slices: tuple[Mapping[str, Any], ...]
    rules: tuple[Rule, ...]
    verdict: str
    exact: bool
    scenes: int
    evaluations: int
    seed: int
    notes: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[Cost, ...]:
        """The dimensions to blame, the largest first; empty is "unknown" or nothing to explain."""
        return tuple(cost for cost in self.costs if cost.named)

    def randomization(self, twin: Twin, name: str = "measured") -> Randomization:
        """What was measured of the robot, as a distribution over parameters of its twin: see `measured_randomization`."""
        return measured_randomization(self.measured, twin, name)


def load_diagnosis(folder: str | Path) -> Diagnosis:
    """Read a diagnosis that `twinloop diagnose --out` wrote.

    Args:
        folder: The folder that holds `diagnosis.json`, or the file.

    Returns:
        The diagnosis.

    Raises:
        WrongUse: If there is no such file or it is not a diagnosis.
    """
    return load_record(Diagnosis, folder)
