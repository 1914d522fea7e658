"""A person beside the robot as its trial supervisor: one set of stages for the terminal and the operator page.

Whoever draws a screen listens to `TrialState`s and passes what the person does to `press`, from any thread. A stop holds the robot
in that same call, before the trial learns of it, and is latched as the stops of the safety envelope are: only a reset ends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from twinloop.datasets.labels import JUDGED
from twinloop.episode import Array, Event, Outcome
from twinloop.errors import SafetyStop, TrialSkipped, TrialsPaused, TrialVoid, WrongUse
from twinloop.robots.protocol import Placeable, Robot, Stoppable, TrialSupervisor
from twinloop.supervision.jog import Jog
from twinloop.supervision.scenes import Placement, Scene, SceneList
from twinloop.supervision.trial import (
    ALLOWED,
    NOTE,
    PHASE,
    PLACED,
    SEVERITY,
    TRIAL,
    Action,
    ActionKind,
    Announcement,
    Stage,
    TrialState,
    estimate_s,
)
from twinloop.tasks import make_task
from twinloop.twins import Twin

WAKE_S = 0.2
"""How often a wait for the person looks whether the process was interrupted."""
READY = "the robot gets ready"
STOPPED = "the person beside the robot stopped it"
REDONE = "the person beside the robot does it again"


class PersonSupervisor:
    """Supervises trials by asking a person.

    Args:
        robot: The robot; a stand-in sets the scene that the person is asked for by itself.
        by: The person's name or pseudonym; goes into every episode they judge.
        scenes: Where things go in each scene; None: the person is only told its number.
        failures: Failure modes of the task.
        phases: Phases of the task.
        time_limit_s: Longest duration of a trial, for the estimate of the time left.
        jog: Drives the robot from a keyboard.
        clock: The time in s.
    """

    def __init__(
        self,
        robot: Robot,
        by: str,
        scenes: SceneList | None = None,
        *,
        failures: Sequence[str] = (),
        phases: Sequence[str] = (),
        time_limit_s: float = 10.0,
        jog: Jog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not by.strip() or len(by) > 100 or not by.isprintable():
            raise WrongUse("who stands beside the robot?", got=by[:80], expected="a name or pseudonym")
        self._robot, self._by, self._scenes, self._clock = robot, by, scenes, clock
        self._time_limit_s, self._jog = time_limit_s, jog
        self._state = TrialState(failures=tuple(failures), phases=tuple(phases))
        self._changed = threading.Condition()
        self._listeners: list[Callable[[TrialState], None]] = []
        self._actions: list[Action] = []
        self._stopping = threading.Event()
        self._arm: Stoppable | None = None
        self._said: list[Event] = []
        self._verdict: Action | None = None
        self._pausing = self._leaving = False
        self._placement: Placement | None = None
        self._began_s, self._spent_s, self._timed = clock(), 0.0, 0

    @property
    def by(self) -> str:
        """Who judges."""
        return self._by

    @property
    def scenes(self) -> SceneList | None:
        """Where things go."""
        return self._scenes

    @property
    def state(self) -> TrialState:
        """What the person is shown now."""
        with self._changed:
            return self._state

    def use_scenes(self, scenes: Sequence[Scene]) -> None:
        """From now on scenes come from this list, such as the one that a gate has simulated."""
        if self._scenes is not None:
            self._scenes = self._scenes.listed(scenes)

    def announce(self, trial: Announcement) -> None:
        """Say which trial comes next; `prepare` then waits until the person has set its scene."""
        self._show(trial=trial)

    def listen(self, listener: Callable[[TrialState], None]) -> None:
        """Call this with every new state, from whichever thread makes it."""
        self._listeners.append(listener)
        listener(self.state)

    def wait_for_change(self, changed: int, timeout_s: float) -> TrialState:
        """The state, as soon as it is another one than that numbered `changed`, or after a time limit."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.changed != changed, timeout_s)
            return self._state

    def press(self, action: Action) -> None:
        """What the person did, from any thread; a stop holds the robot before this returns.

        Args:
            action: The action.

        Raises:
            WrongUse: If it is not possible now.
        """
        with self._changed:
            stage, allowed = self._state.stage, self._state.allowed
            if action.kind not in allowed:
                raise WrongUse(f"{action.kind} is not possible while {stage}", available=allowed)
            if action.kind == "note":
                self._said.append(Event(0.0, NOTE, str(action.note)))
            elif action.kind == "pause":
                self._pausing = True
            elif action.kind == "leave":
                self._leaving = True
            elif action.kind == "stop":
                self._stopping.set()
            else:
                self._actions.append(action)
        if action.kind == "stop" and self._arm is not None:
            self._arm.stop(STOPPED, self._by)
        messages: dict[str, str] = {
            "note": "noted",
            "pause": "the session pauses after this trial" if stage in ("running", "judging") else "",
            "stop": f"stopped: {STOPPED}",
        }
        if messages.get(action.kind):
            self._show(message=messages[action.kind])
        else:
            with self._changed:
                self._changed.notify_all()

    def attach(self, robot: Stoppable) -> None:
        """From now on a stop is one of this robot; a stop that came before is too."""
        self._arm = robot
        if self._stopping.is_set():
            robot.stop(STOPPED, self._by)

    def wait_until_free(self, robot: Stoppable) -> None:
        """Wait until the person has reset a robot that they or its safety envelope stopped; returns at once if it is free.

        Args:
            robot: The robot.

        Raises:
            TrialsPaused: If the person leaves. The robot stays stopped.
        """
        self.attach(robot)
        while robot.stopped is not None:
            self._show("stopped", message=f"stopped: {robot.stopped}", describing=False)
            found = self._ask("reset").note
            robot.reset(self._by, str(found))
            self._stopping.clear()
            self._show("waiting", message=f"reset: {found}")

    def check(self) -> None:
        """Called before every command.

        Raises:
            TrialVoid: The person stopped the robot, or does the trial again.
        """
        if self._stopping.is_set():
            self._void(STOPPED)

    def prepare(self, number: int) -> None:
        """Show where things go in scene `number`, and wait until the person starts the trial."""
        self._verdict = None
        self._said = [event for event in self._said if event.kind == NOTE]
        scene = self._scenes.scene(number) if self._scenes is not None else Scene(number, {})
        words = self._scenes.instruct(scene) if self._scenes is not None else f"Set up scene {number}."
        trial = self._state.trial
        if trial is None or trial.scene != number:
            trial = Announcement(self._state.done, self._state.done + 1, number)
        self._began_s = self._clock()
        message = "" if self._state.message == READY else self._state.message
        self._show(
            "placing",
            trial=trial,
            message=message,
            instruction=words,
            values=dict(scene.values),
            describing=False,
        )
        self._ask("start", "skip")
        self._show("waiting", message=READY)
        self._place(scene)
        if self._scenes is not None:
            self._placement = self._scenes.measure(self._robot, scene)
        if self._jog is not None:
            self._jog.restart()
        self._show("running", message="")

    def steer(self) -> Array:
        """The leader arm's command, of a robot that has one."""
        if self._jog is not None:
            return self._jog.steer()
        if isinstance(self._robot, TrialSupervisor):
            return self._robot.steer()
        raise WrongUse(
            "this robot has no leader arm", remedy="record its own teleoperation and ingest the log"
        )

    def judge(self, over: bool = False) -> Outcome:
        """What the person says so far; once the trial is `over`, waits for it."""
        self.check()
        verdict = self._verdict or self._take("success", "failure", "redo")
        if verdict is None and not over:
            return Outcome()
        while verdict is None or (over and verdict.kind == "failure" and verdict.failure is None):
            failed = verdict is not None
            self._show("judging", describing=failed, message="what went wrong?" if failed else "")
            verdict = self._ask("success", "failure", "redo")
        self._verdict = verdict
        if verdict.kind == "redo":
            self._void(verdict.note or REDONE)
        if over:
            self._finish(verdict)
        success = verdict.kind == "success"
        return Outcome(success, None if success else verdict.failure)

    def remarks(self) -> tuple[Event, ...]:
        """What the person said of the trial that has just ended, as events of its episode."""
        trial, said = self._state.trial, self._said
        self._said, placement = [], self._placement
        self._placement = None
        events = [Event(0.0, TRIAL, str(trial.number))] if trial is not None else []
        events.append(Event(0.0, JUDGED, f"by {self._by}"))
        if placement is not None:
            events.append(Event(0.0, PLACED, str(placement)))
        return (*events, *said)

    def end(self) -> None:
        """No trial follows."""
        self._show("ended", instruction="", values={}, message="every trial is done")

    def count_done(self, trials: int) -> None:
        """So many trials are over without a judgement, or have been left out."""
        self._show(done=self._state.done + trials)

    def count_void(self, reason: str) -> None:
        """A trial was void for a reason that is not the person's, such as a fault of the robot."""
        self._show("waiting", void=self._state.void + 1, message=f"void: {reason}")

    @contextmanager
    def series(self, done: int, void: int = 0) -> Iterator[None]:
        """A series of trials of which so many are done already; one that ends by an error says so on the screen."""
        self._show(done=done, void=void)
        try:
            yield
        except BaseException as error:
            self._show("ended", message=getattr(error, "what", "") or "the session was interrupted")
            raise

    def _place(self, scene: Scene) -> None:
        """A stand-in has nobody who could touch its cell: it sets the scene itself, as asked."""
        robot = self._robot
        if isinstance(robot, Placeable) and robot.description.standin and self._scenes is not None:
            robot.place(scene.number, scene.values)
        elif isinstance(robot, TrialSupervisor):
            robot.prepare(scene.number)

    def _finish(self, verdict: Action) -> None:
        notes = {PHASE: verdict.phase, SEVERITY: verdict.severity, NOTE: verdict.note}
        self._said += [Event(0.0, kind, text) for kind, text in notes.items() if text]
        mode = verdict.failure
        known = self._state.failures
        self._spent_s, self._timed = self._spent_s + self._clock() - self._began_s, self._timed + 1
        self._show(
            "waiting",
            done=self._state.done + 1,
            failures=known if mode is None or mode in known else (*known, mode),
            message="success" if verdict.kind == "success" else f"failure: {mode}",
            describing=False,
        )

    def _void(self, reason: str) -> None:
        self._verdict = None
        self._show("waiting", void=self._state.void + 1, message=f"void: {reason}", describing=False)
        raise TrialVoid(reason)

    def _take(self, *kinds: ActionKind) -> Action | None:
        """The oldest of these actions that has not been taken."""
        with self._changed:
            for action in self._actions:
                if action.kind in kinds:
                    self._actions.clear()
                    return action
        return None

    def _ask(self, *kinds: ActionKind) -> Action:
        """Wait for one of these actions; pauses in between, and raises where the person skips, stops a trial or leaves."""
        placing, resetting = "start" in kinds, "reset" in kinds

        def is_news() -> bool:
            stopped = self._stopping.is_set() and not resetting
            return bool(self._actions) or self._leaving or stopped or (self._pausing and placing)

        while True:
            with self._changed:
                self._changed.wait_for(is_news, WAKE_S)
            if self._stopping.is_set() and not resetting:
                if not placing:
                    self._void(STOPPED)
                raise SafetyStop(STOPPED, remedy="look at the robot, then reset it")
            if self._leaving:
                self._leaving = False
                raise TrialsPaused(
                    "the session was ended", remedy="the same command resumes at the next trial"
                )
            if self._pausing and placing:
                self._pause()
            if (action := self._take(*kinds)) is None:
                continue
            if action.kind == "skip":
                raise TrialSkipped("the scene was left out")
            return action

    def _pause(self) -> None:
        before = self.state
        self._show("paused", message="paused: nothing moves")
        while self._pausing:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._actions or self._leaving or self._stopping.is_set(), WAKE_S
                )
            if self._leaving or self._stopping.is_set() or self._take("resume") is not None:
                self._pausing = False
        self._show(before.stage, message="")

    def _show(self, stage: Stage | None = None, **changes: Any) -> None:
        with self._changed:
            state = replace(self._state, **({"stage": stage} if stage else {}) | changes)
            trial = state.trial
            allowed = ALLOWED[state.stage]
            if trial is not None and not trial.can_skip:
                allowed = tuple(kind for kind in allowed if kind != "skip")
            each_s = self._spent_s / self._timed if self._timed else None
            left = max(trial.total - state.done, 0) if trial is not None and state.stage != "ended" else 0
            self._state = replace(
                state,
                allowed=allowed,
                seconds_left=estimate_s(left, self._time_limit_s, each_s),
                changed=state.changed + 1,
            )
            if stage is not None:
                self._actions.clear()
            self._changed.notify_all()
            now = self._state
        for listener in self._listeners:
            listener(now)


def make_person(robot: Robot, by: str, twin: Twin | None, jog: Jog | None = None) -> PersonSupervisor:
    """A person beside a connected robot, who knows its task from its twin.

    Args:
        robot: The robot.
        by: The person's name or pseudonym.
        twin: The robot's twin; None: nothing is known of scenes and failure modes.
        jog: Drives the robot from a keyboard.

    Returns:
        The person.
    """
    name = robot.description.task or (twin.task if twin is not None else "")
    if twin is None or not name:
        return PersonSupervisor(robot, by, jog=jog)
    task = make_task(name, twin)
    limit_s = robot.description.time_limit_s or task.time_limit_s
    return PersonSupervisor(
        robot, by, SceneList(twin), failures=task.failures, phases=task.phases, time_limit_s=limit_s, jog=jog
    )
