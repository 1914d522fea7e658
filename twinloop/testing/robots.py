"""Conformance check for robots, and a fake robot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Camera, Outcome, Signal
from twinloop.errors import RobotGone
from twinloop.robots.protocol import Description, Limits, Observation, Robot, validate_action

Array = NDArray[Any]


class FakeRobot:
    """Two joints that move halfway to their command in every step; in lockstep, in this process.

    After `gone_after` commands the connection is lost, once; `connect` restores it.
    """

    def __init__(self, gone_after: int | None = None) -> None:
        self.gone_after = gone_after
        self.connects = 0
        self.prepared: list[int] = []
        self.position = np.zeros(2)
        self.sent: list[Array] = []
        self._steps = 0
        self._connected = False

    @property
    def description(self) -> Description:
        """Two joints and a small camera."""
        names = ("shoulder", "elbow")
        return Description(
            robot_type="fake_arm",
            serial="fake-1",
            signals=(Signal("observation.state", (2,), ("rad",), elements=names),),
            action=Signal("action", (2,), ("rad",), elements=names),
            limits=Limits((-1.0, -1.0), (1.0, 1.0), (10.0, 10.0)),
            rate_hz=20.0,
            cameras=(Camera("front", 16, 16),),
            site="nowhere",
            lockstep=True,
        )

    def connect(self) -> None:
        """Connect; always succeeds."""
        self._connected = True
        self.connects += 1

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """Joint positions; frames are grey."""
        self._check()
        frames = {name: np.full((16, 16, 3), 128, np.uint8) for name in cameras}
        return Observation(
            self._steps / 20.0, {"observation.state": self.position.astype(np.float32)}, frames
        )

    def act(self, action: Array) -> Array:
        """Move halfway to the command."""
        self._check()
        limits, position = self.description.limits, self.position
        target = validate_action(self.description, action)
        # From outside the range it may come back slowly, so the range reaches to where it is.
        sent = np.clip(target, np.minimum(limits.low, position), np.maximum(limits.high, position))
        self.sent.append(sent)
        if self.gone_after is not None and len(self.sent) > self.gone_after:
            self.gone_after, self._connected = None, False
            raise RobotGone("the fake robot was unplugged")
        self.position = 0.5 * (self.position + sent)
        self._steps += 1
        return sent

    def prepare(self, number: int) -> None:
        """Back to zero."""
        self.prepared.append(number)
        self.position = np.zeros(2)

    def steer(self) -> Array:
        """A person who moves both joints to 0.5."""
        return np.full(2, 0.5)

    def judge(self, over: bool = False) -> Outcome:
        """Success when both joints are near 0.5."""
        near = bool(np.abs(self.position - 0.5).max() < 0.01)
        return Outcome(True) if near else Outcome(False, "not_there") if over else Outcome()

    def close(self) -> None:
        """Disconnect."""
        self._connected = False

    def _check(self) -> None:
        if not self._connected:
            raise RobotGone("not connected")


def check_robot(robot: Robot) -> None:
    """Assert that a robot follows the protocol; the only command sent is to hold its position."""
    robot.connect()
    try:
        description = robot.description
        assert description.rate_hz > 0, "the control rate must be positive"
        size = description.action.size
        for part in ("low", "high", "speed_per_s"):
            assert len(getattr(description.limits, part)) == size, (
                f"limits.{part}: one number per action element"
            )
        assert all(speed > 0 for speed in description.limits.speed_per_s), "speed limits must be positive"
        seen = robot.observe()
        for signal in description.signals:
            assert signal.name in seen.signals, f"{signal.name} is declared but not observed"
            values = np.asarray(seen.signals[signal.name])
            assert values.shape == signal.shape, (
                f"{signal.name}: got shape {values.shape}, declared {signal.shape}"
            )
            assert np.isfinite(values).all(), f"{signal.name} is not finite"
        assert not seen.frames, "observe returned frames that were not requested"
        for camera in description.cameras:
            frame = robot.observe((camera.name,)).frames[camera.name]
            assert frame.shape == (camera.height, camera.width, 3), f"{camera.name}: got shape {frame.shape}"
            assert frame.dtype == np.uint8, f"{camera.name}: got {frame.dtype}, expected uint8"
        stay = np.zeros(description.action.shape)
        state = seen.signals.get("observation.state")
        if state is not None and np.shape(state) == stay.shape:
            stay = np.asarray(state, np.float64)
        stay = np.clip(stay, description.limits.low, description.limits.high)
        sent = np.asarray(robot.act(stay))
        assert sent.shape == description.action.shape, f"act returned shape {sent.shape}"
        assert robot.observe().time_s >= seen.time_s, "time runs backwards"
        description.schema()
    finally:
        robot.close()
    try:
        robot.observe()
    except RobotGone:
        pass
    else:
        raise AssertionError("a closed robot must raise RobotGone when observed")
    robot.connect()
    robot.observe()
    robot.close()
