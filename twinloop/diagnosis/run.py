"""`diagnose`: from real runs of a policy to success points lost to each dimension. The path on one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.diagnosis import arm, grip, scene
from twinloop.diagnosis.attribute import Attribution, attribute
from twinloop.diagnosis.evidence import RunEvidence, read_evidence, seen_in_time
from twinloop.diagnosis.measured import Measured
from twinloop.diagnosis.result import NOTABLE, Diagnosis
from twinloop.diagnosis.rules import apply_rules, slice_runs
from twinloop.diagnosis.trials import Trials
from twinloop.diagnosis.visual import measure_visual
from twinloop.diagnosis.weigh import weigh
from twinloop.episode import Array, Episode
from twinloop.errors import LearnError, WrongUse
from twinloop.policies.mapping.mapped import explain_no_success
from twinloop.policies.protocol import PolicyLike, cameras_of
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.stats.interval import Interval, exact_interval
from twinloop.twins import Twin, load_twin

OnProgress = Callable[[str, int, int], None]

SCENES = 32
"""Scenes of every combination: with as many real runs or fewer, more of them would hardly narrow an interval."""

BUDGET = 800
FEWEST_RUNS = 8
"""With fewer judged runs the answer is "unknown"."""

NOMINAL_RUNS = 8


def diagnose(
    policy: PolicyLike,
    real: Iterable[Episode],
    twin: str | Path | Twin,
    *,
    excitation: Iterable[Episode] = (),
    scenes: int = SCENES,
    unseen_scenes: Randomization | None = None,
    budget: int = BUDGET,
    seed: int = 0,
    keep: str | Path | None = None,
    on_progress: OnProgress = lambda stage, done, total: None,
) -> Diagnosis:
    """Measure how many success points each gap dimension costs a policy on the robot.

    Args:
        policy: The policy that acted in the real runs.
        real: Recorded runs of the policy on one robot, with their outcomes. Runs of other actors are left out.
        twin: The robot's twin: a name, a folder or a twin.
        excitation: Other recordings of the same robot in the same cell: excitation runs, demonstrations.
        scenes: Number of scenes in which every combination of dimensions is evaluated, at least 8.
        unseen_scenes: Where objects and targets lie, which scenes are drawn from where nothing perceives them; default: the training scenes.
        budget: Simulated episodes at most, at least twice `scenes`.
        seed: Random seed for scenes, draws and resampling.
        keep: Folder for evaluations; an interrupted diagnosis resumes from it.
        on_progress: Called with the stage, and how many of its combinations are done.

    Returns:
        Success points lost to each dimension with 95 % intervals, and what was measured of each.

    Raises:
        WrongUse: No run of this policy, runs of several robots, no judged run, or a budget that is too small.
        LearnError: The twin has no task.
    """
    cell = twin if isinstance(twin, Twin) else load_twin(twin)
    given = list(real)
    episodes = _own_runs(policy, given)
    _check(cell, episodes, scenes, budget)
    evidence = read_evidence(cell, episodes, excitation)
    if not evidence.runs:
        raise WrongUse(
            "no run is long enough to measure anything",
            got=f"{len(episodes)} runs",
            expected="20 rows or more",
        )
    rng = np.random.default_rng(seed)
    of_run = np.arange(scenes) % len(evidence.runs)
    on_progress("measuring", 0, 1)
    trials = Trials(policy, cell, {}, scenes, seed, None if keep is None else Path(keep))
    trials.base = scene.first_scenes(evidence, of_run, unseen_scenes or training_scenes(cell), seed)
    measured, layout = measure(evidence, trials, of_run, rng, episodes)
    trials.measured = {m.dimension: m for m in measured}
    trials.on_progress = lambda done, total: on_progress("evaluating", done, total)
    different = [m.dimension for m in measured if m.differs]
    shared = attribute(different, trials.evaluate, max(2, budget // scenes), rng)
    found = _conclude(policy, episodes, evidence, trials, shared, measured, layout, rng, seed)
    return replace(found, notes=_notes(policy, found, episodes, len(given)))


def measure(
    evidence: RunEvidence,
    trials: Trials,
    of_run: Array,
    rng: np.random.Generator,
    imaged: Sequence[Episode] = (),
) -> tuple[tuple[Measured, ...], scene.Layout | None]:
    """Every dimension's imperfection, the visual one from the episodes `imaged`; sets scenes and photographs of `trials` on the way."""
    rows = len(of_run)
    sim = RunEvidence(evidence.twin, evidence.cell, trials.runs({}, NOMINAL_RUNS))
    both = arm.follow_both(evidence, sim)
    latency = arm.measure_latency(evidence, sim, both, rows, rng)
    actuation = arm.measure_actuation(evidence, both, rows, rng)
    late = latency.values.get("object_pose_delay_s")
    timely = seen_in_time(evidence, 0.0 if late is None else float(np.median(late)))
    weak = any(name.startswith("gripper_force") for name in actuation.values)
    layout = scene.read_layout(timely, sim, rows, rng, weak)
    sensing = scene.measure_sensing(evidence, sim, layout, rows, rng)
    environment, base = scene.measure_environment(evidence, layout, of_run, rng)
    trials.base = base or trials.base

    def trial(values: dict[str, Array]) -> tuple[Any, ...]:
        count = len(next(iter(values.values()))) if values else NOMINAL_RUNS
        hand = {**latency.values, **actuation.values, **sensing.values}
        return trials.runs({n: np.resize(v, count) for n, v in hand.items()} | values, count)

    contact = grip.measure_contact(timely, sim, None if weak else trial, rows, rng)
    others = (scene.measure_object(timely, layout, weak), environment, scene.measure_human(timely, rows, rng))
    cameras = cameras_of(trials.policy)
    visual, trials.photographs = measure_visual(cameras, imaged, evidence.twin, rows, trials.seed)
    return (latency, actuation, sensing, contact, *others, *visual), layout


