"""The whole path on one page: from a twin and a robot to a policy that may stay there.

Each stage is a verb that a user can call alone, from Python or the command line, with the same result. `Stages` runs none twice for
the same inputs and resumes a killed loop. The robot is only reached through its protocol.
"""

from __future__ import annotations

import fnmatch
import json
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from twinloop import workflows
from twinloop.alignment.result import Alignment, load_alignment
from twinloop.anchoring import load_anchor, measured_values
from twinloop.coverage.result import load_coverage
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.outcomes import success_rate
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.diagnosis.result import Diagnosis, load_diagnosis
from twinloop.errors import UnknownName
from twinloop.evaluation.result import load_evaluation
from twinloop.gap.result import load_gap
from twinloop.generation.videos import load_videos
from twinloop.identification.change import FEWEST as FEWEST_REFERENCE_EPISODES
from twinloop.identification.config import expand_parameters
from twinloop.identification.result import Identification, load_identification
from twinloop.learning.config import Recipe, TrainConfig
from twinloop.loop_result import LoopResult
from twinloop.loop_status import SETTINGS, LoopConfig, possible_stages
from twinloop.monitoring.run import load_monitor_report
from twinloop.planning.items import load_plan
from twinloop.policies.open import open_policy
from twinloop.policies.protocol import PolicyLike, cameras_of
from twinloop.promotion.champion import find_champion, load_champion
from twinloop.promotion.checks import Situation
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import RECORDINGS, GateConfig
from twinloop.promotion.verdict import Verdict, load_verdict
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.stages import StageListener, Stages, StoppedEarly
from twinloop.supervision.handle import Attend, PersonNeeded, RobotHandle, find_robot
from twinloop.tasks import make_task
from twinloop.trial_sets import SCENES_PER_ROUND
from twinloop.twins import Twin, load_twin
from twinloop.workflows import DATA, RUNS, TWIN

EXCITATION, DEMONSTRATIONS, REEVALUATION, GATE, DEPLOYMENT, FIRST_GATE = 100, 120, 180, 200, 300, 380
"""Numbers of scenes: trials begin with 0, and no policy trains in theirs. Close together, because robots age by the episode."""

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
IMAGE_BATCH = 64
"""Windows per weight update of a policy that sees by images, each of which costs the processor a hundred times as much."""
MOSTLY_FAILS = 0.5
"""Success rate on the robot below which a first policy is what a candidate has to beat."""


