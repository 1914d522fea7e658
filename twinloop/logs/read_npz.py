"""NPZ archives: every array is a channel, read in blocks of rows; pickled objects are refused."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from twinloop.episode import Array
from twinloop.errors import DamagedLog, UnknownName
from twinloop.logs.reader import (
    READERS,
    Block,
    Channel,
    Span,
    as_rows,
    is_numeric,
    log_errors,
    refuse_bomb,
    refuse_escape,
    refuse_large_piece,
    row_shape,
    rows_per_span,
)

KIND = "NPZ"

MAX_ARRAYS = 100_000
"""An archive with more members than this is not a recording."""


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    column_major: bool

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def row_bytes(self) -> int:
        size = int(self.dtype.itemsize)
        for axis in self.shape[1:]:
            size *= axis
        return size


class NpzReader:
    """Reads what `numpy.savez` and `numpy.savez_compressed` write."""

    def sniff(self, path: Path) -> float:
        """Check for a zip file; the extension distinguishes NPZ from other zips."""
        if not path.is_file():
            return 0.0
        with path.open("rb") as file:
            if file.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):
                return 0.0
        return 1.0 if path.suffix.lower() == ".npz" else 0.3

    def channels(self, path: Path) -> list[Channel]:
        """List every numeric array; a scalar or text is a constant."""
        found = []
        with log_errors(path, KIND), zipfile.ZipFile(path) as archive:
            for name, info in _members(path, archive).items():
                with archive.open(info) as file:
                    header = _header(path, name, file, info)
                text = header.dtype.kind in "US"
                found.append(
                    Channel(
                        name,
                        row_shape(header.shape),
                        "text" if text else header.dtype.name,
                        header.rows,
                        constant=not header.shape,
                    )
                )
        return found

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield the same rows of all wanted arrays; shorter ones end earlier."""
        with log_errors(path, KIND), zipfile.ZipFile(path) as archive, ExitStack() as open_files:
            members = _members(path, archive)
            opened: dict[str, tuple[IO[bytes], _Header]] = {}
            for name in dict.fromkeys(wanted):
                if name not in members:
                    raise UnknownName(f"array in {path.name}", name, members)
                file = open_files.enter_context(archive.open(members[name]))
                opened[name] = (file, _header(path, name, file, members[name]))
            rows = rows_per_span(max((header.row_bytes for _, header in opened.values()), default=1))
            whole = {name: _rows(path, name, *pair, rows) for name, pair in opened.items()}
            while whole:
                pieces = {}
                for name in list(whole):
                    block = next(whole[name], None)
                    if block is None:
                        del whole[name]
                    else:
                        pieces[name] = Block(block)
                if pieces:
                    yield Span(pieces)


READERS.register("npz")(NpzReader())


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_ARRAYS:
        raise DamagedLog(f"{path.name} has too many arrays", got=len(infos), expected=f"at most {MAX_ARRAYS}")
    for info in infos:
        refuse_escape(path, info.filename)
        refuse_bomb(path, info.filename, info.file_size, info.compress_size)
    return {info.filename.removesuffix(".npy"): info for info in infos}


def _header(path: Path, name: str, file: IO[bytes], info: zipfile.ZipInfo) -> _Header:
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, column_major, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, column_major, dtype = npy.read_array_header_2_0(file)
    else:
        raise DamagedLog(f"{path.name}: array {name!r} has an unknown format", got=f"version {version}")
    if dtype.hasobject:
        raise DamagedLog(
            f"{path.name}: array {name!r} holds pickled Python objects, which are never loaded",
            remedy="save it again as plain numbers, for example with numpy.savez and dtype=float",
        )
    if not is_numeric(dtype) and dtype.kind not in "US":
        raise DamagedLog(f"{path.name}: array {name!r} does not hold numbers or text", got=dtype)
    header = _Header(tuple(int(size) for size in shape), dtype, bool(column_major))
    if any(size < 0 for size in header.shape) or header.rows * header.row_bytes > info.file_size:
        raise DamagedLog(
            f"{path.name}: array {name!r} claims more numbers than the file holds",
            got=f"{header.shape} of {dtype}",
            expected=f"at most {info.file_size} bytes",
        )
    refuse_large_piece(path, f"a row of {name!r}", header.row_bytes)
    return header


def _rows(path: Path, name: str, file: IO[bytes], header: _Header, rows: int) -> Iterator[Array]:
    left = header.rows
    if header.column_major and len(header.shape) > 1:
        refuse_large_piece(path, f"the column-major array {name!r}", left * header.row_bytes)
        flat = np.frombuffer(_exactly(path, name, file, left * header.row_bytes), header.dtype)
        whole = flat.reshape(header.shape, order="F")
        yield from (as_rows(_native(whole[first : first + rows])) for first in range(0, left, rows))
        return
    while left > 0:
        count = min(rows, left)
        block = np.frombuffer(_exactly(path, name, file, count * header.row_bytes), header.dtype)
        yield as_rows(_native(block.reshape(count, *header.shape[1:])))
        left -= count


def _exactly(path: Path, name: str, file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise DamagedLog(f"{path.name}: array {name!r} ends too early", got=len(content), expected=size)
    return content


def _native(array: Array) -> Array:
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
