"""A ROS 2 participant of somebody else, in a process of its own: messages are encoded and decoded by rosbags, not by Twinloop.

    python participant.py DOMAIN [native]

reads one JSON list per line and answers with one value: `publish`, `say`, `listen`, `take`, `forget`, `play`. With `native` Cyclone DDS
itself encodes and decodes, by the types below.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from rosbags.typesys import Stores, get_typestore

LOOPBACK = """<CycloneDDS><Domain id="any"><General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""
STORE = get_typestore(Stores.ROS2_HUMBLE)


NATIVE = sys.argv[2:] == ["native"]


def encoded(kind):
    """Let a type take bytes that another library made as the body of a message, and keep them."""
    if NATIVE:
        return kind
    kind.serialize = lambda self, **_: self.body
    kind.deserialize = kind.deserialize_key = classmethod(wrap)
    return kind


def wrap(kind, body, **_):
    message = kind.__new__(kind)
    message.body = body
    return message


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time
    frame_id: str


@encoded
@dataclass
class JointState(IdlStruct, typename="sensor_msgs.msg.dds_.JointState_"):
    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@encoded
@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@dataclass
class Dimension(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayDimension_"):
    label: str
    size: uint32
    stride: uint32


@dataclass
class Layout(IdlStruct, typename="std_msgs.msg.dds_.MultiArrayLayout_"):
    dim: sequence[Dimension]
    data_offset: uint32


@encoded
@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs.msg.dds_.Float64MultiArray_"):
    layout: Layout
    data: sequence[float64]


@dataclass
class Point(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectoryPoint_"):
    positions: sequence[float64]
    velocities: sequence[float64]
    accelerations: sequence[float64]
    effort: sequence[float64]
    time_from_start: Duration


@encoded
@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs.msg.dds_.JointTrajectory_"):
    header: Header
    joint_names: sequence[str]
    points: sequence[Point]


KINDS = {
    "sensor_msgs/msg/JointState": JointState,
    "sensor_msgs/msg/Image": Image,
    "std_msgs/msg/Float64MultiArray": Float64MultiArray,
    "trajectory_msgs/msg/JointTrajectory": JointTrajectory,
}


def make_header(stamp_s):
    kinds = STORE.types
    nanoseconds = round(stamp_s * 1e9)
    stamp = kinds["builtin_interfaces/msg/Time"](sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
    return kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="base")


def encode_joints(stamp_s, names, position, velocity=(), effort=()):
    kind = "sensor_msgs/msg/JointState"
    columns = (np.asarray(column, np.float64) for column in (position, velocity, effort))
    message = STORE.types[kind](make_header(stamp_s), list(names), *columns)
    return bytes(STORE.serialize_cdr(message, kind))


def encode_image(stamp_s, pixels, encoding="rgb8"):
    kind = "sensor_msgs/msg/Image"
    height, width, depth = pixels.shape
    data = np.ascontiguousarray(pixels, np.uint8).reshape(-1)
    message = STORE.types[kind](make_header(stamp_s), height, width, encoding, 0, width * depth, data)
    return bytes(STORE.serialize_cdr(message, kind))


def encode_numbers(numbers):
    kind = "std_msgs/msg/Float64MultiArray"
    layout = STORE.types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    message = STORE.types[kind](layout, np.asarray(numbers, np.float64))
    return bytes(STORE.serialize_cdr(message, kind))


def decode_command(body, kind):
    message = STORE.deserialize_cdr(body, kind)
    if kind == "std_msgs/msg/Float64MultiArray":
        return {"positions": message.data.tolist()}
    (point,) = message.points
    reach = point.time_from_start
    return {
        "names": message.joint_names,
        "positions": point.positions.tolist(),
        "reach_s": reach.sec + 1e-9 * reach.nanosec,
        "stamp": [message.header.stamp.sec, message.header.stamp.nanosec],
    }


def read_command(message):
    """A command that DDS has decoded, as `decode_command` gives it."""
    if isinstance(message, Float64MultiArray):
        return {"positions": list(message.data)}
    (point,) = message.points
    return {
        "names": list(message.joint_names),
        "positions": list(point.positions),
        "reach_s": point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec,
        "stamp": [message.header.stamp.sec, message.header.stamp.nanosec],
    }


class Participant:
    """One node: publishers by topic, and a subscriber to commands."""

    def __init__(self, domain):
        self.domain = Domain(domain, LOOPBACK)
        self.participant = DomainParticipant(domain)
        self.writers, self.readers = {}, {}

    def publish(self, topic, kind, body, reliable=True):
        """Send bytes on a topic."""
        made = KINDS[kind]
        if topic not in self.writers:
            reliability = Policy.Reliability.Reliable(duration(seconds=1))
            qos = Qos(reliability if reliable else Policy.Reliability.BestEffort, Policy.History.KeepLast(10))
            self.writers[topic] = DataWriter(
                self.participant, Topic(self.participant, f"rt{topic}", made), qos=qos
            )
        self.writers[topic].write(wrap(made, body))

    def say(self, topic, kind, fields):
        """Send a message that DDS encodes."""
        made = KINDS[kind]
        if topic not in self.writers:
            qos = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(10))
            self.writers[topic] = DataWriter(
                self.participant, Topic(self.participant, f"rt{topic}", made), qos=qos
            )
        stamp = Time(*fields.pop("stamp"))
        self.writers[topic].write(made(Header(stamp, "base"), **fields))

    def listen(self, topic, kind):
        """Subscribe to commands."""
        qos = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(100))
        self.readers[topic] = DataReader(
            self.participant, Topic(self.participant, f"rt{topic}", KINDS[kind]), qos=qos
        )

    def forget(self):
        """Leave every topic."""
        self.writers.clear()
        self.readers.clear()

    def take(self, topic, kind):
        """Commands that have come, decoded."""
        received = self.readers[topic].take(N=100)
        if NATIVE:
            return [read_command(one) for one in received if isinstance(one, KINDS[kind])]
        return [decode_command(one.body, kind) for one in received if hasattr(one, "body")]


def play_bag(node, folder, speed=1.0):
    """Send the messages of a bag again as they are, as fast as they were recorded."""
    from rosbags.rosbag2 import Reader

    with Reader(Path(folder)) as reader:
        first_ns, begun = None, time.monotonic()
        for connection, time_ns, body in reader.messages():
            first_ns = time_ns if first_ns is None else first_ns
            time.sleep(max(0.0, begun + (time_ns - first_ns) / 1e9 / speed - time.monotonic()))
            node.publish(connection.topic, connection.msgtype, bytes(body))


def main():
    node = Participant(int(sys.argv[1]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        match json.loads(line):
            case ["publish", topic, kind, body, reliable]:
                node.publish(topic, kind, bytes.fromhex(body), reliable)
                answer = True
            case ["say", topic, kind, fields]:
                node.say(topic, kind, fields)
                answer = True
            case ["listen", topic, kind]:
                node.listen(topic, kind)
                answer = True
            case ["take", topic, kind]:
                answer = node.take(topic, kind)
            case ["forget"]:
                node.forget()
                answer = True
            case ["play", folder, speed]:
                play_bag(node, folder, speed)
                answer = True
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
