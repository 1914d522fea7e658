"""HDF5 files: every array is a channel under its full path, read by rows. Links to other files are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import DamagedLog, UnknownName
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
    refuse_large_piece,
    rows_per_span,
)

KIND = "HDF5"

MAX_OBJECTS = 200_000
MAX_DEPTH = 32


class Hdf5Reader:
    """Reads any layout, for example robomimic's data/demo_<n>/actions, obs/..."""

    def sniff(self, path: Path) -> float:
        """Check the file signature."""
        return 1.0 if read_head(path, 8) == b"\x89HDF\r\n\x1a\n" else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """List every array of numbers or text; demo_2 comes before demo_10."""
        with log_errors(path, KIND):
            import h5py

            with h5py.File(path, "r") as file:
                arrays = _arrays(path, file)
                return [
                    describe_array(name, arrays[name].shape, arrays[name].dtype, _unit(arrays[name]))
                    for name in sorted(arrays, key=_natural)
                ]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield the same rows of all wanted arrays; shorter ones end earlier."""
        with log_errors(path, KIND):
            import h5py

            with h5py.File(path, "r") as file:
                arrays = {}
                for name in dict.fromkeys(wanted):
                    arrays[name] = _one(path, file, name)
                    if arrays[name] is None:
                        raise UnknownName(f"array in {path.name}", name, _arrays(path, file))
                rows = rows_per_span(
                    max((bytes_of(a.shape[1:], a.dtype) for a in arrays.values()), default=1)
                )
                lengths = {name: array.shape[0] if array.shape else 1 for name, array in arrays.items()}
                for first in range(0, max(lengths.values(), default=0), rows):
                    yield Span(
                        {
                            name: Block(_values(array, slice(first, first + rows)))
                            for name, array in arrays.items()
                            if first < lengths[name]
                        }
                    )


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
    """Return one array; None if there is none of this name."""
    item, place = file, ""
    for key in name.split("/"):
        if not hasattr(item, "keys") or key not in item:
            return None
        place = f"{place}/{key}" if place else key
        item = _linked(path, item, key, place)
    return item if hasattr(item, "shape") and _checked(path, name, item) else None


def _checked(path: Path, name: str, array: Any) -> bool:
    """Return whether an array is a channel; raises if it is stored in another file or does not fit in memory."""
    if array.shape is None:
        return False
    if array.external or array.is_virtual:
        raise DamagedLog(f"{path.name}: {name} keeps its numbers in another file, which is not followed")
    if not is_numeric(array.dtype) and array.dtype.kind not in "SU" and not _is_text(array):
        return False
    if array.dtype.kind != "O":
        refuse_bomb(path, name, bytes_of(array.shape, array.dtype), int(array.id.get_storage_size()))
        refuse_large_piece(path, f"a row of {name}", bytes_of(array.shape[1:], array.dtype))
    if array.chunks is not None:
        refuse_large_piece(path, f"a chunk of {name}", bytes_of(array.chunks, array.dtype))
    return True


def _is_text(array: Any) -> bool:
    import h5py

    return h5py.check_string_dtype(array.dtype) is not None and int(np.prod(array.shape)) <= 10_000


def _unit(array: Any) -> str | None:
    for key in ("unit", "units"):
        if key in array.attrs:
            value = np.asarray(array.attrs[key]).reshape(-1)
            if not len(value):
                return None
            return value[0].decode(errors="replace") if isinstance(value[0], bytes) else str(value[0])
    return None


def _values(array: Any, rows: slice) -> Array:
    where = rows if array.shape else ()
    if is_numeric(array.dtype):
        return as_rows(np.atleast_1d(array[where]))
    return as_rows(np.asarray(array.asstr(errors="replace")[where], dtype=np.str_).reshape(-1))
