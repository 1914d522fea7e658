"""MCAP: JSON, Protobuf and ROS 2 messages, read chunk by chunk; fields become channels, images stay encoded.

Channels are called TOPIC.field: `/joint_states.position`, `/joint_states.header.stamp`. The log time of each message
is its time stamp; `clock: /joint_states.header.stamp` in the map uses the sender's instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from twinloop.errors import DamagedLog
from twinloop.logs.messages import Decoder, Message, Topic, describe_topic, gather, is_wanted
from twinloop.logs.protobuf import protobuf_decoder
from twinloop.logs.reader import (
    MAX_PIECE_BYTES,
    READERS,
    Channel,
    Span,
    log_errors,
    read_head,
    refuse_large_piece,
)
from twinloop.ros_messages import Definitions

KIND = "MCAP"
MAGIC = b"\x89MCAP0\r\n"


@dataclass
class _Catalogue:
    """Schemas and channels seen so far in a file, and a decoder for every wanted topic."""

    schemas: dict[int, Any] = field(default_factory=dict)
    channels: dict[int, Any] = field(default_factory=dict)
    decoders: dict[str, Decoder] = field(default_factory=dict)


class McapReader:
    """Reads MCAP files sequentially, without an index and without loading the whole file."""

    def sniff(self, path: Path) -> float:
        """Check the magic bytes."""
        return 1.0 if read_head(path, len(MAGIC)) == MAGIC else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List every field of every topic, from its first message."""
        with log_errors(path, KIND, *_errors()):
            return [channel for topic in _topics(path) for channel in describe_topic(topic)]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield messages in file order."""
        with log_errors(path, KIND, *_errors()):
            catalogue = _Catalogue()
            yield from gather(_messages(path, catalogue, wanted), catalogue.decoders, wanted)


READERS.register("mcap")(McapReader())


def _errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the libraries; none if they are not installed."""
    try:
        from google.protobuf.message import DecodeError
        from mcap.exceptions import McapError
        from zstandard import ZstdError
    except ModuleNotFoundError:
        return ()
    return (McapError, DecodeError, ZstdError)


def _topics(path: Path) -> list[Topic]:
    """Return topics with their first message; counts come from the summary, or from reading the file."""
    counts, start_ns, end_ns = _summary(path)
    catalogue = _Catalogue()
    found: dict[str, Topic] = {}
    for message in _messages(path, catalogue, None):
        if message is None:
            continue
        name, time_ns, payload = message
        topic = found.get(name)
        if topic is None:
            topic = found[name] = Topic(
                name, catalogue.decoders[name](payload), counts.get(name), start_ns, end_ns
            )
            if counts and len(found) == len(counts):
                break
        if not counts:
            topic.messages = (topic.messages or 0) + 1
            topic.start_ns = time_ns if topic.start_ns is None else min(topic.start_ns, time_ns)
            topic.end_ns = time_ns if topic.end_ns is None else max(topic.end_ns, time_ns)
    return list(found.values())


def _summary(path: Path) -> tuple[dict[str, int], int | None, int | None]:
    """Read message counts by topic and the time range from the summary; empty if there is none."""
    from mcap.exceptions import McapError
    from mcap.reader import SeekingReader

    with path.open("rb") as file:
        limit = min(path.stat().st_size, MAX_PIECE_BYTES)
        try:
            summary = SeekingReader(file, record_size_limit=limit).get_summary()
        except (McapError, ValueError, OSError, LookupError, TypeError):
            # A killed recorder leaves no summary; other damage is reported when the messages are read.
            return {}, None, None
    if summary is None or summary.statistics is None:
        return {}, None, None
    counts: dict[str, int] = {}
    for number, count in summary.statistics.channel_message_counts.items():
        if number in summary.channels and count:
            topic = summary.channels[number].topic
            counts[topic] = counts.get(topic, 0) + count
    return counts, summary.statistics.message_start_time, summary.statistics.message_end_time


def _messages(path: Path, catalogue: _Catalogue, wanted: Sequence[str] | None) -> Iterator[Message | None]:
    """Yield messages of the wanted topics in file order, and None after each chunk, where a span may end."""
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader

    limit = min(path.stat().st_size, MAX_PIECE_BYTES)
    with path.open("rb") as file:
        for record in StreamReader(file, emit_chunks=True, record_size_limit=limit).records:
            if isinstance(record, Chunk):
                content = _unpacked(path, record)
                inner = StreamReader(BytesIO(content), skip_magic=True, record_size_limit=len(content))
                yield from _known(_until_end(inner.records), catalogue, wanted)
                yield None
            else:
                yield from _known(iter([record]), catalogue, wanted)


def _until_end(records: Iterator[Any]) -> Iterator[Any]:
    """Yield the records of a chunk, which has no footer."""
    from mcap.exceptions import EndOfFile

    while True:
        try:
            record = next(records)
        except (StopIteration, EndOfFile):
            return
        yield record


def _known(records: Iterator[Any], catalogue: _Catalogue, wanted: Sequence[str] | None) -> Iterator[Message]:
    """Yield messages of wanted topics; schemas and channels are added to the catalogue."""
    from mcap.records import Channel as McapChannel
    from mcap.records import Message as McapMessage
    from mcap.records import Schema

    for record in records:
        if isinstance(record, McapMessage):
            channel = catalogue.channels.get(record.channel_id)
            if channel is None:
                raise DamagedLog(f"a message belongs to channel {record.channel_id}, which is not declared")
            if channel.topic in catalogue.decoders:
                yield channel.topic, record.log_time, record.data
        elif isinstance(record, McapChannel):
            catalogue.channels[record.id] = record
            if wanted is None or is_wanted(record.topic, wanted):
                decoder = _decoder(catalogue.schemas.get(record.schema_id), record.message_encoding)
                if decoder is not None:
                    catalogue.decoders.setdefault(record.topic, decoder)
        elif isinstance(record, Schema):
            catalogue.schemas[record.id] = record


def _decoder(schema: Any, encoding: str) -> Decoder | None:
    """Return the decoder of a channel's messages; None for unknown encodings, whose topics are ignored."""
    if encoding == "json":
        return _from_json
    if schema is None:
        return None
    if encoding == "protobuf" and schema.encoding == "protobuf":
        return protobuf_decoder(schema)
    if encoding == "cdr" and schema.encoding in ("ros2msg", "ros2idl"):
        definitions = Definitions()
        definitions.add(schema.name, schema.data.decode(), schema.encoding)
        return definitions.decoder(schema.name)
    return None


def _from_json(payload: bytes) -> Mapping[str, Any]:
    value = json.loads(payload)
    if not isinstance(value, dict):
        raise DamagedLog("a JSON message is not an object", got=type(value).__name__)
    return value


def _unpacked(path: Path, chunk: Any) -> bytes:
    """Decompress a chunk, up to its declared size and the limit."""
    size = int(chunk.uncompressed_size)
    refuse_large_piece(path, "a chunk", size)
    if chunk.compression == "":
        content = bytes(chunk.data)
    elif chunk.compression == "zstd":
        import zstandard

        content = zstandard.ZstdDecompressor().stream_reader(BytesIO(chunk.data)).read(size + 1)
    elif chunk.compression == "lz4":
        from lz4.frame import LZ4FrameDecompressor

        content = LZ4FrameDecompressor().decompress(chunk.data, max_length=size + 1)
    else:
        raise DamagedLog(f"{path.name} has an unknown compression", got=chunk.compression[:20])
    if len(content) != size:
        raise DamagedLog(
            f"{path.name}: a chunk does not have the size it declares", got=len(content), expected=size
        )
    return content
