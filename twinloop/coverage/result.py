"""`Coverage`: where real data lies outside what simulation covers, in which regions, and how those episodes ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage.rule import Rule, rule_from_json
from twinloop.coverage.sample import DatasetSample
from twinloop.datasets.commit import write_atomically
from twinloop.errors import NewerFormat, WrongUse, describe_read_error

Array = NDArray[Any]
Level = Literal["situation", "moment"]

WHOLE = 0.8
"""A region of at least this fraction of the real data is an offset of the whole dataset, not a region that simulation lacks."""

FORMAT = 1
FILE = "coverage.json"


@dataclass(frozen=True)
class Outcomes:
    """How real episodes ended inside a region and outside of it; `p_value` is Fisher's exact test, None where unknown."""

    failed_inside: int
    known_inside: int
    failed_elsewhere: int
    known_elsewhere: int
    p_value: float | None
    reasons: dict[str, int]

    @property
    def worse(self) -> bool:
        """Whether episodes fail more often inside, beyond chance."""
        return (
            self.p_value is not None
            and self.p_value < 0.05
            and self.failed_inside * self.known_elsewhere > self.failed_elsewhere * self.known_inside
        )


@dataclass(frozen=True)
class Region:
    """Real data that simulation does not cover.

    A `situation` is how episodes begin, and then `episodes` are those that begin so; a `moment` happens on the way. `fraction` is
    the part of the real data in it, `sim_episodes` have a point there too. `seen` is, for each condition of the rule, between which
    values real data in the region lies. A region that was found by likeness is only described by its rule: `recall` is the fraction
    of its points for which the rule holds, `precision` the fraction of the rule's points that are its own. `worst` is the part in
    which episodes fail, where that differs from the rest.
    """

    name: str
    level: Level
    rule: Rule
    query: str
    episodes: tuple[int, ...]
    fraction: float
    sim_episodes: int
    outcomes: Outcomes
    seen: tuple[tuple[float, float] | None, ...]
    recall: float = 1.0
    precision: float = 1.0
    worst: Region | None = None

    @property
    def offset(self) -> bool:
        """Whether nearly all real data lies in it: real and simulated data are offset there, whatever the episode."""
        return self.fraction >= WHOLE

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "level": self.level,
            "conditions": [
                condition.as_json() | ({"seen": list(seen)} if seen else {})
                for condition, seen in zip(self.rule.conditions, self.seen, strict=True)
            ],
            "query": self.query,
            "episodes": list(self.episodes),
            "fraction": self.fraction,
            "offset": self.offset,
            "recall": self.recall,
            "precision": self.precision,
            "sim_episodes": self.sim_episodes,
            "outcomes": asdict(self.outcomes) | {"worse": self.outcomes.worse},
            "worst": None if self.worst is None else self.worst.as_json(),
        }


@dataclass(frozen=True)
class DatasetSummary:
    """One dataset of a comparison: its episodes, its sampled points, and how many of the judged episodes succeeded."""

    dataset: str
    id: str
    episodes: int
    points: int
    succeeded: int
    known: int


@dataclass(frozen=True, eq=False)
class CoverageMap:
    """Both datasets as points with their places on the map; not kept on disk.

    `score` (N,) of each real moment is its distance to simulation over the threshold: above one is outside. `inside` has, for each
    region, which real moments (N,) belong to it.
    """

    real: DatasetSample
    sim: DatasetSample
    real_places: Array
    sim_places: Array
    score: Array
    inside: tuple[Array, ...]

    @property
    def outside(self) -> Array:
        """Which real moments (N,) lie in any region."""
        marks = np.zeros(len(self.real.moments.values), dtype=bool)
        for region in self.inside:
            marks |= region
        return marks


@dataclass(frozen=True)
class Coverage:
    """What simulation covers of the real data.

    `outside` is the fraction of real moments in a region that is no offset of everything, each episode counting the same; `far` the fraction whose distance to
    simulation is beyond the threshold. `missing` names what could not be compared and why. `map` is there after `measure_coverage`
    and None after `load_coverage`.
    """

    real: DatasetSummary
    sim: DatasetSummary
    twin: str | None
    outside: float
    far: float
    regions: tuple[Region, ...]
    variables: tuple[str, ...]
    situation_variables: tuple[str, ...]
    missing: tuple[str, ...]
    seed: int
    map: CoverageMap | None = field(default=None, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Plain values, without the map."""
        return {
            "format": FORMAT,
            "real": asdict(self.real),
            "sim": asdict(self.sim),
            "twin": self.twin,
            "outside": self.outside,
            "regions": [region.as_json() for region in self.regions],
            "far": self.far,
            "variables": list(self.variables),
            "situation_variables": list(self.situation_variables),
            "missing": list(self.missing),
            "seed": self.seed,
        }

    def save(self, folder: str | Path) -> Path:
        """Write `coverage.json` into a folder; the map is not kept."""
        file = Path(folder) / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (json.dumps(self.as_json(), indent=1) + "\n").encode())
        return file


def load_coverage(path: str | Path) -> Coverage:
    """Read a coverage that `twinloop coverage --out` wrote.

    Args:
        path: The file, or the folder that holds `coverage.json`.

    Returns:
        The coverage, without its map.

    Raises:
        WrongUse: If the file is missing or is not a coverage.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    expected = "what `twinloop coverage --out` writes"
    try:
        values = json.loads(file.read_text())
        if values["format"] > FORMAT:
            raise NewerFormat(
                f"{file} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        return Coverage(
            real=DatasetSummary(**values["real"]),
            sim=DatasetSummary(**values["sim"]),
            regions=tuple(_region_from(entry) for entry in values["regions"]),
            **{name: values[name] for name in ("twin", "outside", "far", "seed")},
            variables=tuple(values["variables"]),
            situation_variables=tuple(values["situation_variables"]),
            missing=tuple(values["missing"]),
        )
    except OSError as error:
        raise WrongUse(f"cannot read {file}", got=error.strerror, expected=expected) from error
    except (ValueError, KeyError, TypeError) as error:
        raise WrongUse(
            f"{file} is not a coverage", got=describe_read_error(error), expected=expected
        ) from error


def _region_from(values: Mapping[str, Any]) -> Region:
    outcomes = {name: value for name, value in values["outcomes"].items() if name != "worse"}
    seen = (condition.get("seen") for condition in values["conditions"])
    return Region(
        rule=rule_from_json(values["conditions"]),
        episodes=tuple(values["episodes"]),
        outcomes=Outcomes(**outcomes),
        seen=tuple(None if pair is None else (pair[0], pair[1]) for pair in seen),
        worst=None if values["worst"] is None else _region_from(values["worst"]),
        **{
            n: values[n]
            for n in ("name", "level", "query", "fraction", "recall", "precision", "sim_episodes")
        },
    )
