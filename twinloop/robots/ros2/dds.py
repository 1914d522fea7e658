"""A participant in a ROS 2 domain, over DDS: topics to read from and to write to, and who else is there.

ROS 2 calls a topic `/joint_states` and its type `sensor_msgs/msg/JointState`; DDS calls them `rt/joint_states` and
`sensor_msgs::msg::dds_::JointState_`.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from twinloop.errors import MissingExtra, RobotError
from twinloop.robots.ros2.config import Qos

MAX_MESSAGE_BYTES = 32 << 20
"""A larger message is dropped before it is put together; an image of 4096 x 2560 pixels is smaller."""
MAX_ENDPOINTS = 1000
"""Publishers and subscribers that are looked at, of those that others announce."""
MAX_PORTS = 32
"""Participants on one host that are found without multicast."""
_BLOCK_NS = 100_000_000
"""Longest wait of a reliable writer for a slow reader."""


@dataclass(frozen=True)
class Endpoint:
    """A publisher that somebody announced: topic and type as ROS calls them, and what it offers."""

    topic: str
    type: str
    reliable: bool
    transient: bool


def configure(interface: str | None, peers: tuple[str, ...]) -> str:
    """Configuration of Cyclone DDS: the user's own (`CYCLONEDDS_URI`), then what the robot's config says.

    Args:
        interface: Network interface, by name or address; default: Cyclone's choice.
        peers: Hosts that are asked directly, where multicast does not reach.

    Returns:
        A list of configurations, as `CYCLONEDDS_URI` may hold it.
    """
    general, discovery = "", ""
    if interface is not None:
        key = "address" if _is_address(interface) else "name"
        general = f'<Interfaces><NetworkInterface {key}="{interface}"/></Interfaces>'
    if interface is not None and _is_loopback(interface):  # which has no multicast
        general += "<AllowMulticast>false</AllowMulticast>"
        peers = (*peers, "127.0.0.1")
    if peers:
        hosts = "".join(f'<Peer address="{peer}"/>' for peer in dict.fromkeys(peers))
        discovery = (
            f"<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{MAX_PORTS}"
            f"</MaxAutoParticipantIndex><Peers>{hosts}</Peers></Discovery>"
        )
    own = (
        f'<CycloneDDS><Domain id="any"><General>{general}</General>{discovery}<Internal><MaxSampleSize>'
        f"{MAX_MESSAGE_BYTES}B</MaxSampleSize></Internal></Domain></CycloneDDS>"
    )
    users = os.environ.get("CYCLONEDDS_URI", "")
    return f"{users},{own}" if users else own


class Inbox:
    """Messages of one topic."""

    def __init__(self, reader: Any, depth: int) -> None:
        self._reader, self._depth = reader, depth

    def take(self) -> list[bytes]:
        """The messages that have come since, at most as many as the topic's depth, oldest first."""
        received = self._reader.take(N=self._depth)
        return [one.payload for one in received if hasattr(one, "payload")]


class Outbox:
    """A topic to write to."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, message: Any) -> None:
        """Send a message.

        Raises:
            RobotError: The other side takes none.
        """
        with _dds_errors("a command cannot be sent"):
            self._writer.write(message)

    def count_readers(self) -> int:
        """How many subscribers match this topic's type and quality of service."""
        return len(self._writer.get_matched_subscriptions())


@dataclass
class _OpenDomain:
    """A domain of this process, which all its participants share."""

    configuration: str
    entity: Any
    participants: int = 0


@dataclass
class _Domains:
    open: dict[int, _OpenDomain] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_DOMAINS = _Domains()


