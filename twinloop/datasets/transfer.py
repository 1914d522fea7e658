"""Datasets between folders and object storage: `push` and `pull`, resumable, checked by hash, the manifest last.

A push holds a lock object, creates or replaces every object only as the version it looked at, and commits by replacing the manifest
as the version it started from. So a push that dies, or that was thought dead, changes nothing that is committed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twinloop.datasets import layout
from twinloop.datasets.commit import has_active_writer, write_atomically
from twinloop.datasets.local_folder import LocalFolder
from twinloop.datasets.manifest import Manifest, file_entry, load_manifest, parse_manifest
from twinloop.datasets.remote import PUSH_LOCK, REPLACED
from twinloop.datasets.store import Changed, Folder, Stored, open_folder, parse_address
from twinloop.durable import sync_tree
from twinloop.errors import DamagedDataset, DatasetError, LockedDataset, NoDataset, WrongUse

WORKERS = 8
COPIES = f"{layout.SIDECAR}/tables/"
"""Copies of the replaced tables by their hash, from which a reader gets those of the last commit if a push died before its own."""

OnProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@dataclass(frozen=True)
class Transfer:
    """What a push or pull did: files and bytes that were transferred, and those that were there already."""

    source: str
    target: str
    episodes: int
    files: int
    bytes: int
    present: int


def push(
    dataset: str | Path,
    target: str | Path,
    *,
    break_lock: bool = False,
    on_progress: OnProgress | None = None,
) -> Transfer:
    """Copy a dataset, or what it has gained since, to object storage or to another folder.

    Args:
        dataset: A folder that Twinloop wrote.
        target: Such as s3://bucket/folder, or a folder; it is empty, or holds an earlier version of this dataset.
        break_lock: Go on although another push holds the lock, because it is known to be dead.
        on_progress: Called with bytes done and bytes in all.

    Returns:
        What was transferred. A push that was interrupted is resumed by another one.

    Raises:
        WrongUse: The target holds another dataset, or episodes that this one lacks.
        LockedDataset: Another push is under way, or the dataset is being written.
        DamagedDataset: A file is not as its manifest lists it.
    """
    root, folder = Path(dataset), _open(target)
    manifest = load_manifest(root)
    if manifest is None:
        layout.load_info(root)
        raise WrongUse(
            f"{root} was not written by Twinloop, so its files have no checksums",
            remedy=f"copy it first: twinloop data merge {root} --out NEW",
        )
    if has_active_writer(root):
        raise LockedDataset(f"{root} is being written", remedy="push it when its writer is done")
    with _push_lock(folder, break_lock):
        head = folder.head(layout.MANIFEST)
        there = _read_manifest(folder) if head else None
        _check_forward(root, manifest, there, folder.address)
        present = {entry.name: entry for entry in folder.list()}
        return _send(root, manifest, there, folder, head, present, on_progress)


def _send(
    root: Path,
    manifest: Manifest,
    there: Manifest | None,
    folder: Folder,
    head: Stored | None,
    present: Mapping[str, Stored],
    on_progress: OnProgress | None,
) -> Transfer:
    """Transfer what is missing: files of commits, records, tables, and the manifest as the commit point."""
    committed = {} if there is None else dict(there.files)
    wanted = {name: root / name for name in manifest.files}
    wanted |= {name: root / name for name in _list_records(root) if name not in manifest.files}
    early = [
        n
        for n in wanted
        if n not in REPLACED and not _is_there(n, manifest, committed, present, folder, wanted[n])
    ]
    late = [n for n in REPLACED if n in wanted]
    sizes = {name: wanted[name].stat().st_size for name in (*early, *late)}
    total, done = sum(sizes.values()), 0

    def send(name: str) -> int:
        content = wanted[name].read_bytes()
        _check_content(root, name, content, manifest)
        old = present.get(name)
        folder.put(name, content, replaces=None if old is None else old.version)
        return len(content)

    try:
        with ThreadPoolExecutor(WORKERS) as pool:
            for size in pool.map(send, early):
                done += size
                if on_progress:
                    on_progress(done, total)
        for name in late:
            content = wanted[name].read_bytes()
            with contextlib.suppress(Changed):  # it is there: an earlier push put it
                folder.put(f"{COPIES}{manifest.files[name].blake2b}", content)
            done += send(name)
        content = (root / layout.MANIFEST).read_bytes()
        if content != manifest.to_bytes():
            raise Changed(f"{root} has been written meanwhile")
        folder.put(layout.MANIFEST, content, replaces=None if head is None else head.version)
    except Changed as error:
        raise LockedDataset(f"{error.what}; nothing was committed", remedy="push it again") from error
    kept = {f"{COPIES}{manifest.files[name].blake2b}" for name in late}
    for name in set(present) - kept:
        if name.startswith(COPIES):
            folder.delete(name)
    if on_progress:
        on_progress(total, total)
    return Transfer(
        str(root),
        folder.address,
        manifest.episodes,
        len(early) + len(late) + 1,
        done,
        len(wanted) - len(early) - len(late),
    )


def pull(source: str | Path, out: str | Path, *, on_progress: OnProgress | None = None) -> Transfer:
    """Copy a dataset from object storage, or from another folder, into a folder of this machine.

    Args:
        source: Such as s3://bucket/folder, or a folder.
        out: The folder. If it holds an earlier version of this dataset, it gains what is new; a pull that was interrupted is resumed.
        on_progress: Called with bytes done and bytes in all.

    Returns:
        What was transferred.

    Raises:
        NoDataset: There is no dataset.
        WrongUse: The folder holds another dataset, or episodes that the source lacks.
        DamagedDataset: What arrived is not what the manifest lists.
    """
    folder, root = _open(source), Path(out)
    try:
        content = folder.read(layout.MANIFEST)
    except FileNotFoundError as error:
        raise NoDataset(
            f"{folder.address} is no dataset that Twinloop wrote", expected=f"an object {layout.MANIFEST}"
        ) from error
    manifest = parse_manifest(content, folder.address)
    here = load_manifest(root) if (root / layout.MANIFEST).exists() else None
    if here is None and root.exists() and not _is_partial(root):
        raise WrongUse(f"{root} exists already and is not this dataset", remedy="choose another folder")
    if here is not None:
        _check_forward(Path(folder.address), manifest, here, str(root))
        if has_active_writer(root):
            raise LockedDataset(f"{root} is being written", remedy="pull when its writer is done")
    return _receive(folder, root, manifest, content, here, on_progress)


def _receive(
    folder: Folder,
    root: Path,
    manifest: Manifest,
    content: bytes,
    here: Manifest | None,
    on_progress: OnProgress | None,
) -> Transfer:
    root.mkdir(parents=True, exist_ok=True)
    listed = {entry.name: entry for entry in folder.list()}
    for name in listed:
        if layout.escapes(name):
            raise DamagedDataset(f"{folder.address} holds an object outside the dataset", got=name)
    records = [n for n in listed if _is_record(n) and n not in manifest.files]
    unchanged = (
        {} if here is None else {n for n, entry in here.files.items() if manifest.files.get(n) == entry}
    )
    wanted = [n for n in (*manifest.files, *records) if n not in unchanged]
    missing = [n for n in wanted if not _has(root / n, n, manifest)]
    total = sum(manifest.files[n].bytes if n in manifest.files else listed[n].bytes for n in missing)
    done = 0

    def fetch(name: str) -> int:
        try:
            found = folder.read(name)
        except FileNotFoundError as error:
            raise DamagedDataset(
                f"{folder.address} lacks a file that its manifest lists", got=name
            ) from error
        entry = manifest.files.get(name)
        if name in REPLACED and entry is not None and _hash(found) != entry.blake2b:
            found = folder.read(f"{COPIES}{entry.blake2b}")  # a push died between this table and its manifest
        _check_content(Path(folder.address), name, found, manifest)
        write_atomically(root / name, found)
        return len(found)

    early = [name for name in missing if name not in REPLACED]
    with ThreadPoolExecutor(WORKERS) as pool:
        for size in pool.map(fetch, early):
            done += size
            if on_progress:
                on_progress(done, total)
    for name in (name for name in REPLACED if name in missing):
        done += fetch(name)
    sync_tree(root)
    write_atomically(root / layout.MANIFEST, content)
    return Transfer(
        folder.address, str(root), manifest.episodes, len(missing) + 1, done, len(wanted) - len(missing)
    )


def _open(place: str | Path) -> Folder:
    address = parse_address(place)
    return open_folder(address) if address else LocalFolder(Path(place))


def _read_manifest(folder: Folder) -> Manifest:
    return parse_manifest(folder.read(layout.MANIFEST), folder.address)


def _check_forward(source: Path, new: Manifest, old: Manifest | None, target: str) -> None:
    """Refuse to replace another dataset, or one that has files that the new version does not."""
    if old is None:
        return
    if old.dataset_id != new.dataset_id:
        raise WrongUse(
            f"{target} holds another dataset",
            got=old.dataset_id,
            expected=new.dataset_id,
            remedy="choose another place",
        )
    lost = [
        name for name, entry in old.files.items() if name not in REPLACED and new.files.get(name) != entry
    ]
    if lost:
        raise WrongUse(
            f"{target} has episodes that {source} does not have",
            got=f"{len(lost)} other files, such as {sorted(lost)[0]}",
            remedy="pull it to another folder and merge the two: twinloop data merge",
        )


def _list_records(root: Path) -> list[str]:
    """Files beside those of commits: labels, overrides, records of generation and ingest, twins."""
    found = (path for path in (root / layout.SIDECAR).rglob("*") if path.is_file())
    return [name for name in (str(path.relative_to(root)) for path in sorted(found)) if _is_record(name)]


def _is_record(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    inside = name.removeprefix(f"{layout.SIDECAR}/")
    if inside == name or last.startswith(".") or inside.startswith(("staging/", "tables/")):
        return False
    return name not in (layout.MANIFEST, PUSH_LOCK) and inside not in ("lock", "journal.json")


def _is_there(
    name: str,
    manifest: Manifest,
    committed: Mapping[str, object],
    present: Mapping[str, Stored],
    folder: Folder,
    path: Path,
) -> bool:
    """Whether an object is there with the right content: as committed, or as an earlier push left it."""
    entry, found = manifest.files.get(name), present.get(name)
    if found is None:
        return False
    if entry is not None and committed.get(name) == entry and found.bytes == entry.bytes:
        return True
    size = path.stat().st_size if entry is None else entry.bytes
    if found.bytes != size:
        return False
    expected = file_entry(path).blake2b if entry is None else entry.blake2b
    return _hash(folder.read(name)) == expected


def _has(path: Path, name: str, manifest: Manifest) -> bool:
    entry = manifest.files.get(name)
    return (
        entry is not None
        and path.is_file()
        and path.stat().st_size == entry.bytes
        and file_entry(path) == entry
    )


def _check_content(source: Path, name: str, content: bytes, manifest: Manifest) -> None:
    entry = manifest.files.get(name)
    if entry is not None and (len(content) != entry.bytes or _hash(content) != entry.blake2b):
        raise DamagedDataset(
            f"{source}/{name} is not as its manifest lists it",
            got=f"{len(content):,} bytes",
            expected=f"{entry.bytes:,} bytes with hash {entry.blake2b}",
            remedy="run `twinloop data verify`; it may be being written",
        )


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _is_partial(root: Path) -> bool:
    """Whether a folder is empty or what an interrupted pull left: files of a dataset, and no manifest."""
    return root.is_dir() and all(path.name in ("data", "videos", "meta") for path in root.iterdir())


@contextmanager
def _push_lock(folder: Folder, break_lock: bool) -> Iterator[None]:
    """Hold the lock object of a place; it names its holder, and outlives a holder that is killed."""
    content = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "at": time.time()}).encode()
    found = folder.head(PUSH_LOCK)
    if found is not None and not break_lock and not _is_dead(folder):
        raise LockedDataset(
            f"{folder.address} is being pushed to by {_describe_holder(folder)}",
            remedy="wait for it; if it is dead: twinloop data push ... --break-lock",
        )
    try:
        version = folder.put(PUSH_LOCK, content, replaces=None if found is None else found.version)
    except Changed as error:
        raise LockedDataset(
            f"{folder.address} is being pushed to by someone else", remedy="wait for it"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(DatasetError, FileNotFoundError):
            now = folder.head(PUSH_LOCK)
            if now is not None and now.version == version:
                folder.delete(PUSH_LOCK)


def _holder(folder: Folder) -> dict[str, object]:
    try:
        found = json.loads(folder.read(PUSH_LOCK))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _describe_holder(folder: Folder) -> str:
    found = _holder(folder)
    return f"process {found.get('process', '?')} on {found.get('host', '?')}"


def _is_dead(folder: Folder) -> bool:
    """Whether the holder was a process of this machine that no longer runs."""
    found = _holder(folder)
    number = found.get("process")
    if found.get("host") != socket.gethostname() or not isinstance(number, int) or number <= 0:
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
