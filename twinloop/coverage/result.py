"""`Coverage`: where real data lies outside what simulation covers, in which regions, and how those episodes ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, InstanceOf

from twinloop.coverage.rule import Condition, Rule
from twinloop.coverage.sample import SampledEpisodes
from twinloop.episode import Array
from twinloop.records import Record, SavedRecord, derived, load_record

Level = Literal["situation", "moment"]

WHOLE = 0.8
"""A region of at least this fraction of the real data is an offset of the whole dataset, not a region that simulation lacks."""


@dataclass(frozen=True)
class Outcomes:
    """How real episodes ended inside a region and outside of it; `p_value` is Fisher's exact test, None where unknown."""

    failed_inside: int
    known_inside: int
    failed_elsewhere: int
    known_elsewhere: int
    p_value: float | None
    reasons: dict[str, int]

    @derived
    def worse(self) -> bool:
        """Whether episodes fail more often inside, beyond chance."""
        return (
            self.p_value is not None
            and self.p_value < 0.05
            and self.failed_inside * self.known_elsewhere > self.failed_elsewhere * self.known_inside
        )


@dataclass(frozen=True)
class Region(Record):
    """Real data that simulation does not cover.

    A `situation` is how episodes begin, and then `episodes` are those that begin so; a `moment` happens on the way. `fraction` is
    the part of the real data in it, `sim_episodes` have a point there too. A region that was found by likeness is only described by
    its conditions: `recall` is the fraction of its points for which they hold, `precision` the fraction of the points for which they
    hold that are its own. `worst` is the part in which episodes fail, where that differs from the rest.
    """

    name: str
    level: Level
    conditions: tuple[Condition, ...]
    query: str
    episodes: tuple[int, ...]
    fraction: float
    sim_episodes: int
    outcomes: Outcomes
    recall: float = 1.0
    precision: float = 1.0
    worst: Region | None = None

    @property
    def rule(self) -> Rule:
        """The rule that all conditions hold."""
        return Rule(self.conditions)

    @derived
    def offset(self) -> bool:
        """Whether nearly all real data lies in it: real and simulated data are offset there, whatever the episode."""
        return self.fraction >= WHOLE


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
    """Both datasets as points with their places on the map; `map_file.save_map` keeps it on disk.

    `score` (N,) of each real moment is its distance to simulation over the threshold: above one is outside. `inside` has, for each
    region, which real moments (N,) belong to it.
    """

    real: SampledEpisodes
    sim: SampledEpisodes
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
class Coverage(SavedRecord):
    """What simulation covers of the real data.

    `outside` is the fraction of real moments in a region that is no offset of everything, each episode counting the same; `far` the fraction whose distance to
    simulation is beyond the threshold. `missing` names what could not be compared and why. `map` is there after `measure_coverage`
    and None after `load_coverage`.
    """

    FILE, COMMAND = "coverage.json", "twinloop coverage --out FOLDER"

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
    map: Annotated[InstanceOf[CoverageMap] | None, Field(exclude=True)] = field(
        default=None, compare=False, repr=False
    )


def load_coverage(path: str | Path) -> Coverage:
    """Read a coverage that `twinloop coverage --out` wrote.

    Args:
        path: The file, or the folder that holds `coverage.json`.

    Returns:
        The coverage, without its map.

    Raises:
        WrongUse: If the file is missing or is not a coverage.
    """
    return load_record(Coverage, path)
