"""NPZ archives and NPY files: every array is a channel, read in blocks of rows; pickled objects are refused."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from numpy.lib import format as npy

from twinloop.episode import Array
from twinloop.errors import DamagedLog
from twinloop.logs.reader import (
    READERS,
    Block,
    Channel,
    Span,
    as_rows,
    bytes_of,
    describe_array,
    is_numeric,
    log_errors,
    read_head,
    refuse_bomb,
    refuse_escape,
    refuse_large_piece,
    refuse_unknown,
    rows_per_span,
)

KIND = "NPZ"
_BROKEN_HEADER = (TokenError, SyntaxError)
"""What numpy raises beside ValueError on a header that is no literal."""

ARRAY = "values"
"""The channel of a file that holds a single array."""

MAX_ARRAYS = 100_000
"""An archive with more members than this is not a recording."""


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    column_major: bool

    @property
    def row_bytes(self) -> int:
        return bytes_of(self.shape[1:], self.dtype)


class NpzReader:
    """Reads what `numpy.savez` and `numpy.savez_compressed` write."""

    def sniff(self, path: Path) -> float:
        """Check for a zip file; the extension distinguishes NPZ from other zips."""
        if read_head(path, 4) not in (b"PK\x03\x04", b"PK\x05\x06"):
            return 0.0
        return 1.0 if path.suffix.lower() == ".npz" else 0.3

    def channels(self, path: Path) -> list[Channel]:
        """List every numeric array; a scalar or text is a constant."""
        found = []
        with log_errors(path, KIND, *_BROKEN_HEADER), zipfile.ZipFile(path) as archive:
            for name, info in _members(path, archive).items():
                with archive.open(info) as file:
                    header = _header(path, name, file, info.file_size)
                found.append(describe_array(name, header.shape, header.dtype))
        return found

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield the same rows of all wanted arrays; shorter ones end earlier."""
        with (
            log_errors(path, KIND, *_BROKEN_HEADER),
            zipfile.ZipFile(path) as archive,
            ExitStack() as open_files,
        ):
            members = _members(path, archive)
            refuse_unknown(f"array in {path.name}", wanted, members)
            opened: dict[str, tuple[IO[bytes], _Header]] = {}
            for name in dict.fromkeys(wanted):
                file = open_files.enter_context(archive.open(members[name]))
                opened[name] = (file, _header(path, name, file, members[name].file_size))
            rows = rows_per_span(max((header.row_bytes for _, header in opened.values()), default=1))
            blocks = [_rows(path, name, *pair, rows) for name, pair in opened.items()]
            for values in zip_longest(*blocks):
                pieces = zip(opened, values, strict=True)
                yield Span({name: Block(block) for name, block in pieces if block is not None})


READERS.register("npz")(NpzReader())


class NpyReader:
    """Reads what `numpy.save` writes: one array, as the channel `values`."""

    def sniff(self, path: Path) -> float:
        """Check the file signature."""
        return 1.0 if read_head(path, len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List the array."""
        with log_errors(path, "NPY", *_BROKEN_HEADER), path.open("rb") as file:
            header = _header(path, ARRAY, file, path.stat().st_size)
            return [describe_array(ARRAY, header.shape, header.dtype)]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield blocks of rows."""
        refuse_unknown(f"array in {path.name}", wanted, [ARRAY])
        with log_errors(path, "NPY", *_BROKEN_HEADER), path.open("rb") as file:
            header = _header(path, ARRAY, file, path.stat().st_size)
            for block in _rows(path, ARRAY, file, header, rows_per_span(header.row_bytes)):
                yield Span({ARRAY: Block(block)})


READERS.register("npy")(NpyReader())


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MAX_ARRAYS:
        raise DamagedLog(f"{path.name} has too many arrays", got=len(infos), expected=f"at most {MAX_ARRAYS}")
    for info in infos:
        refuse_escape(path, info.filename)
        refuse_bomb(path, info.filename, info.file_size, info.compress_size)
    return {info.filename.removesuffix(".npy"): info for info in infos}


def _header(path: Path, name: str, file: IO[bytes], size_bytes: int) -> _Header:
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
    if any(size < 0 for size in header.shape) or bytes_of(header.shape, dtype) > size_bytes:
        raise DamagedLog(
            f"{path.name}: array {name!r} claims more numbers than the file holds",
            got=f"{header.shape} of {dtype}",
            expected=f"at most {size_bytes} bytes",
        )
    refuse_large_piece(path, f"a row of {name!r}", header.row_bytes)
    return header


def _rows(path: Path, name: str, file: IO[bytes], header: _Header, rows: int) -> Iterator[Array]:
    """Yield blocks of rows; a column-major array is read as a whole."""
    total, *row = header.shape or (1,)
    whole = None
    if header.column_major and row:
        refuse_large_piece(path, f"the column-major array {name!r}", total * header.row_bytes)
        flat = np.frombuffer(_exactly(path, name, file, total * header.row_bytes), header.dtype)
        whole = flat.reshape(header.shape, order="F")
    for first in range(0, total, rows):
        count = min(rows, total - first)
        if whole is not None:
            yield np.ascontiguousarray(as_rows(whole[first : first + count]))
        else:
            block = np.frombuffer(_exactly(path, name, file, count * header.row_bytes), header.dtype)
            yield as_rows(block.reshape(count, *row))


def _exactly(path: Path, name: str, file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise DamagedLog(f"{path.name}: array {name!r} ends too early", got=len(content), expected=size)
    return content
