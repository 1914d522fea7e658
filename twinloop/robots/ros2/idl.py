"""Types of ROS 2's topics as DDS knows them.

Messages that come in stay bytes, which `readings` interprets within bounds: the library would make a Python number of every pixel.
"""

from dataclasses import dataclass
from typing import Any

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, sequence, uint8, uint32


class Received:
    """A message as it came in: `payload` is CDR."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.sample_info: Any = None


def _keep(_: Any, payload: bytes, /, *__: Any, **___: Any) -> Received:
    return Received(payload)


def _received_as_bytes(message: Any) -> Any:
    """Let a type keep the bytes of what comes in; its bases are part of the type, so that it cannot inherit this."""
    message.deserialize = message.deserialize_key = classmethod(_keep)
    return message


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):  # type: ignore[misc,call-arg]
    """A time by ROS's clock."""

    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):  # type: ignore[misc,call-arg]
    """A length of time."""

    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):  # type: ignore[misc,call-arg]
    """When and where."""

    stamp: Time
    frame_id: str = ""


@_received_as_bytes
@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):  # type: ignore[misc,call-arg]
    """Readings of joints."""

    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@_received_as_bytes
@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):  # type: ignore[misc,call-arg]
    """An uncompressed image."""

    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@dataclass
class MultiArrayDimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):  # type: ignore[misc,call-arg]
    """A dimension of an array."""

    label: str
    size: uint32
    stride: uint32


@dataclass
class MultiArrayLayout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):  # type: ignore[misc,call-arg]
    """The dimensions of an array."""

    dim: sequence[MultiArrayDimension]
    data_offset: uint32


@_received_as_bytes
@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):  # type: ignore[misc,call-arg]
    """Numbers."""

    layout: MultiArrayLayout
    data: sequence[float64]


@dataclass
class JointTrajectoryPoint(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):  # type: ignore[misc,call-arg]
    """Where joints are to be at one time."""

    positions: sequence[float64]
    velocities: sequence[float64]
    accelerations: sequence[float64]
    effort: sequence[float64]
    time_from_start: Duration


@_received_as_bytes
@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):  # type: ignore[misc,call-arg]
    """Where joints are to be, over time."""

    header: Header
    joint_names: sequence[str]
    points: sequence[JointTrajectoryPoint]


TYPES: dict[str, Any] = {
    "sensor_msgs/msg/JointState": JointState,
    "sensor_msgs/msg/Image": Image,
    "std_msgs/msg/Float64MultiArray": Float64MultiArray,
    "trajectory_msgs/msg/JointTrajectory": JointTrajectory,
}


def make_trajectory(joints: tuple[str, ...], positions: list[float], reach_s: float) -> JointTrajectory:
    """A trajectory of one point that begins now."""
    whole, nanoseconds = divmod(round(reach_s * 1e9), 10**9)
    point = JointTrajectoryPoint(positions, [], [], [], Duration(whole, nanoseconds))
    return JointTrajectory(Header(Time()), list(joints), [point])


def make_numbers(numbers: list[float]) -> Float64MultiArray:
    """Numbers without dimensions, as controllers expect them."""
    return Float64MultiArray(MultiArrayLayout([], 0), numbers)
