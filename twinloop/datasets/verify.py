"""Check a dataset against everything it says about itself, and name every file and episode that does not fit.

Nothing is changed and nothing is decoded unless asked for. Other people's datasets have no checksums, so there every
number is read instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets import layout
from twinloop.datasets.commit import JOURNAL, STAGING, is_being_written
from twinloop.datasets.index import EpisodeIndex, load_index
from twinloop.datasets.manifest import FileEntry, Manifest, file_entry, load_manifest
from twinloop.datasets.verification import REPAIR, Ledger, Progress, Verification, numbers_in, told
from twinloop.datasets.verify_beside import check_labels, check_side, check_videos
from twinloop.datasets.verify_rows import check_rows
from twinloop.episode import Schema
from twinloop.errors import DamagedDataset, NoDataset

STRAY = "does not belong to the dataset, but LeRobot would read it"
_REWRITTEN = frozenset({layout.INFO, layout.STATS, layout.TASKS})
"""Files that every commit replaces, so that a running writer may be ahead of the manifest we read."""


def verify(
    path: str | Path,
    *,
    decode: bool = False,
    progress: Progress | None = None,
    holding_lock: bool = False,
) -> Verification:
    """Check one dataset, ours or anybody's; with `decode`, decode every frame as well.

    Whoever calls this while holding the writer lock says so; otherwise what a writer is changing is left alone.

    Raises `NoDataset` or `NewerFormat` where there is nothing that could be checked; damage is never an exception.
    """
    root = Path(path)
    try:
        return _Check(root, decode, progress, busy=not holding_lock and is_being_written(root)).run()
    except OSError as error:
        raise DamagedDataset(f"{root} cannot be checked ({error.strerror or error})") from error


class _Check(Ledger):
    """The files themselves, what lists them, and what they add up to; rows and what goes with them are checked elsewhere."""

    def run(self) -> Verification:
        info = self._info()
        self._manifest()
        self._commits()
        schema = self._schema(info)
        index: EpisodeIndex | None = None
        self._check_files()
        if info is not None and schema is not None:
            listed = self._listed()
            index, unreadable = self._index(info, schema, listed)
            self._report_broken(schema, index, unreadable, listed)
            self._check_index(index)
            check_rows(self, info, schema, index)
            for camera in schema.cameras:
                check_videos(self, camera, schema.rate_hz, index)
            if self.ours:
                check_side(self, index, listed)
                check_labels(self, listed)
            self._check_totals(info, index)
        else:
            self._report_broken(None, None, {}, self._listed())
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
            if not looks_like_ours(self.root):
                raise
            self.error(layout.INFO, error.what.removeprefix(f"{self.root} "), remedy=REPAIR)
        except DamagedDataset as error:
            self.error(layout.INFO, told(error, self.root))
        return None

    def _manifest(self) -> None:
        self.ours = looks_like_ours(self.root)
        try:
            self.manifest = load_manifest(self.root)
            if self.ours and self.manifest is None:
                self.error(layout.MANIFEST, "missing", remedy=REPAIR)
        except DamagedDataset as error:
            self.error(layout.MANIFEST, told(error, self.root), remedy=REPAIR)

    def _commits(self) -> None:
        if self.busy:
            return
        if (self.root / JOURNAL).exists():
            what = "a commit was interrupted; our own reader is not affected, LeRobot may be"
            self.error(JOURNAL, what, remedy=f"{REPAIR}, or open it with a writer: both finish the commit")
        elif (self.root / STAGING).exists():
            what = "left by a writer that was killed; holds nothing that was committed"
            self.warning(STAGING, what, remedy="nothing to do: the next writer removes it")

    def _schema(self, info: Mapping[str, Any] | None) -> Schema | None:
        if info is None:
            return None
        try:
            schema, skipped = layout.schema_from_info(info)
        except DamagedDataset as error:
            self.error(layout.INFO, told(error, self.root))
            return None
        for name, reason in skipped.items():
            self.warning(layout.INFO, f"feature {name!r} is left out: {reason}")
        return schema

    def _listed(self) -> dict[str, FileEntry]:
        """The dataset's files: what the manifest lists, or else what LeRobot would find."""
        if self.manifest is not None:
            return dict(self.manifest.files)
        found: list[Path] = []
        for pattern in ("meta/episodes/*/*.parquet", f"{layout.SIDE}/episodes/*/*.parquet"):
            found += self.root.glob(pattern)
        return {str(path.relative_to(self.root)): FileEntry(0, "") for path in sorted(found)}

    def _check_files(self) -> None:
        """Sizes and checksums; needs no understanding of what the files hold."""
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
                    self.broken[name] = "wrong checksum: the content has changed since it was committed"
            except FileNotFoundError:
                self.broken[name] = "missing"
            except OSError as error:
                self.broken[name] = f"cannot be read ({error.strerror or error})"
            self.step()

    def _index(
        self, info: Mapping[str, Any], schema: Schema, listed: Mapping[str, FileEntry]
    ) -> tuple[EpisodeIndex, dict[str, str]]:
        """The index of every episode table that can be read, and why the others cannot."""
        stand_in = self.manifest or Manifest("stand-in")
        usable = {name: entry for name, entry in listed.items() if name not in self.broken}
        unreadable: dict[str, str] = {}
        if self.version != layout.CODEBASE_VERSION:
            try:
                return load_index(self.root, info, schema, None), unreadable
            except DamagedDataset as error:
                unreadable["meta/episodes.jsonl"] = told(error, self.root)
                return load_index(
                    self.root, {"codebase_version": "v3.0"}, schema, Manifest("none")
                ), unreadable
        try:
            return load_index(self.root, info, schema, replace(stand_in, files=usable)), unreadable
        except DamagedDataset:
            for name in [name for name in usable if name.startswith("meta/episodes/")]:
                try:
                    load_index(self.root, info, schema, replace(stand_in, files={name: usable[name]}))
                except DamagedDataset as error:
                    unreadable[name] = told(error, self.root)
                    del usable[name]
        try:
            return load_index(self.root, info, schema, replace(stand_in, files=usable)), unreadable
        except DamagedDataset as error:
            self.error(layout.INFO, told(error, self.root))
            return load_index(self.root, info, schema, replace(stand_in, files={})), unreadable

    def _report_broken(
        self,
        schema: Schema | None,
        index: EpisodeIndex | None,
        unreadable: Mapping[str, str],
        listed: Mapping[str, FileEntry],
    ) -> None:
        self.broken |= unreadable
        for name, what in self.broken.items():
            self.error(name, what, self._episodes_of(name, schema, index, listed))

    def _episodes_of(
        self, name: str, schema: Schema | None, index: EpisodeIndex | None, listed: Mapping[str, FileEntry]
    ) -> list[int]:
        """Episodes that need this file."""
        if schema is None or index is None:
            return []
        if name in index.files:
            return [int(n) for n in index.numbers[index.file_of == index.files.index(name)]]
        for video in index.video.values():
            if name in video.files:
                return [int(n) for n in index.numbers[video.file_of == video.files.index(name)]]
        for prefix, other in (
            ("meta/episodes/", f"{layout.SIDE}/episodes/"),
            (f"{layout.SIDE}/episodes/", "meta/episodes/"),
        ):
            if name.startswith(prefix):
                # Files of one commit share one number, so each table knows which episodes its sister described.
                return numbers_in(self.root / other / name.removeprefix(prefix)) or numbers_in(
                    self.root / "data" / Path(name).parent.name / Path(name).name
                )
        return []

    def _check_index(self, index: EpisodeIndex) -> None:
        for number, reason in index.skipped.items():
            self.warning(_tables(self.version), f"episode {number} is left out: {reason}", [number])
        numbers = index.numbers
        repeated = numbers[1:][np.diff(numbers) == 0]
        if len(repeated):
            self.error(_tables(self.version), "episode numbers are used twice", repeated)
        if self.version == layout.CODEBASE_VERSION and not np.array_equal(numbers, np.arange(len(numbers))):
            what = f"episode numbers are not 0 ... {len(numbers) - 1}, which LeRobot requires"
            if self.ours and not self.broken:
                self.error("meta/episodes", what)
            elif not self.ours:
                self.warning("meta/episodes", what, remedy="`twinloop data merge` numbers them afresh")

    def _check_totals(self, info: Mapping[str, Any], index: EpisodeIndex) -> None:
        if self.broken and self.ours:
            return
        totals = {"total_episodes": len(index), "total_frames": int(index.length.sum())}
        for key, counted in totals.items():
            if not self.busy and info.get(key) != counted:
                what = f"{key} is {info.get(key)!r}, the tables say {counted}"
                complain = self.error if self.ours else self.warning
                complain(layout.INFO, what)
        if self.manifest is not None:
            pairs = {"episodes": self.manifest.episodes, "frames": self.manifest.frames}
            for (name, said), counted in zip(pairs.items(), totals.values(), strict=True):
                if said != counted:
                    self.error(layout.MANIFEST, f"{name} is {said}, the tables say {counted}")
        if self.ours and not self.busy:
            try:
                json.loads((self.root / layout.STATS).read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                if layout.STATS not in self.broken:
                    self.error(layout.STATS, f"cannot be read ({error})")

    def _check_strays(self, index: EpisodeIndex | None) -> None:
        """Files LeRobot would read because of where they are, though they do not belong to the dataset."""
        if self.version != layout.CODEBASE_VERSION or self.busy:
            return
        known = set(self.manifest.files) if self.manifest else set(index.files if index else ())
        waiting = (self.root / JOURNAL).exists()
        for path in sorted(
            [*self.root.glob("data/*/*.parquet"), *self.root.glob("meta/episodes/*/*.parquet")]
        ):
            name = str(path.relative_to(self.root))
            if name in known or waiting or (self.manifest is None and name.startswith("meta/episodes/")):
                continue
            if index is None and self.manifest is None:
                continue
            self.error(name, STRAY, remedy=REPAIR if self.ours else "move it out of the dataset")


def looks_like_ours(root: Path) -> bool:
    """Whether Twinloop wrote this folder, even if the files that would say so are damaged."""
    try:
        return (root / layout.MANIFEST).exists() or (root / layout.SIDE / "episodes").is_dir()
    except OSError:
        return False


def _tables(version: str) -> str:
    return "meta/episodes" if version == layout.CODEBASE_VERSION else "meta/episodes.jsonl"
