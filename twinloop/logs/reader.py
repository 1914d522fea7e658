"""What a log reader is: three methods, one registry, and the border at which a broken file becomes an error.

A log is a set of named channels. `channels` says what is there without reading all of it; `read` gives the wanted
channels span by span, so that memory does not grow with the log. Nothing a reader reads is ever executed.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from twinloop.episode import Array
from twinloop.errors import DamagedLog, MissingExtra, TwinloopError
from twinloop.plugins import Registry

SPAN_BYTES = 4 << 20
"""A span holds about this many bytes of each channel."""

LARGEST_PIECE_BYTES = 256 << 20
"""No single message, chunk or array row may need more than this: larger ones are refused, not tried."""

LARGEST_RATIO = 200
"""Beyond `LARGEST_PIECE_BYTES`, something that unpacks to more than this times its size is taken for a bomb."""


@dataclass(frozen=True)
class Channel:
    """One named series in a log.

    `dtype` is a NumPy type, "text", or for encoded images "h264", "jpeg", "rgb8" ...; `shape` is per sample (and
    (height, width, 3) for images, (0, 0, 3) when only decoding would tell). `count` is None where nobody counted.
    `constant` marks a single value for the whole log.
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

    @property
    def rate_hz(self) -> float | None:
        """Samples per second over the whole log, where the log itself knows the time."""
        if self.count is None or self.start_s is None or self.end_s is None or self.count < 2:
            return None
        return (self.count - 1) / (self.end_s - self.start_s) if self.end_s > self.start_s else None

    @property
    def has_images(self) -> bool:
        """Whether the samples are encoded images."""
        return self.dtype in PICTURE_TYPES


PICTURE_TYPES = frozenset("h264 h265 vp9 av1 jpeg png rgb8 bgr8 mono8 rgba8 bgra8 video".split())
"""Encodings of images; "video" is a whole file of them."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples of one channel: `values` (n, *shape), and the log's own time stamps where it has them."""

    values: Array
    time_s: Array | None = None


@dataclass(frozen=True)
class Images:
    """Consecutive encoded images of one channel, as the log holds them."""

    packets: Sequence[bytes]
    time_s: Array


@dataclass(frozen=True)
class VideoSpan:
    """Frames that are in a video file already: never read, only pointed at."""

    path: Path
    first: int
    count: int
    rate_hz: float
    height: int
    width: int


Piece = Block | Images | VideoSpan


@dataclass(frozen=True)
class Span:
    """The next stretch of all wanted channels. A new `part` is an episode boundary that the log itself declares."""

    pieces: Mapping[str, Piece]
    part: str = ""


class LogReader(Protocol):
    """Reads one format. A reader has no state; every method may be called on any path."""

    def sniff(self, path: Path) -> float:
        """How sure it is that `path` is its format: 0 not at all, 1 certain. Reads a few bytes at most."""

    def channels(self, path: Path) -> list[Channel]:
        """Every channel of the log."""

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """The wanted channels in the log's order, span by span."""


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
"""What libraries raise on files that are not what they claim; ValueError covers Unicode and Arrow, RuntimeError recursion."""


@contextmanager
def reading(path: Path, kind: str, *more: type[Exception]) -> Iterator[None]:
    """Whatever a library says about a broken file becomes one sentence that names the file."""
    try:
        yield
    except TwinloopError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtra(f"reading {kind} logs", error.name or "?", "logs") from error
    except _BROKEN + more as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DamagedLog(
            f"{path.name} cannot be read as {kind} ({reason})",
            remedy="check that the file is complete and of this format; `format:` in the map names another reader",
        ) from error


def refuse_escape(path: Path, name: str) -> None:
    """A name found inside a log must not lead out of the log's folder."""
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts or "\0" in name or "\\" in name:
        raise DamagedLog(f"{path.name} names something outside itself", got=repr(name[:100]))


def refuse_bomb(path: Path, what: str, unpacked_bytes: int, packed_bytes: int) -> None:
    """A few bytes that claim to unpack to gigabytes are not a recording."""
    allowed = max(LARGEST_PIECE_BYTES, LARGEST_RATIO * max(packed_bytes, 1))
    if not 0 <= unpacked_bytes <= allowed:
        raise DamagedLog(
            f"{path.name}: {what} would unpack to {unpacked_bytes / 1e9:.1f} GB",
            got=f"{packed_bytes / 1e6:.1f} MB in the file",
            expected=f"at most {LARGEST_RATIO} times as much",
            remedy="if it is a real recording, store it uncompressed or in smaller files",
        )


def refuse_large_piece(path: Path, what: str, size_bytes: int) -> None:
    """One indivisible piece has to fit in memory."""
    if not 0 <= size_bytes <= LARGEST_PIECE_BYTES:
        raise DamagedLog(
            f"{path.name}: {what} needs {size_bytes / 1e9:.2f} GB of memory in one piece",
            expected=f"at most {LARGEST_PIECE_BYTES / 1e9:.2f} GB",
            remedy="write it in smaller pieces",
        )


def rows_per_span(row_bytes: int) -> int:
    """How many rows of this size make a span."""
    return max(1, SPAN_BYTES // max(row_bytes, 1))


def as_rows(values: Array) -> Array:
    """(n, *shape) with a scalar as (n, 1)."""
    return values[:, None] if values.ndim == 1 else values


def row_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of one row of an array; a scalar is (1,)."""
    return tuple(int(size) for size in shape[1:]) or (1,)


def is_numeric(dtype: np.dtype[np.generic]) -> bool:
    """Numbers and flags; not text, objects or complex numbers."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8