def run_loop(
    twin: Twin,
    robot: str,
    root: str | Path,
    config: LoopConfig | None = None,
    listener: StageListener | None = None,
    until: str | None = None,
    *,
    policy: PolicyLike | None = None,
    scenes: Randomization | None = None,
    attend: Attend | None = None,
) -> LoopResult:
    """Run every stage in order, each once.

    Args:
        twin: The robot's nominal twin.
        robot: The robot's address, such as `standin:remote`.
        root: Folder of the stages; its parent is the workspace.
        config: How much of everything.
        listener: Follows the run.
        until: Stop after this stage.
        policy: The policy that the first round begins with, such as a foreign one; default: one is trained in the nominal twin.
        scenes: Where objects and targets lie, in training and in the gate; default: the training scenes.
        attend: Brings somebody who stands beside the robot, such as `functools.partial(at_terminal, ...)` of a person; default: the
            robot supervises its own trials.

    Returns:
        The results of the stages that ran.

    Raises:
        NeedsPerson: If a stage waits for somebody beside the robot.
        UnknownName: If `until` is no stage of this loop, or the twin lacks a camera of the config.
        WorkspaceError: If another loop runs in the folder.
    """
    config = config or LoopConfig()
    if policy is not None and not config.cameras:
        config = replace(config, cameras=cameras_of(policy))
    if until is not None and until not in possible_stages(config):
        raise UnknownName("stage", until, possible_stages(config))
    for camera in config.cameras:
        if camera not in (known := [one.name for one in twin.cameras]):
            raise UnknownName(f"camera of twin {twin.name}", camera, known)
    stages = Stages(root, listener, until)
    with stages.locked():
        given = {"with_policy": policy is not None, "with_scenes": scenes is not None}
        asked = {"twin": twin.name, "robot": robot, "config": asdict(config), **given}
        write_atomically(stages.root / SETTINGS, json.dumps(asked, indent=1).encode())
        with suppress(StoppedEarly):
            try:
                scenes = scenes or training_scenes(twin)
                _Loop(twin, find_robot(robot, attend), stages, config, scenes, policy).run()
            except PersonNeeded as waits:
                stages.note_need(str(waits.need))
                raise
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
        scenes: Randomization,
        policy: PolicyLike | None = None,
    ) -> None:
        self.twin, self.robot, self.stages, self.config = twin, robot, stages, config
        self.policy, self.scenes = policy, scenes
        self.task = make_task(twin.task, twin).text
        self.workspace = stages.root.parent
        self.filmed = {"cameras": config.cameras} if config.cameras else {}
        self.first_scene = SCENES_PER_ROUND * (config.round - 1)

    def run(self) -> None:
        """The path."""
        c, run, seed = self.config, self.stages.run, self.config.seed
        sim = run(
            "generate", workflows.simulate, _data, twin=self.twin, randomization=self.scenes, episodes=c.sim_episodes, seed=seed,
            **self.filmed,
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
            first=EXCITATION + self.first_scene, **self.filmed,
        )  # fmt: skip
        aligned = self._align(excited)
        identified = run(
            "identify", workflows.calibrate, _identification, twin=aligned[-1].twin if aligned else self.twin, real=excited, parameters=_existing(self.twin),
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
            scenes=self.scenes, budget=c.diagnosis_budget, seed=seed,
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
            **({"aligned": aligned, "filmed": (runs, excited, shown)} if aligned else {}),
        )  # fmt: skip
        calibrated = load_twin(self.stages.folder("anchor") / TWIN) if aligned else identified.accepted_twin
        randomization = anchor.randomization(calibrated)
        anchored = run(
            "regenerate", workflows.simulate, _data, twin=calibrated, randomization=randomization, episodes=c.anchored_episodes,
            seed=seed + 1, **self.filmed,
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

    def _align(self, excited: Dataset) -> tuple[Alignment, ...]:
        """The twin's cameras moved to where the robot's are, where policies see by cameras."""
        c = self.config
        if not c.cameras:
            return ()
        return self.stages.run(
            "align", workflows.align_cameras, partial(_alignments, cameras=c.cameras), twin=self.twin, real=excited,
            cameras=c.cameras, seed=c.seed,
        )  # fmt: skip

    def _first_policy(self, sim: Dataset) -> PolicyLike:
        c = self.config
        if c.round > 1:
            take = partial(workflows.take_champion, workspace=self.workspace)
            return self.stages.run("train", take, _policy, round_number=c.round)
        if self.policy is not None:
            return self.stages.run("train", workflows.keep, _policy, policy=self.policy)
        config = self._training("sim-only", c.train_steps)
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
            config = self._training("sim-only", c.finetune_steps)
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
        config = self._training("co-train", c.finetune_steps)
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

    def _training(self, recipe: Recipe, steps: int) -> TrainConfig:
        """How a policy of this loop is trained: by its cameras, if it has any."""
        config = TrainConfig(recipe=recipe, seed=self.config.seed, steps=steps, cameras=self.config.cameras)
        return replace(config, batch=IMAGE_BATCH) if self.config.cameras else config

    def _demonstrations(self, stage: str, episodes: int, earlier: int) -> Dataset:
        c = self.config
        return self.stages.run(
            stage, workflows.demonstrate, _data, robot=self.robot, episodes=episodes, seconds=c.demonstration_s, operator=c.operator,
            task=self.task, first=DEMONSTRATIONS + self.first_scene + earlier, **self.filmed,
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


def _alignments(folder: Path, cameras: tuple[str, ...]) -> tuple[Alignment, ...]:
    return tuple(load_alignment(folder / TWIN / camera) for camera in cameras)


def _usable(folder: Path) -> Dataset | None:
    return open_dataset(folder / DATA) if (folder / DATA).exists() else None


def _existing(twin: Twin) -> list[str]:
    """The parameters to identify that the twin has."""
    names = [parameter.name for parameter in twin.parameters]
    return expand_parameters(twin, [p for p in IDENTIFIED if fnmatch.filter(names, p)])


def _identification(folder: Path) -> Identification:
    return load_identification(folder / TWIN)