def _conclude(
    policy: PolicyLike,
    episodes: list[Episode],
    evidence: RunEvidence,
    trials: Trials,
    shared: Attribution,
    measured: tuple[Measured, ...],
    layout: scene.Layout | None,
    rng: np.random.Generator,
    seed: int,
) -> Diagnosis:
    judged = evidence.judged
    count, won = len(judged), sum(outcome.success is True for outcome in judged)
    weighed = weigh(shared, won, count, rng)
    slices = slice_runs(evidence, layout)
    everything = frozenset(shared.dimensions)
    failures = {
        "on_robot": _counts([o.failure or "unknown" for o in judged if not o.success]),
        "in_twin_with_everything": _counts([f for f in trials.failures[everything] if f]),
    }
    made = Diagnosis(
        policy=policy.name,
        policy_id=policy.id,
        twin=evidence.twin.name,
        twin_hash=evidence.twin.content_hash,
        standin=any(episode.provenance.source == "standin" for episode in episodes),
        trials=count,
        successes=won,
        in_twin=_exact(shared.before),
        on_robot=exact_interval(won, count),
        predicted=_exact(shared.after),
        drop=weighed.drop,
        explained=weighed.explained,
        unknown=weighed.unknown,
        costs=weighed.costs,
        measured=measured,
        failures=failures,
        slices=slices,
        rules=apply_rules(evidence, weighed.drop, slices, layout, trials.base),
        verdict="",
        exact=shared.exact,
        scenes=len(shared.before),
        evaluations=trials.done,
        seed=seed,
        episodes=tuple(episode.id for episode in episodes),
    )
    return replace(made, verdict=_verdict(made))


