"""`plan(...)`: from needs and costs to items in order of gain per hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

from scipy import stats

from twinloop.coverage.result import Coverage
from twinloop.diagnosis.result import Diagnosis
from twinloop.errors import WrongUse
from twinloop.identification.result import Identification
from twinloop.planning.costs import Costs
from twinloop.planning.items import Item, Plan
from twinloop.planning.needs import Hole, Loss, Needs, Unidentified, read_needs
from twinloop.planning.power import (
    LEVEL,
    MOST,
    POWER,
    UNKNOWN,
    gain_of_hole,
    gain_of_loss,
    kinds_to_meet,
    readings_for_noise,
    runs_to_sharpen,
    trials_to_see,
)
from twinloop.planning.remedies import EXCITED, IDENTIFIED, REMEDIES, SETTABLE, Kind
from twinloop.planning.settings import make_settings
from twinloop.records import hash_of
from twinloop.twins import Twin, load_twin

RARE_KIND = 0.2
"""A kind of person or object that makes up this share should be met."""
SMALLEST_LOSS = 1.0
"""Points; below this nobody would see a gain."""
USUAL_SUCCESS = 0.5
"""Success before, where nobody has counted: the least favourable for a trial."""


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
    twin = load_twin(needs.twin) if needs.twin else None
    asked = [hole for hole in needs.holes if not hole.spans or any(span.arranged for span in hole.spans)]
    holes = asked or worse_conditions(needs)
    left_out = [hole.name for hole in needs.holes if hole not in asked]
    made = [_region(number, hole, start, costs, twin, seed) for number, hole in enumerate(holes, 1)]
    if needs.unidentified:
        made.append(_excitation(needs.unidentified, needs, start, costs, seed))
    excited = {item.dimension for item in made if item.kind == "excitation"}
    for number, loss in enumerate((one for one in needs.losses if one.points >= SMALLEST_LOSS), 1):
        if loss.dimension in excited or (loss.dimension == "environment" and holes):
            continue
        made.append(_against(number, loss, start, needs, costs, seed))
    made.sort(
        key=lambda item: (-(item.gain_per_hour if item.gain_per_hour is not None else -1.0), item.minutes)
    )
    assumptions = (
        f"data of the right kind brings back {costs.recovers[0]:.0%} to {costs.recovers[1]:.0%} of a loss (cost file: recovers)",
        "gains of different items overlap: they do not add up",
        f"trials show a gain of the stated size with power {POWER:.0%} at a one-sided level of {LEVEL:.0%}",
        *(() if before is not None else (f"success before is not known; {USUAL_SUCCESS:.0%} is assumed",)),
        *(f"{name}: nothing that could be set up before an episode; no item" for name in left_out),
        *(
            ("the diagnosis names no dimension; no item against one",)
            if diagnosed and not needs.losses
            else ()
        ),
    )
    best = max((item.gain.points or 0.0 for item in made), default=0.0)
    trials, _ = _trials(start, start + best / 100.0 if best else None)
    minutes = _with_sessions(trials * costs.trial, costs)
    return Plan(_now(), tuple(made), before, trials, minutes, dict(sources or {}), assumptions)


def worse_conditions(needs: Needs) -> tuple[Hole, ...]:
    """Conditions of a diagnosis under which episodes fail more often than under the others, beyond chance."""
    if not needs.trials or needs.successes is None:
        return ()
    failed, made = needs.trials - needs.successes, []
    for number, one in enumerate(needs.slices, 1):
        rest, known = failed - one.failed, needs.trials - one.episodes
        if "order of recording" in one.condition or not 0 <= rest <= known or not known or not one.episodes:
            continue
        table = [[one.failed, one.episodes - one.failed], [rest, known - rest]]
        if stats.fisher_exact(table, alternative="greater").pvalue < LEVEL:
            counts = f"select episode_index from episodes where task = 'plan-condition-{number}'"
            share = one.episodes / needs.trials
            made.append(
                Hole(
                    one.condition,
                    "condition",
                    (),
                    counts,
                    share,
                    one.episodes,
                    one.failed,
                    one.episodes,
                    rest,
                    known,
                )
            )
    return tuple(made)


def _region(number: int, hole: Hole, before: float, costs: Costs, twin: Twin | None, seed: int) -> Item:
    """Demonstrations, spread evenly over a region that simulation does not cover."""
    gain = gain_of_hole(
        hole.share,
        hole.episodes,
        hole.failed_inside,
        hole.known_inside,
        hole.failed_elsewhere,
        hole.known_elsewhere,
        costs.recovers,
        seed,
    )
    settings, how = make_settings(hole.spans, costs, seed)
    inside = 1.0 - hole.failed_inside / hole.known_inside if hole.known_inside else before
    rest = 1.0 - hole.failed_elsewhere / hole.known_elsewhere if hole.known_elsewhere else None
    trials, seen = _trials(inside, rest)
    forced = [span.name for span in hole.spans if span.forced]
    changes = sum("light" in span.name for span in hole.spans) * costs.levels * costs.light_change
    minutes = len(settings) * costs.demonstration + changes
    return Item(
        id=f"region-{number}",
        kind="demonstrations",
        title=hole.name,
        why=_why(hole),
        dimension="contact" if forced else "environment",
        episodes=len(settings),
        trials=trials,
        minutes=_with_sessions(minutes, costs),
        gain=gain,
        power=f"{how}; {seen}",
        simulation=_simulated(hole, len(settings), forced, costs, twin),
        required="force-regulated contact" if forced else None,
        command=f"twinloop record --robot ROBOT --operator PSEUDONYM --episodes {len(settings)} --out DATASET"
        + (f" --task plan-condition-{number}" if hole.level == "condition" else ""),
        counts=hole.query,
        settings=settings,
    )


def _simulated(hole: Hole, count: int, forced: Sequence[str], costs: Costs, twin: Twin | None) -> str:
    """Whether simulation can fill a region cheaper, and by which parameters."""
    if forced:
        return f"no: {', '.join(forced)} is regulated by force, which simulation does not know here"
    minutes = costs.simulation_setup + 10 * count / costs.simulated_episodes_per_minute
    price = f"{10 * count} simulated episodes take about {minutes:.0f} minutes, mostly setting up"
    if twin is None or not hole.spans:
        return f"yes, if the twin can set it: {price}"
    wanted = {}
    for span in hole.spans:
        plain = span.name.removesuffix(" at the start").removeprefix("draw_text['").removesuffix("']")
        wanted[span.name] = SETTABLE.get(plain, SETTABLE.get(plain.rpartition(" ")[2], plain))
    missing = [name for name, parameter in wanted.items() if not twin.has(parameter)]
    if missing:
        return f"no: nothing in {twin.name} sets {', '.join(missing)}"
    return f"yes, first: widen {', '.join(dict.fromkeys(wanted.values()))} of {twin.name}; {price}"


def _excitation(
    parameters: Sequence[Unidentified], needs: Needs, before: float, costs: Costs, seed: int
) -> Item:
    """Runs of a designed motion for parameters that the data so far do not tell."""
    dimensions = list(dict.fromkeys(p.dimension for p in parameters))
    lost = [loss for d in dimensions if (loss := needs.loss(d)) is not None]
    gain = UNKNOWN
    if lost:
        points, low, high = (sum(getattr(loss, part) for loss in lost) for part in ("points", "low", "high"))
        gain = gain_of_loss(points, low, high, costs.recovers, seed)
    vaguest = max(parameters, key=lambda p: p.vague)
    runs = runs_to_sharpen(vaguest.vague)
    names = ",".join(p.name for p in parameters)
    held = any(p.dimension in ("contact", "object") for p in parameters)
    trials, seen = _trials(before, None if gain.points is None else before + gain.points / 100.0)
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
        power=f"{vaguest.name} is known within {vaguest.vague:.0%} of its value; {runs} runs of 30 s for 15 %, as an "
        f"interval shrinks with the root of the data; {seen}",
        simulation="no: these are parameters of this robot; afterwards the calibrated twin gives episodes nearly free",
        required="with the object in the hand: its mass and friction show only in contact"
        if held
        else "the robot's own readings",
        command=_played(needs.twin or "TWIN", names, runs),
        counts=_EXCITED,
        unit="runs",
    )


def _against(number: int, loss: Loss, before: float, needs: Needs, costs: Costs, seed: int) -> Item:
    """What helps against a loss that the diagnosis names."""
    remedy = REMEDIES.get(loss.dimension)
    if remedy is None:
        raise WrongUse("no such gap dimension", got=loss.dimension, available=sorted(REMEDIES))
    if remedy.kind == "excitation" and loss.dimension in needs.identified:
        remedy = IDENTIFIED
    twin = needs.twin or "TWIN"
    gain = gain_of_loss(loss.points, loss.low, loss.high, costs.recovers, seed + number)
    trials, seen = _trials(before, before + (gain.points or 0.0) / 100.0)
    amount = _amount(remedy.kind, trials, costs)
    command = f"twinloop record --robot ROBOT --operator PSEUDONYM --task plan-{loss.dimension} --episodes {amount.count} --out DATASET"
    counts = f"select episode_index from episodes where task = 'plan-{loss.dimension}'"
    if remedy.kind == "excitation":
        command, counts = _played(twin, EXCITED.get(loss.dimension, "PARAMETERS"), amount.count), _EXCITED
    elif remedy.kind == "sensor logs":
        command += " --seconds 60  # whoever operates it keeps it still"
    elif remedy.kind == "participants":
        counts = "select distinct actor_id from episodes where actor = 'operator' and actor_id is not null"
    elif remedy.kind == "nothing":
        command = remedy.command.format(twin=twin)
    return Item(
        id=f"{loss.dimension}-1",
        kind=remedy.kind,
        title=f"{remedy.kind} against {loss.dimension}" if amount.count else f"against {loss.dimension}",
        why=f"{loss.dimension} costs {loss.points:.0f} [{loss.low:.0f}, {loss.high:.0f}] points: {remedy.what}",
        dimension=loss.dimension,
        episodes=amount.count,
        trials=trials,
        minutes=_with_sessions(amount.minutes, costs) if amount.count else costs.simulation_setup,
        gain=gain,
        power=f"{amount.how}; {seen}",
        simulation=remedy.simulation,
        required=remedy.required,
        command=command,
        counts=counts,
        unit=amount.unit,
    )


_EXCITED = "select episode_index from episodes where actor = 'excitation'"


def _played(twin: str, parameters: str, runs: int) -> str:
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
        how = f"{readings_for_noise()} independent readings tell a deviation within 10 %: 3 logs of a minute, hours apart for drift"
        return _Amount(3, "logs", 3 * costs.sensor_log, how)
    if kind == "participants":
        people = kinds_to_meet(RARE_KIND)
        how = f"{people} people: a kind that makes up {RARE_KIND:.0%} is met with 95 % certainty"
        return _Amount(people, "people", people * costs.participant, how)
    if kind == "nothing":
        return _Amount(0, "episodes", 0.0, "nothing to record")
    count = max(5, min(trials, costs.most_demonstrations))
    each = costs.contact_run if kind == "contact runs" else costs.demonstration
    how = f"{count} episodes: as many as the trials that would show the gain, at most {costs.most_demonstrations}"
    return _Amount(count, "episodes", count * each, how)


def _some(names: Sequence[str], most: int = 3) -> str:
    """The first names; of many more, how many."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def _trials(before: float, after: float | None) -> tuple[int, str]:
    """Trials that show the rise, and the sentence that says so."""
    if after is None or after <= before:
        return 0, "no trials planned: no rise in success is known to look for"
    count = trials_to_see(before, after)
    most = " (at most)" if count == MOST else ""
    return (
        count,
        f"{count} trials before and after{most} show a rise from {before:.0%} to {min(after, 1.0):.0%} with power {POWER:.0%}",
    )


def _why(hole: Hole) -> str:
    text = f"{hole.episodes} real episodes" + (
        "" if hole.level == "condition" else " and hardly any simulated ones"
    )
    if hole.known_inside and hole.known_elsewhere:
        text += (
            f"; {hole.failed_inside} of {hole.known_inside} fail here, "
            f"{hole.failed_elsewhere} of {hole.known_elsewhere} elsewhere"
        )
    return text


def _with_sessions(minutes: float, costs: Costs) -> float:
    """With the setting up of as many sessions as it takes."""
    if minutes <= 0.0:
        return 0.0
    return minutes + costs.session_setup * ceil(minutes / (60.0 * costs.longest_session_hours))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
