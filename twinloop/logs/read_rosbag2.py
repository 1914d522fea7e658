"""rosbag2: a folder with metadata.yaml and SQLite or MCAP files, or a single .db3 file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from twinloop.errors import DamagedLog
from twinloop.logs.messages import Decoder, Message, Topic, describe_topic, gather, is_wanted
from twinloop.logs.read_mcap import McapReader
from twinloop.logs.reader import (
    MAX_PIECE_BYTES,
    READERS,
    Channel,
    Span,
    log_errors,
    read_head,
    refuse_escape,
    refuse_large_piece,
)
from twinloop.ros_messages import Definitions
from twinloop.yaml_files import read_yaml

KIND = "rosbag2"
METADATA = "metadata.yaml"
MAX_METADATA_BYTES = 16 << 20
MAX_FILES = 10_000


class Rosbag2Reader:
    """Reads both storage formats; messages are interpreted from their definitions, never compiled."""

    def sniff(self, path: Path) -> float:
        """Check for metadata.yaml in a folder, or an SQLite .db3 file."""
        if path.is_dir():
            return 1.0 if b"rosbag2_bagfile_information" in read_head(path / METADATA, 256) else 0.0
        return 1.0 if path.suffix == ".db3" and read_head(path, 16) == b"SQLite format 3\0" else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List every field of every topic; counts are for the whole bag."""
        with log_errors(path, KIND, sqlite3.Error, yaml.YAMLError):
            found: dict[str, Channel] = {}
            for file in _files(path):
                for channel in McapReader().channels(file) if _is_mcap(file) else _database_channels(file):
                    found[channel.name] = _joined(found.get(channel.name), channel)
            return list(found.values())

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield file after file, in the order of the metadata."""
        with log_errors(path, KIND, sqlite3.Error, yaml.YAMLError):
            for file in _files(path):
                if _is_mcap(file):
                    yield from McapReader().read(file, wanted)
                    continue
                with closing(_opened(file)) as database:
                    decoders = _decoders(database, wanted)
                    yield from gather(_messages(database, file, decoders), decoders, wanted)


READERS.register("rosbag2")(Rosbag2Reader())


def _is_mcap(file: Path) -> bool:
    return McapReader().sniff(file) > 0


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    metadata = path / METADATA
    if metadata.stat().st_size > MAX_METADATA_BYTES:
        raise DamagedLog(f"{path.name}/{METADATA} is too large")
    content = read_yaml(metadata)
    bag = content["rosbag2_bagfile_information"]
    if bag.get("compression_mode"):
        raise DamagedLog(
            f"{path.name} is compressed ({bag['compression_mode']})",
            remedy="ros2 bag convert it without compression, or record with MCAP's own",
        )
    names = [str(name) for name in bag["relative_file_paths"]]
    if not names or len(names) > MAX_FILES:
        raise DamagedLog(f"{path.name}/{METADATA} names {len(names)} files")
    for name in names:
        refuse_escape(path, name)
        if not (path / name).is_file():
            raise DamagedLog(f"{path.name} lacks its file {name}")
    return [path / name for name in names]


def _opened(file: Path) -> sqlite3.Connection:
    """Open read-only and untrusted: views and triggers in the file are never run."""
    database = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_PIECE_BYTES)
        kinds = dict(database.execute("SELECT name, type FROM sqlite_master"))
        for name in ("topics", "messages"):
            if kinds.get(name) != "table":
                raise DamagedLog(f"{file.name} has no table of {name}")
    except BaseException:
        database.close()
        raise
    return database


def _decoders(database: sqlite3.Connection, wanted: Sequence[str] | None) -> dict[str, Decoder]:
    definitions = Definitions()
    kinds = dict(database.execute("SELECT name, type FROM sqlite_master"))
    if kinds.get("message_definitions") == "table":
        rows = database.execute(
            "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        )
        for name, encoding, text in rows:
            if text and encoding in ("ros2msg", "ros2idl"):
                definitions.add(str(name), str(text), str(encoding))
    decoders = {}
    for name, kind, encoding in database.execute("SELECT name, type, serialization_format FROM topics"):
        if encoding == "cdr" and (wanted is None or is_wanted(str(name), wanted)):
            decoders[str(name)] = definitions.decoder(str(kind))
    return decoders


def _messages(database: sqlite3.Connection, file: Path, decoders: dict[str, Decoder]) -> Iterator[Message]:
    topics = {number: str(name) for number, name in database.execute("SELECT id, name FROM topics")}
    numbers = [number for number, name in topics.items() if name in decoders]
    marks = ", ".join("?" for _ in numbers)
    rows = database.execute(
        f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp, id",
        numbers,
    )
    for number, time_ns, data in rows:
        yield topics[number], _whole(time_ns), _payload(file, data)


def _database_channels(file: Path) -> list[Channel]:
    found: list[Channel] = []
    with closing(_opened(file)) as database:
        for name, decoder in _decoders(database, None).items():
            (count, start, end), first = _extent(database, name)
            if first is not None:
                topic = Topic(name, decoder(_payload(file, first)), count, _whole(start), _whole(end))
                found += describe_topic(topic)
    return found


def _extent(database: sqlite3.Connection, topic: str) -> tuple[tuple[int, Any, Any], Any]:
    one = "FROM messages WHERE topic_id IN (SELECT id FROM topics WHERE name = ?)"
    count, start, end = database.execute(
        f"SELECT count(*), min(timestamp), max(timestamp) {one}", [topic]
    ).fetchone()
    first = database.execute(f"SELECT data {one} ORDER BY timestamp, id LIMIT 1", [topic]).fetchone()
    return (int(count), start, end), first[0] if first else None


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise DamagedLog("a time stamp is not a whole number", got=repr(value)[:40])
    return value


def _payload(file: Path, data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise DamagedLog(f"{file.name}: a message is not bytes", got=type(data).__name__)
    refuse_large_piece(file, "a message", len(data))
    return data


def _joined(old: Channel | None, new: Channel) -> Channel:
    if old is None:
        return new
    starts = [t for t in (old.start_s, new.start_s) if t is not None]
    ends = [t for t in (old.end_s, new.end_s) if t is not None]
    count = (old.count or 0) + (new.count or 0)
    return replace(old, count=count, start_s=min(starts, default=None), end_s=max(ends, default=None))
