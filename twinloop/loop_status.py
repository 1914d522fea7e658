"""Where a loop stands, read from its folder: its stages, what was asked for, and the next one. Imports nothing that computes."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from twinloop.errors import WrongUse
from twinloop.promotion.verdict import Verdict, load_verdict
from twinloop.stages import Stages

STAGES = {
    "generate": "a first policy needs simulated data",
    "train": "the nominal twin's data is there, but no policy",
    "evaluate-sim": "the policy's success rate in simulation is not known",
    "evaluate": "the policy's success rate on the robot is not known",
    "excite": "identification needs a robot that moves",
    "align": "the twin's cameras are not where the robot's are",
    "identify": "the twin has not been calibrated",
    "gate-first": "the first policy seems to work: the gate decides whether it is good enough",
    "gap": "the gap between twin and robot has not been measured",
    "demonstrate": "the policy's own runs do not show how the robot grasps",
    "diagnose": "the cause of the policy's failures is not known",
    "coverage": "it is not known where the robot leaves what simulation covers",
    "plan": "what to record next has not been planned",
    "anchor": "what was measured has not become a randomization",
    "regenerate": "the calibrated twin has not generated data yet",
    "retrain": "no policy has been trained on data of the calibrated twin",
    "reevaluate": "it is not known whether that policy needs demonstrations",
    "demonstrate-more": "the policy from the calibrated twin failed on the robot",
    "select": "the usable demonstrations have not been selected",
    "finetune": "no policy has been trained on the calibrated twin's data and demonstrations",
    "gate": "the gate has not decided about the new policy",
    "video": "no video shows the difference",
    "promote": "the gate promotes the policy",
    "monitor": "the champion is not monitored yet",
}
"""In the order in which they run, and why each would be next. `gate-first` runs where the first policy succeeds; where it passes, only
`promote` and `monitor` follow. `retrain` and `reevaluate` run unless demonstrations are asked for in any case, `align` where policies see by cameras."""

SETTINGS = "loop.json"
"""What the newest run was asked for, in the folder of the stages."""


@dataclass(frozen=True)
class LoopConfig:
    """How much of everything; the defaults take a quarter of an hour on two cores.

    The first round begins with a policy from the nominal twin, each later one with the champion, and records everything anew. A policy
    from the calibrated twin alone is tried `n_retrials` times; where it never fails, no more demonstrations are recorded. With 0,
    demonstrations are recorded in any case. With `cameras`, policies see through them instead of tracking the object, and every dataset
    has their frames.
    """

    round: int = 1
    seed: int = 0
    cameras: tuple[str, ...] = ()
    sim_episodes: int = 400
    anchored_episodes: int = 600
    train_steps: int = 2000
    finetune_steps: int = 3000
    horizon_episodes: int = 60
    n_sim_trials: int = 200
    n_trials: int = 20
    excitation_runs: int = 6
    excitation_s: float = 6.0
    identification_s: float = 18.0
    n_demonstrations: int = 4
    n_retrials: int = 10
    max_demonstrations: int = 20
    demonstration_s: float = 15.0
    operator: str = "operator-1"
    diagnosis_budget: int = 800
    gate_scenes: int = 120
    gate_trials: int = 90
    deployed_episodes: int = 10
    by: str = "loop"


def possible_stages(config: LoopConfig) -> list[str]:
    """The stages that a loop may run."""
    left_out = set() if config.n_retrials else {"retrain", "reevaluate"}
    left_out |= set() if config.cameras else {"align"}
    return [name for name in STAGES if name not in left_out]


OPTIONS = {
    "seed": "--seed", "n_trials": "--trials", "n_retrials": "--retrials", "max_demonstrations": "--demonstrations",
    "sim_episodes": "--sim-episodes", "anchored_episodes": "--anchored-episodes", "train_steps": "--steps",
}  # fmt: skip
"""Options of `twinloop loop` by the field that they set; any other field is named."""


def _repeat_sizes(config: LoopConfig, left_out: tuple[str, ...] = ()) -> str:
    """The options with which a loop was asked for other sizes than usual: without them it would begin anew."""
    words = ""
    for name, usual in asdict(LoopConfig()).items():
        value = getattr(config, name)
        if value != usual and name not in ("round", "cameras", *left_out):
            words += (
                f" {OPTIONS[name]} {value}" if name in OPTIONS else f" --set {shlex.quote(f'{name}={value}')}"
            )
    return words


@dataclass(frozen=True)
class LoopStatus:
    """Where a loop stands: its finished stages, the next one or the one that was interrupted, and why."""

    done: tuple[str, ...]
    next_stage: str | None
    next_step: str
    reason: str


def read_loop_status(root: str | Path) -> LoopStatus | None:
    """Where the loop in a folder stands; None where none was started."""
    stages = Stages(root)
    try:
        asked = json.loads((stages.root / SETTINGS).read_text())
        known = {field.name for field in fields(LoopConfig)}
        config = LoopConfig(**{key: value for key, value in asked["config"].items() if key in known})
        command = f"twinloop loop --robot {asked['robot']}"
        command += f" --cameras {','.join(config.cameras)}" if config.cameras else ""
        command += f" --round {config.round}" if config.round > 1 else ""
        command += " --policy POLICY" if asked.get("with_policy") else ""
        command += " --scenes CONFIG" if asked.get("with_scenes") else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, WrongUse):
        return None
    done = tuple(stages.finished())
    verdict = _last_verdict(stages, done)
    if "gate" in done and verdict is not None and verdict.decision != "promote":
        command += _repeat_sizes(config, ("n_retrials", "max_demonstrations"))
        step = f"{command} --retrials 0 --demonstrations N"
        return LoopStatus(done, None, step, f"the gate says {verdict.decision}: {verdict.reasons[0]}")
    command += _repeat_sizes(config)
    running = stages.running()
    left = running or _next_stage(done, config, verdict)
    if left is None:
        return LoopStatus(done, None, "twinloop monitor DATASET", "the champion is in place: monitor it")
    if running and (need := stages.needs()) is not None:
        return LoopStatus(done, left, f"{command} --attend", f"{left} {need}")
    return LoopStatus(
        done, left, command, f"{left} was interrupted or is running" if running else STAGES[left]
    )


def _last_verdict(stages: Stages, done: tuple[str, ...]) -> Verdict | None:
    names = [name for name in ("gate", "gate-first") if name in done]
    folders = json.loads((stages.root / "reached.json").read_text()) if names else []
    return next((load_verdict(stages.root / f) for f in folders if f.rpartition("-")[0] == names[0]), None)


def _next_stage(done: tuple[str, ...], config: LoopConfig, verdict: Verdict | None) -> str | None:
    passed_first = "gate-first" in done and verdict is not None and verdict.decision == "promote"
    if passed_first:
        return next((name for name in ("promote", "monitor") if name not in done), None)
    optional = {"gate-first", "demonstrate-more", "select"}
    return next((name for name in possible_stages(config) if name not in done and name not in optional), None)
