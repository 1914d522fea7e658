"""A dataset in object storage, seen through a folder of this machine: its tables are fetched, rows are read in place.

The view lives in the user's cache folder, one for each version of the dataset, so that a reader never sees half a commit. Rows are
read from the object itself, a row group at a time; videos are fetched when their frames are, and the least recently used are deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import layout
from twinloop.datasets.commit import VIEW, wait_for_lock, write_atomically
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.store import Folder, Stored, open_folder
from twinloop.errors import DamagedDataset, NoDataset

PUSH_LOCK = f"{layout.SIDECAR}/push.json"
REPLACED = (layout.TASKS, layout.STATS, layout.INFO)
"""Tables that every commit replaces: after everything else, before the manifest. They only ever gain tasks and rows, so
readers take those of a push that died before its manifest."""
CACHE_BYTES = 20 << 30
"""Videos of one dataset that are kept on this machine."""
FETCHERS = 16
ATTEMPTS = 3
OLD_S = 7 * 86400.0
"""Views that nobody opened for this long are deleted when another version is opened."""
MAX_META_BYTES = 64 << 30


def cache_home() -> Path:
    """Where views of remote datasets live."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinloop" / "remote"


class RemoteView:
    """A dataset in object storage and the folder that stands for it here."""

    def __init__(self, folder: Folder, root: Path) -> None:
        self.folder = folder
        self.root = root

    @property
    def address(self) -> str:
        """Where the dataset is."""
        return self.folder.address

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {entry.name: entry.bytes for entry in self.folder.list()}

    def bytes_of(self, name: str) -> int | None:
        """The size of an object, or of a table that was fetched; None where there is none."""
        path = self.root / name
        return path.stat().st_size if path.is_file() else self._sizes.get(name)

    def open_parquet(self, name: str) -> pq.ParquetFile:
        """A table as it lies in storage; only its footer is read, then the row groups and columns that are asked for."""
        if (self.root / name).exists():
            return pq.ParquetFile(self.root / name, memory_map=True)
        return pq.ParquetFile(pa.PythonFile(self.folder.open(name), mode="r"), pre_buffer=True)

    def fetch(self, name: str) -> Path:
        """A file on this machine, transferred whole if it is not here yet."""
        path = self.root / name
        if path.exists():
            os.utime(path)
            return path
        with wait_for_lock(self.root / ".cache" / "fetch.lock"):
            if not path.exists():
                write_atomically(path, self.folder.read(name))
                self._forget(keep=path)
        return path

    def _forget(self, keep: Path) -> None:
        """Delete the videos that were not used for the longest time."""
        files = sorted(
            (self.root / "videos").rglob("*.mp4"), key=lambda file: file.stat().st_mtime, reverse=True
        )
        total = 0
        for file in files:
            total += file.stat().st_size
            if total > CACHE_BYTES and file != keep:
                file.unlink(missing_ok=True)

    def rows(self, names: Iterable[str]) -> Any:
        """Tables in storage as one Arrow dataset, which reads the columns that a query needs."""
        import pyarrow.dataset as ds
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        files, root = self.folder.filesystem()
        paths = [f"{root}/{name}".lstrip("/") for name in names]
        return ds.dataset(paths, filesystem=PyFileSystem(FSSpecHandler(files)), format="parquet")


def open_remote(address: str) -> RemoteView:
    """Look at a dataset in object storage.

    Args:
        address: Such as s3://bucket/folder.

    Returns:
        The view, with every table of `meta/` as one version of the dataset has it.

    Raises:
        NoDataset: There is no such bucket, or no dataset in the folder.
        DatasetError: Access is denied.
        DamagedDataset: The tables do not fit the manifest.
    """
    folder = open_folder(address)
    home = cache_home() / hashlib.blake2b(address.encode(), digest_size=12).hexdigest()
    for attempt in range(ATTEMPTS):
        listed = {entry.name: entry for entry in folder.list("meta/") if entry.name != PUSH_LOCK}
        if layout.INFO not in listed:
            raise NoDataset(
                f"{address} is not a dataset",
                expected=f"a folder with {layout.INFO}",
                remedy="twinloop data push DATASET ADDRESS writes one",
            )
        _check_names(address, listed.values())
        root = home / _version(listed.values())
        with wait_for_lock(home / "lock"):
            if _fetch_tables(folder, root, listed):
                os.utime(root)
                _delete_old(home, root)
                return RemoteView(folder, root)
            shutil.rmtree(root, ignore_errors=True)
        time.sleep(0.2 * (attempt + 1))
    raise DamagedDataset(
        f"the tables of {address} do not fit its manifest",
        remedy="wait until it is written, or push it again from its source",
    )


def _check_names(address: str, entries: Iterable[Stored]) -> None:
    total = 0
    for entry in entries:
        total += entry.bytes
        if layout.escapes(entry.name):
            raise DamagedDataset(f"{address} holds an object outside the dataset", got=entry.name)
    if total > MAX_META_BYTES:
        raise DamagedDataset(
            f"the tables of {address} are too large", got=f"{total:,} bytes", expected=MAX_META_BYTES
        )


def _version(entries: Iterable[Stored]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for entry in sorted(entries, key=lambda entry: entry.name):
        digest.update(f"{entry.name} {entry.bytes} {entry.version}\n".encode())
    return digest.hexdigest()


def _fetch_tables(folder: Folder, root: Path, listed: dict[str, Stored]) -> bool:
    """Fetch what is not here; False if a table is not the one that the manifest lists, because a commit is under way."""
    complete = root / VIEW
    if complete.exists():
        return True
    names = [name for name in listed if name != layout.MANIFEST and not (root / name).exists()]
    try:
        with ThreadPoolExecutor(FETCHERS) as pool:
            list(pool.map(lambda name: write_atomically(root / name, folder.read(name)), names))
        if layout.MANIFEST in listed:
            write_atomically(root / layout.MANIFEST, folder.read(layout.MANIFEST))
    except FileNotFoundError:
        return False
    if not _fits(root):
        return False
    write_atomically(complete, folder.address.encode())
    return True


def _fits(root: Path) -> bool:
    """Whether every table is as the manifest lists it."""
    manifest = load_manifest(root)
    if manifest is None:
        return True
    for name, entry in manifest.files.items():
        if name.startswith("meta/") and name not in REPLACED:
            path = root / name
            if not path.exists() or path.stat().st_size != entry.bytes:
                return False
            if hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() != entry.blake2b:
                return False
    return True


def _delete_old(home: Path, current: Path) -> None:
    for other in home.iterdir():
        if other.is_dir() and other != current and time.time() - other.stat().st_mtime > OLD_S:
            shutil.rmtree(other, ignore_errors=True)
