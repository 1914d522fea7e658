"""The whole path on one page: from a twin and a robot to a policy that may stay there.

Each stage is a verb that a user can call alone, from Python or the command line, with the same result. `Stages` runs none twice for
the same inputs and resumes a killed loop. The robot is only reached through its protocol.
"""

from __future__ import annotations

import fnmatch
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

from twinloop import workflows
from twinloop.anchoring import load_anchor, measured_values
from twinloop.coverage.result import load_coverage
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.outcomes import success_rate
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.diagnosis.result import Diagnosis, load_diagnosis
from twinloop.errors import UnknownName, WrongUse
from twinloop.evaluation.result import load_evaluation
from twinloop.gap.result import load_gap
from twinloop.generation.videos import load_videos
from twinloop.identification.change import FEWEST as FEWEST_REFERENCE_EPISODES
from twinloop.identification.config import expand_parameters
from twinloop.identification.result import Identification, load_identification
from twinloop.learning.config import TrainConfig
from twinloop.loop_result import LoopResult
from twinloop.monitoring.run import load_monitor_report
from twinloop.planning.items import load_plan
from twinloop.policies.open import open_policy
from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.champion import find_champion, load_champion
from twinloop.promotion.checks import Situation
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import RECORDINGS, GateConfig
from twinloop.promotion.verdict import Verdict, load_verdict
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.handle import RobotHandle, find_robot
from twinloop.stages import StageListener, Stages, StoppedEarly
from twinloop.tasks import make_task
from twinloop.twins import Twin
from twinloop.workflows import DATA, RUNS, TWIN

