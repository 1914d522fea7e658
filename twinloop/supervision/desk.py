"""What the operator page works on: a connected robot that several threads may look at, and the person beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotGone, TwinloopError, UnknownName, WrongUse
from twinloop.robots.protocol import Observation, Robot, read_position
from twinloop.supervision.jog import Jog
from twinloop.supervision.person import PersonSupervisor, make_person
from twinloop.supervision.scenes import Scene
from twinloop.supervision.trial import Action
from twinloop.supervision.view import draw_ghost
from twinloop.tasks import make_cell
from twinloop.twins import Twin

FRESH_S = 0.15
"""An image that is younger is not taken anew."""
MOST_GHOSTS = 16


class SharedRobot:
    """A robot that the recorder commands while the page looks at it: one request at a time."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self.lock = threading.RLock()
        self.newest: Observation | None = None
        self.heard_s = -np.inf
        self._frames: dict[str, tuple[float, Array]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._robot, name)

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The robot's readings; the images are kept for whoever looks."""
        with self.lock:
            seen = self._robot.observe(cameras)
        self.newest, self.heard_s = seen, time.monotonic()
        for name, frame in seen.frames.items():
            self._frames[name] = (self.heard_s, frame)
        return seen

    def act(self, action: Array) -> Array:
        """Send a command."""
        with self.lock:
            return self._robot.act(action)

    def look(self, camera: str) -> Array:
        """A camera's newest image, taken now unless the last one is fresh."""
        taken_s, frame = self._frames.get(camera, (-np.inf, None))
        if frame is None or time.monotonic() - taken_s > FRESH_S:
            with self.lock:
                frame = self._robot.observe((camera,)).frames[camera]
            self._frames[camera] = (time.monotonic(), frame)
        return frame


@dataclass(frozen=True)
class JointState:
    """One element of the robot's position with its limits."""

    name: str
    unit: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class RobotState:
    """The robot as the page shows it: how old its newest reading is, s, and where it is within its limits."""

    serial: str
    standin: bool
    rate_hz: float
    age_s: float | None
    joints: tuple[JointState, ...]
    cameras: tuple[str, ...]
    ghosts: tuple[str, ...]
    drives: bool


class Desk:
    """The operator page's end of a session; empty until a command connects its robot."""

    def __init__(self) -> None:
        self.person: PersonSupervisor | None = None
        self._robot: SharedRobot | None = None
        self._twin: Twin | None = None
        self._jog: Jog | None = None
        self._ghosts: dict[tuple[str, str], Array] = {}
        self._drawing = threading.Lock()

    @contextmanager
    def seat(
        self, robot: Robot, by: str, twin: Twin | None
    ) -> Iterator[tuple[SharedRobot, PersonSupervisor]]:
        """Give the page a connected robot, for the length of a `with` block.

        Args:
            robot: The robot.
            by: Pseudonym of the person.
            twin: The robot's twin.

        Yields:
            The robot as it may be used beside the page, and the person as its supervisor.
        """
        drives = twin is not None and "tool" in twin.roles
        shared = SharedRobot(robot)
        self._jog = Jog(shared, make_cell(twin)) if twin is not None and drives else None
        self._robot, self._twin = shared, twin
        person = make_person(shared, by, twin, self._jog)
        self.person = person
        try:
            yield shared, person
        finally:
            self._robot = self._jog = None

    def press(self, action: Action) -> None:
        """What the person did on the page."""
        if self.person is None:
            raise WrongUse("no session has begun", remedy="wait until the robot is connected")
        self.person.press(action)

    def drive(self, motion: list[float], closed: bool) -> None:
        """Which keys are held."""
        if self._jog is None:
            raise WrongUse("this robot cannot be driven from the page", expected="a twin with a tool")
        self._jog.move(np.array(motion, np.float64), closed)

    def look(self, camera: str) -> Array:
        """The live image of a camera, (height, width, 3) uint8."""
        robot = self._require_robot()
        names = [one.name for one in robot.description.cameras]
        if camera not in names:
            raise UnknownName("camera", camera, names)
        return robot.look(camera)

    def ghost(self, camera: str) -> Array:
        """What a camera of the twin sees of the wanted scene, (height, width, 3) uint8."""
        state = self.person.state if self.person is not None else None
        if self._twin is None or state is None or state.trial is None:
            raise WrongUse("no scene is asked for")
        key = (camera, str(sorted(state.values.items())))
        with self._drawing:
            if key not in self._ghosts:
                drawn = draw_ghost(self._twin, camera, Scene(state.trial.scene, state.values))
                self._ghosts[key] = drawn
                while len(self._ghosts) > MOST_GHOSTS:
                    self._ghosts.pop(next(iter(self._ghosts)))
            return self._ghosts[key]

    def places(self) -> dict[str, tuple[float, float]]:
        """Where object and target go in the present scene: x and y in the twin's frame, m."""
        person = self.person
        if person is None or person.scenes is None or person.state.trial is None:
            return {}
        return person.scenes.places(Scene(person.state.trial.scene, person.state.values))

    def robot_state(self) -> RobotState | None:
        """The robot; None while none is connected."""
        robot = self._robot
        if robot is None:
            return None
        description = robot.description
        if time.monotonic() - robot.heard_s > 1.0:
            with suppress(RobotGone):
                robot.observe()
        seen = robot.newest
        try:
            values = (
                [None] * description.action.size
                if seen is None
                else read_position(description, seen).tolist()
            )
        except TwinloopError:
            values = [None] * description.action.size
        units = (
            description.action.units
            if len(description.action.units) > 1
            else description.action.units * len(values)
        )
        joints = tuple(
            JointState(name, unit, value, _finite(low), _finite(high))
            for name, unit, value, low, high in zip(
                description.action.elements,
                units,
                values,
                description.limits.low,
                description.limits.high,
                strict=True,
            )
        )
        age_s = time.monotonic() - robot.heard_s if seen is not None else None
        cameras = tuple(one.name for one in description.cameras)
        ghosts = (
            tuple(one.name for one in self._twin.cameras if one.name in cameras)
            if self._twin is not None
            else ()
        )
        return RobotState(
            description.serial,
            description.standin,
            description.rate_hz,
            age_s,
            joints,
            cameras,
            ghosts,
            self._jog is not None and self._jog.in_use,
        )

    def _require_robot(self) -> SharedRobot:
        if self._robot is None:
            raise WrongUse("no robot is connected", remedy="wait until the command connects it")
        return self._robot


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
