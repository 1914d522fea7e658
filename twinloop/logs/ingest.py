"""Logs to a data set: read, cut, convert, align, write. Everything done to the numbers is in the map and the report.

    reader -> spans -> `cut` raw episodes -> `assemble` one `Episode` each -> writer

The data set appears under its name only when it is complete.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from twinloop.dataset.reader import Dataset, open_dataset
from twinloop.dataset.rewrite import building
from twinloop.dataset.writer import DatasetWriter, make_dataset
from twinloop.episode import Array
from twinloop.errors import InvalidEpisode, LogError, UnknownName
from twinloop.logs.assemble import Assembled, Assembler, StreamReport, summarize
from twinloop.logs.cameras import settings_for, store_frames
from twinloop.logs.cut import Boundaries, RawEpisode, cut
from twinloop.logs.log_map import LogMap
from twinloop.logs.originals import Originals, keep_record
from twinloop.logs.reader import Block, Channel
from twinloop.logs.sources import Log, find_logs

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@dataclass(frozen=True)
class Ingested:
    """What came of it: the data set, how regular each stream was and what was done to it, what was left out.

    `cameras` says for each camera how its frames got in; `skipped` gives a reason for each episode or file that did not.
    """

    dataset: Dataset
    streams: tuple[StreamReport, ...]
    cameras: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def ingest(
    source: str | Path,
    out: str | Path,
    log_map: LogMap,
    *,
    map_text: str = "",
    twin: str | None = None,
    skip_unusable: bool = False,
    progress: Progress | None = None,
) -> Ingested:
    """Turn the logs at `source` into the data set `out` as `log_map` says.

    `twin` names the twin of the robot that was recorded. `map_text` is kept beside the data, so that the conversion can be read again. An episode that breaks the rules
    (NaN, time going backwards ...) is an error; with `skip_unusable` it is left out, by name.
    """
    found = find_logs(source, format=log_map.format, files=log_map.files)
    run = _Run(log_map, twin, skip_unusable, dict(found.ignored))
    sizes = [_size(log.path) for log in found.logs]
    target = Path(out)
    with (
        building(target) as root,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".spool") as spool,
    ):
        try:
            for position, log in enumerate(found.logs):
                run.take_in(log, root, Path(spool))
                if progress:
                    progress(sum(sizes[: position + 1]), sum(sizes))
        finally:
            run.close()
        if run.written == 0:
            raise LogError(
                f"no episode came out of {source}",
                got="; ".join(f"{name}: {why}" for name, why in list(run.skipped.items())[:3]) or None,
            )
        streams = summarize(run.reports)
        keep_record(root, log_map, map_text, streams, run.cameras, run.skipped)
    return Ingested(open_dataset(target), streams, run.cameras, run.skipped, tuple(run.notes))


class _Run:
    """One ingest in progress: the writer is made when the first episode shows what the signals look like."""

    def __init__(
        self, log_map: LogMap, twin: str | None, skip_unusable: bool, skipped: dict[str, str]
    ) -> None:
        self.skipped = skipped
        self.reports: list[StreamReport] = []
        self.cameras: dict[str, str] = {}
        self.notes: list[str] = []
        self.written = 0
        self._map = log_map
        self._twin = twin
        self._skip_unusable = skip_unusable
        self._writer: DatasetWriter | None = None
        self._originals: Originals | None = None

    def take_in(self, log: Log, root: Path, spool: Path) -> None:
        channels = {channel.name: channel for channel in log.reader.channels(log.path)}
        for group in self._groups(log, channels):
            wanted = Wanted(self._map, group, log, channels)
            assembler = Assembler(self._map, wanted.renamed, channels, wanted.constants(log), log, self._twin)
            for raw in wanted.episodes(log, spool):
                self._add(assembler, raw, root)

    def _groups(self, log: Log, channels: Mapping[str, Channel]) -> list[str]:
        if self._map.episodes.by != "groups":
            return [""]
        template = next(iter(self._map.signals.values())).source[0]
        if "{group}" not in template:
            raise LogError(
                f"episodes by groups need {{group}} in the channel names, but the first is {template!r}"
            )
        before, _, after = template.partition("{group}")
        pattern = re.compile(re.escape(before) + "(.+)" + re.escape(after))
        names = dict.fromkeys(match[1] for name in channels if (match := pattern.fullmatch(name)))
        patterns = self._map.episodes.groups
        chosen = [name for name in names if any(fnmatch(name, p) for p in patterns)]
        if not chosen:
            raise LogError(f"{log.name}: no group fits {', '.join(patterns)}", available=list(names)[:20])
        for name in names:
            if name not in chosen:
                self.skipped[f"{log.name}#{name}"] = "not named by `episodes.groups` in the map"
        return chosen

    def _add(self, assembler: Assembler, raw: RawEpisode, root: Path) -> None:
        try:
            assembled = assembler(raw, self._writer.schema if self._writer else None)
        except (LogError, InvalidEpisode) as error:
            if not self._skip_unusable:
                raise
            self.skipped[raw.name] = error.what
            return
        if len(assembled.episode) < self._map.episodes.shortest_rows:
            self.skipped[raw.name] = f"only {len(assembled.episode)} rows"
            return
        if raw.forced:
            self.notes.append(f"{raw.name} was cut from a longer recording to bound memory")
        for name, frames in assembled.frames.items():
            if frames.left_out:
                self.notes.append(
                    f"{raw.name}: {frames.left_out} pictures of camera {name} before its first keyframe were left out"
                )
        writer = self._open(assembled, root)
        number = store_frames(writer, assembled.episode, assembled.frames, self.cameras)
        assert self._originals is not None
        self._originals.add(number, assembled.originals)
        self.reports += assembled.streams
        if len(self.reports) > 4096:
            self.reports = list(summarize(self.reports))
        self.written += 1

    def _open(self, assembled: Assembled, root: Path) -> DatasetWriter:
        if self._writer is None:
            detail = " ".join(filter(None, (self._map.provenance.origin, self._map.provenance.licence)))
            self._writer = make_dataset(
                root,
                assembled.episode.schema,
                commit_every_s=math.inf,
                history=("ingested", (), " ".join(detail.split())),
                video=settings_for(assembled.frames),
            )
            self._originals = Originals(root)
        return self._writer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._originals is not None:
            self._originals.close()


class Wanted:
    """Which channels of one log (and group) the map asks for, under their full names."""

    def __init__(self, log_map: LogMap, group: str, log: Log, channels: Mapping[str, Channel]) -> None:
        self._map = log_map
        self._group = group
        names: list[str] = []
        for signal in log_map.signals.values():
            names += signal.source
            clock = log_map.clock_of(signal.clock)
            names += [clock.channel] if clock.channel else []
        for camera in log_map.cameras.values():
            names += [camera.source] if camera.source else []
            clock = log_map.clock_of(camera.clock)
            names += [clock.channel] if clock.channel and camera.source else []
        if log_map.episodes.by == "boundary" and log_map.episodes.channel:
            names.append(log_map.episodes.channel)
        self.renamed = {name: self._full(name) for name in dict.fromkeys(names)}
        for name, full in self.renamed.items():
            if full not in channels:
                where = f" (group {group})" if group else ""
                raise UnknownName(f"channel in {log.name}{where}", full if group else name, channels)
        self._channels = channels

    def _full(self, name: str) -> str:
        return name.replace("{group}", self._group)

    def constants(self, log: Log) -> dict[str, Array]:
        """Single values of the log that the map or its task text refers to."""
        named = [self._full(c.source) for c in self._map.constants.values() if c.source]
        named += [
            self._full(name)
            for name in re.findall(r"\{([^{}]+)\}", self._map.task)
            if self._full(name) in self._channels
        ]
        values: dict[str, Array] = {}
        for name in named:
            if name not in self._channels:
                raise UnknownName(f"constant in {log.name}", name, self._channels)
        if named:
            for span in log.reader.read(log.path, list(dict.fromkeys(named))):
                for name, piece in span.pieces.items():
                    if isinstance(piece, Block) and name not in values and len(piece.values):
                        values[name] = piece.values[0]
        for name in named:
            if name not in values:
                raise LogError(f"{log.name}: constant {name!r} is empty")
        return values | {"group": np.array(self._group), "stem": np.array(log.path.stem)}

    def episodes(self, log: Log, spool: Path) -> Iterator[RawEpisode]:
        """The raw episodes of this log and group."""
        episodes = self._map.episodes
        first_rows = None
        channel = episodes.channel
        if episodes.by == "offsets":
            assert channel is not None
            if self._full(channel) not in self._channels:
                raise UnknownName(f"channel in {log.name}", channel, self._channels)
            parts = [
                piece.values.reshape(-1)
                for span in log.reader.read(log.path, [self._full(channel)])
                for piece in span.pieces.values()
                if isinstance(piece, Block)
            ]
            first_rows = np.concatenate(parts) if parts else np.zeros(0)
            if first_rows.dtype.kind not in "iu" or np.any(np.diff(first_rows) <= 0):
                raise LogError(f"{log.name}: {channel!r} is not a list of increasing first rows")
        row_signal = self._map.signals.get(self._map.row_stream) or next(iter(self._map.signals.values()))
        clock = self._map.clock_of(row_signal.clock)
        if episodes.by != "boundary":
            channel = (clock.channel if episodes.by != "offsets" else None) or row_signal.source[0]
        name = f"{log.name}#{self._group}" if self._group else log.name
        named = [self._full(c.source) for c in self._map.cameras.values() if c.source]
        cameras = {name: self._channels[name].dtype for name in named}
        how = Boundaries(episodes, self._full(channel or ""), clock, first_rows, cameras)
        spans = log.reader.read(log.path, list(dict.fromkeys(self.renamed.values())))
        return cut(spans, how, name, spool)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
