"""Collect messages of a stream log (MCAP, rosbag2) into channels TOPIC.field, with the log time of each message."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import DamagedLog, UnknownName
from twinloop.logs.flatten import as_vector, element_names, flatten
from twinloop.logs.reader import SPAN_BYTES, Block, Channel, Images, Piece, Span

Decoder = Callable[[bytes], Mapping[str, Any]]
Message = tuple[str, int, bytes]
"""Topic, log time in nanoseconds, payload."""

_RAW_IMAGES = frozenset("rgb8 bgr8 mono8 rgba8 bgra8".split())
_FORMATS = ("h264", "h265", "hevc", "vp9", "av1", "jpeg", "jpg", "png")


@dataclass
class Topic:
    """One topic: its first message, the number of messages, start and end time."""

    name: str
    example: Mapping[str, Any]
    messages: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None


def describe_topic(topic: Topic) -> Iterator[Channel]:
    """Yield the channels of one topic."""
    start_s = topic.start_ns / 1e9 if topic.start_ns is not None else None
    end_s = topic.end_ns / 1e9 if topic.end_ns is not None else None
    image = image_type(topic.example)
    for path, value in flatten(topic.example).items():
        elements: tuple[str, ...] = ()
        if path == "data" and image is not None:
            dtype, shape = image
        elif isinstance(value, bytes | bytearray | memoryview):
            continue
        else:
            array = np.asarray(value)
            if array.dtype.kind not in "biufU" or array.size == 0 or array.ndim > 1:
                continue
            dtype, shape = "text" if array.dtype.kind == "U" else array.dtype.name, (array.size,)
            if array.ndim:
                elements = element_names(topic.example, path, array.size)
        name = f"{topic.name}.{path}"
        yield Channel(name, shape, dtype, topic.messages, None, elements, start_s, end_s)


def image_type(message: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """Return encoding and size of the image in a Foxglove or ROS image message; None for other messages."""
    if "data" not in message:
        return None
    if isinstance(message.get("format"), str):
        text = message["format"].lower()
        for name in _FORMATS:
            if name in text:
                return {"jpg": "jpeg", "hevc": "h265"}.get(name, name), (0, 0, 3)
        return None
    encoding, height, width = (message.get(key) for key in ("encoding", "height", "width"))
    if encoding in _RAW_IMAGES and isinstance(height, int) and isinstance(width, int):
        return str(encoding), (height, width, 3)
    return None


@dataclass
class _Series:
    """Collected samples of one channel."""

    name: str
    keys: tuple[str, ...]
    image: str | None = None
    values: list[Any] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)

    def pick(self, message: Mapping[str, Any]) -> Any:
        value: Any = message
        for key in self.keys:
            if not isinstance(value, Mapping) or key not in value:
                raise DamagedLog(f"a message of {self.name!r} lacks the field")
            value = value[key]
        if isinstance(value, Mapping):
            value = as_vector(value)
        if self.image is not None and isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error as error:
                raise DamagedLog(f"an image of {self.name!r} is not base64") from error
        return value


def gather(
    messages: Iterable[Message | None], decoders: Mapping[str, Decoder], wanted: Sequence[str]
) -> Iterator[Span]:
    """Yield spans of the wanted channels; `None` among the messages marks a good place to end a span.

    `decoders` may grow while messages are read; it has an entry for a topic before the topic's first message.
    """
    series: dict[str, list[_Series]] = {}
    gathered = 0
    seen: list[str] = []
    for message in messages:
        if message is None or gathered >= SPAN_BYTES:
            if gathered >= SPAN_BYTES:
                yield _span(series)
                gathered = 0
            if message is None:
                continue
        topic, time_ns, payload = message
        decoded = decoders[topic](payload)
        if topic not in series:
            series[topic] = _wanted_of(topic, decoded, wanted)
            seen += [channel.name for channel in describe_topic(Topic(topic, decoded))]
        for channel in series[topic]:
            channel.values.append(channel.pick(decoded))
            channel.times_ns.append(time_ns)
        gathered += len(payload)
    found = {channel.name for many in series.values() for channel in many}
    for name in wanted:
        if name not in found:
            raise UnknownName("channel in the log", name, seen)
    if gathered:
        yield _span(series)


def is_wanted(topic: str, wanted: Sequence[str]) -> bool:
    """Return whether any wanted channel belongs to this topic."""
    return any(name.startswith(f"{topic}.") for name in wanted)


def _wanted_of(topic: str, example: Mapping[str, Any], wanted: Sequence[str]) -> list[_Series]:
    known = {channel.name: channel for channel in describe_topic(Topic(topic, example))}
    return [
        _Series(
            name,
            tuple(name[len(topic) + 1 :].split(".")),
            known[name].dtype if known[name].has_images else None,
        )
        for name in dict.fromkeys(wanted)
        if name in known
    ]


def _span(series: Mapping[str, list[_Series]]) -> Span:
    pieces: dict[str, Piece] = {}
    for many in series.values():
        for channel in many:
            if not channel.values:
                continue
            whole, rest = np.divmod(np.asarray(channel.times_ns, dtype=np.int64), 10**9)
            time_s = np.asarray(whole + rest * 1e-9)
            if channel.image is not None:
                pieces[channel.name] = Images([bytes(value) for value in channel.values], time_s)
            else:
                pieces[channel.name] = Block(_stack(channel), time_s)
            channel.values, channel.times_ns = [], []
    return Span(pieces)


def _stack(channel: _Series) -> Array:
    try:
        array = np.asarray(channel.values)
    except ValueError as error:
        raise DamagedLog(f"messages of {channel.name!r} have different sizes") from error
    if array.dtype.kind not in "biufU":
        raise DamagedLog(f"messages of {channel.name!r} contain values that are not numbers")
    return array[:, None] if array.ndim == 1 else array