STAGES = {
    "generate": "a first policy needs simulated data",
    "train": "the nominal twin's data is there, but no policy",
    "evaluate-sim": "the policy's success rate in simulation is not known",
    "evaluate": "the policy's success rate on the robot is not known",
    "excite": "identification needs a robot that moves",
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
`promote` and `monitor` follow. `retrain` and `reevaluate` run unless demonstrations are asked for in any case."""

SETTINGS = "loop.json"
"""What the newest run was asked for, in the folder of the stages."""

EXCITATION, DEMONSTRATIONS, REEVALUATION, GATE, DEPLOYMENT, FIRST_GATE = 100, 120, 180, 200, 300, 380
"""Numbers of scenes: trials begin with 0, and no policy trains in theirs. Close together, because robots age by the episode."""
SCENES_PER_ROUND = 500
"""Later rounds use new scenes."""

NOMINAL, ADAPTED = "nominal", "adapted"
"""The policy before and after."""

IDENTIFIED = (
    "*_friction_nm",
    "*_backlash_rad",
    "servo_stiffness_scale",
    "servo_damping_scale",
    "action_delay_s",
)
"""Parameters that excitation runs are asked about, as far as a twin has them."""
WORKS = 0.8
"""Success rate on the robot from which a first policy goes to the gate at once: the gate's own bar."""
MOSTLY_FAILS = 0.5
"""Success rate on the robot below which a first policy is what a candidate has to beat."""


@dataclass(frozen=True)
class LoopConfig:
    """How much of everything; the defaults take a quarter of an hour on two cores.

    The first round begins with a policy from the nominal twin, each later one with the champion, and records everything anew. A policy
    from the calibrated twin alone is tried `n_retrials` times; where it never fails, no more demonstrations are recorded. With 0,
    demonstrations are recorded in any case.
    """

    round: int = 1
    seed: int = 0
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


def run_loop(
    twin: Twin,
    robot: str,
    root: str | Path,
    config: LoopConfig | None = None,
    listener: StageListener | None = None,
    until: str | None = None,
    *,
    policy: PolicyLike | None = None,
) -> LoopResult:
    """Run every stage in order, each once.

    Args:
        twin: The robot's nominal twin.
        robot: The robot's address, such as `standin:remote`; it must have a supervisor of its own.
        root: Folder of the stages; its parent is the workspace.
        config: How much of everything.
        listener: Follows the run.
        until: Stop after this stage.
        policy: The policy that the first round begins with, such as a foreign one; default: one is trained in the nominal twin.

    Returns:
        The results of the stages that ran.

    Raises:
        UnknownName: If `until` is no stage of this loop.
        WorkspaceError: If another loop runs in the folder.
    """
    config = config or LoopConfig()
    if until is not None and until not in _possible(config):
        raise UnknownName("stage", until, _possible(config))
    stages = Stages(root, listener, until)
    with stages.locked():
        asked = {"twin": twin.name, "robot": robot, "config": asdict(config)}
        write_atomically(stages.root / SETTINGS, json.dumps(asked, indent=1).encode())
        with suppress(StoppedEarly):
            _Loop(twin, find_robot(robot), stages, config, policy).run()
        results = {stage.name.replace("-", "_"): stage.result for stage in stages.reached}
        return LoopResult(stages.root, tuple(stages.reached), **results)


class _Loop:
    """One run: the stages in order, each a verb with its inputs."""

    def __init__(
        self,
        twin: Twin,
        robot: RobotHandle,
        stages: Stages,
        config: LoopConfig,
        policy: PolicyLike | None = None,
    ) -> None:
        self.twin, self.robot, self.stages, self.config = twin, robot, stages, config
        self.policy = policy
        self.scenes = training_scenes(twin)
        self.task = make_task(twin.task, twin).text
        self.workspace = stages.root.parent
        self.first_scene = SCENES_PER_ROUND * (config.round - 1)

    def run(self) -> None:
        """The path."""
        c, run, seed = self.config, self.stages.run, self.config.seed
        sim = run(
            "generate", workflows.simulate, _data, twin=self.twin, randomization=self.scenes, episodes=c.sim_episodes, seed=seed
        )  # fmt: skip
        first = self._first_policy(sim)
        run(
            "evaluate-sim", workflows.try_in_twin, load_evaluation, policy=first, twin=self.twin, scenes=self.scenes,
            episodes=c.n_sim_trials, seed=seed,
        )  # fmt: skip
        tried = run(
            "evaluate", workflows.try_on_robot, load_evaluation, policy=first, robot=self.robot, episodes=c.n_trials,
            first=self.first_scene,
        )  # fmt: skip
        runs = open_dataset(self.stages.folder("evaluate") / RUNS)
        excited = run(
            "excite", workflows.excite, _data, twin=self.twin, robot=self.robot, episodes=c.excitation_runs, seconds=c.excitation_s,
            first=EXCITATION + self.first_scene,
        )  # fmt: skip
        identified = run(
            "identify", workflows.calibrate, _identification, twin=self.twin, real=excited, parameters=_existing(self.twin),
            seconds=c.identification_s, seed=seed,
        )  # fmt: skip
        if c.round == 1 and tried.success_rate >= WORKS:
            verdict = self._gate("gate-first", first, None, identified, None, FIRST_GATE)
            if verdict.decision == "promote":
                self._release("gate-first", verdict, first, None, None)
                return
        run("gap", workflows.compare_runs, load_gap, twin=self.twin, real=runs, sim=sim, seed=seed)
        shown = self._demonstrations("demonstrate", c.n_demonstrations, 0)
        explained = run(
            "diagnose", workflows.explain, load_diagnosis, policy=first, runs=runs, others=(excited, shown), twin=self.twin,
            budget=c.diagnosis_budget, seed=seed,
        )  # fmt: skip
        covered = run("coverage", workflows.map_coverage, load_coverage, real=runs, sim=sim, seed=seed)
        run(
            "plan",
            workflows.propose,
            load_plan,
            diagnosis=explained,
            coverage=covered,
            identification=identified,
            seed=seed,
        )
        anchor = run(
            "anchor", workflows.anchor_twin, load_anchor, identification=identified, diagnosis=explained, scenes=self.scenes,
            expected=success_rate(sim), seed=seed + 2,
        )  # fmt: skip
        calibrated = identified.accepted_twin
        randomization = anchor.randomization(calibrated)
        anchored = run(
            "regenerate", workflows.simulate, _data, twin=calibrated, randomization=randomization, episodes=c.anchored_episodes,
            seed=seed + 1,
        )  # fmt: skip
        second = self._second_policy(anchored, shown, calibrated, randomization)
        beaten = first if tried.success_rate < MOSTLY_FAILS else None
        champion = find_champion(self.workspace, second, beaten)
        verdict = self._gate("gate", second, champion, identified, explained, GATE)
        trials = self.stages.folder("gate") / RECORDINGS / second.name
        after = open_dataset(trials) if trials.exists() else None
        run("video", workflows.show_difference, load_videos, twin=calibrated, before=runs, after=after)
        if verdict.decision == "promote":
            self._release("gate", verdict, second, champion, shown)

    def _first_policy(self, sim: Dataset) -> PolicyLike:
        c = self.config
        if c.round > 1:
            take = partial(workflows.take_champion, workspace=self.workspace)
            return self.stages.run("train", take, _policy, round_number=c.round)
        if self.policy is not None:
            return self.stages.run("train", workflows.keep, _policy, policy=self.policy)
        config = TrainConfig(recipe="sim-only", seed=c.seed, steps=c.train_steps)
        return self.stages.run("train", workflows.learn, _policy, name=NOMINAL, config=config, sim=sim)

    def _second_policy(
        self, anchored: Dataset, shown: Dataset, twin: Twin, randomization: Randomization
    ) -> PolicyLike:
        """From the calibrated twin alone where that never fails on the robot, else with demonstrations."""
        c, run = self.config, self.stages.run
        name = ADAPTED if c.round == 1 else f"{ADAPTED}-{c.round}"
        how = {
            "name": name,
            "sim": anchored,
            "twin": twin,
            "randomization": randomization,
            "episodes": c.horizon_episodes,
        }
        alone, enough = None, False
        if c.n_retrials:
            config = TrainConfig(recipe="sim-only", seed=c.seed, steps=c.finetune_steps)
            alone = run("retrain", workflows.learn, _policy, config=config, **how)
            retried = run(
                "reevaluate", workflows.try_on_robot, load_evaluation, policy=alone, robot=self.robot, episodes=c.n_retrials,
                first=REEVALUATION + self.first_scene, until_failure=True,
            )  # fmt: skip
            enough = retried.success_rate == 1.0
        if enough and alone is not None:
            return run("finetune", workflows.keep, _policy, policy=alone)
        more = self._demonstrations("demonstrate-more", max(c.max_demonstrations - len(shown), 1), len(shown))
        usable = run("select", workflows.select, _usable, datasets=(shown, more))
        config = TrainConfig(recipe="co-train", seed=c.seed, steps=c.finetune_steps)
        if usable is None or len(usable) < config.fewest_episodes:
            if alone is not None:
                return run("finetune", workflows.keep, _policy, policy=alone)
            config = replace(config, recipe="sim-only")
        return run(
            "finetune",
            workflows.learn,
            _policy,
            config=config,
            real=usable if config.recipe == "co-train" else None,
            **how,
        )

    def _demonstrations(self, stage: str, episodes: int, earlier: int) -> Dataset:
        c = self.config
        return self.stages.run(
            stage, workflows.demonstrate, _data, robot=self.robot, episodes=episodes, seconds=c.demonstration_s, operator=c.operator,
            task=self.task, first=DEMONSTRATIONS + self.first_scene + earlier,
        )  # fmt: skip

    def _gate(
        self,
        stage: str,
        candidate: PolicyLike,
        champion: PolicyLike | None,
        identified: Identification,
        explained: Diagnosis | None,
        first_scene: int,
    ) -> Verdict:
        """The gate in the accepted twin, with what was measured of the robot."""
        c = self.config
        config = GateConfig(
            rules=Rules(max_trials=c.gate_trials),
            scenes=c.gate_scenes,
            first_scene=first_scene + self.first_scene,
            randomization=self.scenes,
            measured=measured_values(identified, explained, self.scenes),
            seed=c.seed,
        )
        situation = Situation(twin_folder=self.stages.folder("identify") / TWIN, workspace=self.workspace)
        return self.stages.run(
            stage, partial(workflows.decide, situation=situation), load_verdict, candidate=candidate, champion=champion,
            twin=identified.accepted_twin, robot=self.robot, config=config,
        )  # fmt: skip

    def _release(
        self,
        stage: str,
        verdict: Verdict,
        policy: PolicyLike,
        champion: PolicyLike | None,
        shown: Dataset | None,
    ) -> None:
        """The candidate becomes the champion and is monitored at work."""
        c, folder = self.config, self.stages.folder(stage)
        release = partial(workflows.release, verdict_folder=folder, workspace=self.workspace)
        self.stages.run(
            "promote", release, load_champion, policy=policy, champion=champion, verdict=verdict, by=c.by
        )
        reference = open_dataset(folder / RECORDINGS / policy.name)
        if (
            len(reference) < FEWEST_REFERENCE_EPISODES
            and shown is not None
            and len(shown) >= FEWEST_REFERENCE_EPISODES
        ):
            reference = shown
        self.stages.run(
            "monitor", workflows.watch, load_monitor_report, policy=policy, robot=self.robot, reference=reference,
            episodes=c.deployed_episodes, first=DEPLOYMENT + self.first_scene, task=self.task,
        )  # fmt: skip


def _data(folder: Path) -> Dataset:
    return open_dataset(folder / DATA)


def _policy(folder: Path) -> PolicyLike:
    (name,) = (path.parent for path in folder.glob("*/policy.json"))
    return open_policy(name)


def _usable(folder: Path) -> Dataset | None:
    return open_dataset(folder / DATA) if (folder / DATA).exists() else None


def _existing(twin: Twin) -> list[str]:
    """The parameters to identify that the twin has."""
    names = [parameter.name for parameter in twin.parameters]
    return expand_parameters(twin, [p for p in IDENTIFIED if fnmatch.filter(names, p)])


def _identification(folder: Path) -> Identification:
    return load_identification(folder / TWIN)


def _possible(config: LoopConfig) -> list[str]:
    """The stages that a loop may run."""
    left_out = set() if config.n_retrials else {"retrain", "reevaluate"}
    return [name for name in STAGES if name not in left_out]


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
        command = f"twinloop loop --robot {asked['robot']}" + (
            f" --round {config.round}" if config.round > 1 else ""
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, WrongUse):
        return None
    done = tuple(stages.finished())
    verdict = _last_verdict(stages, done)
    if "gate" in done and verdict is not None and verdict.decision != "promote":
        step = f"{command} --retrials 0 --demonstrations N"
        return LoopStatus(done, None, step, f"the gate says {verdict.decision}: {verdict.reasons[0]}")
    if config.n_retrials != LoopConfig().n_retrials:
        command += f" --retrials {config.n_retrials}"
    running = stages.running()
    left = running or _next_stage(done, config, verdict)
    if left is None:
        return LoopStatus(done, None, "twinloop monitor DATASET", "the champion is in place: monitor it")
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
    return next((name for name in _possible(config) if name not in done and name not in optional), None)
