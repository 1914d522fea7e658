"""What a plan is made from: points lost by dimension, regions that simulation does not cover, parameters that are not identified.

Read from results, or from what other commands wrote: `diagnose --out`, `coverage --out`, `identify --out` and items of the coverage
map. A diagnosis may also be written by hand, see `ManualDiagnosis`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinloop.coverage.result import Coverage, Outcomes, load_coverage
from twinloop.coverage.rule import Condition
from twinloop.diagnosis.result import Diagnosis
from twinloop.identification.result import Estimate, Identification, load_identification
from twinloop.records import SavedRecord, load_record, parse_record, read_json


@dataclass(frozen=True)
class DimensionCost:
    """Success points that a dimension costs, with the 95 % interval."""

    dimension: str
    points: float
    low: float
    high: float


@dataclass(frozen=True)
class Slice:
    """How often episodes under one condition failed."""

    condition: str
    failed: int
    episodes: int


@dataclass(frozen=True)
class ManualDiagnosis:
    """A diagnosis written by hand: `losses` in points, and conditions under which episodes failed."""

    losses: tuple[DimensionCost, ...]
    failures: tuple[Slice, ...] = ()
    successes: int | None = None
    trials: int | None = None
    twin: str | None = None


@dataclass(frozen=True)
class MapSelection(SavedRecord):
    """Real episodes that were selected on a coverage map; `failed` of them failed.

    `conditions` are what sets them apart from the others, `query` asks for episodes under them, now and later. `listed` asks for
    exactly the selected ones. `points` of the map lie inside the outline, those of `sim_episodes` too; the conditions also hold for
    `others` real episodes. `fraction` of the real episodes is selected; with `outcomes` it says what the selection costs.
    """

    FILE, COMMAND = "plan-item.json", "twinloop plan select COVERAGE --out FILE"

    name: str
    query: str
    conditions: tuple[Condition, ...]
    episodes: tuple[int, ...]
    failed: int = 0
    listed: str = ""
    points: int = 0
    others: int = 0
    sim_episodes: int = 0
    fraction: float = 0.0
    outcomes: Outcomes | None = None
    twin: str | None = None
    dataset: str | None = None


@dataclass(frozen=True)
class TargetRegion:
    """Conditions to record demonstrations under.

    `fraction` of the real data lies there, 0 where unknown, in `episodes` episodes. `query` is SQL for the episodes recorded there.
    `task` is the name that such recordings get where no query can find them.
    """

    name: str
    conditions: tuple[Condition, ...]
    query: str
    fraction: float
    episodes: int
    outcomes: Outcomes
    task: str | None = None


@dataclass(frozen=True)
class Needs:
    """Everything that speaks for recording something. `successes` of `trials` real episodes, None where unknown.

    `identified` are dimensions whose parameters are all identified.
    """

    costs: tuple[DimensionCost, ...] = ()
    slices: tuple[Slice, ...] = ()
    regions: tuple[TargetRegion, ...] = ()
    unidentified: tuple[Estimate, ...] = ()
    identified: frozenset[str] = frozenset()
    successes: int | None = None
    trials: int | None = None
    twin: str | None = None


def read_needs(
    diagnosis: Diagnosis | str | Path | None = None,
    coverage: Coverage | str | Path | None = None,
    identification: Identification | str | Path | None = None,
    items: Sequence[str | Path] = (),
) -> Needs:
    """Needs from results, or from the files that other commands wrote."""
    needs = Needs() if diagnosis is None else _diagnosed(diagnosis)
    regions = []
    if coverage is not None:
        covered = coverage if isinstance(coverage, Coverage) else load_coverage(coverage)
        for part in (region.worst or region for region in covered.regions):
            size = len(part.episodes)
            regions.append(
                TargetRegion(part.name, part.conditions, part.query, part.fraction, size, part.outcomes)
            )
        if needs.trials is None and covered.real.known:
            needs = replace(needs, successes=covered.real.succeeded, trials=covered.real.known)
        needs = replace(needs, twin=covered.twin or needs.twin)
    regions += [target_of(load_selection(item)) for item in items]
    if identification is not None:
        found = (
            identification
            if isinstance(identification, Identification)
            else load_identification(identification)
        )
        unidentified = tuple(one for one in found.estimates if one.status != "identifiable")
        known = {one.dimension for one in found.estimates} - {one.dimension for one in unidentified}
        needs = replace(
            needs, unidentified=unidentified, identified=frozenset(known), twin=found.twin.name or needs.twin
        )
    return replace(needs, regions=tuple(regions))


def _diagnosed(source: Diagnosis | str | Path) -> Needs:
    if not isinstance(source, Diagnosis):
        file = Path(source) / Diagnosis.FILE if Path(source).is_dir() else Path(source)
        expected = f"what `{Diagnosis.COMMAND}` wrote, or a mapping with 'losses'"
        values = read_json(file, expected)
        if isinstance(values, dict) and "losses" in values:
            manual = parse_record(ManualDiagnosis, values, file, expected)
            return Needs(
                manual.losses,
                manual.failures,
                successes=manual.successes,
                trials=manual.trials,
                twin=manual.twin,
            )
        source = load_record(Diagnosis, file)
    lost = [(cost.dimension, cost.lost) for cost in source.named]
    return Needs(
        tuple(DimensionCost(name, *(100.0 * p for p in (x.value, x.low, x.high))) for name, x in lost),
        tuple(half for part in source.slices for half in _halves(part)),
        successes=source.successes,
        trials=source.trials,
        twin=source.twin,
    )


def _halves(part: Mapping[str, Any]) -> list[Slice]:
    """The two halves into which `diagnose` cuts a condition."""
    return [
        Slice(f"{part['condition']} {side} {part['split_at']:.3g}", episodes - succeeded, episodes)
        for side, (succeeded, episodes) in (("below", part["lower"]), ("above", part["upper"]))
    ]


def load_selection(path: str | Path) -> MapSelection:
    """Read a selection.

    Args:
        path: What `twinloop plan select` wrote, or an item downloaded from a coverage page.

    Returns:
        The selection.

    Raises:
        WrongUse: If there is no such file or it is neither.
    """
    file, expected = Path(path), "an item downloaded from the coverage map"
    return parse_record(MapSelection, read_json(file, expected), file, expected)


def target_of(selection: MapSelection) -> TargetRegion:
    """The region that a selection asks to record in."""
    size = len(selection.episodes)
    outcomes = selection.outcomes or Outcomes(selection.failed, size, 0, 0, None, {})
    return TargetRegion(
        selection.name, selection.conditions, selection.query, selection.fraction, size, outcomes
    )
