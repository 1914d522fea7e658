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
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import RobotError, RobotGone

MAGIC = b"TWL1"
MAX_HEADER_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 25
MAX_ARRAYS = 64
DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("float64", "float32", "uint8", "int64")}
"""Element types that may be sent, little endian."""

_PREFIX = struct.Struct(">4sI")


def send(
    connection: socket.socket, kind: str, arrays: Mapping[str, Array] | None = None, **fields: Any
) -> None:
    """Send one message."""
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
    try:
        connection.sendall(_PREFIX.pack(MAGIC, len(header)) + header + body)
    except OSError as error:
        raise _gone(error) from error


def receive(connection: socket.socket) -> tuple[dict[str, Any], dict[str, Array]]:
    """Receive one message; malformed or oversized ones are refused before memory is allocated."""
    magic, length = _PREFIX.unpack(_read(connection, _PREFIX.size))
    if magic != MAGIC or length > MAX_HEADER_BYTES:
        raise RobotError(
            "the data is not a Twinloop message", got=f"{magic!r}, {length} bytes", expected=f"{MAGIC!r}"
        )
    try:
        header: Any = json.loads(_read(connection, length))
        kind, listed = header["kind"], header["arrays"]
        plan = [(str(name), str(dtype), tuple(int(size) for size in shape)) for name, dtype, shape in listed]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RobotError("the header of a message cannot be parsed", got=type(error).__name__) from error
    if not isinstance(kind, str) or len(plan) > MAX_ARRAYS:
        raise RobotError("the header of a message is malformed")
    ends = [0]
    for name, dtype, shape in plan:
        if dtype not in DTYPES or len(shape) > 4 or any(size < 0 for size in shape):
            raise RobotError(f"array {name!r} cannot be received", got=f"{dtype} {shape}")
        ends.append(ends[-1] + prod(shape) * DTYPES[dtype].itemsize)
        if ends[-1] > MAX_BODY_BYTES:
            raise RobotError("a message is too long", expected=f"at most {MAX_BODY_BYTES} bytes of arrays")
    body = _read(connection, ends[-1])
    return header, {
        name: _array(body[begin:end], dtype, shape)
        for (name, dtype, shape), begin, end in zip(plan, ends[:-1], ends[1:], strict=True)
    }


def _array(data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    return np.frombuffer(data, DTYPES[dtype]).astype(dtype, copy=False).reshape(shape)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            piece = connection.recv(min(size - len(data), 1 << 20))
        except OSError as error:
            raise _gone(error) from error
        if not piece:
            raise RobotGone("the connection was closed by the other side")
        data += piece
    return bytes(data)


def _gone(error: OSError) -> RobotGone:
    if isinstance(error, TimeoutError):
        return RobotGone("the other side does not answer", remedy="check that it is still running")
    return RobotGone(f"the connection was lost ({error.strerror or error})")
