"""The gate on one page: scenes, simulated trials, checks, real trials one at a time, verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from twinloop.errors import GateError, WrongUse
from twinloop.evaluation.environment import OnProgress
from twinloop.generation.processes import usable_cores
from twinloop.policies.act import CHECK_EVERY
from twinloop.policies.protocol import PolicyLike, is_concurrent, require_unchanged, training_datasets
from twinloop.promotion.attempts import record_attempt
from twinloop.promotion.checks import Check, Situation, Subject, accept, run_checks, twin_is_current
from twinloop.promotion.evidence import Contender, Evidence, PairedTrial, draw_scenes, load_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.scenes import SceneInstructions, observe_list, observes_scenes
from twinloop.promotion.statistics import measure
from twinloop.promotion.trials import Series, simulate, try_on_robot
from twinloop.promotion.verdict import Verdict, decide
from twinloop.randomization import Randomization
from twinloop.records import save_record
from twinloop.robots.protocol import Robot, SupervisedRobot, TrialSupervisor
from twinloop.robots.replicas import replicas
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.scenes import Scene, SceneList, draw_list
from twinloop.twins import Twin

EVIDENCE, RECORDINGS = Evidence.FILE, "recordings"
FIRST_SCENE = 200
"""First scene number on a stand-in; other evaluations use the lower ones."""


@dataclass(frozen=True)
class Watchers:
    """Callbacks: scenes observed or simulated so far, every real trial with the verdict so far, and log lines."""

    on_progress: OnProgress = lambda done, total: None
    on_trial: Callable[[int, PairedTrial, Verdict], None] = lambda number, trial, verdict: None
    log: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class GateConfig:
    """How a candidate is judged.

    Args:
        rules: The criteria, fixed before the first trial.
        scenes: How many scenes are simulated; real trials are drawn from them.
        first_scene: Number of the first scene on a stand-in, which sets scenes by number.
        randomization: Distribution of the simulated scenes; default: the training scenes.
        measured: Values of the robot's parameters, such as the delay of its tracker, that replace the twin's in every scene.
            `twinloop.measured_values` gives those of an identification and a diagnosis.
        seed: Random seed for the scenes.
        threads: Simulation threads; 0: all cores.
        time_limit_s: Time limit of a real trial; default: the task's limit.
    """

    rules: Rules = field(default_factory=Rules)
    scenes: int = 400
    first_scene: int = FIRST_SCENE
    randomization: Randomization | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    threads: int = 0
    time_limit_s: float | None = None


def gate(
    candidate: PolicyLike,
    twin: Twin,
    config: GateConfig | None = None,
    *,
    champion: PolicyLike | None = None,
    robot: Robot | None = None,
    supervisor: TrialSupervisor | None = None,
    evidence: Evidence | None = None,
    out: str | Path = "gate",
    situation: Situation | None = None,
    watchers: Watchers | None = None,
) -> Verdict:
    """Judge whether a candidate may replace the champion.

    With a connected robot, scenes are simulated and then tried on the robot one at a time until the evidence suffices or the
    trial budget is spent.

    Args:
        candidate: The policy to judge.
        twin: The twin that scenes are simulated in.
        config: Criteria, scenes and seed.
        champion: The policy to beat, scene by scene; without one the candidate has to exceed `rules.threshold`.
        robot: A connected robot; without one only the evidence so far is judged.
        supervisor: Sets scenes and judges trials; default: the robot's own.
        evidence: Trials so far, which a robot continues.
        out: Folder for evidence, verdict and recordings. Existing trials are never replaced: it must be new, or hold this same
            evidence.
        situation: Input of the checks in addition to the evidence.
        watchers: Callbacks for progress and trials.

    Returns:
        The verdict; evidence and verdict are in `out`.

    Raises:
        GateError: If the evidence is about other policies or another robot.
        WrongUse: If no supervisor judges trials.
    """
    judge = supervisor or (robot if isinstance(robot, TrialSupervisor) else None)
    if robot is not None and judge is None:
        raise WrongUse("no supervisor judges the trials", remedy="pass a supervisor")
    folder, config = Path(out), config or GateConfig()
    found = evidence or _make_evidence(candidate, champion, twin, robot, config.seed)
    _require_contenders(found, candidate, champion)
    for policy in (candidate, champion):
        if policy is not None:
            require_unchanged(policy)
    if robot is not None and found.robot is not None:
        _require_robot(found, robot)
    _require_kept(folder, evidence)
    run = _Gate(
        candidate,
        champion,
        twin,
        config,
        robot,
        judge,
        folder,
        situation or Situation(),
        watchers or Watchers(),
    )
    with run.replicated() as others:
        if not found.simulated and not found.real:
            found = replace(found, simulated=run.simulate(others))
        checks = run.check(found)
        if robot is not None and not any(check.blocks for check in checks):
            found = run.try_on_robot(found, twin_is_current(checks), others)
            checks = run.check(found)
    statistics = measure(found, config.rules, twin_is_current=twin_is_current(checks))
    verdict = decide(found, statistics, config.rules, checks)
    run.save(found)
    verdict.save(folder)
    return verdict


def _make_evidence(
    candidate: PolicyLike, champion: PolicyLike | None, twin: Twin, robot: Robot | None, seed: int
) -> Evidence:
    description = robot.description if robot is not None else None
    return Evidence(
        candidate=make_contender(candidate),
        champion=make_contender(champion) if champion else None,
        twin={"name": twin.name, "version": twin.version, "hash": twin.content_hash},
        robot=description.serial if description else None,
        standin=description.standin if description else False,
        drawn_with=seed if description else None,
    )


def make_contender(policy: PolicyLike) -> Contender:
    """Name and id of a policy."""
    return Contender(policy.name, policy.id)


def _require_contenders(found: Evidence, candidate: PolicyLike, champion: PolicyLike | None) -> None:
    for named, policy, role in (
        (found.candidate, candidate, "candidate"),
        (found.champion, champion, "champion"),
    ):
        got, expected = named.id if named else None, policy.id if policy else None
        if got != expected:
            raise GateError(
                f"the evidence is about another {role}", got=got or "none", expected=expected or "none"
            )


def _require_robot(found: Evidence, robot: Robot) -> None:
    """Evidence must not mix trials of two robots."""
    there = robot.description
    if (found.robot, found.standin) != (there.serial, there.standin):
        raise GateError(
            "the evidence is from another robot",
            got=_name_robot(there.serial, there.standin),
            expected=_name_robot(found.robot, found.standin),
            remedy="continue with the robot of the evidence, or start again with another --out",
        )


def _require_kept(folder: Path, evidence: Evidence | None) -> None:
    """Refuse to replace trials: repeating a series until one succeeds would promote by luck."""
    file = folder / EVIDENCE
    if not file.exists() and (folder / RECORDINGS).exists():
        raise GateError(
            f"{folder} holds recordings of trials, but not their {EVIDENCE}",
            remedy="restore it, or choose another --out",
        )
    if file.exists() and load_evidence(file) != evidence:
        raise GateError(
            f"{file} already holds trials, which would be lost",
            remedy=f"continue from them with --evidence {file}, or choose another --out",
        )


def _name_robot(serial: str | None, standin: bool) -> str:
    return f"{'stand-in' if standin else 'robot'} {serial}"


@dataclass(frozen=True)
class _Gate:
    """The steps of a gate and what they share; `robot` and `supervisor` are both None or both given."""

    candidate: PolicyLike
    champion: PolicyLike | None
    twin: Twin
    config: GateConfig
    robot: Robot | None
    supervisor: TrialSupervisor | None
    folder: Path
    situation: Situation
    watchers: Watchers

    @property
    def policies(self) -> list[PolicyLike]:
        """The candidate, and the champion if there is one."""
        return [self.candidate] if self.champion is None else [self.candidate, self.champion]

    def replicated(self) -> AbstractContextManager[tuple[SupervisedRobot, ...]]:
        """A replica of the robot, so that candidate and champion can be tried at the same time where the robot allows it."""
        if self.robot is None or not all(map(is_concurrent, self.policies)):
            return nullcontext(())
        return replicas(self.robot, self.supervisor, min(usable_cores(), len(self.policies)) - 1)

    @property
    def _observes_its_scenes(self) -> bool:
        """Whether a stand-in sets scenes by number, and perceives them."""
        robot, attended = self.robot, isinstance(self.supervisor, PersonSupervisor)
        return robot is not None and robot.description.standin and not attended and observes_scenes(robot)

    def simulate(self, others: Sequence[SupervisedRobot]) -> tuple[PairedTrial, ...]:
        """One simulated trial in every scene: those that a stand-in sets by number and observes, else drawn ones."""
        config, on_progress = self.config, self.watchers.on_progress
        if config.scenes < 1:
            raise WrongUse("a gate needs at least one scene", got=config.scenes)
        if self._observes_its_scenes:
            assert self.robot is not None and self.supervisor is not None
            numbers = range(config.first_scene, config.first_scene + config.scenes)
            scenes = observe_list(self.robot, self.supervisor, self.twin, numbers, on_progress, others)
        else:
            scenes = draw_list(self.twin, config.scenes, config.seed, config.randomization)
        return simulate(
            self.candidate,
            self.champion,
            self.twin,
            scenes,
            measured=config.measured,
            seed=config.seed,
            threads=config.threads or usable_cores(),
            on_progress=on_progress,
        )

    def check(self, found: Evidence) -> tuple[Check, ...]:
        """Run the checks; accepted ones do not block."""
        given = self.situation
        datasets = tuple(entry for policy in self.policies for entry in training_datasets(policy))
        subject = Subject(
            **vars(given), evidence=found, rules=self.config.rules, twin=self.twin, datasets=datasets
        )
        return accept(run_checks(subject), given.accepted, given.by, given.reason)

    def try_on_robot(self, found: Evidence, current: bool, others: Sequence[SupervisedRobot]) -> Evidence:
        """Run real trials until the evidence suffices; each is saved before the next begins."""
        robot, supervisor, rules = self.robot, self.supervisor, self.config.rules
        assert robot is not None and supervisor is not None
        if found.drawn_with is None or (found.real and not found.combinable):
            raise WrongUse(
                "the evidence so far was not drawn from its list of scenes, so a robot cannot continue it",
                remedy="gate it without a robot, or start again",
            )
        by_number = {trial.scene: Scene(trial.scene, trial.values) for trial in found.simulated}
        if isinstance(supervisor, PersonSupervisor):
            supervisor.use_scenes(list(by_number.values()))
        elif not robot.description.standin:
            scenes = SceneList(self.twin, scenes=by_number)
            supervisor = SceneInstructions(supervisor, scenes, self.watchers.log)
        order = draw_scenes(list(by_number), found.drawn_with, rules.max_trials)
        recordings = self.folder / RECORDINGS
        found = replace(found, recordings=tuple(str(recordings / policy.name) for policy in self.policies))
        self.save(found)
        for number in range(len(found.real), rules.max_trials):
            if is_settled(found, rules, current):
                break
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                for policy in self.policies:
                    require_unchanged(policy)
            trial = try_on_robot(
                self.candidate,
                self.champion,
                robot,
                supervisor,
                by_number[order[number]],
                turn=number,
                out=recordings,
                time_limit_s=self.config.time_limit_s,
                replicas=others,
                series=Series(rules.max_trials, self.config.seed),
            )
            found = found.with_real(trial)
            self.save(found)
            now = measure(found, rules, twin_is_current=current, interval=False)
            self.watchers.on_trial(number + 1, trial, decide(found, now, rules))
        return found

    def save(self, found: Evidence) -> None:
        """Save the evidence, and record its real trials in the workspace."""
        file = self.folder / EVIDENCE
        save_record(found, file)
        if self.situation.workspace is not None and found.real:
            record_attempt(self.situation.workspace, found, file)


def is_settled(found: Evidence, rules: Rules, current: bool) -> bool:
    """Whether further trials cannot change the decision: promoted, or refused by evidence rather than for lack of it."""
    now = measure(found, rules, twin_is_current=current, interval=False)
    standings = [part.standing for part in now.slices]
    if "worse" in standings or (now.refusing and not now.promoting):
        return True
    return now.promoting and "open" not in standings
