"""`measure_quirks`: does a policy exploit one simulator? Its success in every engine and time step, in the same scenes.

The reference is where the policy is at home: the first engine at the twin's own time step. Elsewhere success may be lower for two reasons: the
policy lives on a quirk of the reference, or the twin itself is harder there. Wherever the policy loses more than the margin, the twin's
scripted expert is tried in the same scenes; what the expert loses too says nothing about the policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from twinloop.engines import DEFAULT_ENGINE
from twinloop.engines.listing import list_engines
from twinloop.errors import WrongUse
from twinloop.evaluation.environment import OnProgress
from twinloop.evaluation.result import Evaluation, Trial, compare
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.experts import default_expert
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import rollout_drawn
from twinloop.policies.protocol import PolicyLike
from twinloop.randomization import Randomization, draw_many
from twinloop.randomization.numerics import require_time_step
from twinloop.randomization.scenes import training_scenes
from twinloop.records import SavedRecord
from twinloop.stats.interval import CONFIDENCE, Interval, paired_difference
from twinloop.twins import Twin, with_time_step

EPISODES = 40
MARGIN = 0.15
"""A loss of success that matters: two engines' honest contact models cost a healthy policy less (benchmarks/bench_quirks.py)."""
SOLVABLE = 0.5
"""Where the expert keeps less than this fraction of its success, the twin itself is another one, and the cell is not compared."""

Word = Literal["exploits", "robust", "undecided"]


@dataclass(frozen=True)
class Numerics:
    """One engine at one time step, with the policy's success there.

    `lost` is the success rate in the reference minus the one here, in the same scenes, with an interval that holds for all cells together; None in
    the reference. `expert` is the scripted expert's success rate here, where it was tried.
    """

    engine: str
    timestep_s: float
    evaluation: Evaluation
    lost: Interval | None = None
    expert: float | None = None

    def __str__(self) -> str:
        return f"{self.engine} at {1e3 * self.timestep_s:g} ms"


@dataclass(frozen=True)
class Quirks(SavedRecord):
    """A policy's success by engine and time step, the reference first, and whether it exploits the reference.

    `verdict` is `exploits` where some interval of what is lost lies beyond the margin and the expert does not lose it, `robust` where every
    interval lies below the margin, else `undecided`; `because` says it in a sentence.
    """

    FILE, COMMAND = "quirks.json", "twinloop evaluate --engines"

    policy: str
    policy_id: str
    twin: str
    twin_hash: str
    seed: int
    margin: float
    cells: tuple[Numerics, ...]
    verdict: Word
    because: str


def measure_quirks(
    policy: PolicyLike,
    environment: TwinEnvironment,
    engines: Sequence[str] = (),
    timesteps_s: Sequence[float] = (),
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    margin: float = MARGIN,
    on_progress: OnProgress = lambda done, total: None,
) -> Quirks:
    """Measure a policy's success in every engine and time step, in the same scenes.

    Args:
        policy: The policy.
        environment: The twin, and what varies in it.
        engines: Names of engines; the first is the reference. Default: all that are installed, MuJoCo first.
        timesteps_s: Physics time steps in s; the twin's own is the reference's. Default: the twin's own only.
        episodes: Trials in each cell.
        seed: Random seed for the scenes.
        margin: Loss of success that matters, from 0 to 1.
        on_progress: Called with trials done and trials in total, the expert's aside.

    Returns:
        The success rates, paired with the reference's, and the verdict.

    Raises:
        WrongUse: There is nothing to compare, or an engine cannot simulate the twin or its scenes.
        MissingExtra: An engine is not installed.
    """
    twin = environment.twin
    cells = _plan(twin, engines, timesteps_s)
    if not 0.0 < margin < 1.0:
        raise WrongUse("the margin is a success rate", got=margin, expected="between 0 and 1")
    found: list[Numerics] = []
    total = episodes * len(cells)
    for engine, dt_s in cells:

        def on_trial(done: int, _: int, before: int = len(found) * episodes) -> None:
            on_progress(before + done, total)

        place = replace(environment, twin=with_time_step(twin, dt_s), engine=engine)
        [evaluation] = place.try_policies([policy], episodes, seed, None, on_trial)
        found.append(Numerics(engine, dt_s, evaluation))
    first = found[0]
    confidence = 1.0 - (1.0 - CONFIDENCE) / (len(found) - 1)
    compared = [replace(one, lost=_lost(first.evaluation, one.evaluation, confidence)) for one in found[1:]]
    suspects = [one for one in compared if one.lost is not None and one.lost.value > margin]
    experts: dict[str, float] = {}
    for one in (first, *suspects) if suspects else ():
        experts[str(one)] = _expert_rate(environment, one, episodes, seed)
    kept = tuple(replace(one, expert=experts.get(str(one))) for one in (first, *compared))
    verdict, because = _decide(kept, margin)
    return Quirks(policy.name, policy.id, twin.name, twin.content_hash, seed, margin, kept, verdict, because)