def _verdict(found: Diagnosis) -> str:
    if found.trials < FEWEST_RUNS:
        return f"unknown: {found.trials} judged runs are too few; record at least {FEWEST_RUNS}"
    if found.in_twin.value == 0.0:
        return "nothing to explain: the policy never succeeds in its own twin"
    if found.drop.low <= 0.0:
        return "nothing to explain: these runs do not show that the robot does worse than the twin"
    if not found.named:
        likely = [c for c in found.costs if c.lost.value > NOTABLE]
        maybe = f"; perhaps {likely[0].dimension}, {likely[0].points}" if likely else ""
        return f"unknown: {found.trials} runs do not show what costs {found.drop.points} points{maybe}"
    named = ", ".join(f"{cost.dimension} {cost.points}" for cost in found.named)
    small = [c for c in found.costs if not c.named and round(100.0 * c.lost.value) > 0]
    unnamed = "".join(f", {c.dimension} {100.0 * c.lost.value:.0f} (not beyond chance)" for c in small)
    more = "" if found.predicted.high >= found.on_robot.low else _TOO_STRONG
    return f"{named} points{unnamed}; unknown {found.unknown.points} of {found.drop.points}{more}"


_TOO_STRONG = (
    "; in the twin it costs more than that: a measured value is too large, or verdicts are too lenient"
)


def _exact(outcomes: Array) -> Interval:
    return exact_interval(int(outcomes.sum()), len(outcomes))


def _counts(reasons: list[str]) -> Mapping[str, int]:
    return dict(Counter(reasons).most_common())


def _own_runs(policy: PolicyLike, given: list[Episode]) -> list[Episode]:
    """Episodes in which this policy acted, or whose actor is not recorded."""
    if not given:
        raise WrongUse(
            "no real runs to diagnose", remedy="record some: twinloop evaluate POLICY --robot ... --out D"
        )
    acted = f"{policy.name}@{policy.id}"
    not_recorded = (("policy", None), ("unknown", None))
    mine = [
        one
        for one in given
        if one.provenance.actor_id == acted or (one.provenance.actor, one.provenance.actor_id) in not_recorded
    ]
    if not mine:
        actors = sorted({one.provenance.actor_id or one.provenance.actor for one in given})
        raise WrongUse(
            f"policy {policy.name} acted in none of these runs",
            got=", ".join(actors[:5]),
            expected=acted,
            remedy="record its runs: twinloop evaluate POLICY --robot ... --out D; demonstrations go to --excitation",
        )
    robots = sorted({one.provenance.robot_serial for one in mine if one.provenance.robot_serial})
    if len(robots) > 1:
        raise WrongUse(
            "these runs are of several robots, and each differs from the twin in its own way",
            got=", ".join(robots[:5]),
            expected="one robot",
            remedy="diagnose them one by one: a dataset for each robot",
        )
    return mine


def _notes(policy: PolicyLike, found: Diagnosis, episodes: list[Episode], given: int) -> tuple[str, ...]:
    notes = []
    if found.in_twin.value == 0.0 and (why := explain_no_success(policy)):
        notes.append(why)
    if all(episode.provenance.source == "sim" for episode in episodes):
        notes.append("the runs given as real are simulated")
    if len(episodes) < given:
        notes.append(f"{given - len(episodes)} of {given} episodes are not this policy's and were left out")
    return tuple(notes)


def _check(twin: Twin, episodes: list[Episode], scenes: int, budget: int) -> None:
    if all(episode.success is None for episode in episodes):
        raise WrongUse(
            "none of these runs is judged",
            remedy="label them: `twinloop data label`, or record with a supervisor",
        )
    if scenes < 8 or budget < 2 * scenes:
        raise WrongUse(
            "the budget is too small",
            got=f"{scenes} scenes, a budget of {budget} episodes",
            expected="at least 8 scenes, and a budget of at least twice as many episodes",
            remedy="leave --scenes and --budget as they are, or raise them",
        )
    if not twin.task:
        raise LearnError(f"twin {twin.name} has no task that a policy could be evaluated in")
