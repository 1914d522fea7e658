"""What the stages of the loop do: a verb with the loop's settings, its result saved and its page written.

Each function fills the folder `out` and resumes what an interrupted run left there. None knows which stage comes next: `loop.py` puts
them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from twinloop.alignment.overlay import write_overlay
from twinloop.alignment.result import Alignment
from twinloop.alignment.run import AlignConfig, align
from twinloop.anchoring import Anchor, anchor, combine_look
from twinloop.coverage.map_file import save_coverage
from twinloop.coverage.result import Coverage
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.diagnosis.result import Diagnosis
from twinloop.diagnosis.run import diagnose
from twinloop.errors import GateError
from twinloop.evaluation.horizon import find_execution_horizon
from twinloop.evaluation.result import Evaluation
from twinloop.evaluation.robot import RobotEnvironment, task_time_limit_s
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.gap.evidence import Options as GapOptions
from twinloop.gap.result import Gap
from twinloop.gap.run import measure_gap
from twinloop.generation.processes import usable_cores
from twinloop.generation.run import generate
from twinloop.generation.videos import Video, record_outcomes
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.replays import replay_held_out, save_replays
from twinloop.identification.result import Identification
from twinloop.identification.run import identify
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.looks.measure import measure_look
from twinloop.looks.measured import look_twin
from twinloop.monitoring.run import MonitorReport, monitor
from twinloop.planning.items import Plan
from twinloop.planning.run import plan
from twinloop.policies.act import PolicyController
from twinloop.policies.open import save_policy
from twinloop.policies.protocol import PolicyLike, cameras_of
from twinloop.promotion.champion import Champion, find_champion, promote
from twinloop.promotion.checks import Situation
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.run import EVIDENCE, GateConfig, Watchers, gate
from twinloop.promotion.verdict import Verdict
from twinloop.quality.select import select_usable
from twinloop.randomization import Randomization
from twinloop.report.alignment_page import write_alignment_page
from twinloop.report.coverage_page import write_coverage_page
from twinloop.report.diagnosis_page import write_diagnosis_page
from twinloop.report.gap_page import write_gap_page
from twinloop.report.gate_page import write_gate_page
from twinloop.report.identification_page import write_identification_page
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.robots.controllers import Controller, ExpertController, OperatorController
from twinloop.robots.protocol import connected, open_robot
from twinloop.robots.record import RecordingSpec, Station, record
from twinloop.robots.replicas import replicas
from twinloop.stages import OnProgress
from twinloop.supervision.handle import RobotHandle, supervised
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.series import count_valid, record_attended
from twinloop.twins import Twin, save_twin

DATA, RUNS, TWIN, REPORT = "data", "runs", "twin", "report.html"
"""A dataset, recordings of trials, a calibrated twin, a page."""

EXCITATION_SIGNALS = ("multisine", "waypoints")
"""Excitation that moves every joint all the time, and in large smooth moves."""
EXPERT_NOISE, IMAGE_EXPERT_NOISE = 0.5, 2.5
"""How much the expert is disturbed. To a camera the object is a few pixels at first, so a policy that sees by images sets out less
exactly and has to know its way back from further off (`benchmarks/bench_learn_images.py` found 2.5 on another task's scenes)."""
GAP_EPISODES = 20
"""Of each dataset, spread evenly: enough for intervals, and soon done."""


def simulate(
    out: Path,
    on_progress: OnProgress,
    *,
    twin: Twin,
    randomization: Randomization,
    episodes: int,
    seed: int,
    cameras: tuple[str, ...] = (),
) -> Dataset:
    """Episodes of the scripted expert, disturbed so that the data shows recoveries.

    The expert sees the true state, so that its commands are right however wrong the recorded readings are.
    """
    return generate(
        twin,
        randomization,
        out=out / DATA,
        episodes=episodes,
        seed=seed,
        cameras=cameras,
        expert_noise=IMAGE_EXPERT_NOISE if cameras else EXPERT_NOISE,
        expert_sees_truth=True,
        resume=(out / DATA).exists(),
        on_progress=lambda now: on_progress(now.episodes, now.total),
    )


def learn(
    out: Path,
    on_progress: OnProgress,
    *,
    name: str,
    config: TrainConfig,
    sim: Dataset,
    real: Dataset | None = None,
    twin: Twin | None = None,
    randomization: Randomization | None = None,
    episodes: int = 0,
) -> PolicyLike:
    """A policy; with a twin, its execution horizon is the one that succeeds best there in `episodes` trials of each."""
    trained = out / "trained" / name
    policy = train(
        sim,
        real,
        out=trained,
        config=config,
        resume=trained.exists(),
        on_validation=lambda point, steps: on_progress(point.step, steps),
    )
    if twin is not None:
        policy, _ = find_execution_horizon(
            policy,
            twin,
            randomization,
            episodes=episodes,
            seed=config.seed,
            threads=0,
            on_progress=on_progress,
        )
    policy.save(out / name)
    return policy


def take_champion(out: Path, on_progress: OnProgress, *, workspace: Path, round_number: int) -> PolicyLike:
    """The champion, with which a later round begins."""
    champion = find_champion(workspace, None)
    if champion is None:
        raise GateError(
            f"round {round_number} begins with a champion, and there is none",
            remedy="run the first round, or `twinloop promote` the policy in use",
        )
    return keep(out, on_progress, policy=champion)


def keep(out: Path, on_progress: OnProgress, *, policy: PolicyLike) -> PolicyLike:
    """The policy as it is."""
    save_policy(policy, out / policy.name)
    return policy


def try_in_twin(
    out: Path,
    on_progress: OnProgress,
    *,
    policy: PolicyLike,
    twin: Twin,
    scenes: Randomization,
    episodes: int,
    seed: int,
) -> Evaluation:
    """Trials in simulation."""
    environment = TwinEnvironment(twin, randomization=scenes, threads=0)
    evaluation = evaluate(policy, environment, episodes=episodes, seed=seed, on_progress=on_progress)
    evaluation.save(out)
    return evaluation


def try_on_robot(
    out: Path,
    on_progress: OnProgress,
    *,
    policy: PolicyLike,
    robot: RobotHandle,
    episodes: int,
    first: int,
    until_failure: bool = False,
) -> Evaluation:
    """Trials on the robot; their episodes are kept."""
    left = episodes - count_valid(out / RUNS)
    with supervised(robot, left, _time_limit_s(robot)) as (arm, supervisor):
        environment = RobotEnvironment(
            arm, supervisor=supervisor, cameras=cameras_of(policy), until_failure=until_failure, resume=True
        )
        evaluation = evaluate(
            policy, environment, episodes=episodes, seed=first, out=out / RUNS, on_progress=on_progress
        )
    evaluation.save(out)
    return evaluation


def compare_runs(
    out: Path, on_progress: OnProgress, *, twin: Twin, real: Dataset, sim: Dataset, seed: int
) -> Gap:
    """The gap between twin and robot, by dimension."""
    gap = measure_gap(
        real,
        twin,
        sim,
        options=GapOptions(seed=seed, episodes=GAP_EPISODES),
        on_progress=lambda _, done, total: on_progress(done, total),
    )
    gap.save(out)
    write_gap_page(gap, out / REPORT)
    return gap


def excite(
    out: Path,
    on_progress: OnProgress,
    *,
    twin: Twin,
    robot: RobotHandle,
    episodes: int,
    seconds: float,
    first: int,
    cameras: tuple[str, ...] = (),
) -> Dataset:
    """Excitation runs, the signals in turn."""
    task = "Follow the excitation signal."
    spec = RecordingSpec(episodes, seconds, task=task, cameras=cameras, first=first, judged=False)
    return _recorded(
        out, on_progress, robot, spec, lambda *_: ExpertController(twin, EXCITATION_SIGNALS, seconds)
    )


def demonstrate(
    out: Path,
    on_progress: OnProgress,
    *,
    robot: RobotHandle,
    episodes: int,
    seconds: float,
    operator: str,
    task: str,
    first: int,
    cameras: tuple[str, ...] = (),
) -> Dataset:
    """Demonstrations by the robot's operator."""
    spec = RecordingSpec(episodes, seconds, task=task, cameras=cameras, first=first)
    return _recorded(
        out, on_progress, robot, spec, lambda _, supervisor, __: OperatorController(supervisor, operator)
    )


def watch(
    out: Path,
    on_progress: OnProgress,
    *,
    policy: PolicyLike,
    robot: RobotHandle,
    reference: Dataset,
    episodes: int,
    first: int,
    task: str,
) -> MonitorReport:
    """Deployed episodes of the champion, compared once with the reference."""
    spec = RecordingSpec(episodes, _time_limit_s(robot), task=task, cameras=cameras_of(policy), first=first)
    deployed = _recorded(
        out, on_progress, robot, spec, lambda arm, _, row: PolicyController(policy, arm.description, row)
    )
    report = monitor(deployed, reference)
    report.save(out)
    return report


def _recorded(
    out: Path,
    on_progress: OnProgress,
    robot: RobotHandle,
    spec: RecordingSpec,
    controller: Callable[..., Controller],
) -> Dataset:
    """Record the episodes that are missing; `controller` makes one for a robot, its supervisor, and the robot's number."""
    there = count_valid(out / DATA)
    if there < spec.episodes:
        left = replace(spec, episodes=spec.episodes - there, first=spec.first + there)
        cores = min(usable_cores(), left.episodes)
        with (
            supervised(robot, left.episodes, spec.time_limit_s) as (arm, supervisor),
            replicas(arm, supervisor, cores - 1) as others,
        ):
            if isinstance(supervisor, PersonSupervisor):
                mine = Station(arm, controller(arm, supervisor, 0), supervisor)
                return record_attended(mine, out / DATA, spec, supervisor, on_progress)
            stations = [
                Station(one, controller(one, one, row), one) for row, one in enumerate(others, start=1)
            ]
            record(
                arm,
                controller(arm, supervisor, 0),
                out / DATA,
                left,
                supervisor=supervisor,
                replicas=stations,
                on_progress=on_progress,
            )
    return open_dataset(out / DATA)


def _time_limit_s(robot: RobotHandle) -> float:
    """The time limit of the robot's task."""
    with connected(open_robot(robot.address)) as arm:
        return task_time_limit_s(arm)


def select(out: Path, on_progress: OnProgress, *, datasets: tuple[Dataset, ...]) -> Dataset | None:
    """The demonstrations that a policy may be trained on; None where no episode is usable."""
    return select_usable(datasets, out / DATA)


def calibrate(
    out: Path,
    on_progress: OnProgress,
    *,
    twin: Twin,
    real: Dataset,
    parameters: Sequence[str],
    seconds: float,
    seed: int,
) -> Identification:
    """The twin identified from excitation runs; held-out replay decides whether it is taken."""
    config = IdentifyConfig(
        signals=("observation.state",),
        held_out_every=4,
        seconds=seconds,
        seed=seed,
        force="the loop takes a twin only if held-out replay accepts it",
    )
    identification = identify(twin, real, parameters, config=config, on_progress=on_progress)
    identification.save(out / TWIN)
    replays = replay_held_out(twin, identification, real, signals=config.signals)
    save_replays(replays, out / TWIN, real)
    write_identification_page(identification, replays, out / REPORT, real)
    return identification


def explain(
    out: Path,
    on_progress: OnProgress,
    *,
    policy: PolicyLike,
    runs: Dataset,
    others: tuple[Dataset, ...],
    twin: Twin,
    scenes: Randomization,
    budget: int,
    seed: int,
) -> Diagnosis:
    """How many success points each gap dimension costs the policy, and what was measured of each."""
    diagnosis = diagnose(
        policy,
        runs,
        twin,
        excitation=[episode for dataset in others for episode in dataset],
        unseen_scenes=scenes,
        budget=budget,
        seed=seed,
        keep=out / "evaluations",
        on_progress=lambda _, done, total: on_progress(done, total),
    )
    diagnosis.save(out)
    write_diagnosis_page(diagnosis, out / REPORT)
    return diagnosis


def align_cameras(
    out: Path, on_progress: OnProgress, *, twin: Twin, real: Dataset, cameras: tuple[str, ...], seed: int
) -> tuple[Alignment, ...]:
    """The cameras one after the other, each in the twin that the one before left."""
    found: list[Alignment] = []
    for done, camera in enumerate(cameras):
        on_progress(done, len(cameras))
        before = found[-1].twin if found else twin
        alignment = align(before, real, camera, config=AlignConfig(seed=seed))
        folder = alignment.save(out / TWIN / camera)
        overlay = write_overlay(alignment, before, real, out / f"{camera}.png")
        write_alignment_page(alignment, overlay, folder / REPORT, real)
        found.append(alignment)
    return tuple(found)


def map_coverage(out: Path, on_progress: OnProgress, *, real: Dataset, sim: Dataset, seed: int) -> Coverage:
    """Where the robot's episodes leave what simulation covers."""
    coverage = measure_coverage(real, sim, seed=seed, on_progress=on_progress)
    save_coverage(coverage, out, (real, sim))
    write_coverage_page(coverage, out / REPORT, (real, sim))
    return coverage


def propose(
    out: Path,
    on_progress: OnProgress,
    *,
    diagnosis: Diagnosis,
    coverage: Coverage,
    identification: Identification,
    seed: int,
) -> Plan:
    """What to record next, and what it is expected to bring."""
    proposed = plan(diagnosis=diagnosis, coverage=coverage, identification=identification, seed=seed)
    proposed.save(out)
    write_plan_sheet(proposed, out / REPORT)
    return proposed


def anchor_twin(
    out: Path,
    on_progress: OnProgress,
    *,
    identification: Identification,
    diagnosis: Diagnosis,
    scenes: Randomization,
    expected: float,
    seed: int,
    aligned: tuple[Alignment, ...] = (),
    filmed: tuple[Dataset, ...] = (),
) -> Anchor:
    """What was measured as a randomization, narrowed where the expert would often fail.

    With cameras, their look is measured from the `filmed` recordings; the twin with the real table's photograph is saved beside it.
    """
    look, twin = None, identification.accepted_twin
    if aligned:
        episodes = [episode for dataset in filmed for episode in dataset]
        measured = measure_look(episodes, twin, [one.camera for one in aligned], seed=seed)
        look = combine_look(twin, measured, aligned)
        save_twin(look_twin(measured, twin), out / TWIN)
    anchored = anchor(
        identification,
        diagnosis,
        scenes=scenes,
        look=look,
        expected=expected,
        seed=seed,
        on_progress=on_progress,
    )
    anchored.save(out)
    return anchored


def decide(
    out: Path,
    on_progress: OnProgress,
    *,
    candidate: PolicyLike,
    champion: PolicyLike | None,
    twin: Twin,
    robot: RobotHandle,
    config: GateConfig,
    situation: Situation,
) -> Verdict:
    """May the candidate take the champion's place, or, without one, pass the bar? Trials until the evidence suffices."""
    file = out / EVIDENCE
    done = len(load_evidence(file).real) if file.exists() else 0
    left = (config.rules.max_trials - done) * (1 if champion is None else 2)
    with supervised(robot, left, _time_limit_s(robot)) as (arm, supervisor):
        verdict = gate(
            candidate,
            twin,
            config,
            champion=champion,
            robot=arm,
            supervisor=supervisor,
            evidence=load_evidence(file) if file.exists() else None,
            out=out,
            situation=situation,
            watchers=Watchers(on_trial=lambda number, *_: on_progress(number, config.rules.max_trials)),
        )
    write_gate_page(verdict, load_evidence(file), out / REPORT)
    return verdict


def show_difference(
    out: Path, on_progress: OnProgress, *, twin: Twin, before: Dataset, after: Dataset | None
) -> tuple[Video, ...]:
    """A failure before and a success after, where there are such."""
    wanted = {"before": (before, False)} | ({"after": (after, True)} if after is not None else {})
    return record_outcomes(wanted, twin, out)


def release(
    out: Path,
    on_progress: OnProgress,
    *,
    policy: PolicyLike,
    champion: PolicyLike | None,
    verdict: Verdict,
    verdict_folder: Path,
    workspace: Path,
    by: str,
) -> Champion:
    """The candidate as champion, on the grounds of its verdict."""
    promoted = promote(policy, verdict_folder, workspace, by=by, previous=champion)
    promoted.save(out)
    return promoted
