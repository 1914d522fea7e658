"""Messages over a socket: a length-prefixed JSON header and raw arrays. Received data is never executed.

4 bytes  b"TWL1"
4 bytes  length of the header, big endian
header   JSON: {"kind": ..., "arrays": [[name, dtype, shape], ...], ...}
body     the arrays one after the other, C order, little endian
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone

MAGIC = b"TWL1"
MAX_HEADER_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 25
MAX_ARRAYS = 64
MAX_DIMENSIONS = 4
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float64", "float32", "uint8", "int64")}
"""Element types that may be sent, little endian."""

TIMEOUT_S = 30.0
"""Longest wait for a whole message."""

Message = tuple[dict[str, Any], dict[str, Array]]
"""The fields of a header, and the arrays by name."""

_PREFIX = struct.Struct(">4sI")


class _Array(NamedTuple):
    """An array that a header announces."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


_Plan = list[_Array]


class Inbox:
    """Puts one message after the other together from bytes, in whatever pieces they arrive.

    Feed it at most `needed` bytes at a time. Malformed and oversized messages are refused before memory is allocated.
    """

    def __init__(
        self, max_header_bytes: int = MAX_HEADER_BYTES, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self.max_header_bytes, self.max_body_bytes = max_header_bytes, max_body_bytes
        self._message: Message | None = None
        self._header: tuple[dict[str, Any], _Plan] | None = None
        self._begin(self._read_prefix, _PREFIX.size)

    @property
    def needed(self) -> int:
        """Bytes missing from the part of the message that is being read; 0 once there is a message to take."""
        return 0 if self._message is not None else self._size - len(self._part)

    @property
    def is_empty(self) -> bool:
        """Nothing has arrived of a next message."""
        return self.needed == _PREFIX.size and self._read == self._read_prefix

    def feed(self, data: bytes) -> None:
        """Add bytes that have arrived.

        Raises:
            RobotError: They are not a message. The connection is of no use any more.
        """
        self._part += data
        while self.needed == 0 and self._message is None:
            self._read(bytes(self._part))

    def take(self) -> Message | None:
        """The message, once it is whole."""
        message, self._message = self._message, None
        return message

    def _begin(self, read: Callable[[bytes], None], size: int) -> None:
        self._read, self._size, self._part = read, size, bytearray()

    def _read_prefix(self, part: bytes) -> None:
        magic, length = _PREFIX.unpack(part)
        if magic != MAGIC or length > self.max_header_bytes:
            raise RobotError(
                "the data is not a Twinloop message", got=f"{magic!r}, {length} bytes", expected=f"{MAGIC!r}"
            )
        self._begin(self._read_header, length)

    def _read_header(self, part: bytes) -> None:
        self._header = _, plan = _parse_header(part)
        size = sum(array.size for array in plan)
        if size > self.max_body_bytes:
            raise RobotError(
                "a message is too long", expected=f"at most {self.max_body_bytes} bytes of arrays"
            )
        self._begin(self._read_body, size)

    def _read_body(self, part: bytes) -> None:
        assert self._header is not None
        header, plan = self._header
        arrays, begin = {}, 0
        for array in plan:
            values = np.frombuffer(part[begin : begin + array.size], DTYPES[array.dtype])
            arrays[array.name] = values.astype(array.dtype, copy=False).reshape(array.shape)
            begin += array.size
        self._message = header, arrays
        self._begin(self._read_prefix, _PREFIX.size)


def encode(kind: str, arrays: Mapping[str, Array] | None = None, **fields: Any) -> bytes:
    """One message as bytes."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    for name, array in contiguous.items():
        if array.dtype.name not in DTYPES:
            raise RobotError(
                f"array {name!r} cannot be sent", got=array.dtype.name, expected=", ".join(sorted(DTYPES))
            )
    listed = [[name, array.dtype.name, list(array.shape)] for name, array in contiguous.items()]
    header = json.dumps({"kind": kind, "arrays": listed, **fields}, allow_nan=False).encode()
    body = b"".join(
        array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in contiguous.values()
    )
    if len(header) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES or len(contiguous) > MAX_ARRAYS:
        raise RobotError("a message is too long", got=f"{len(header)} + {len(body)} bytes")
    return _PREFIX.pack(MAGIC, len(header)) + header + body


def send(
    connection: socket.socket, kind: str, arrays: Mapping[str, Array] | None = None, **fields: Any
) -> None:
    """Send one message within `TIMEOUT_S`."""
    message = encode(kind, arrays, **fields)
    connection.settimeout(TIMEOUT_S)  # for all of `sendall`
    try:
        connection.sendall(message)
    except OSError as error:
        raise _gone(error) from error


def receive(connection: socket.socket, timeout_s: float = TIMEOUT_S) -> Message:
    """Receive one message.

    Args:
        connection: Where it comes from.
        timeout_s: Longest wait for all of it, however slowly it arrives.

    Returns:
        Its header and arrays.

    Raises:
        RobotError: The message is malformed or oversized.
        RobotGone: The connection is lost, or the time is up.
    """
    inbox, end_s = Inbox(), time.monotonic() + timeout_s
    while (message := inbox.take()) is None:
        try:
            left_s = end_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError
            connection.settimeout(left_s)
            piece = connection.recv(min(inbox.needed, 1 << 20))
        except OSError as error:
            raise _gone(error) from error
        if not piece:
            raise RobotGone("the connection was closed by the other side")
        inbox.feed(piece)
    return message


def _parse_header(part: bytes) -> tuple[dict[str, Any], _Plan]:
    """The fields of a header and the arrays that it announces, each checked before anything is done with it."""
    try:
        header: Any = json.loads(part)
    except (ValueError, RecursionError) as error:
        raise RobotError("the header of a message cannot be parsed", got=type(error).__name__) from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise RobotError("the header of a message is malformed", expected="an object with its kind")
    listed = header.get("arrays")
    if not isinstance(listed, list) or len(listed) > MAX_ARRAYS:
        raise RobotError(
            "the header of a message is malformed", expected=f"a list of at most {MAX_ARRAYS} arrays"
        )
    plan: _Plan = []
    for one in listed:
        match one:
            case [str(name), str(dtype), list(shape)] if dtype in DTYPES and _is_shape(shape):
                plan.append(_Array(name, dtype, tuple(shape)))
            case _:
                raise RobotError("an array cannot be received", got=one, expected="its name, type and shape")
    if len({array.name for array in plan}) < len(plan):
        raise RobotError("two arrays of a message have the same name")
    return header, plan


def _is_shape(shape: list[Any]) -> bool:
    return len(shape) <= MAX_DIMENSIONS and all(
        type(size) is int and 0 <= size <= MAX_BODY_BYTES for size in shape
    )


def _gone(error: OSError) -> RobotGone:
    if isinstance(error, TimeoutError):
        return RobotGone("the other side does not answer", remedy="check that it is still running")
    return RobotGone(f"the connection was lost ({error.strerror or error})")
