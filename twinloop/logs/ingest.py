"""Ingest logs: read, cut, convert, align, write. Every conversion is in the map and the report.

    reader -> spans -> raw episodes -> `Assembler` -> one `Episode` each -> writer

The dataset appears under its name only when it is complete; a killed ingest can be resumed from its last checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path

from twinloop.datasets.disk_space import check_disk_space
from twinloop.datasets.layout import MANIFEST
from twinloop.datasets.partial_folder import is_process_running, partial_folder
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.errors import InvalidEpisode, LogError, MapError
from twinloop.logs.assembler import Assembled, Assembler
from twinloop.logs.cameras import discard_frames, store_frames, video_settings
from twinloop.logs.checkpoint import (
    STATE,
    Checkpoint,
    Signature,
    hash_plan,
    load_checkpoint,
    save_checkpoint,
)
from twinloop.logs.group_channels import GroupChannels, find_groups
from twinloop.logs.log_map import LogMap
from twinloop.logs.originals import Originals, save_ingest_record
from twinloop.logs.raw_episode import RawEpisode
from twinloop.logs.review import find_unreviewed, require_reviewed
from twinloop.logs.sources import Log, find_logs
from twinloop.logs.stream_report import StreamReport, summarize
from twinloop.logs.twin_check import TwinCheck
from twinloop.twins.twin import Twin
from twinloop.yaml_models import format_model

OnProgress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

CHECKPOINT_BYTES = 64 << 20
"""A checkpoint is written after this many bytes of logs, which a resumed ingest does not read again."""

COMMIT_EVERY_S = 30.0
"""Commits within a long log; a resumed ingest reads the log again but does not write these episodes again."""

TEXT_FRACTION = 0.5
"""Size of a dataset relative to text logs, a high estimate; other formats are assumed to need their own size."""


@dataclass(frozen=True)
class IngestResult:
    """The new dataset, a report on each stream, and what was skipped.

    `cameras` maps each camera to how its frames were stored, `skipped` each skipped episode or file to a reason;
    `resumed` counts the episodes that an interrupted ingest had already committed.
    """

    dataset: Dataset
    streams: tuple[StreamReport, ...]
    cameras: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resumed: int = 0


def ingest(
    source: str | Path,
    out: str | Path,
    log_map: LogMap,
    *,
    map_text: str = "",
    twin: Twin | None = None,
    skip_unusable: bool = False,
    accept_guesses: bool = False,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> IngestResult:
    """Convert logs to a dataset.

    Args:
        source: A log, a folder of logs, or a pattern such as "runs/*.mcap".
        out: The new dataset.
        log_map: What the channels mean.
        map_text: The map's YAML text, stored with the dataset.
        twin: Twin of the recorded robot: joints are checked against it, and episodes refer to it.
        skip_unusable: Skip invalid episodes (NaN, time going backwards ...) instead of raising.
        accept_guesses: Use a map with unknown units or unreviewed guesses, and record that in the provenance.
        resume: Continue a killed or interrupted ingest to the same `out`.
        on_progress: Called with (bytes done, bytes in all).

    Returns:
        The dataset, a report on each stream, and what was skipped and why.

    Raises:
        LogError: A log cannot be used, or no episode was found.
        MapError: The map does not fit the log, or is not reviewed.
        DatasetError: `out` exists, or the interrupted ingest had other inputs.
    """
    accepted = find_unreviewed(log_map, map_text)
    if not accept_guesses:
        require_reviewed(accepted)
    search = find_logs(source, format=log_map.format, files=log_map.files)
    signatures = [(log.name, _size(log.path)) for log in search.logs]
    target = Path(out)
    _check_disk_space(target, search.logs, signatures)
    map_text = map_text or format_model(log_map)
    plan = hash_plan(map_text, twin.content_hash if twin else None, skip_unusable)
    with partial_folder(target, resumable=True, resume=resume) as root, _spool(root) as spool:
        start = load_checkpoint(root, plan, signatures) if resume else None
        if start is None:
            shutil.rmtree(root, ignore_errors=True)
            start = Checkpoint(plan, skipped=dict(search.ignored))
        run = _Run(root, spool, log_map, twin, skip_unusable, accepted, start)
        try:
            run.ingest_logs(search.logs, signatures, on_progress)
        finally:
            run.close()
        if not run.state.episodes:
            skipped = [f"{name}: {why}" for name, why in run.state.skipped.items()]
            raise LogError(f"no episode found in {source}", got="; ".join(skipped[:3]) or None)
        streams = run.save_record(map_text)
    state = run.state
    return IngestResult(
        open_dataset(target), streams, state.cameras, state.skipped, tuple(state.notes), run.resumed
    )


class _Run:
    """One ingest in progress; the writer is created with the schema of the first episode."""

    def __init__(
        self,
        root: Path,
        spool: Path,
        log_map: LogMap,
        twin: Twin | None,
        skip_unusable: bool,
        accepted: Sequence[str],
        start: Checkpoint,
    ) -> None:
        self.state = deepcopy(start)
        self.dataset_id = ""
        self._start = start
        self._root = root
        self._spool = spool
        self._map = log_map
        self._twin = twin
        self._joints = TwinCheck(twin) if twin is not None else None
        self._skip_unusable = skip_unusable
        self._accepted = accepted
        self._writer: DatasetWriter | None = None
        self._originals: Originals | None = None
        self.resumed = 0
        if (root / MANIFEST).exists():
            with append_to(root) as writer:
                self.resumed = writer.committed

    def ingest_logs(
        self, logs: Sequence[Log], signatures: Sequence[Signature], on_progress: OnProgress | None
    ) -> None:
        """Ingest one log after another, with a checkpoint every `CHECKPOINT_BYTES`."""
        total = sum(size for _, size in signatures)
        done = waiting = 0
        for position, (log, (_, size)) in enumerate(zip(logs, signatures, strict=True)):
            if position >= len(self._start.logs):
                self._ingest_log(log)
                waiting += size
                if waiting >= CHECKPOINT_BYTES and position + 1 < len(logs):
                    self._checkpoint(signatures[: position + 1])
                    waiting = 0
            done += size
            if on_progress:
                on_progress(done, total)

    def _ingest_log(self, log: Log) -> None:
        channels = log.channels()
        groups, skipped = find_groups(self._map, log, channels)
        self.state.skipped |= skipped
        for group in groups:
            selected = GroupChannels(self._map, group, log, channels)
            assembler = Assembler(selected, self._twin, self._accepted)
            self._check_columns(f"{log.name}#{group}" if group else log.name, assembler.columns)
            for raw in selected.episodes(self._spool):
                self._add(assembler, raw)

    def _check_columns(self, where: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse a table in which the map would select other columns than in the tables before."""
        for name, selected in columns.items():
            first, usual = self.state.columns.setdefault(name, (where, selected))
            if selected != usual:
                raise MapError(
                    f"{where}: signals.{name} would be read from other columns than in {first}",
                    got=_shorten(selected),
                    expected=_shorten(usual),
                    remedy=f"select the columns by name (signals.{name}.columns: [NAME, ...]; a columns.json beside the "
                    "log names them), or restrict `files` or `episodes.groups` to logs with the same columns",
                )

    def _add(self, assembler: Assembler, raw: RawEpisode) -> None:
        try:
            assembled = assembler(raw, self._writer.schema if self._writer else None)
            if self._joints is not None:
                self._joints.check(assembled.episode, raw.name)
        except (LogError, InvalidEpisode) as error:
            if not self._skip_unusable:
                raise
            self.state.skipped[raw.name] = error.what
            return
        if len(assembled.episode) < self._map.episodes.shortest_rows:
            self.state.skipped[raw.name] = f"only {len(assembled.episode)} rows"
            return
        self._note(raw, assembled)
        writer, originals = self._open(assembled)
        if self.state.episodes < self.resumed:
            discard_frames(assembled.frames)  # committed after the last checkpoint, before the interruption
        else:
            store_frames(writer, assembled.episode, assembled.frames, self.state.cameras)
        originals.add(assembled.episode.id, assembled.originals)
        self.state.streams += assembled.streams
        if len(self.state.streams) > 4096:
            self.state.streams = list(summarize(self.state.streams))
        self.state.episodes += 1

    def _note(self, raw: RawEpisode, assembled: Assembled) -> None:
        if raw.forced:
            self.state.notes.append(f"{raw.name} was cut from a longer recording to bound memory")
        for name, frames in assembled.frames.items():
            if frames.undecodable:
                self.state.notes.append(
                    f"{raw.name}: {frames.undecodable} images of camera {name} before its first keyframe were skipped"
                )

    def _open(self, assembled: Assembled) -> tuple[DatasetWriter, Originals]:
        if self._writer is None or self._originals is None:
            video = video_settings(assembled.frames)
            if (self._root / MANIFEST).exists():
                schema = assembled.episode.schema
                self._writer = append_to(
                    self._root, commit_every_s=COMMIT_EVERY_S, video=video, schema=schema
                )
            else:
                detail = " ".join(filter(None, (self._map.provenance.origin, self._map.provenance.licence)))
                self._writer = make_dataset(
                    self._root,
                    assembled.episode.schema,
                    commit_every_s=COMMIT_EVERY_S,
                    history=("ingested", (), " ".join(detail.split())),
                    video=video,
                )
            self.dataset_id = self._writer.dataset_id
            self._originals = Originals(self._root, self.dataset_id, self.state.parts)
            self._originals.delete_later_parts()
            save_checkpoint(self._root, self._start)
        return self._writer, self._originals

    def _checkpoint(self, logs: Sequence[Signature]) -> None:
        """Commit the originals, then the episodes, then write the checkpoint."""
        if self._writer is None or self._originals is None:
            return
        self._originals.finish_part()
        self._writer.commit()
        self.state.logs, self.state.parts = list(logs), self.state.parts + 1
        self.state.streams = list(summarize(self.state.streams))
        save_checkpoint(self._root, self.state)

    def save_record(self, map_text: str) -> tuple[StreamReport, ...]:
        """Save the map and the report with the dataset instead of the checkpoint; returns the streams' reports."""
        streams = summarize(self.state.streams)
        report = {
            "streams": [asdict(stream) for stream in streams],
            "cameras": self.state.cameras,
            "skipped": self.state.skipped,
            "notes": self.state.notes,
            "accepted_guesses": self._accepted,
        }
        (self._root / STATE).unlink(missing_ok=True)
        save_ingest_record(self._root, self.dataset_id, map_text, report)
        return streams

    def close(self) -> None:
        """Finish the files, also if all episodes had already been written."""
        if self._writer is None and self.resumed:
            self._writer = append_to(self._root)
            self.dataset_id = self._writer.dataset_id
        if self._joints is not None:
            self.state.notes += self._joints.notes
        if self._originals is not None:
            self._originals.finish_part()
        if self._writer is not None:
            self._writer.close()


def _shorten(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


@contextmanager
def _spool(root: Path) -> Iterator[Path]:
    """Yield a folder for spooled images; deletes leftovers of killed runs."""
    for stale in root.parent.glob(f"{root.name.rsplit('.', 2)[0]}.*.spool"):
        if stale == root.with_suffix(".spool") or not is_process_running(stale.suffixes[-2][1:]):
            shutil.rmtree(stale, ignore_errors=True)
    spool = root.with_suffix(".spool")
    spool.mkdir()
    try:
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def _check_disk_space(target: Path, logs: Sequence[Log], signatures: Sequence[Signature]) -> None:
    needed = sum(
        size * (TEXT_FRACTION if log.format in ("csv", "json") else 1.0)
        for log, (_, size) in zip(logs, signatures, strict=True)
    )
    check_disk_space(
        target,
        needed,
        what=f"{len(logs)} log{'s' * (len(logs) != 1)}",
        remedy="free some space, or use another disk",
    )


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