def _plan(twin: Twin, engines: Sequence[str], timesteps_s: Sequence[float]) -> list[tuple[str, float]]:
    """Every engine at every time step, the reference first."""
    installed = [one.name for one in list_engines() if one.version is not None]
    names = list(dict.fromkeys(engines)) or sorted(installed, key=lambda name: (name != DEFAULT_ENGINE, name))
    steps = list(dict.fromkeys(timesteps_s)) or [twin.physics_dt_s]
    for dt_s in steps:
        require_time_step(twin, dt_s)
    own = min(steps, key=lambda dt_s: abs(math.log(dt_s / twin.physics_dt_s)))
    cells = [(name, dt_s) for name in names for dt_s in steps]
    if len(cells) < 2:
        raise WrongUse(
            "there is only one engine and time step to compare",
            got=f"{names[0]} at {steps[0]:g} s",
            remedy="name several engines or time steps: --engines mujoco,bullet --timesteps 0.001,0.002",
        )
    return sorted(cells, key=lambda cell: cell != (names[0], own))


def _lost(first: Evaluation, other: Evaluation, confidence: float) -> Interval:
    found = compare(first, other)
    pairs = sum(
        a.success is not None and b.success is not None
        for a, b in zip(first.trials, other.trials, strict=True)
    )
    return paired_difference(found.only_first, found.only_second, max(pairs, 1), confidence)


def _expert_rate(environment: TwinEnvironment, cell: Numerics, episodes: int, seed: int) -> float:
    """How often the twin's scripted expert succeeds in the same scenes."""
    twin = with_time_step(environment.twin, cell.timestep_s)
    randomization: Randomization = (environment.randomization or training_scenes(twin)).over(episodes)
    job = Job(twin, twin.task, default_expert(twin.task), randomization, engine=cell.engine)
    drawn = draw_many(randomization, seed, range(episodes))
    seeds = [episode_seed(seed, number) for number in range(episodes)]
    trials = [Trial(k, one.success) for k, one in enumerate(rollout_drawn(job, seeds, drawn))]
    return sum(trial.success is True for trial in trials) / episodes


def _decide(cells: Sequence[Numerics], margin: float) -> tuple[Word, str]:
    first, others = cells[0], cells[1:]
    if not first.evaluation.success_rate > 2.0 * margin:
        return "undecided", (
            f"succeeds in {100 * first.evaluation.success_rate:.0f} % of trials in {first}: too rarely to lose "
            f"{100 * margin:.0f} points elsewhere"
        )
    exploited, harder, unsure = [], [], []
    for one in others:
        assert one.lost is not None
        kept = 1.0 if one.expert is None or not first.expert else one.expert / first.expert
        if one.lost.high <= margin:
            continue
        if kept < SOLVABLE:
            harder.append(one)
        elif one.lost.low > margin and one.lost.value > (1.0 - kept) + margin:
            exploited.append(one)
        else:
            unsure.append(one)
    if exploited:
        worst = max(exploited, key=lambda one: one.lost.value if one.lost else 0.0)
        assert worst.lost is not None
        return "exploits", (
            f"succeeds {100 * worst.lost.value:.0f} points less often in {worst} than in {first}, in the same scenes "
            f"(at least {100 * worst.lost.low:.0f}), where the expert succeeds in {100 * (worst.expert or 0.0):.0f} %: "
            f"it lives on something that only {first} has"
        )
    if unsure:
        listed = ", ".join(str(one) for one in unsure)
        return (
            "undecided",
            f"the loss in {listed} may be more or less than {100 * margin:.0f} points: more trials",
        )
    left_out = f"; {', '.join(map(str, harder))} not compared: the expert fails there too" if harder else ""
    most = max((one.lost.high for one in others if one.lost and one not in harder), default=0.0)
    return "robust", f"loses at most {100 * max(most, 0.0):.0f} points in any of them{left_out}"
