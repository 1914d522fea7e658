"""`Diagnosis`: success points lost to each dimension, how much of the real drop that explains, and what is unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import write_atomically
from twinloop.diagnosis.measured import Measured, measured_from_json, measured_randomization
from twinloop.errors import TwinloopError
from twinloop.randomization import Randomization
from twinloop.stats.interval import Interval
from twinloop.twins import Twin

FILE, FORMAT = "diagnosis.json", 2

_PLAIN = (
    "policy policy_id twin twin_hash standin trials successes verdict exact scenes evaluations seed".split()
)
_INTERVALS = ("in_twin", "on_robot", "predicted", "drop", "explained", "unknown")

NOTABLE = 0.02
"""A dimension is named when even the low end of its interval costs more success than this."""


@dataclass(frozen=True)
class Cost:
    """What one dimension costs: together with the others (its Shapley value), and alone."""

    dimension: str
    lost: Interval
    alone: float

    @property
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
class Diagnosis:
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
    """

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
    failures: Mapping[str, Mapping[str, float]]
    slices: tuple[Mapping[str, Any], ...]
    rules: tuple[Rule, ...]
    verdict: str
    exact: bool
    scenes: int
    evaluations: int
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[Cost, ...]:
        """The dimensions to blame, the largest first; empty is "unknown" or nothing to explain."""
        return tuple(cost for cost in self.costs if cost.named)

    def randomization(self, twin: Twin, name: str = "measured") -> Randomization:
        """What was measured of the robot, as a distribution over parameters of its twin: see `measured_randomization`."""
        return measured_randomization(self.measured, twin, name)

    def save(self, folder: str | Path) -> Path:
        """Write `diagnosis.json` into a folder, which is made where it does not exist.

        Returns:
            The file, from which `load_diagnosis` rebuilds the diagnosis exactly.
        """
        path = Path(folder) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(self.as_json(), indent=1).encode())
        return path

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return (
            {"format": FORMAT}
            | {name: getattr(self, name) for name in _PLAIN}
            | {name: asdict(getattr(self, name)) for name in _INTERVALS}
            | {
                "named": [cost.dimension for cost in self.named],
                "costs": [{**asdict(cost), "named": cost.named} for cost in self.costs],
                "measured": [part.as_json() for part in self.measured],
                "failures": {where: dict(counts) for where, counts in self.failures.items()},
                "slices": [dict(part) for part in self.slices],
                "rules": [asdict(rule) for rule in self.rules],
                "notes": list(self.notes),
            }
        )


def load_diagnosis(folder: str | Path) -> Diagnosis:
    """Read a diagnosis.

    Args:
        folder: Where `Diagnosis.save` or `twinloop diagnose --out` wrote it, or its `diagnosis.json`.

    Raises:
        TwinloopError: There is no diagnosis, or one that this version cannot read.
    """
    path = Path(folder)
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise TwinloopError(
            f"{path} holds no diagnosis", expected="a folder that `twinloop diagnose --out` wrote"
        )
    try:
        plain = json.loads(file.read_text())
        if plain["format"] != FORMAT:
            raise ValueError(f"format {plain['format']}")
        return _from_json(plain)
    except (ValueError, KeyError, TypeError) as error:
        raise TwinloopError(
            f"{file} cannot be read",
            got=str(error),
            expected=f"a diagnosis of format {FORMAT}",
            remedy="run `twinloop diagnose` again",
        ) from error


def _from_json(plain: Mapping[str, Any]) -> Diagnosis:
    intervals: dict[str, Any] = {name: Interval(**plain[name]) for name in _INTERVALS}
    return Diagnosis(
        **{name: plain[name] for name in _PLAIN},
        **intervals,
        costs=tuple(Cost(c["dimension"], Interval(**c["lost"]), c["alone"]) for c in plain["costs"]),
        measured=tuple(measured_from_json(part) for part in plain["measured"]),
        failures=plain["failures"],
        slices=tuple(plain["slices"]),
        rules=tuple(Rule(**rule) for rule in plain["rules"]),
        notes=tuple(plain["notes"]),
    )