class Link:
    """A participant in a domain.

    Args:
        domain: Its number.
        configuration: See `configure`; the same for all participants of this process in one domain.

    Raises:
        MissingExtra: Cyclone DDS is not installed.
        RobotError: There is no such network interface, or the domain is open with another configuration.
    """

    def __init__(self, domain: int, configuration: str) -> None:
        try:
            from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
            from cyclonedds.domain import Domain, DomainParticipant
        except ImportError as error:
            raise MissingExtra("a robot that speaks ROS 2", "cyclonedds", "ros2") from error
        self._domain = domain
        self._closed = False
        with _DOMAINS.lock:
            opened = _DOMAINS.open.get(domain)
            if opened is not None and opened.configuration != configuration:
                raise RobotError(
                    f"domain {domain} is open in this process with another network interface or other peers",
                    remedy="give all robots of one domain the same `interface` and `peers`",
                )
            with _dds_errors(f"ROS 2 domain {domain} cannot be joined"):
                opened = opened or _OpenDomain(configuration, Domain(domain, configuration))
                self._participant: Any = DomainParticipant(domain)
            _DOMAINS.open[domain] = opened
            opened.participants += 1
        self._published: Any = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)

    def subscribe(self, topic: str, kind: str, qos: Qos) -> Inbox:
        """Read a topic.

        Args:
            topic: Its ROS name, such as `/joint_states`.
            kind: Its ROS type, such as `sensor_msgs/msg/JointState`.
            qos: Quality of service that is asked for.

        Returns:
            Where its messages come in.
        """
        from cyclonedds.sub import DataReader

        with _dds_errors(f"{topic} cannot be read"):
            reader = DataReader(self._participant, self._make_topic(topic, kind), qos=_make_qos(qos))
        return Inbox(reader, qos.depth)

    def advertise(self, topic: str, kind: str, qos: Qos) -> Outbox:
        """Write to a topic; arguments as those of `subscribe`, the quality of service is what is offered."""
        from cyclonedds.pub import DataWriter

        with _dds_errors(f"{topic} cannot be written to"):
            return Outbox(DataWriter(self._participant, self._make_topic(topic, kind), qos=_make_qos(qos)))

    def list_publishers(self) -> list[Endpoint]:
        """Every publisher of a ROS 2 topic in the domain, of all other participants."""
        from cyclonedds.qos import Policy

        found = []
        for one in self._published.read(N=MAX_ENDPOINTS):
            ros = getattr(one, "topic_name", "").startswith("rt/")
            if not ros or one.participant_key == self._participant.guid:
                continue
            found.append(
                Endpoint(
                    one.topic_name[2:],
                    one.type_name.replace("dds_::", "").removesuffix("_").replace("::", "/"),
                    isinstance(one.qos[Policy.Reliability], Policy.Reliability.Reliable),
                    one.qos[Policy.Durability] not in (None, Policy.Durability.Volatile),
                )
            )
        return found

    def close(self) -> None:
        """Leave the domain."""
        with _DOMAINS.lock:
            if self._closed:
                return
            self._closed = True
            self._published = self._participant = None
            opened = _DOMAINS.open[self._domain]
            opened.participants -= 1
            if opened.participants == 0:
                del _DOMAINS.open[self._domain]

    def _make_topic(self, topic: str, kind: str) -> Any:
        from cyclonedds.topic import Topic

        from twinloop.robots.ros2.idl import TYPES

        return Topic(self._participant, f"rt{topic}", TYPES[kind])


@contextmanager
def _dds_errors(what: str) -> Iterator[None]:
    from cyclonedds.core import DDSException

    try:
        yield
    except DDSException as error:
        raise RobotError(
            f"{what} ({error.msg or error})",
            remedy="check `interface`, `peers` and topics of the config, and CYCLONEDDS_URI",
        ) from error


def _make_qos(qos: Qos) -> Any:
    from cyclonedds.qos import Policy
    from cyclonedds.qos import Qos as Policies

    reliable = Policy.Reliability.Reliable(_BLOCK_NS)
    transient = Policy.Durability.TransientLocal
    return Policies(
        reliable if qos.reliability == "reliable" else Policy.Reliability.BestEffort,
        transient if qos.durability == "transient_local" else Policy.Durability.Volatile,
        Policy.History.KeepLast(qos.depth),
        Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(interface: str) -> bool:
    return (
        ipaddress.ip_address(interface).is_loopback if _is_address(interface) else interface in ("lo", "lo0")
    )
