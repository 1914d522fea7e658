"""The whole path on one page: from a twin and a robot to a policy that may stay there.

Each stage is a step that a user can take alone from the command line. `Stages` sees to it that none runs twice for the same
inputs and that a killed loop goes on where it was. The robot is only ever asked through its protocol.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from twinloop import steps
from twinloop.datasets.commit import write_atomically
from twinloop.errors import UnknownName
from twinloop.learning.config import TrainConfig
from twinloop.promotion.rules import Rules
from twinloop.randomization.scenes import training_scenes
from twinloop.stages import Done, FarEnough, Listener, Stages
from twinloop.twins import Twin

STAGES = {
    "simulate": "a first policy needs simulated data",
    "pretrain": "the nominal twin's data are there, but no policy",
    "try": "nobody knows how the policy does on the robot",
    "measure": "how far the twin is from the robot has not been measured",
    "excite": "identification needs a robot that moves",
    "identify": "the twin has not been compared with the robot",
    "show": "the policy's own runs do not tell how the robot grasps",
    "diagnose": "it is not known what the policy's failures come from",
    "cover": "where the robot goes beyond what simulation shows is not known",
    "plan": "what to record next has not been worked out",
    "anchor": "the calibrated twin has made no data yet",
    "retrain": "no policy has learned from the calibrated twin",
    "retry": "whether that policy needs demonstrations at all is not known",
    "demonstrate": "the plan asks for real data",
    "finetune": "no policy has learned from the calibrated twin and the demonstrations",
    "gate": "whether the new policy is good enough has not been decided",
    "film": "nobody has seen what changed",
    "promote": "the gate lets the new policy in",
    "monitor": "the champion is not watched yet",
}
"""In the order in which they run, and why each would be next; `retrain` and `retry` unless demonstrations are asked for in any
case, `promote` and `monitor` only when the gate says so."""

ASKED_FOR = "loop.json"
"""What was asked for, beside the stages."""

EXCITED_FROM, DEMONSTRATED_FROM, RETRIED_FROM, GATED_FROM, DEPLOYED_FROM = 100, 120, 180, 200, 300
"""Numbers of scenes: trials begin with 0 and nothing is trained on in theirs. Close by, because robots age by the episode."""
PER_ROUND = 500
"""Later rounds meet scenes that nobody has met."""

FIRST, SECOND = "nominal", "adapted"
"""The policy before and after."""

ASKED = (
    "*_friction_nm",
    "*_backlash_rad",
    "servo_stiffness_scale",
    "servo_damping_scale",
    "action_delay_s",
)
"""What excitation runs are asked about, as far as a twin has it."""


MOSTLY_FAILS = 0.5
"""Success on the robot below which a first policy is a champion to be beaten."""


@dataclass(frozen=True)
class LoopConfig:
    """How much of everything; the defaults take a quarter of an hour on two cores. The first round begins with a policy from the
    nominal twin, each later one with the champion, and all that is recorded is recorded anew. A policy from the calibrated twin
    alone is tried `tried_first` times; where it never fails nobody demonstrates more. With 0, demonstrations are asked for in any case."""

    round: int = 1
    seed: int = 0
    sim_episodes: int = 400
    anchored_episodes: int = 600
    steps: int = 2000
    finetune_steps: int = 3000
    pace_episodes: int = 60
    in_twin: int = 200
    trials: int = 20
    excitations: int = 6
    excited_s: float = 6.0
    identified_s: float = 18.0
    shown: int = 4
    tried_first: int = 10
    demonstrations: int = 20
    demonstrated_s: float = 15.0
    operator: str = "operator-1"
    diagnosed: int = 800
    gate_scenes: int = 120
    gate_trials: int = 90
    deployed: int = 10
    by: str = "loop"


def run_loop(
    twin: Twin,
    robot: str,
    root: str | Path,
    config: LoopConfig | None = None,
    listener: Listener | None = None,
    until: str | None = None,
) -> dict[str, Done]:
    """Every stage in order up to the one named `until`, each made now or before; `root` is the folder they are kept in."""
    config = config or LoopConfig()
    if until is not None and until not in _possible(config):
        raise UnknownName("stage", until, _possible(config))
    stages = Stages(root, listener, until)
    with stages.locked():
        asked = {"twin": twin.name, "robot": robot, "config": asdict(config)}
        write_atomically(stages.root / ASKED_FOR, json.dumps(asked, indent=1).encode())
        try:
            done = _path(twin, steps.reach(robot), stages, config)
        except FarEnough:
            done = stages.finished()
        return {one.name: one for one in done}


def _possible(config: LoopConfig) -> list[str]:
    """The stages that a loop may come through."""
    return [name for name in STAGES if config.tried_first or name not in ("retrain", "retry")]


@dataclass(frozen=True)
class LoopStatus:
    """Where a loop stands: its finished stages, the one that comes next or was interrupted, and why."""

    done: tuple[str, ...]
    next_stage: str | None
    next_step: str
    reason: str


def read_loop_status(root: str | Path) -> LoopStatus | None:
    """Where the loop in a folder stands; None where none was begun."""
    stages = Stages(root)
    try:
        asked = json.loads((stages.root / ASKED_FOR).read_text())
        usual = LoopConfig()
        number, tried_first = (
            int(asked["config"].get(key, getattr(usual, key))) for key in ("round", "tried_first")
        )
        command = f"twinloop loop --robot {asked['robot']}" + (f" --round {number}" if number > 1 else "")
    except (OSError, ValueError, KeyError):
        return None
    finished = {done.name: done for done in stages.finished()}
    names = tuple(name for name in STAGES if name in finished)
    gate = finished.get("gate")
    if gate is not None and gate.found["decision"] != "promote":
        return LoopStatus(
            names,
            None,
            f"{command} --try-first 0 --demonstrations N",
            f"the gate says {gate.found['decision']}: {gate.found['reasons'][0]}",
        )
    command += f" --try-first {tried_first}" if tried_first != usual.tried_first else ""
    running = stages.running()
    path = _possible(replace(usual, tried_first=tried_first))
    left = running or next((name for name in path if name not in finished), None)
    if left is None:
        return LoopStatus(names, None, "twinloop monitor DATASET", "the champion is in place: watch it")
    reason = f"{left} was interrupted or is at work" if running else STAGES[left]
    return LoopStatus(names, left, command, reason)


def _path(twin: Twin, robot: steps.Station, stages: Stages, c: LoopConfig) -> list[Done]:
    scenes = training_scenes(twin)
    run, seed, workspace = stages.run, c.seed, stages.root.parent
    later = PER_ROUND * (c.round - 1)

    simulated = run(
        "simulate", steps.simulate, twin=twin, randomization=scenes, episodes=c.sim_episodes, seed=seed
    )
    config = TrainConfig(recipe="sim-only", seed=seed, steps=c.steps)
    if c.round == 1:
        first = run("pretrain", steps.learn, name=FIRST, config=config, sim=simulated)
    else:
        first = run("pretrain", partial(steps.take_over, root=workspace), number=c.round)
    tried = run(
        "try", partial(steps.try_out, first=later), policy=first, twin=twin, scenes=scenes, robot=robot,
        in_twin=c.in_twin, trials=c.trials, seed=seed,
    )  # fmt: skip
    measured = run("measure", steps.measure, twin=twin, runs=tried, sim=simulated, seed=seed)
    excited = run(
        "excite", steps.excite, twin=twin, robot=robot, runs=c.excitations, seconds=c.excited_s, first=EXCITED_FROM + later
    )  # fmt: skip
    identified = run(
        "identify", steps.calibrate, twin=twin, real=excited, parameters=steps.matching(twin, ASKED),
        seconds=c.identified_s, seed=seed,
    )  # fmt: skip
    demonstrate = partial(
        stages.run, robot=robot, seconds=c.demonstrated_s, operator=c.operator, task=twin.description
    )
    shown = demonstrate("show", steps.demonstrate, wanted=c.shown, first=DEMONSTRATED_FROM + later)
    explained = run(
        "diagnose", steps.explain, policy=first, runs=tried, others=[excited, shown], twin=twin,
        budget=c.diagnosed, seed=seed,
    )  # fmt: skip
    covered = run("cover", steps.cover, real=tried, sim=simulated, seed=seed)
    planned = run(
        "plan", steps.propose, diagnosis=explained, coverage=covered, identification=identified, seed=seed
    )
    better = steps.calibrated(identified, twin)
    varied = steps.anchored(better, identified, explained, scenes)
    anchored = run(
        "anchor", steps.simulate, twin=better, randomization=varied, episodes=c.anchored_episodes, seed=seed + 1
    )  # fmt: skip
    learn = partial(
        run, name=SECOND if c.round == 1 else f"{SECOND}-{c.round}", sim=anchored, twin=better, randomization=varied,
        pace_episodes=c.pace_episodes,
    )  # fmt: skip
    alone: list[Done] = []
    if c.tried_first:
        config = TrainConfig(recipe="sim-only", seed=seed, steps=c.finetune_steps)
        retrained = learn("retrain", steps.learn, config=config)
        retried = run(
            "retry", steps.try_until_failure, policy=retrained, robot=robot, trials=c.tried_first, first=RETRIED_FROM + later
        )  # fmt: skip
        alone = [retrained, retried]
    enough = bool(alone) and alone[-1].found["success"] == 1.0
    demonstrated = demonstrate(
        "demonstrate", steps.demonstrate, wanted=0 if enough else max(c.demonstrations - c.shown, 1),
        first=DEMONSTRATED_FROM + later + c.shown, earlier=shown,
    )  # fmt: skip
    too_few = demonstrated.found["used"] < TrainConfig().fewest_episodes
    if alone and (enough or too_few):
        why = "it never failed" if enough else "too few demonstrations can be used"
        second = run("finetune", steps.keep, policy=alone[0], why=why)
    else:
        config = TrainConfig(recipe="co-train", seed=seed, steps=c.finetune_steps)
        second = learn("finetune", steps.learn, config=config, real=demonstrated)
    rules = Rules(max_trials=c.gate_trials)
    # Whoever is champion has to be beaten, and in the first round a first policy that mostly fails on the robot. Little can be
    # gained on one that mostly works, and to show that little takes many trials: there the second has to pass the bar.
    failed = first if tried.found["robot"]["success"] < MOSTLY_FAILS else None
    champion = steps.rival_of(workspace, second, failed)
    gate = run(
        "gate", partial(steps.decide, workspace=workspace), candidate=second, champion=champion, twin=better,
        identified=identified, explained=explained, robot=robot, scenes=scenes, listed=c.gate_scenes, first=GATED_FROM + later,
        rules=rules, seed=seed,
    )  # fmt: skip
    filmed = run("film", steps.film, twin=better, before=tried, after=gate)
    done = [
        simulated, first, tried, measured, excited, identified, shown, explained, covered, planned, anchored, *alone, demonstrated,
        second, gate, filmed,
    ]  # fmt: skip
    if gate.found["decision"] != "promote":
        return done
    promoted = run(
        "promote",
        partial(steps.release, root=workspace),
        policy=second,
        champion=champion,
        verdict=gate,
        by=c.by,
    )
    watched = run(
        "monitor", steps.watch, policy=second, robot=robot, reference=gate, shown=demonstrated, episodes=c.deployed,
        first=DEPLOYED_FROM + later,
    )  # fmt: skip
    return [*done, promoted, watched]
