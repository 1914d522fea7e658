"""A robot that speaks ROS 2: joint states and images in, trajectories or arrays of numbers out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone
from twinloop.robots.protocol import ROBOTS, Description, Observation, validate_action
from twinloop.robots.ros2.config import FRAME_AGE, Qos, Ros2Config, load_config
from twinloop.robots.ros2.dds import Endpoint, Inbox, Link, Outbox, configure
from twinloop.robots.ros2.readings import (
    IMAGE,
    JOINT_STATE,
    NUMBERS,
    TRAJECTORY,
    read_image,
    read_joints,
    read_numbers,
)

CLOCK_JUMP_S = 1.0
"""A stamp this much older than the last one means that the clock was set; less, that messages overtook each other."""
_POLL_S = 0.01


class Ros2Robot:
    """A robot on the topics of a ROS 2 domain.

    The time of an observation is the newest stamp of the configured joints, by ROS's clock in seconds. Joints may come in one message or
    in several; a topic that falls silent for longer than its `max_age_s` counts as a lost robot.

    Args:
        config: What the robot's file says.
        clock: This machine's clock, by which silence is measured.
    """

    def __init__(self, config: Ros2Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._description: Description | None = None
        self._link: Link | None = None

    @property
    def description(self) -> Description:
        """What the config declares."""
        if self._description is None:
            raise RobotError("the robot is not connected yet", remedy="call connect() first")
        return self._description

    def connect(self) -> None:
        """Join the domain, and wait until every topic has its first message and somebody listens to commands.

        Raises:
            RobotGone: Something is missing after `connect_s`; the message says what, and what there is.
            RobotError: A message cannot be used.
        """
        self.close()
        config = self._config
        self._link = link = Link(config.find_domain(), configure(config.interface, config.peers))
        self._description = config.describe({"cyclonedds": version("cyclonedds")})
        self._received: dict[str, float] = {}
        self._joints: dict[str, tuple[float, tuple[float, ...]]] = {}
        self._heard: dict[str, float] = {}
        self._frames: dict[str, tuple[float, Array]] = {}
        self._numbers: dict[str, Array] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._state = link.subscribe(config.state.topic, JOINT_STATE, config.state.qos)
        for name, camera in config.cameras.items():
            self._inboxes[name] = link.subscribe(camera.topic, IMAGE, camera.qos)
        for name, part in config.signals.items():
            self._inboxes[name] = link.subscribe(part.topic, NUMBERS, part.qos)
        kind = TRAJECTORY if config.command.type == "JointTrajectory" else NUMBERS
        self._out: Outbox | None = link.advertise(config.command.topic, kind, config.command.qos)
        try:
            self._wait_for_everything(link)
        except BaseException:
            self.close()
            raise

    def observe(self, cameras: tuple[str, ...] = ()) -> Observation:
        """The newest readings, with frames of these cameras.

        Raises:
            RobotGone: A topic has been silent for longer than its `max_age_s`.
            RobotError: A message cannot be used, or the clock went back.
        """
        self._require_link()
        self._collect()
        self._require_fresh()
        config, description = self._config, self.description
        rows = [self._joints[name] for name in config.ros_joints]
        time_s = max(stamp_s for stamp_s, _ in rows)
        columns = np.array([row for _, row in rows], np.float32).T
        kinds = ["observation.state"]
        kinds += ["observation.velocity"] if config.state.velocity else []
        kinds += ["observation.effort"] if config.state.effort else []
        signals: dict[str, Array] = dict(zip(kinds, columns, strict=True))
        signals |= {name: self._numbers[name].astype(np.float32) for name in config.signals}
        if config.cameras:
            ages = [time_s - self._frames[name][0] for name in sorted(config.cameras)]
            signals[FRAME_AGE] = np.array(ages, np.float32)
        if unknown := [name for name in cameras if name not in config.cameras]:
            raise RobotError(
                f"the robot has no camera {unknown[0]!r}", available=[c.name for c in description.cameras]
            )
        return Observation(time_s, signals, {name: self._frames[name][1].copy() for name in cameras})

    def act(self, action: Array) -> Array:
        """Send a command.

        Raises:
            RobotGone: Nobody listens to commands any more.
        """
        self._require_link()
        assert self._out is not None
        command = validate_action(self.description, action)
        part = self._config.command
        if self._out.count_readers() == 0:
            raise RobotGone(
                f"nobody listens to commands on {part.topic}", remedy="check that the controller is running"
            )
        from twinloop.robots.ros2.idl import make_numbers, make_trajectory

        if part.type == "JointTrajectory":
            reach_s = part.reach_s or 1.0 / self._config.rate_hz
            self._out.write(make_trajectory(self._config.ros_joints, command.tolist(), reach_s))
        else:
            self._out.write(make_numbers(command.tolist()))
        return command

    def close(self) -> None:
        """Leave the domain; the controller keeps its last command."""
        link, self._link = self._link, None
        if link is not None:
            self._inboxes.clear()
            del self._state
            self._out = None
            link.close()

    def _require_link(self) -> Link:
        if self._link is None:
            raise RobotGone("the robot is not connected", remedy="call connect() first")
        return self._link

    def _collect(self) -> None:
        """Read what has come in on every topic."""
        config, now = self._config, self._clock()
        for payload in self._state.take():
            reading = read_joints(payload, config.state)
            for name in set(config.ros_joints) & set(reading.joints):
                before_s = self._joints[name][0] if name in self._joints else -math.inf
                if reading.time_s < before_s - CLOCK_JUMP_S:
                    raise RobotError(
                        f"the clock of {config.state.topic} went back",
                        got=f"a stamp of {reading.time_s:.3f} s after {before_s:.3f} s",
                        remedy="is there a second publisher, or was a simulation restarted? Then connect again",
                    )
                if reading.time_s > before_s:
                    self._joints[name], self._heard[name] = (reading.time_s, reading.joints[name]), now
        for name, camera in config.cameras.items():
            for payload in self._inboxes[name].take()[-1:]:
                self._frames[name], self._heard[camera.topic] = read_image(payload, camera), now
        for name, part in config.signals.items():
            for payload in self._inboxes[name].take()[-1:]:
                self._numbers[name], self._heard[part.topic] = read_numbers(payload, part), now

    def _list_sources(self) -> list[tuple[str, str, float, str, Qos]]:
        """By what is heard: its name, its topic, the longest silence, its type and quality of service."""
        config, state = self._config, self._config.state
        joints = [(name, state.topic, state.max_age_s, JOINT_STATE, state.qos) for name in config.ros_joints]
        cameras = [(one.topic, one.topic, one.max_age_s, IMAGE, one.qos) for one in config.cameras.values()]
        return [
            *joints,
            *cameras,
            *((one.topic, one.topic, one.max_age_s, NUMBERS, one.qos) for one in config.signals.values()),
        ]

    def _require_fresh(self) -> None:
        now = self._clock()
        for name, topic, max_age_s, _, _ in self._list_sources():
            silent_s = now - self._heard[name]
            if silent_s > max_age_s:
                what = topic if name == topic else f"joint {name} on {topic}"
                raise RobotGone(
                    f"{what} is silent",
                    got=f"no newer message for {silent_s:.2f} s",
                    expected=f"one within {max_age_s:g} s",
                    remedy="check the driver and the network",
                )

    def _wait_for_everything(self, link: Link) -> None:
        deadline = self._clock() + self._config.connect_s
        while True:
            self._collect()
            missing = [source for source in self._list_sources() if source[0] not in self._heard]
            assert self._out is not None
            if not missing and self._out.count_readers():
                return
            if self._clock() > deadline:
                break
            time.sleep(_POLL_S)
        waited = f"in {self._config.connect_s:g} s"
        if not missing:
            raise RobotGone(
                f"nobody listens to commands on {self._config.command.topic}",
                got=f"no subscriber {waited}",
                expected=f"a controller that takes a {self._config.command.type}, with a matching quality of service",
                remedy="compare with: ros2 topic info --verbose; ros2 control list_controllers",
            )
        name, topic, _, kind, qos = missing[0]
        publishers = link.list_publishers()
        own = [one for one in publishers if one.topic == topic]
        if own and name != topic and any(joint in self._heard for joint in self._config.ros_joints):
            raise RobotGone(
                f"no message on {topic} names joint {name} {waited}", remedy="correct `ros` in the config"
            )
        raise _explain_silence(topic, kind, qos, own, publishers, waited)


def _explain_silence(
    topic: str, kind: str, qos: Qos, own: list[Endpoint], publishers: list[Endpoint], waited: str
) -> RobotGone:
    """Why no message came: nobody publishes, the type or quality of service is another, or the publisher is silent."""
    if not own:
        return RobotGone(
            f"nobody publishes {topic}",
            got=f"no publisher {waited}",
            available=sorted({f"{one.topic} ({one.type})" for one in publishers})[:20],
            remedy="check the topic's name, domain_id, interface and peers",
        )
    others = sorted({one.type for one in own if one.type != kind})
    if others and not any(one.type == kind for one in own):
        return RobotGone(f"{topic} has another type", got=", ".join(others), expected=kind)
    if qos.reliability == "reliable" and not any(one.reliable for one in own):
        return RobotGone(
            f"the publisher of {topic} is not reliable",
            got="best_effort",
            expected="reliable",
            remedy="qos: {reliability: best_effort}",
        )
    if qos.durability == "transient_local" and not any(one.transient for one in own):
        return RobotGone(
            f"the publisher of {topic} keeps no messages for late subscribers",
            got="volatile",
            expected="transient_local",
            remedy="qos: {durability: volatile}",
        )
    return RobotGone(
        f"{topic} has a publisher, but no message that can be used came {waited}",
        expected=kind,
        remedy="is it publishing? ros2 topic hz; is its message definition the standard one?",
    )


@ROBOTS.register("ros2")
def open_ros2(rest: str) -> Ros2Robot:
    """`ros2:CONFIG.yaml`: a robot that speaks ROS 2 over DDS."""
    return Ros2Robot(load_config(rest))
