"""Verify a dataset against its own tables and checksums, and name every file and episode with a problem.

Nothing is changed, and frames are decoded only on request. Foreign datasets have no checksums, so every number is read
instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.commit import JOURNAL, STAGING, has_active_writer
from twinloop.datasets.index import EpisodeIndex, VideoIndex, empty_index, load_index
from twinloop.datasets.manifest import FileEntry, file_entry, load_manifest
from twinloop.datasets.partial_folder import Leftover, find_leftovers
from twinloop.datasets.store import parse_address
from twinloop.datasets.verification import REPAIR, Ledger, OnProgress, Verification, numbers_in, strip_root
from twinloop.datasets.verify_episodes import check_labels, check_provenance, check_videos
from twinloop.datasets.verify_rows import check_rows
from twinloop.episode import Schema
from twinloop.errors import DamagedDataset, NoDataset, WrongUse

STRAY = "does not belong to the dataset, but LeRobot would read it"
_REWRITTEN = frozenset({layout.INFO, layout.STATS, layout.TASKS})
"""Files that every commit replaces; an active writer may be ahead of the manifest we read."""


def verify(
    path: str | Path,
    *,
    decode: bool = False,
    on_progress: OnProgress | None = None,
    holding_lock: bool = False,
) -> Verification:
    """Verify a dataset, Twinloop's own or foreign. Damage is reported as findings, never raised.

    Args:
        path: The dataset.
        decode: Also decode every frame.
        on_progress: Called with (files done, files in all).
        holding_lock: The caller holds the writer lock; otherwise files that an active writer changes are skipped.

    Raises:
        NoDataset: The path holds no dataset.
        NewerFormat: The layout version is not supported.
        WrongUse: The dataset is in object storage.
    """
    if address := parse_address(path):
        raise WrongUse(
            "a dataset in object storage is checked as it is transferred",
            got=address,
            remedy=f"twinloop data pull {address} FOLDER checks every file by its hash",
        )
    root = Path(path)
    try:
        return _Check(root, decode, on_progress, busy=not holding_lock and has_active_writer(root)).run()
    except OSError as error:
        raise DamagedDataset(f"{root} cannot be checked ({error.strerror or error})") from error


class _Check(Ledger):
    """Checks files, tables and totals; rows, videos and provenance are checked by `check_*` functions."""

    def run(self) -> Verification:
        info = self._info()
        self._manifest()
        self._commits()
        schema = self._schema(info)
        index: EpisodeIndex | None = None
        self._check_files()
        listed = self._list_files()
        if info is not None and schema is not None:
            index, unreadable = self._index(info, schema, listed)
            self._report_broken(index, unreadable)
            self._check_index(index)
            check_rows(self, info, schema, index)
            for camera in schema.cameras:
                check_videos(self, camera, schema.rate_hz, index)
            if self.ours:
                check_provenance(self, index, listed)
                check_labels(self, listed)
            self._check_totals(info, index)
        else:
            self._report_broken(None, {})
        self._check_strays(index)
        findings = sorted(self.findings, key=lambda finding: (finding.severity, finding.file))
        return Verification(
            self.root,
            tuple(findings),
            len(index) if index else 0,
            int(index.length.sum()) if index else 0,
            len(self.sizes),
            sum(self.sizes.values()),
            self.version,
            self.manifest is not None,
        )

    def _info(self) -> dict[str, Any] | None:
        try:
            info = layout.load_info(self.root)
            self.version = str(info["codebase_version"])
            return info
        except NoDataset as error:
            if left := leftovers_of(self.root):
                raise NoDataset(
                    f"{self.root} was never completed: process {left[0].process} ended while writing it",
                    got=left[0].path,
                    remedy=f"write it again (`twinloop ingest --resume` continues); {_remove(left[0])}",
                ) from error
            if not written_by_twinloop(self.root):
                raise
            self.error(layout.INFO, error.what.removeprefix(f"{self.root} "), remedy=REPAIR)
        except DamagedDataset as error:
            self.error(layout.INFO, strip_root(error, self.root))
        return None

    def _manifest(self) -> None:
        self.ours = written_by_twinloop(self.root)
        try:
            self.manifest = load_manifest(self.root)
            if self.ours and self.manifest is None:
                self.error(layout.MANIFEST, "missing", remedy=REPAIR)
        except DamagedDataset as error:
            self.error(layout.MANIFEST, strip_root(error, self.root), remedy=REPAIR)

    def _commits(self) -> None:
        for one in leftovers_of(self.root):
            what = f"process {one.process} ended before it had written {one.target}"
            self.warning(one.path.name, what, remedy=_remove(one))
        if self.busy:
            return
        if (self.root / JOURNAL).exists():
            what = "a commit was interrupted; Twinloop reads the dataset correctly, LeRobot may not"
            self.error(JOURNAL, what, remedy=f"{REPAIR}, or append to it: both finish the commit")
        elif (self.root / STAGING).exists():
            what = "left by a killed writer; contains nothing that was committed"
            self.warning(STAGING, what, remedy="nothing to do: the next writer removes it")

    def _schema(self, info: Mapping[str, Any] | None) -> Schema | None:
        if info is None:
            return None
        try:
            schema, skipped = layout.schema_from_info(info)
        except DamagedDataset as error:
            self.error(layout.INFO, strip_root(error, self.root))
            return None
        for name, reason in skipped.items():
            self.warning(layout.INFO, f"feature {name!r} is skipped: {reason}")
        return schema

    def _list_files(self) -> dict[str, FileEntry]:
        """Return the dataset's files: those in the manifest, or else the tables LeRobot would find."""
        if self.manifest is not None:
            return dict(self.manifest.files)
        patterns = ("meta/episodes/*/*.parquet", f"{layout.SIDECAR}/episodes/*/*.parquet")
        paths = sorted(path for pattern in patterns for path in self.root.glob(pattern))
        return {str(path.relative_to(self.root)): FileEntry(0, "") for path in paths}

    def _check_files(self) -> None:
        """Check sizes and checksums, whatever the files contain."""
        if self.manifest is None:
            return
        self.steps[1] = 2 * len(self.manifest.files)
        for name, entry in self.manifest.files.items():
            path = self.root / name
            try:
                self.sizes[name] = path.stat().st_size
                if self.busy and name in _REWRITTEN:
                    continue
                if self.sizes[name] != entry.bytes:
                    self.broken[name] = f"wrong size; got {self.sizes[name]} bytes, expected {entry.bytes}"
                elif file_entry(path).blake2b != entry.blake2b:
                    self.broken[name] = "wrong checksum: the content has changed since the commit"
            except FileNotFoundError:
                self.broken[name] = "missing"
            except OSError as error:
                self.broken[name] = f"cannot be read ({error.strerror or error})"
            self.step()

    def _index(
        self, info: Mapping[str, Any], schema: Schema, listed: Mapping[str, FileEntry]
    ) -> tuple[EpisodeIndex, dict[str, str]]:
        """Return the index of all readable episode tables, and why the others cannot be read."""
        if self.version != layout.CODEBASE_VERSION:
            try:
                return load_index(self.root, info, schema, None), {}
            except DamagedDataset as error:
                return empty_index(schema), {"meta/episodes.jsonl": strip_root(error, self.root)}
        usable = {name: entry for name, entry in listed.items() if name not in self.broken}
        unreadable: dict[str, str] = {}
        for name in [name for name in usable if name.startswith("meta/episodes/")]:
            try:
                load_index(self.root, info, schema, [name])
            except DamagedDataset as error:
                unreadable[name] = strip_root(error, self.root)
                del usable[name]
        try:
            return load_index(self.root, info, schema, usable), unreadable
        except DamagedDataset as error:
            self.error(layout.INFO, strip_root(error, self.root))
            return empty_index(schema), unreadable

    def _report_broken(self, index: EpisodeIndex | None, unreadable: Mapping[str, str]) -> None:
        self.broken |= unreadable
        for name, what in self.broken.items():
            self.error(name, what, self._find_episodes(name, index) if index else [])

    def _find_episodes(self, name: str, index: EpisodeIndex) -> list[int]:
        """Return the episodes that need this file."""
        stored: list[EpisodeIndex | VideoIndex] = [index, *index.video.values()]
        for tree in stored:
            if name in tree.files:
                return [int(n) for n in index.numbers[tree.file_of == tree.files.index(name)]]
        for prefix, other in (
            ("meta/episodes/", f"{layout.SIDECAR}/episodes/"),
            (f"{layout.SIDECAR}/episodes/", "meta/episodes/"),
        ):
            if name.startswith(prefix):
                # Files of one commit have the same number, so either table gives the episodes of the other.
                return numbers_in(self.root / other / name.removeprefix(prefix)) or numbers_in(
                    self.root / "data" / Path(name).parent.name / Path(name).name
                )
        return []

    def _check_index(self, index: EpisodeIndex) -> None:
        for number, reason in index.skipped.items():
            self.warning(_tables(self.version), f"episode {number} is skipped: {reason}", [number])
        numbers = index.numbers
        repeated = numbers[1:][np.diff(numbers) == 0]
        if len(repeated):
            self.error(_tables(self.version), "duplicate episode numbers", repeated)
        if self.version == layout.CODEBASE_VERSION and not np.array_equal(numbers, np.arange(len(numbers))):
            what = f"episode numbers are not 0 ... {len(numbers) - 1}, which LeRobot requires"
            if self.ours and not self.broken:
                self.error("meta/episodes", what)
            elif not self.ours:
                self.warning("meta/episodes", what, remedy="`twinloop data merge` renumbers them")

    def _check_totals(self, info: Mapping[str, Any], index: EpisodeIndex) -> None:
        if self.broken and self.ours:
            return
        totals = {"total_episodes": len(index), "total_frames": int(index.length.sum())}
        for key, counted in totals.items():
            if not self.busy and info.get(key) != counted:
                what = f"{key} is {info.get(key)!r}, the tables say {counted}"
                self.complain(layout.INFO, what)
        if self.manifest is not None:
            for key, counted in totals.items():
                name = key.removeprefix("total_")
                if (recorded := getattr(self.manifest, name)) != counted:
                    self.error(layout.MANIFEST, f"{name} is {recorded}, the tables say {counted}")
        if self.ours and not self.busy:
            try:
                json.loads((self.root / layout.STATS).read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                if layout.STATS not in self.broken:
                    self.error(layout.STATS, f"cannot be read ({error})")

    def _check_strays(self, index: EpisodeIndex | None) -> None:
        """Report files that LeRobot would read although they do not belong to the dataset."""
        if self.version != layout.CODEBASE_VERSION or self.busy or (self.root / JOURNAL).exists():
            return
        paths = list(self.root.glob("data/*/*.parquet"))
        if self.manifest is not None:
            known: Collection[str] = self.manifest.files
            paths += self.root.glob("meta/episodes/*/*.parquet")
        elif index is not None:
            known = index.files
        else:
            return
        for name in sorted(str(path.relative_to(self.root)) for path in paths):
            if name not in known:
                self.error(name, STRAY, remedy=REPAIR if self.ours else "move it out of the dataset")


def leftovers_of(root: Path) -> list[Leftover]:
    """What processes that have ended left of writing this dataset, next to it."""
    return [one for one in find_leftovers(root.parent) if one.target == root]


def _remove(leftover: Leftover) -> str:
    return f"remove it: twinloop doctor --folder {leftover.path.parent} --remove-unfinished"


def written_by_twinloop(root: Path) -> bool:
    """Return whether Twinloop wrote this folder, even if its manifest is damaged."""
    try:
        return (root / layout.MANIFEST).exists() or (root / layout.SIDECAR / "episodes").is_dir()
    except OSError:
        return False


def _tables(version: str) -> str:
    return "meta/episodes" if version == layout.CODEBASE_VERSION else "meta/episodes.jsonl"
