"""The log reader protocol, its registry, and checks against broken or malicious files.

A log is a set of named channels. `channels` lists them without reading the whole log; `read` yields the wanted
channels span by span, so that memory does not grow with the log. Nothing in a log is ever executed.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from twinloop.datasets.video import VideoFrames
from twinloop.episode import Array
from twinloop.errors import DamagedLog, MissingExtra, TwinloopError, UnknownName, first_line
from twinloop.plugins import Registry

SPAN_BYTES = 4 << 20
"""Approximate bytes per channel in a span."""

MAX_PIECE_BYTES = 256 << 20
"""Larger messages, chunks or array rows are refused."""

MAX_COMPRESSION_RATIO = 200
"""Beyond `MAX_PIECE_BYTES`, a higher ratio is treated as a decompression bomb."""


@dataclass(frozen=True)
class Channel:
    """One named series in a log.

    `dtype` is a NumPy type, "text", or for encoded images "h264", "jpeg", "rgb8" ...; `shape` is per sample (and
    (height, width, 3) for images, (0, 0, 3) if only decoding would tell). `count` is None if unknown.
    `constant` marks a single value for the whole log. `number_of` is the number of columns of a table without header,
    whose names are only numbers.
    """

    name: str
    shape: tuple[int, ...] = (1,)
    dtype: str = "float64"
    count: int | None = None
    unit: str | None = None
    elements: tuple[str, ...] = ()
    start_s: float | None = None
    end_s: float | None = None
    constant: bool = False
    number_of: int | None = None

    @property
    def rate_hz(self) -> float | None:
        """Mean sample rate over the log, if the log has times."""
        if self.count is None or self.start_s is None or self.end_s is None or self.count < 2:
            return None
        return (self.count - 1) / (self.end_s - self.start_s) if self.end_s > self.start_s else None

    @property
    def has_images(self) -> bool:
        """Whether the samples are encoded images."""
        return self.dtype in IMAGE_TYPES


IMAGE_TYPES = frozenset("h264 h265 vp9 av1 jpeg png rgb8 bgr8 mono8 rgba8 bgra8 video".split())
"""Image encodings; "video" is a video file."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples of one channel: `values` (n, *shape), and the log's own time stamps, if any."""

    values: Array
    time_s: Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> Block:
        return Block(self.values[part], None if self.time_s is None else self.time_s[part])


@dataclass(frozen=True)
class Images:
    """Consecutive encoded images of one channel."""

    packets: Sequence[bytes]
    time_s: Array

    def __len__(self) -> int:
        return len(self.packets)

    def __getitem__(self, part: slice) -> Images:
        return Images(self.packets[part], self.time_s[part])


Piece = Block | Images | VideoFrames
"""Samples, encoded images, or frames in a video file, which are referred to and not read."""


@dataclass(frozen=True)
class Span:
    """Consecutive data of all wanted channels; a change of `part` is an episode boundary declared by the log.

    `task` is what the log says was done in this part.
    """

    pieces: Mapping[str, Piece]
    part: str = ""
    task: str = ""


class LogReader(Protocol):
    """Reads one format; stateless, so every method may be called on any path."""

    def sniff(self, path: Path) -> float:
        """Return the confidence that `path` has its format, 0 to 1, from a few bytes at most."""

    def channels(self, path: Path) -> list[Channel]:
        """Return every channel of the log."""

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield the wanted channels in the log's order, span by span."""


READERS: Registry[LogReader] = Registry("log reader", "log_readers")

_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""Exceptions of libraries on malformed files; ValueError covers Unicode and Arrow, RuntimeError recursion."""


@contextmanager
def log_errors(path: Path, kind: str, *more: type[Exception]) -> Iterator[None]:
    """Turn a library's error on a broken file into a `DamagedLog` that names the file."""
    try:
        yield
    except TwinloopError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtra(f"reading {kind} logs", error.name or "?", "logs") from error
    except _BROKEN + more as error:
        raise DamagedLog(
            f"{path.name} cannot be read as {kind} ({first_line(error)[:200]})",
            remedy="check that the file is complete and of this format; `format:` in the map names another reader",
        ) from error


def refuse_escape(path: Path, name: str) -> None:
    """Refuse a name inside a log that points outside the log's folder."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or "\0" in name or "\\" in name:
        raise DamagedLog(f"{path.name} refers to a file outside itself", got=repr(name[:100]))


def refuse_bomb(path: Path, what: str, unpacked_bytes: int, packed_bytes: int) -> None:
    """Refuse data with the compression ratio of a decompression bomb."""
    allowed = max(MAX_PIECE_BYTES, MAX_COMPRESSION_RATIO * max(packed_bytes, 1))
    if not 0 <= unpacked_bytes <= allowed:
        raise DamagedLog(
            f"{path.name}: {what} would unpack to {unpacked_bytes / 1e9:.1f} GB",
            got=f"{packed_bytes / 1e6:.1f} MB in the file",
            expected=f"at most {MAX_COMPRESSION_RATIO} times as much",
            remedy="if it is a real recording, store it uncompressed or in smaller files",
        )


def refuse_large_piece(path: Path, what: str, size_bytes: int) -> None:
    """Refuse a piece that does not fit in memory."""
    if not 0 <= size_bytes <= MAX_PIECE_BYTES:
        raise DamagedLog(
            f"{path.name}: {what} needs {size_bytes / 1e9:.2f} GB of memory in one piece",
            expected=f"at most {MAX_PIECE_BYTES / 1e9:.2f} GB",
            remedy="write it in smaller pieces",
        )


def read_head(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file; none if there is no such file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(size_bytes)


def refuse_unknown(what: str, wanted: Sequence[str], available: Collection[str]) -> None:
    """Raise `UnknownName` for the first wanted channel that is not available."""
    for name in wanted:
        if name not in available:
            raise UnknownName(what, name, available)


def rows_per_span(row_bytes: int) -> int:
    """Return the number of rows of this size in a span."""
    return max(1, SPAN_BYTES // max(row_bytes, 1))


def as_rows(values: Array) -> Array:
    """Return (n, *shape), a scalar as (n, 1), in the byte order of this machine."""
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return values[:, None] if values.ndim == 1 else values


def bytes_of(shape: Sequence[int], dtype: np.dtype[np.generic]) -> int:
    """Return the size of an array."""
    return math.prod(int(size) for size in shape) * dtype.itemsize


def describe_array(
    name: str, shape: Sequence[int], dtype: np.dtype[np.generic], unit: str | None = None
) -> Channel:
    """Return the channel of an array whose first axis is time; a scalar is a constant."""
    rows, *row = shape or (1,)
    kind = dtype.name if is_numeric(dtype) else "text"
    return Channel(name, tuple(map(int, row)) or (1,), kind, int(rows), unit, constant=not shape)


def is_numeric(dtype: np.dtype[np.generic]) -> bool:
    """Return whether a type is a number or bool; text, objects and complex numbers are not."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8
