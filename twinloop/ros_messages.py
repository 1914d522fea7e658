"""ROS 2 messages: CDR decoded from definitions, without generating or executing code, and the formats of raw images.

`rosbags` parses the definitions and would compile them to Python; we interpret them instead, so that a bag cannot
execute code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twinloop.errors import DamagedLog

MAX_DEFINITION_CHARACTERS = 1 << 18
MAX_DEPTH = 32

RAW_IMAGES = {
    "rgb8": (3, [0, 1, 2]),
    "bgr8": (3, [2, 1, 0]),
    "mono8": (1, [0, 0, 0]),
    "rgba8": (4, [0, 1, 2]),
    "bgra8": (4, [2, 1, 0]),
}
"""Raw image formats: bytes per pixel, and which of them are red, green and blue."""

_NUMBERS = dict(
    pair.split("=")
    for pair in (
        "bool=? byte=B char=B octet=B int8=b uint8=B int16=h uint16=H int32=i uint32=I int64=q uint64=Q "
        "float32=f float64=d"
    ).split()
)
"""Codes of `struct` and NumPy for ROS's numbers."""

_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4
"""Field tags of `rosbags`: a number or text, another message, a fixed array, a sequence."""


class Cursor:
    """A position in one message; alignment is relative to the end of the 4-byte header."""

    def __init__(self, payload: bytes) -> None:
        if len(payload) < 4 or payload[0] != 0 or payload[1] not in (0, 1):
            raise DamagedLog("a ROS 2 message has an unknown encoding", got=payload[:4].hex() or "no bytes")
        self.data = memoryview(payload)[4:]
        self.order = "<" if payload[1] == 1 else ">"
        self.place = 0

    def number(self, code: str, size: int) -> Any:
        """Read one number."""
        start = (self.place + size - 1) & -size
        (value,) = struct.unpack_from(self.order + code, self.data, start)
        self.place = start + size
        return value

    def text(self) -> str:
        """Read a length-prefixed string."""
        length = self.number("I", 4)
        self._need(length)
        value = bytes(self.data[self.place : self.place + max(length - 1, 0)])
        self.place += length
        return value.decode(errors="replace")

    def numbers(self, code: str, size: int, count: int) -> Any:
        """Read several numbers; bytes stay bytes."""
        if count == 0:
            return b"" if code == "B" else np.zeros(0, np.dtype(code))
        start = (self.place + size - 1) & -size
        self.place = start
        self._need(count * size)
        self.place = start + count * size
        part = self.data[start : self.place]
        return bytes(part) if code == "B" else np.frombuffer(part, np.dtype(self.order + code))

    def _need(self, size: int) -> None:
        if size > len(self.data) - self.place:
            raise DamagedLog("a ROS 2 message ends too early", got=f"{len(self.data)} bytes")


Decode = Callable[[Cursor], Any]


class Definitions:
    """Message definitions by type name, and decoders built from them."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._decoders: dict[str, Decode] = {}

    def add(self, name: str, text: str, kind: str) -> None:
        """Add definitions in ROS's .msg format (`ros2msg`) or IDL (`ros2idl`)."""
        from rosbags.typesys import TypesysError, get_types_from_idl, get_types_from_msg

        if len(text) > MAX_DEFINITION_CHARACTERS:
            raise DamagedLog(f"the definition of {name[:80]} is too long", got=len(text))
        try:
            found = get_types_from_idl(text) if kind == "ros2idl" else get_types_from_msg(text, _full(name))
        except TypesysError as error:
            raise DamagedLog(f"the definition of {name[:80]} cannot be read ({str(error)[:100]})") from error
        for key, (_, fields) in found.items():
            self._fields.setdefault(str(key), fields)

    def decoder(self, name: str) -> Callable[[bytes], Mapping[str, Any]]:
        """Return a function from payload to nested dict."""
        decode = self._message(_full(name), 0)

        def decode_payload(payload: bytes) -> Mapping[str, Any]:
            value: Mapping[str, Any] = decode(Cursor(payload))
            return value

        return decode_payload

    def _message(self, name: str, depth: int) -> Decode:
        if depth > MAX_DEPTH:
            raise DamagedLog(f"message {name[:80]} contains itself")
        if name not in self._decoders:
            fields = [(str(key), self._field(kind, depth + 1)) for key, kind in self._definition(name)]

            def decode(cursor: Cursor) -> dict[str, Any]:
                return {key: read(cursor) for key, read in fields}

            self._decoders[name] = decode if fields else _empty_message
        return self._decoders[name]

    def _definition(self, name: str) -> Any:
        if name not in self._fields:
            # Bags from before ROS 2 Iron contain no definitions; the library has the standard ones.
            from rosbags.typesys import Stores, get_typestore

            standard = get_typestore(Stores.ROS2_HUMBLE).fielddefs
            if name not in standard:
                raise DamagedLog(
                    f"the log does not define the message type {name[:80]!r}",
                    remedy="record it with definitions (MCAP, or rosbag2 from ROS 2 Iron on)",
                )
            self._fields[name] = standard[name][1]
        return self._fields[name]

    def _field(self, kind: Any, depth: int) -> Decode:
        tag, detail = kind
        if tag == _BASE:
            return _base(str(detail[0]))
        if tag == _NAME:
            return self._message(str(detail), depth)
        element, count = detail
        if tag not in (_ARRAY, _SEQUENCE):
            raise DamagedLog("a message definition has a field of unknown kind")
        fixed = int(count) if tag == _ARRAY else None
        if element[0] == _BASE and element[1][0] in _NUMBERS:
            code = _NUMBERS[element[1][0]]
            size = struct.calcsize("=" + code)
            return lambda cursor: cursor.numbers(
                code, size, cursor.number("I", 4) if fixed is None else fixed
            )
        one = self._field(element, depth)
        return lambda cursor: _several(cursor, one, cursor.number("I", 4) if fixed is None else fixed)


def _several(cursor: Cursor, one: Decode, count: int) -> list[Any]:
    if count > len(cursor.data) - cursor.place:
        raise DamagedLog("a ROS 2 message claims more elements than it has bytes", got=count)
    return [one(cursor) for _ in range(count)]


def _base(name: str) -> Decode:
    if name in ("string", "bounded_string"):
        return Cursor.text
    if name not in _NUMBERS:
        raise DamagedLog(f"a message has a field of type {name[:40]!r}, which cannot be read")
    code = _NUMBERS[name]
    size = struct.calcsize("=" + code)
    return lambda cursor: cursor.number(code, size)


def _full(name: str) -> str:
    """Expand pkg/Type to pkg/msg/Type."""
    parts = name.split("/")
    return f"{parts[0]}/msg/{parts[1]}" if len(parts) == 2 else name


def _empty_message(cursor: Cursor) -> dict[str, Any]:
    """Decode a message without fields, which still takes one byte."""
    cursor.number("B", 1)
    return {}
