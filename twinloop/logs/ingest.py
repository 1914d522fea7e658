"""Logs to a dataset: read, cut, convert, align, write. Everything done to the numbers is in the map and the report.

    reader -> spans -> `cut` raw episodes -> `assemble` one `Episode` each -> writer

The dataset appears under its name only when it is complete; a killed ingest goes on from its last checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from twinloop.datasets.layout import MANIFEST
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.rewrite import building, is_running
from twinloop.datasets.room import check_room
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.errors import InvalidEpisode, LogError
from twinloop.logs.assemble import Assembled, Assembler
from twinloop.logs.cameras import discard_frames, settings_for, store_frames
from twinloop.logs.checkpoint import (
    Checkpoint,
    Signature,
    drop_checkpoint,
    load_checkpoint,
    plan_of,
    save_checkpoint,
)
from twinloop.logs.cut import RawEpisode
from twinloop.logs.log_map import LogMap
from twinloop.logs.open_questions import open_questions, require_answers
from twinloop.logs.originals import Originals, as_yaml, keep_record, report_of
from twinloop.logs.sources import Log, find_logs
from twinloop.logs.stream_report import StreamReport, summarize
from twinloop.logs.twin_check import TwinCheck
from twinloop.logs.wanted import Wanted, find_groups
from twinloop.twins.twin import Twin

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

CHECKPOINT_BYTES = 64 << 20
"""After logs of this size in all, what is written is made safe and these logs are not read again."""

COMMIT_EVERY_S = 30.0
"""Within a long log, episodes are made safe this often; its rest is found by reading it again, not by writing again."""

TEXT_SHARE = 0.5
"""What a text takes as a dataset, on the large side; other formats are taken to need as much as they have."""


@dataclass(frozen=True)
class Ingested:
    """What came of it: the dataset, how regular each stream was and what was done to it, what was left out.

    `cameras` says for each camera how its frames got in; `skipped` gives a reason for each episode or file that did
    not; `resumed` counts the episodes that an interrupted ingest had made safe.
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
    progress: Progress | None = None,
) -> Ingested:
    """Write the logs at a path as a dataset, as a map says.

    Args:
        source: A log, a folder of logs, or a pattern such as "runs/*.mcap".
        out: Folder of the new dataset.
        log_map: What the channels mean: names, units, clocks, episodes.
        map_text: The map as written, kept with the data.
        twin: The twin of the recorded robot. Joints are checked against it, and every episode names it.
        skip_unusable: Leave out episodes that break the rules (NaN, time going backwards) instead of refusing them.
        accept_guesses: Use a map that leaves units or guesses open; every episode's provenance says so.
        resume: Continue an interrupted ingest into the same `out`.
        progress: Called with the numbers of bytes done and in all.

    Returns:
        The dataset, rate and jitter of each stream, and what was skipped with the reasons.

    Raises:
        MapError: The map leaves something open, or names a channel that does not exist.
        LogError: A log cannot be read, or its joints do not fit the twin.
        InvalidEpisode: An episode breaks the rules and `skip_unusable` is false.
    """
    accepted = open_questions(log_map, map_text)
    if not accept_guesses:
        require_answers(accepted)
    found = find_logs(source, format=log_map.format, files=log_map.files)
    signatures = [(log.name, _size(log.path)) for log in found.logs]
    target = Path(out)
    _require_room(target, found.logs, signatures)
    plan = plan_of(map_text or as_yaml(log_map), twin.content_hash if twin else None, skip_unusable)
    with building(target, resumable=True, resume=resume) as root, _spool(root) as spool:
        start = load_checkpoint(root, plan, signatures) if resume else None
        if start is None:
            shutil.rmtree(root, ignore_errors=True)
            start = Checkpoint(plan, skipped=dict(found.ignored))
        run = _Run(root, spool, log_map, twin, skip_unusable, tuple(accepted), start)
        try:
            run.take_in_all(found.logs, signatures, progress)
        finally:
            run.close()
        if run.episodes == 0:
            raise LogError(
                f"no episode came out of {source}",
                got="; ".join(f"{name}: {why}" for name, why in list(run.skipped.items())[:3]) or None,
            )
        streams = summarize(run.reports)
        drop_checkpoint(root)
        report = report_of(streams, run.cameras, run.skipped, run.notes, accepted)
        keep_record(root, run.dataset_id, log_map, map_text, report)
    return Ingested(open_dataset(target), streams, run.cameras, run.skipped, tuple(run.notes), run.resumed)


