"""The whole path on one page: from a twin and a robot to a policy that may stay there.

Each stage is a step that a user can take alone from the command line. `Stages` sees to it that none runs twice for the same
inputs and that a killed loop goes on where it was. The robot is only ever asked through its protocol.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from twinloop import steps
from twinloop.dataset.commit import write_atomically
from twinloop.gate.rules import Rules
from twinloop.learn.config import TrainConfig
from twinloop.randomize import default_randomization, load_randomization
from twinloop.stages import Done, Hear, Stages, ignore
from twinloop.twin import Twin

STAGES = {
    "simulate": "a first policy needs simulated data",
    "pretrain": "the nominal twin's data are there, but no policy",
    "try": "nobody knows how the policy does on the robot",
    "excite": "identification needs a robot that moves",
    "identify": "the twin has not been compared with the robot",
    "diagnose": "it is not known what the policy's failures come from",
    "plan": "what to record next has not been worked out",
    "demonstrate": "the plan asks for real data",
    "anchor": "the calibrated twin has made no data yet",
    "finetune": "no policy has learned from the calibrated twin and the demonstrations",
    "judge": "nobody knows how the new policy does on the robot",
    "gate": "whether the new policy is better has not been decided",
    "promote": "the gate lets the new policy in",
    "monitor": "the champion is not watched yet",
}
"""In the order in which they run, and why each would be next; `promote` and `monitor` only when the gate says so."""

ASKED_FOR = "loop.json"
"""What was asked for, beside the stages."""

EXCITED_FROM, DEMONSTRATED_FROM, GATED_FROM, DEPLOYED_FROM = 100, 120, 200, 300
"""Numbers of scenes: trials begin with 0 and nothing is trained on in theirs. Close by, because robots age by the episode."""

SCENES = {
    "object_offset_x_m": [-0.09, 0.09],
    "object_offset_y_m": [-0.09, 0.09],
    "object_yaw_rad": [-0.75, 0.75],
    "target_offset_x_m": [-0.04, 0.04],
    "target_offset_y_m": [-0.04, 0.04],
}
"""Where things lie in training, as far as a twin has them."""

FIRST, SECOND = "nominal", "adapted"
"""The policy before and after."""

ASKED = ("*_friction_nm", "servo_stiffness_scale", "servo_damping_scale", "action_delay_s")
"""What excitation runs are asked about, as far as a twin has it."""


@dataclass(frozen=True)
class LoopConfig:
    """How much of everything; the defaults take minutes on two cores."""

    seed: int = 0
    sim_episodes: int = 400
    anchored_episodes: int = 600
    steps: int = 2000
    finetune_steps: int = 1000
    in_twin: int = 200
    trials: int = 20
    excitations: int = 6
    excited_s: float = 6.0
    identified_s: float = 18.0
    demonstrations: int = 20
    demonstrated_s: float = 15.0
    operator: str = "operator-1"
    diagnosed: int = 800
    gate_scenes: int = 120
    gate_trials: int = 30
    deployed: int = 10
    by: str = "loop"


def run_loop(
    twin: Twin, robot: str, root: str | Path, config: LoopConfig | None = None, hear: Hear = ignore
) -> dict[str, Done]:
    """Every stage in order, each made now or before; `root` is the folder they are kept in."""
    config = config or LoopConfig()
    stages = Stages(root, hear)
    with stages.locked():
        asked = {"twin": twin.name, "robot": robot, "config": asdict(config)}
        write_atomically(stages.root / ASKED_FOR, json.dumps(asked, indent=1).encode())
        return {done.name: done for done in _path(twin, robot, stages, config)}


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
        robot = json.loads((stages.root / ASKED_FOR).read_text())["robot"]
    except (OSError, ValueError, KeyError):
        return None
    finished = {done.name: done for done in stages.finished()}
    names = tuple(name for name in STAGES if name in finished)
    gate = finished.get("gate")
    if gate is not None and gate.found["decision"] != "promote":
        step = f"twinloop loop --robot {robot} --demonstrations N"
        return LoopStatus(
            names, None, step, f"the gate says {gate.found['decision']}: {gate.found['reasons'][0]}"
        )
    running = stages.running()
    left = running or next((name for name in STAGES if name not in finished), None)
    if left is None:
        return LoopStatus(names, None, "twinloop monitor DATASET", "the champion is in place: watch it")
    reason = f"{left} was interrupted or is at work" if running else STAGES[left]
    return LoopStatus(names, left, f"twinloop loop --robot {robot}", reason)


def _path(twin: Twin, robot: str, stages: Stages, c: LoopConfig) -> list[Done]:
    scenes = load_randomization({"name": "scenes", "randomization": _had(twin, SCENES)}, twin)
    cell = {"twin": twin.content_hash, "robot": robot, "seed": c.seed}

    simulate = stages.run(
        "simulate",
        {**cell, "robot": None, "episodes": c.sim_episodes, "scenes": scenes.content_hash},
        lambda out: steps.simulate(out, twin, scenes, c.sim_episodes, c.seed),
    )
    first = TrainConfig(recipe="sim-only", seed=c.seed, steps=c.steps)
    pretrain = stages.run(
        "pretrain",
        {"config": asdict(first), "sim": simulate.content},
        lambda out: steps.learn(out, FIRST, first, sim=simulate.folder / steps.DATA),
    )
    tried = stages.run(
        "try",
        {**cell, "policy": pretrain.found["policy"], "trials": c.trials, "in_twin": c.in_twin},
        lambda out: steps.try_out(
            out,
            pretrain.folder / FIRST,
            twin,
            scenes,
            robot,
            in_twin=c.in_twin,
            trials=c.trials,
            seed=c.seed,
        ),
    )
    excite = stages.run(
        "excite",
        {**cell, "runs": c.excitations, "seconds": c.excited_s},
        lambda out: steps.excite(
            out, twin, robot, runs=c.excitations, seconds=c.excited_s, first=EXCITED_FROM
        ),
    )
    asked = steps.matching(twin, ASKED)
    identified = stages.run(
        "identify",
        {**cell, "robot": None, "real": excite.content, "asked": asked, "seconds": c.identified_s},
        lambda out: steps.calibrate(
            out, twin, excite.folder / steps.DATA, asked, seconds=c.identified_s, seed=c.seed
        ),
    )
    explained = stages.run(
        "diagnose",
        {**cell, "robot": None, "tried": tried.content, "others": excite.content, "budget": c.diagnosed},
        lambda out: steps.explain(
            out,
            pretrain.folder / FIRST,
            tried.folder / tried.found["runs"],
            [excite.folder / steps.DATA],
            twin,
            budget=c.diagnosed,
            seed=c.seed,
        ),
    )
    planned = stages.run(
        "plan",
        {"diagnosis": explained.content, "identification": identified.content, "seed": c.seed},
        lambda out: steps.propose(
            out, explained.folder / "diagnosis.json", identified.folder / steps.TWIN, c.seed
        ),
    )
    demonstrate = stages.run(
        "demonstrate",
        {**cell, "wanted": c.demonstrations, "operator": c.operator},
        lambda out: steps.demonstrate(
            out,
            robot,
            wanted=c.demonstrations,
            seconds=c.demonstrated_s,
            first=DEMONSTRATED_FROM,
            operator=c.operator,
            task=twin.description,
        ),
    )
    better, identification = steps.calibrated(identified.folder, twin)
    wide = steps.widened(default_randomization(better), identification, scenes)
    anchored = stages.run(
        "anchor",
        {
            "twin": better.content_hash,
            "randomization": wide.content_hash,
            "episodes": c.anchored_episodes,
            "seed": c.seed,
        },
        lambda out: steps.simulate(out, better, wide, c.anchored_episodes, c.seed + 1),
    )
    real = (
        demonstrate.folder / steps.DATA if demonstrate.found["used"] >= TrainConfig.fewest_episodes else None
    )
    second = TrainConfig(
        recipe="co-train" if real else "sim-only", seed=c.seed, steps=c.steps + c.finetune_steps
    )
    finetune = stages.run(
        "finetune",
        {"config": asdict(second), "sim": anchored.content, "real": demonstrate.content},
        lambda out: steps.learn(out, SECOND, second, sim=anchored.folder / steps.DATA, real=real),
    )
    judge = stages.run(
        "judge",
        {
            **cell,
            "policy": finetune.found["policy"],
            "trials": c.trials,
            "in_twin": c.in_twin,
            "in": better.content_hash,
        },
        lambda out: steps.try_out(
            out,
            finetune.folder / SECOND,
            better,
            scenes,
            robot,
            in_twin=c.in_twin,
            trials=c.trials,
            seed=c.seed,
        ),
    )
    gate = stages.run(
        "gate",
        {
            **cell,
            "candidate": finetune.found["policy"],
            "champion": pretrain.found["policy"],
            "in": better.content_hash,
            "scenes": c.gate_scenes,
            "trials": c.gate_trials,
        },
        lambda out: steps.decide(
            out,
            finetune.folder / SECOND,
            pretrain.folder / FIRST,
            better,
            robot,
            scenes=scenes,
            listed=c.gate_scenes,
            first=GATED_FROM,
            rules=Rules(most_trials=c.gate_trials),
            seed=c.seed,
            identified=identified.folder,
            workspace=stages.root.parent,
        ),
    )
    done = [
        simulate,
        pretrain,
        tried,
        excite,
        identified,
        explained,
        planned,
        demonstrate,
        anchored,
        finetune,
        judge,
        gate,
    ]
    if gate.found["decision"] != "promote":
        return done
    promote = stages.run(
        "promote",
        {"policy": finetune.found["policy"], "gate": gate.content, "by": c.by},
        lambda out: steps.release(
            out,
            finetune.folder / SECOND,
            pretrain.folder / FIRST,
            gate.folder / steps.GATE / "verdict.json",
            stages.root.parent,
            c.by,
        ),
    )
    watched = stages.run(
        "monitor",
        {**cell, "policy": promote.found["champion"], "reference": judge.content, "episodes": c.deployed},
        lambda out: steps.watch(
            out,
            finetune.folder / SECOND,
            robot,
            judge.folder / judge.found["runs"],
            episodes=c.deployed,
            first=DEPLOYED_FROM,
        ),
    )
    return [*done, promote, watched]


def _had(twin: Twin, ranges: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: span for name, span in ranges.items() if twin.has(name)}
