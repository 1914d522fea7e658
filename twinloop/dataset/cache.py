"""A memory-mapped copy of a data set's rows for training: built on first use, thrown away when the data set changes.

It lies in `.cache/twinloop/<version>/` inside the data set (or in the user's cache folder where that cannot be written),
one `.npy` file per signal with all rows of all episodes in order, so that any row is one memory access away.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.dataset.columns import from_arrow
from twinloop.dataset.reader import Dataset
from twinloop.dataset.shrink import shrink
from twinloop.episode import Array, Signal
from twinloop.errors import DamagedDataset

FOLDER = ".cache/twinloop"


def cached_rows(dataset: Dataset) -> Mapping[str, Array]:
    """Every signal of the data set as a read-only memory-mapped array (rows, *shape)."""
    folder = _folder(dataset)
    if not folder.exists():
        _build(dataset, folder)
    return {s.name: np.load(folder / f"{s.name}.npy", mmap_mode="r") for s in dataset.schema.signals}


def cached_frames(dataset: Dataset, camera: str, side: int | None = None) -> Array:
    """Every frame of one camera decoded, (rows, height, width, 3) uint8, memory-mapped: fast, and as large as it sounds.

    With `side`, frames are averaged down to `side` x `side` pixels once.
    """
    spec = dataset.schema.camera(camera)
    height, width = (side, side) if side else (spec.height, spec.width)
    size = f"-{side}" if side else ""
    path = _folder(dataset).with_name(f"{_version(dataset)}-{camera}{size}.npy")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            array = np.lib.format.open_memmap(
                temporary, "w+", np.dtype(np.uint8), (dataset.num_frames, height, width, 3)
            )
            row = 0
            for number in dataset.numbers:
                for frame in dataset.episode(number).frames[camera]:
                    array[row] = shrink(frame, side) if side else frame
                    row += 1
            array.flush()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return np.asarray(np.load(path, mmap_mode="r"))


def _clear_abandoned(path: Path) -> None:
    """Delete what processes that were killed left half made of this file."""
    for left in path.parent.glob(f".{path.name}.*"):
        try:
            os.kill(int(left.suffix[1:]), 0)
        except ProcessLookupError:
            left.unlink(missing_ok=True)
        except (ValueError, PermissionError):  # not ours, or somebody else's and alive
            continue


def drop_cache(dataset: Dataset) -> None:
    """Delete every cached copy of this data set."""
    shutil.rmtree(_folder(dataset).parent, ignore_errors=True)


def _build(dataset: Dataset, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    for old in folder.parent.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir(exist_ok=True)
    try:
        arrays = {
            s.name: np.lib.format.open_memmap(
                temporary / f"{s.name}.npy", "w+", np.dtype(s.dtype), (dataset.num_frames, *s.shape)
            )
            for s in dataset.schema.signals
        }
        row = 0
        for piece in _pieces(dataset):
            size = len(next(iter(piece.values())))
            for name, values in piece.items():
                arrays[name][row : row + size] = values
            row += size
        if row != dataset.num_frames:
            raise DamagedDataset(
                f"{dataset.root} has the wrong number of rows", got=row, expected=dataset.num_frames
            )
        for array in arrays.values():
            array.flush()
        arrays.clear()
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pieces(dataset: Dataset) -> Iterator[dict[str, Array]]:
    """The data set's rows in order, a row group at a time, as long as files are laid end to end; else per episode."""
    signals: tuple[Signal, ...] = dataset.schema.signals
    index = dataset.index
    in_order = bool(np.all(np.diff(index.file_of) >= 0)) and dataset.manifest is not None
    if not in_order:
        for number in dataset.numbers:
            yield dict(dataset.episode(number).signals)
        return
    for name in index.files:
        try:
            with pq.ParquetFile(dataset.root / name) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=[s.name for s in signals])
                    yield {s.name: from_arrow(table.column(s.name), s) for s in signals}
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise DamagedDataset(
                f"{dataset.root / name} cannot be read ({reason})", remedy="run `twinloop data verify`"
            ) from error


def _version(dataset: Dataset) -> str:
    if dataset.manifest:
        return dataset.manifest.fingerprint
    digest = hashlib.blake2b(digest_size=8)
    for name in dataset.index.files:
        path = dataset.root / name
        stamp = path.stat() if path.exists() else None
        digest.update(f"{name} {stamp and (stamp.st_size, stamp.st_mtime_ns)}".encode())
    return digest.hexdigest()


def _folder(dataset: Dataset) -> Path:
    version = _version(dataset)
    inside = dataset.root / FOLDER
    if inside.exists() or os.access(dataset.root, os.W_OK):
        return inside / version
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinloop"
    place = hashlib.blake2b(str(dataset.root.resolve()).encode(), digest_size=8).hexdigest()
    return home / place / version
