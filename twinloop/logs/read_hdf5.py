"""HDF5 files: every array is a channel under its full path, read by rows. Links to other files are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    refuse_large_piece,
    row_shape,
    rows_per_span,
)

KIND = "HDF5"

MAX_OBJECTS = 200_000
MAX_DEPTH = 32

_UNIT_ATTRIBUTES = ("unit", "units")


class Hdf5Reader:
    """Reads any layout, for example robomimic's data/demo_<n>/actions, obs/..."""

    def sniff(self, path: Path) -> float:
        """Check the file signature."""
        if not path.is_file():
            return 0.0
        with path.open("rb") as file:
            return 1.0 if file.read(8) == b"\x89HDF\r\n\x1a\n" else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List every array of numbers or text; demo_2 comes before demo_10."""
        with log_errors(path, KIND):
            import h5py

            with h5py.File(path, "r") as file:
                arrays = _arrays(path, file)
                return [_channel(name, arrays[name]) for name in sorted(arrays, key=_natural)]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield the same rows of all wanted arrays; shorter ones end earlier."""
        with log_errors(path, KIND):
            import h5py

            with h5py.File(path, "r") as file:
                arrays = {}
                for name in dict.fromkeys(wanted):
                    found = _one(path, file, name)
                    if found is None:
                        raise UnknownName(f"array in {path.name}", name, _arrays(path, file))
                    arrays[name] = found
                rows = rows_per_span(max((_row_bytes(array) for array in arrays.values()), default=1))
                longest = max((_rows(array) for array in arrays.values()), default=0)
                for first in range(0, longest, rows):
                    pieces = {
                        name: Block(_values(array, first, rows))
                        for name, array in arrays.items()
                        if first < _rows(array)
                    }
                    yield Span(pieces)


READERS.register("hdf5")(Hdf5Reader())


def _natural(name: str) -> list[Any]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _arrays(path: Path, file: Any) -> dict[str, Any]:
    """Find every array below the root, without following links out of the file or in a circle."""
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any, int]] = [("", file, 0)]
    seen = 0
    while waiting:
        prefix, group, depth = waiting.pop()
        for key in group:
            seen += 1
            if seen > MAX_OBJECTS or depth > MAX_DEPTH:
                raise DamagedLog(f"{path.name} has too many objects or groups too deep")
            name = f"{prefix}/{key}" if prefix else key
            item = _linked(path, group, key, name)
            if item is None:
                continue
            if hasattr(item, "shape"):
                if _checked(path, name, item):
                    found[name] = item
            elif hasattr(item, "keys"):
                waiting.append((name, item, depth + 1))
    return found


def _linked(path: Path, group: Any, key: str, name: str) -> Any:
    import h5py

    link = group.get(key, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise DamagedLog(
            f"{path.name}: {name} is a link to another file, which is not followed", got=link.filename
        )
    if isinstance(link, h5py.SoftLink):
        return None
    return group[key]


def _one(path: Path, file: Any, name: str) -> Any:
    group = file
    *above, last = name.split("/")
    for depth, key in enumerate(above):
        if key not in group:
            return None
        group = _linked(path, group, key, "/".join(above[: depth + 1]))
        if not hasattr(group, "keys"):
            return None
    if last not in group:
        return None
    item = _linked(path, group, last, name)
    return item if item is not None and hasattr(item, "shape") and _checked(path, name, item) else None


def _checked(path: Path, name: str, array: Any) -> bool:
    """Return whether an array is a channel; raises if it is stored in another file or does not fit in memory."""
    if array.shape is None:
        return False
    if array.external or array.is_virtual:
        raise DamagedLog(f"{path.name}: {name} keeps its numbers in another file, which is not followed")
    if not is_numeric(array.dtype) and array.dtype.kind not in "SU" and not _is_text(array):
        return False
    size = int(np.prod([float(s) for s in array.shape])) * array.dtype.itemsize
    if array.dtype.kind != "O":
        refuse_bomb(path, name, size, int(array.id.get_storage_size()))
        refuse_large_piece(path, f"a row of {name}", _row_bytes(array))
    if array.chunks is not None:
        chunk = int(np.prod([float(s) for s in array.chunks])) * array.dtype.itemsize
        refuse_large_piece(path, f"a chunk of {name}", chunk)
    return True


def _is_text(array: Any) -> bool:
    import h5py

    return h5py.check_string_dtype(array.dtype) is not None and int(np.prod(array.shape)) <= 10_000


def _channel(name: str, array: Any) -> Channel:
    text = not is_numeric(array.dtype)
    unit = next((_attribute(array, key) for key in _UNIT_ATTRIBUTES if key in array.attrs), None)
    return Channel(
        name,
        row_shape(array.shape),
        "text" if text else array.dtype.name,
        _rows(array),
        unit,
        constant=array.shape == (),
    )


def _attribute(array: Any, key: str) -> str | None:
    value = np.asarray(array.attrs[key]).reshape(-1)
    if not len(value):
        return None
    return value[0].decode(errors="replace") if isinstance(value[0], bytes) else str(value[0])


def _rows(array: Any) -> int:
    return int(array.shape[0]) if array.shape else 1


def _row_bytes(array: Any) -> int:
    size = int(array.dtype.itemsize)
    for axis in array.shape[1:]:
        size *= int(axis)
    return size


def _values(array: Any, first: int, rows: int) -> Any:
    if not is_numeric(array.dtype):
        part = (
            array.asstr(errors="replace")[()]
            if not array.shape
            else array.asstr(errors="replace")[first : first + rows]
        )
        return as_rows(np.asarray(part, dtype=np.str_).reshape(-1))
    part = np.asarray(array[()])[None] if not array.shape else np.asarray(array[first : first + rows])
    return as_rows(part.astype(part.dtype.newbyteorder("="), copy=False))
