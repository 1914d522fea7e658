"""A memory-mapped copy of a dataset's rows for training, built on first use and deleted when the dataset changes.

It is stored in `.cache/twinloop/<version>/` inside the dataset (or in the user's cache folder if the dataset is
read-only), one `.npy` file per signal with the rows of all episodes in order. Of several processes that need it, one
builds it and the others wait.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.columns import from_arrow
from twinloop.datasets.commit import disk_errors, read_errors, wait_for_lock
from twinloop.datasets.images import crop, crop_size, downsample
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import DamagedDataset

FOLDER = ".cache/twinloop"
LOCK = "lock"
PARTIAL = ".partial"


def cached_rows(dataset: Dataset) -> Mapping[str, Array]:
    """Return every signal of the dataset as a read-only memory-mapped array (rows, *shape)."""
    folder = _folder(dataset)
    _build(folder, lambda temporary: _copy_rows(dataset, temporary))
    return {s.name: np.load(folder / f"{s.name}.npy", mmap_mode="r") for s in dataset.schema.signals}


def cached_frames(
    dataset: Dataset, camera: str, side: int | None = None, shape: tuple[int, int] | None = None
) -> Array:
    """Return every decoded frame of one camera, memory-mapped.

    Args:
        dataset: The dataset.
        camera: The camera's name.
        side: If given, frames are downsampled to `side` x `side` pixels.
        shape: If given with `side`, frames are first center-cropped to the aspect ratio of this (height, width).

    Returns:
        (rows, height, width, 3) uint8, or (rows, side, side, 3).
    """
    path = _frames_path(dataset, camera, side, shape)
    _build(path, lambda temporary: _decode(dataset, camera, temporary, side, shape))
    return np.asarray(np.load(path, mmap_mode="r"))


def has_cached_frames(
    dataset: Dataset, camera: str, side: int | None = None, shape: tuple[int, int] | None = None
) -> bool:
    """Return whether `cached_frames` has already decoded these frames."""
    return _frames_path(dataset, camera, side, shape).exists()


def _frames_path(dataset: Dataset, camera: str, side: int | None, shape: tuple[int, int] | None) -> Path:
    spec = dataset.schema.camera(camera)
    full = (spec.height, spec.width)
    cropped = crop_size(full, shape) if shape else full
    size = (f"-{side}" if side else "") + ("" if cropped == full else f"-of-{cropped[0]}x{cropped[1]}")
    folder = _folder(dataset)
    return folder.with_name(f"{folder.name}-{camera}{size}.npy")


def _build(path: Path, write: Callable[[Path], None]) -> None:
    """Write a cached file or folder that does not exist; one process writes, the others wait."""
    if path.exists():
        return
    with wait_for_lock(path.parent / LOCK), disk_errors(path.parent):
        if path.exists():
            return
        _delete(path.parent.glob(f"*{PARTIAL}"))
        temporary = path.with_name(f"{path.name}{PARTIAL}")
        try:
            write(temporary)
            temporary.rename(path)
        finally:
            _delete([temporary])


def _decode(
    dataset: Dataset, camera: str, path: Path, side: int | None, shape: tuple[int, int] | None
) -> None:
    spec = dataset.schema.camera(camera)
    size = (side, side) if side else (spec.height, spec.width)
    array = _allocate(path, np.dtype(np.uint8), (dataset.num_frames, *size, 3))
    row = 0
    for number in dataset.numbers:
        for frame in dataset.episode(number).frames[camera]:
            array[row] = downsample(crop(frame, shape) if shape else frame, side) if side else frame
            row += 1
    array.flush()


def _allocate(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Create an array file with its disk space allocated: writing to a mapped file on a full disk kills the process."""
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def drop_cache(dataset: Dataset) -> None:
    """Delete every cached copy of this dataset."""
    shutil.rmtree(_folder(dataset).parent, ignore_errors=True)


def _copy_rows(dataset: Dataset, folder: Path) -> None:
    """Write all rows of the current version and delete earlier versions."""
    keep = (folder.name.removesuffix(PARTIAL), LOCK)
    _delete(old for old in folder.parent.iterdir() if not old.name.startswith(keep))
    folder.mkdir()
    arrays = {
        s.name: _allocate(folder / f"{s.name}.npy", np.dtype(s.dtype), (dataset.num_frames, *s.shape))
        for s in dataset.schema.signals
    }
    row = 0
    for block in _read_blocks(dataset):
        size = len(next(iter(block.values())))
        for name, values in block.items():
            arrays[name][row : row + size] = values
        row += size
    if row != dataset.num_frames:
        raise DamagedDataset(
            f"{dataset.place} has the wrong number of rows", got=row, expected=dataset.num_frames
        )
    for array in arrays.values():
        array.flush()


def _read_blocks(dataset: Dataset) -> Iterator[dict[str, Array]]:
    """Yield the dataset's rows in order: by row group if the files are in order, otherwise by episode."""
    signals, index = dataset.schema.signals, dataset.index
    if dataset.manifest is None or np.any(np.diff(index.file_of) < 0):
        for number in dataset.numbers:
            yield dict(dataset.episode(number).signals)
        return
    for name in index.files:
        with read_errors(dataset.root / name), dataset.open_parquet(name) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=[s.name for s in signals])
                yield {s.name: from_arrow(table.column(s.name), s) for s in signals}


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
