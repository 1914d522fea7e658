"""`plan(...)`: from needs and costs to items in order of gain per hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

from scipy import stats

from twinloop.coverage.result import Coverage, Outcomes
from twinloop.diagnosis.result import Diagnosis
from twinloop.errors import UnknownName, WrongUse
from twinloop.identification.result import Estimate, Identification
from twinloop.planning.costs import Costs
from twinloop.planning.items import Item, Plan
from twinloop.planning.needs import DimensionCost, Needs, TargetRegion, read_needs
from twinloop.planning.power import (
    LEVEL,
    MOST,
    POWER,
    UNKNOWN,
    gain_in_dimension,
    gain_in_region,
    people_to_record,
    readings_for_noise,
    runs_to_identify,
    trials_to_detect,
)
from twinloop.planning.remedies import EXCITED, IDENTIFIED, REMEDIES, SETTABLE, Kind
from twinloop.planning.settings import is_force, is_settable, make_settings
from twinloop.records import hash_of
from twinloop.twins import Twin, load_twin

RARE_KIND = 0.2
"""A kind of person that makes up this fraction should be among those recorded."""
SMALLEST_COST = 1.0
"""Points; less cannot be seen in trials."""
USUAL_SUCCESS = 0.5
"""Success rate before, where it is not known: the least favourable for a trial."""


def plan(
    *,
    diagnosis: Diagnosis | str | Path | None = None,
    coverage: Coverage | str | Path | None = None,
    identification: Identification | str | Path | None = None,
    items: Sequence[str | Path] = (),
    costs: Costs | None = None,
    seed: int = 0,
) -> Plan:
    """Plan what real data to record next.

    Args:
        diagnosis: What `diagnose` found, or the file or folder that holds it.
        coverage: What `measure_coverage` found, or its file or folder.
        identification: What `identify` found, or its folder.
        items: Files of regions that were selected on a coverage map.
        costs: What recording costs; default: the usual hours.
        seed: Random seed for the intervals of expected gains.

    Returns:
        Items in order of expected gain per hour.

    Raises:
        WrongUse: If there is no evidence, or a file cannot be read.
    """
    sources = {"diagnosis": diagnosis, "coverage": coverage, "identification": identification}
    given = {
        name: str(source) if isinstance(source, str | Path) else hash_of(source.as_json())
        for name, source in sources.items()
        if source is not None
    }
    if items:
        given["items"] = ", ".join(map(str, items))
    if not given:
        raise WrongUse(
            "a plan is made from evidence",
            expected="at least one of a diagnosis, a coverage, an identification or items",
            remedy="twinloop coverage --real D1 --sim D2 --out coverage.json",
        )
    needs = read_needs(diagnosis, coverage, identification, items)
    return make_plan(needs, costs or Costs(), seed=seed, sources=given)


def make_plan(needs: Needs, costs: Costs, *, seed: int = 0, sources: Mapping[str, str] | None = None) -> Plan:
    """The same, of needs that have been read."""
    diagnosed = "diagnosis" in (sources or {})
    before = needs.successes / needs.trials if needs.trials and needs.successes is not None else None
    start = USUAL_SUCCESS if before is None else before
    twin = _find_twin(needs.twin)
    settable = [one for one in needs.regions if not one.conditions or any(map(is_settable, one.conditions))]
    regions = settable or worse_conditions(needs)
    left_out = [region.name for region in needs.regions if region not in settable]
    made = [_region(number, region, start, costs, twin, seed) for number, region in enumerate(regions, 1)]
    if needs.unidentified:
        made.append(_excitation(needs.unidentified, needs, start, costs, seed))
    excited = {item.dimension for item in made if item.kind == "excitation"}
    for number, cost in enumerate((one for one in needs.costs if one.points >= SMALLEST_COST), 1):
        if cost.dimension in excited or (cost.dimension == "environment" and regions):
            continue
        made.append(_against(number, cost, start, needs, costs, seed))
    assumptions = (
        f"data of the right kind recovers {costs.recovers[0]:.0%} to {costs.recovers[1]:.0%} of the lost points (cost file: recovers)",
        "gains of different items overlap: they do not add up",
        f"trials show a gain of the stated size with power {POWER:.0%} at a one-sided level of {LEVEL:.0%}",
        *(
            ()
            if before is not None
            else (f"the success rate before is not known; {USUAL_SUCCESS:.0%} is assumed",)
        ),
        *(f"{name}: nothing that could be set up before an episode; no item" for name in left_out),
        *(
            ("the diagnosis names no dimension; no item against one",)
            if diagnosed and not needs.costs
            else ()
        ),
    )
    empty = Plan(_now(), (), before, 0, 0.0, dict(sources or {}), assumptions)
    return with_items(empty, made, costs)


def with_items(plan: Plan, items: Sequence[Item], costs: Costs) -> Plan:
    """A plan with these items in order of gain per hour, and the trials that show the largest of their gains."""
    start = USUAL_SUCCESS if plan.success is None else plan.success
    best = max((item.gain.points or 0.0 for item in items), default=0.0)
    trials, _ = _trials(start, start + best / 100.0 if best else None)
    minutes = _with_sessions(trials * costs.trial, costs)
    ordered = sorted(
        items,
        key=lambda item: (-(item.gain_per_hour if item.gain_per_hour is not None else -1.0), item.minutes),
    )
    return replace(plan, items=tuple(ordered), trials=trials, trial_minutes=minutes)


def region_item(
    number: int, region: TargetRegion, plan: Plan, twin: str | None, costs: Costs, seed: int
) -> Item:
    """The item that asks for demonstrations in a region, as item `region-NUMBER` of a plan."""
    start = USUAL_SUCCESS if plan.success is None else plan.success
    return _region(number, region, start, costs, _find_twin(twin), seed)


def _find_twin(name: str | None) -> Twin | None:
    """A twin by its name; None if it is none of ours: then nothing is known of what simulation can set."""
    try:
        return load_twin(name) if name else None
    except UnknownName:
        return None


def worse_conditions(needs: Needs) -> list[TargetRegion]:
    """Conditions of a diagnosis under which episodes fail more often than under the others, beyond chance."""
    if not needs.trials or needs.successes is None:
        return []
    failed, made = needs.trials - needs.successes, []
    for number, one in enumerate(needs.slices, 1):
        rest, known = failed - one.failed, needs.trials - one.episodes
        if "order of recording" in one.condition or not 0 <= rest <= known or not known or not one.episodes:
            continue
        table = [[one.failed, one.episodes - one.failed], [rest, known - rest]]
        if stats.fisher_exact(table, alternative="greater").pvalue < LEVEL:
            task = f"plan-condition-{number}"
            outcomes = Outcomes(one.failed, one.episodes, rest, known, None, {})
            fraction = one.episodes / needs.trials
            made.append(
                TargetRegion(
                    one.condition, (), episodes_of_task(task), fraction, one.episodes, outcomes, task
                )
            )
    return made


def _region(
    number: int, region: TargetRegion, before: float, costs: Costs, twin: Twin | None, seed: int
) -> Item:
    """Demonstrations, spread evenly over a region that simulation does not cover."""
    outcomes = region.outcomes
    settings, how = make_settings(region.conditions, costs, seed)
    inside = 1.0 - outcomes.failed_inside / outcomes.known_inside if outcomes.known_inside else before
    rest = 1.0 - outcomes.failed_elsewhere / outcomes.known_elsewhere if outcomes.known_elsewhere else None
    trials, power = _trials(inside, rest)
    forces = [condition.name for condition in region.conditions if is_force(condition)]
    changes = sum("light" in one.name for one in region.conditions) * costs.levels * costs.light_change
    return Item(
        id=f"region-{number}",
        kind="demonstrations",
        title=region.name,
        why=_why(region),
        dimension="contact" if forces else "environment",
        episodes=len(settings),
        trials=trials,
        minutes=_with_sessions(len(settings) * costs.demonstration + changes, costs),
        gain=gain_in_region(region.fraction, region.episodes, outcomes, costs.recovers, seed),
        power=f"{how}; {power}",
        simulation=_simulated(region, len(settings), forces, costs, twin),
        required="force-regulated contact" if forces else None,
        command=f"twinloop record --robot ROBOT --operator PSEUDONYM --episodes {len(settings)} --out DATASET"
        + (f" --task {region.task}" if region.task else ""),
        counts=region.query,
        settings=settings,
    )


def _simulated(
    region: TargetRegion, count: int, forces: Sequence[str], costs: Costs, twin: Twin | None
) -> str:
    """Whether simulation can fill a region at less cost, and by which parameters."""
    if forces:
        return f"no: {', '.join(forces)} is regulated by force, which simulation does not know here"
    minutes = costs.simulation_setup + 10 * count / costs.simulated_episodes_per_minute
    price = f"{10 * count} simulated episodes take about {minutes:.0f} minutes, mostly setting up"
    if twin is None or not region.conditions:
        return f"yes, if the twin can set it: {price}"
    wanted = {}
    for name in (condition.name for condition in region.conditions):
        plain = name.removesuffix(" at the start").removeprefix("draw_text['").removesuffix("']")
        wanted[name] = SETTABLE.get(plain, SETTABLE.get(plain.rpartition(" ")[2], plain))
    missing = [name for name, parameter in wanted.items() if not twin.has(parameter)]
    if missing:
        return f"no: nothing in {twin.name} sets {', '.join(missing)}"
    return f"yes, first: widen {', '.join(dict.fromkeys(wanted.values()))} of {twin.name}; {price}"


def _excitation(parameters: Sequence[Estimate], needs: Needs, before: float, costs: Costs, seed: int) -> Item:
    """Runs of a designed motion for parameters that the data so far do not identify."""
    dimensions = list(dict.fromkeys(p.dimension for p in parameters))
    lost = [cost for d in dimensions for cost in needs.costs if cost.dimension == d]
    gain = UNKNOWN
    if lost:
        points, low, high = (sum(getattr(cost, part) for cost in lost) for part in ("points", "low", "high"))
        gain = gain_in_dimension(points, low, high, costs.recovers, seed)
    widest = max(parameters, key=_relative_half_width)
    relative = _relative_half_width(widest)
    runs = runs_to_identify(relative)
    names = ",".join(p.name for p in parameters)
    held = any(p.dimension in ("contact", "object") for p in parameters)
    trials, power = _trials(before, None if gain.points is None else before + gain.points / 100.0)
    return Item(
        id="excite-1",
        kind="excitation",
        title=f"excitation runs for {_some([p.name for p in parameters])}",
        why="not known well enough: " + ", ".join(f"{p.name} ({p.status})" for p in parameters),
        dimension=dimensions[0],
        episodes=runs,
        trials=trials,
        minutes=_with_sessions(runs * costs.excitation_run, costs),
        gain=gain,
        power=f"{widest.name} is known within {relative:.0%} of its value; {runs} runs of 30 s for 15 %, as an "
        f"interval shrinks with the root of the data; {power}",
        simulation="no: these are parameters of this robot; afterwards the calibrated twin gives episodes nearly free",
        required="with the object in the hand: its mass and friction show only in contact"
        if held
        else "the robot's own readings",
        command=_excitation_command(needs.twin or "TWIN", names, runs),
        counts=_EXCITED,
        unit="runs",
    )


def _relative_half_width(estimate: Estimate) -> float:
    low, high = estimate.prior
    return estimate.half_width / max(abs(estimate.value), 0.02 * (high - low), 1e-12)


def _against(number: int, cost: DimensionCost, before: float, needs: Needs, costs: Costs, seed: int) -> Item:
    """What helps against points lost to a dimension that the diagnosis names."""
    remedy = REMEDIES.get(cost.dimension)
    if remedy is None:
        raise WrongUse("no such gap dimension", got=cost.dimension, available=sorted(REMEDIES))
    if remedy.kind == "excitation" and cost.dimension in needs.identified:
        remedy = IDENTIFIED
    twin = needs.twin or "TWIN"
    gain = gain_in_dimension(cost.points, cost.low, cost.high, costs.recovers, seed + number)
    trials, power = _trials(before, before + (gain.points or 0.0) / 100.0)
    amount = _amount(remedy.kind, trials, costs)
    command = f"twinloop record --robot ROBOT --operator PSEUDONYM --task plan-{cost.dimension} --episodes {amount.count} --out DATASET"
    counts = episodes_of_task(f"plan-{cost.dimension}")
    if remedy.kind == "excitation":
        command, counts = (
            _excitation_command(twin, EXCITED.get(cost.dimension, "PARAMETERS"), amount.count),
            _EXCITED,
        )
    elif remedy.kind == "sensor logs":
        command += " --seconds 60  # keep the robot still"
    elif remedy.kind == "participants":
        counts = "select distinct actor_id from episodes where actor = 'operator' and actor_id is not null"
    elif remedy.kind == "nothing":
        command = remedy.command.format(twin=twin)
    return Item(
        id=f"{cost.dimension}-1",
        kind=remedy.kind,
        title=f"{remedy.kind} against {cost.dimension}" if amount.count else f"against {cost.dimension}",
        why=f"{cost.dimension} costs {cost.points:.0f} [{cost.low:.0f}, {cost.high:.0f}] points: {remedy.what}",
        dimension=cost.dimension,
        episodes=amount.count,
        trials=trials,
        minutes=_with_sessions(amount.minutes, costs) if amount.count else costs.simulation_setup,
        gain=gain,
        power=f"{amount.how}; {power}",
        simulation=remedy.simulation,
        required=remedy.required,
        command=command,
        counts=counts,
        unit=amount.unit,
    )


def episodes_of_task(task: str) -> str:
    """A SELECT for the episodes that were recorded under this task."""
    quoted = task.replace("'", "''")
    return f"select episode_index from episodes where task = '{quoted}'"


_EXCITED = "select episode_index from episodes where actor = 'excitation'"


def _excitation_command(twin: str, parameters: str, runs: int) -> str:
    return (
        f"twinloop excite --twin {twin} --parameters {parameters} --seconds 30 --out motion.npz && "
        f"twinloop record --robot ROBOT --motion motion.npz --episodes {runs} --out DATASET"
    )


@dataclass(frozen=True)
class _Amount:
    """How many of what, in how many minutes, and why so many."""

    count: int
    unit: str
    minutes: float
    how: str


def _amount(kind: Kind, trials: int, costs: Costs) -> _Amount:
    if kind == "excitation":
        how = "5 runs of 30 s: how much runs differ is then known within a factor of 3 (chi-square, 95 %)"
        return _Amount(5, "runs", 5 * costs.excitation_run, how)
    if kind == "sensor logs":
        how = f"{readings_for_noise()} independent readings determine a deviation within 10 %: 3 logs of a minute, hours apart for drift"
        return _Amount(3, "logs", 3 * costs.sensor_log, how)
    if kind == "participants":
        people = people_to_record(RARE_KIND)
        how = f"{people} people: a kind that makes up {RARE_KIND:.0%} is among them with 95 % certainty"
        return _Amount(people, "people", people * costs.participant, how)
    if kind == "nothing":
        return _Amount(0, "episodes", 0.0, "nothing to record")
    count = max(5, min(trials, costs.most_demonstrations))
    each = costs.contact_run if kind == "contact runs" else costs.demonstration
    how = f"{count} episodes: as many as the trials that would show the gain, at most {costs.most_demonstrations}"
    return _Amount(count, "episodes", count * each, how)


def _some(names: Sequence[str]) -> str:
    """The first three names and the number of others."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _trials(before: float, after: float | None) -> tuple[int, str]:
    """Trials that show the rise, and the arithmetic in words."""
    if after is None or after <= before:
        return 0, "no trials planned: no rise in success is expected"
    count = trials_to_detect(before, after)
    most = " (at most)" if count == MOST else ""
    return (
        count,
        f"{count} trials before and after{most} show a rise from {before:.0%} to {min(after, 1.0):.0%} with power {POWER:.0%}",
    )


def _why(region: TargetRegion) -> str:
    ended = region.outcomes
    text = f"{region.episodes} real episodes" + ("" if region.task else " and hardly any simulated ones")
    if ended.known_inside and ended.known_elsewhere:
        text += (
            f"; {ended.failed_inside} of {ended.known_inside} fail here, "
            f"{ended.failed_elsewhere} of {ended.known_elsewhere} elsewhere"
        )
    return text


def _with_sessions(minutes: float, costs: Costs) -> float:
    """With the setting up of as many sessions as it takes."""
    if minutes <= 0.0:
        return 0.0
    return minutes + costs.session_setup * ceil(minutes / (60.0 * costs.longest_session_hours))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