class _Run:
    """One ingest in progress: the writer is made when the first episode shows what the signals look like."""

    def __init__(
        self,
        root: Path,
        spool: Path,
        log_map: LogMap,
        twin: Twin | None,
        skip_unusable: bool,
        accepted: tuple[str, ...],
        start: Checkpoint,
    ) -> None:
        self.skipped = dict(start.skipped)
        self.reports = list(start.streams)
        self.cameras = dict(start.cameras)
        self.notes = list(start.notes)
        self.episodes = start.episodes
        self.dataset_id = ""
        self._root = root
        self._spool = spool
        self._map = log_map
        self._twin = twin
        self._joints = TwinCheck(twin) if twin is not None else None
        self._skip_unusable = skip_unusable
        self._accepted = accepted
        self._start = start
        self._parts = start.parts
        self._writer: DatasetWriter | None = None
        self._originals: Originals | None = None
        self._safe = self._committed()
        self.resumed = self._safe

    def _committed(self) -> int:
        """Episodes of an interrupted run that are in the dataset already."""
        if not (self._root / MANIFEST).exists():
            return 0
        with append_to(self._root) as writer:
            return writer.committed

    def take_in_all(
        self, logs: Sequence[Log], signatures: Sequence[Signature], progress: Progress | None
    ) -> None:
        """One log after the other; every so many bytes a checkpoint."""
        total = sum(size for _, size in signatures)
        done = waiting = 0
        for position, (log, (_, size)) in enumerate(zip(logs, signatures, strict=True)):
            if position >= len(self._start.logs):
                self._take_in(log)
                waiting += size
                if waiting >= CHECKPOINT_BYTES and position + 1 < len(logs):
                    self._checkpoint(signatures[: position + 1])
                    waiting = 0
            done += size
            if progress:
                progress(done, total)

    def _take_in(self, log: Log) -> None:
        channels = {channel.name: channel for channel in log.reader.channels(log.path)}
        groups, left_out = find_groups(self._map, log, channels)
        self.skipped |= left_out
        for group in groups:
            wanted = Wanted(self._map, group, log, channels)
            assembler = Assembler(
                self._map, wanted.renamed, channels, wanted.constants(log), log, self._twin, self._accepted
            )
            for raw in wanted.episodes(log, self._spool):
                self._add(assembler, raw)

    def _add(self, assembler: Assembler, raw: RawEpisode) -> None:
        try:
            assembled = assembler(raw, self._writer.schema if self._writer else None)
            if self._joints is not None:
                self._joints.check(assembled.episode, raw.name)
        except (LogError, InvalidEpisode) as error:
            if not self._skip_unusable:
                raise
            self.skipped[raw.name] = error.what
            return
        if len(assembled.episode) < self._map.episodes.shortest_rows:
            self.skipped[raw.name] = f"only {len(assembled.episode)} rows"
            return
        self._note(raw, assembled)
        writer, originals = self._open(assembled)
        if self.episodes < self._safe:
            discard_frames(assembled.frames)  # committed before the interruption, after its last checkpoint
        else:
            store_frames(writer, assembled.episode, assembled.frames, self.cameras)
        originals.add(assembled.episode.id, assembled.originals)
        self.reports += assembled.streams
        if len(self.reports) > 4096:
            self.reports = list(summarize(self.reports))
        self.episodes += 1

    def _note(self, raw: RawEpisode, assembled: Assembled) -> None:
        if raw.forced:
            self.notes.append(f"{raw.name} was cut from a longer recording to bound memory")
        for name, frames in assembled.frames.items():
            if frames.left_out:
                self.notes.append(
                    f"{raw.name}: {frames.left_out} images of camera {name} before its first keyframe were left out"
                )

    def _open(self, assembled: Assembled) -> tuple[DatasetWriter, Originals]:
        if self._writer is None or self._originals is None:
            video = settings_for(assembled.frames)
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
            self._originals = Originals(self._root, self.dataset_id, self._parts)
            self._originals.forget_later_parts()
            save_checkpoint(self._root, self._start)
        return self._writer, self._originals

    def _checkpoint(self, logs: Sequence[Signature]) -> None:
        """Originals first, then the episodes, then the note that both are safe."""
        if self._writer is None or self._originals is None:
            return
        self._originals.finish_part()
        self._parts += 1
        self._writer.commit()
        self.reports = list(summarize(self.reports))
        save_checkpoint(
            self._root,
            Checkpoint(
                self._start.plan,
                tuple(logs),
                self.episodes,
                self._parts,
                tuple(self.reports),
                self.cameras,
                self.skipped,
                tuple(self.notes),
            ),
        )

    def close(self) -> None:
        """Finish the files; also where everything had been written before and only the record was missing."""
        if self._writer is None and self._safe:
            self._writer = append_to(self._root)
            self.dataset_id = self._writer.dataset_id
        if self._joints is not None:
            self.notes += self._joints.notes
        if self._originals is not None:
            self._originals.finish_part()
        if self._writer is not None:
            self._writer.close()


@contextmanager
def _spool(root: Path) -> Iterator[Path]:
    """A folder for images that wait to be written; what a killed run left goes too."""
    for stale in root.parent.glob(f"{root.name.rsplit('.', 2)[0]}.*.spool"):
        if stale == root.with_suffix(".spool") or not is_running(stale.suffixes[-2][1:]):
            shutil.rmtree(stale, ignore_errors=True)
    spool = root.with_suffix(".spool")
    spool.mkdir()
    try:
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def _require_room(target: Path, logs: Sequence[Log], signatures: Sequence[Signature]) -> None:
    needed = sum(
        size * (TEXT_SHARE if log.format in ("csv", "json") else 1.0)
        for log, (_, size) in zip(logs, signatures, strict=True)
    )
    check_room(
        target,
        needed,
        what=f"{len(logs)} log{'s' * (len(logs) != 1)}",
        remedy="free some space, or another disk",
    )


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
