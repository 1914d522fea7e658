"""What ROS 2 messages say: joint readings, images and numbers, each checked before it is used."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import DamagedLog, MissingExtra, RobotError
from twinloop.robots.ros2.config import MAX_JOINTS, CameraPart, SignalPart, StatePart
from twinloop.ros_messages import RAW_IMAGES, Definitions

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE = "sensor_msgs/msg/Image"
NUMBERS = "std_msgs/msg/Float64MultiArray"
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"

MAX_NAMES = 8 * MAX_JOINTS
"""Joints that one message may name: robots share a topic."""


@dataclass(frozen=True)
class JointReading:
    """Readings of some joints at one time of ROS's clock: by name, position and perhaps velocity and effort."""

    time_s: float
    joints: Mapping[str, tuple[float, ...]]


def read_joints(payload: bytes, part: StatePart) -> JointReading:
    """Read a `JointState`.

    Args:
        payload: The message, CDR.
        part: Its topic, and what of it is needed.

    Returns:
        For each joint that it names: position, and where they are needed velocity and effort.

    Raises:
        RobotError: It is malformed, has no stamp, or lacks what is needed.
    """
    message = _decode(JOINT_STATE, payload, part.topic)
    names = message["name"]
    if len(names) > MAX_NAMES:
        raise _refusal(part.topic, got=f"{len(names)} joints", expected=f"at most {MAX_NAMES}")
    columns = [message["position"]]
    columns += [message["velocity"]] if part.velocity else []
    columns += [message["effort"]] if part.effort else []
    for column, kind in zip(columns, ["position", *_list_needed(part)], strict=True):
        if len(column) != len(names):
            raise _refusal(
                part.topic,
                got=f"{len(column)} numbers of {kind} for {len(names)} joints",
                expected="one for each joint",
                remedy=None if kind == "position" else f"set state.{kind}: false if the robot reports none",
            )
        if not np.isfinite(column).all():
            raise _refusal(part.topic, got=f"{kind} {list(column)}", expected="finite numbers")
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return JointReading(_read_stamp(message, part.topic), dict(zip(names, rows, strict=True)))


def read_image(payload: bytes, part: CameraPart) -> tuple[float, Array]:
    """Read an `Image`.

    Args:
        payload: The message, CDR.
        part: Its topic and the camera's size.

    Returns:
        Its time by ROS's clock, s, and the frame (height, width, 3), uint8, red first.

    Raises:
        RobotError: It is malformed, has no stamp, or another size or encoding.
    """
    message = _decode(IMAGE, payload, part.topic)
    if (message["height"], message["width"]) != (part.height, part.width):
        raise _refusal(
            part.topic,
            got=f"an image of {message['width']} x {message['height']} pixels",
            expected=f"{part.width} x {part.height}",
            remedy="correct width and height in the config",
        )
    if message["encoding"] not in RAW_IMAGES:
        raise _refusal(
            part.topic, got=f"encoding {message['encoding'][:40]!r}", expected=", ".join(RAW_IMAGES)
        )
    depth, colours = RAW_IMAGES[message["encoding"]]
    step, data = message["step"], message["data"]
    if step < part.width * depth or len(data) != step * part.height:
        raise _refusal(
            part.topic,
            got=f"{len(data)} bytes in rows of {step}",
            expected=f"rows of at least {part.width * depth} bytes, {part.height} of them",
        )
    rows = np.frombuffer(data, np.uint8).reshape(part.height, step)[:, : part.width * depth]
    pixels = rows.reshape(part.height, part.width, depth)
    if colours != list(range(depth)):
        pixels = pixels[:, :, colours]
    return _read_stamp(message, part.topic), np.ascontiguousarray(pixels)


def read_numbers(payload: bytes, part: SignalPart) -> Array:
    """Read a `Float64MultiArray` as (elements,) float64.

    Raises:
        RobotError: It is malformed, or has another number of elements or numbers that are not finite.
    """
    message = _decode(NUMBERS, payload, part.topic)
    numbers = message["data"][message["layout"]["data_offset"] :]
    if len(numbers) != len(part.elements) or not np.isfinite(numbers).all():
        raise _refusal(
            part.topic,
            got=f"{len(numbers)} numbers"
            if len(numbers) != len(part.elements)
            else "numbers that are not finite",
            expected=f"{len(part.elements)}: {', '.join(part.elements)}",
        )
    return np.asarray(numbers, np.float64)


def _list_needed(part: StatePart) -> list[str]:
    return [kind for kind in ("velocity", "effort") if getattr(part, kind)]


def _read_stamp(message: Mapping[str, Any], topic: str) -> float:
    stamp = message["header"]["stamp"]
    if stamp["nanosec"] >= 10**9 or stamp["sec"] < 0:
        raise _refusal(topic, got=f"stamp {stamp['sec']} s {stamp['nanosec']} ns", expected="a time")
    if stamp["sec"] == stamp["nanosec"] == 0:
        raise _refusal(
            topic,
            got="no stamp",
            expected="the time of the readings in header.stamp",
            remedy="let the driver stamp its messages: without stamps, delays cannot be told from the network's",
        )
    return float(stamp["sec"] + 1e-9 * stamp["nanosec"])


@cache
def _find_decoder(kind: str) -> Callable[[bytes], Mapping[str, Any]]:
    try:
        return Definitions().decoder(kind)
    except ImportError as error:
        raise MissingExtra("a robot that speaks ROS 2", "rosbags", "ros2") from error


def _decode(kind: str, payload: bytes, topic: str) -> Mapping[str, Any]:
    try:
        return _find_decoder(kind)(payload)
    except (DamagedLog, struct.error) as error:
        what = error.what if isinstance(error, DamagedLog) else "it ends too early"
        raise _refusal(
            topic,
            got=f"{len(payload)} bytes ({what})",
            expected=kind,
            remedy="find out which node publishes it: ros2 topic info --verbose",
        ) from error


def _refusal(topic: str, *, got: str, expected: str, remedy: str | None = None) -> RobotError:
    return RobotError(f"a message on {topic} cannot be used", got=got, expected=expected, remedy=remedy)
