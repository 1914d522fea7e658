"""The channels of a log, or of one group in it, that a map uses, and their raw episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError, UnknownName
from twinloop.logs.log_map import LogMap
from twinloop.logs.raw_episode import Boundaries, RawEpisode, cut_episodes
from twinloop.logs.reader import Block, Channel, refuse_unknown
from twinloop.logs.sources import Log


def find_groups(
    log_map: LogMap, log: Log, channels: Mapping[str, Channel]
) -> tuple[list[str], dict[str, str]]:
    """Find groups of channels that are episodes ("" if the map has no groups), and why others are skipped."""
    if log_map.episodes.by != "groups":
        return [""], {}
    template = log_map.channels_of(next(iter(log_map.signals.values())).source[0])[0]
    if "{group}" not in template:
        raise LogError(
            f"episodes by groups need {{group}} in the channel names, but the first is {template!r}"
        )
    before, _, after = template.partition("{group}")
    pattern = re.compile(re.escape(before) + "(.+)" + re.escape(after))
    names = dict.fromkeys(match[1] for name in channels if (match := pattern.fullmatch(name)))
    patterns = log_map.episodes.groups
    chosen = [name for name in names if any(fnmatch(name, p) for p in patterns)]
    if not chosen:
        raise LogError(f"{log.name}: no group matches {', '.join(patterns)}", available=list(names)[:20])
    skipped = {
        f"{log.name}#{name}": "does not match `episodes.groups` in the map"
        for name in names
        if name not in chosen
    }
    return chosen, skipped


class GroupChannels:
    """The channels of one log (and group) that the map uses; `full_names` maps their names in the map to the log's."""

    def __init__(self, log_map: LogMap, group: str, log: Log, channels: Mapping[str, Channel]) -> None:
        self.map = log_map
        self.log = log
        self.channels = channels
        self._group = group
        streams = [(list(signal.source), signal.clock) for signal in log_map.signals.values()]
        streams += [([camera.source], camera.clock) for camera in log_map.cameras.values() if camera.source]
        names: list[str | None] = []
        for sources, clock in streams:
            names += [name for source in sources for name in log_map.channels_of(source)]
            names.append(log_map.clock_of(clock).channel)
        names += [clock.channel for clock in log_map.clocks.values()]
        if log_map.episodes.by == "boundary":
            names.append(log_map.episodes.channel)
        self.full_names = {name: self._full(name) for name in dict.fromkeys(names) if name}
        for name, full in self.full_names.items():
            if full not in channels:
                where = f" (group {group})" if group else ""
                raise UnknownName(f"channel in {log.name}{where}", full if group else name, channels)

    def _full(self, name: str) -> str:
        return name.replace("{group}", self._group)

    def constants(self) -> dict[str, Array]:
        """Read the constants of the log that the map or its task text uses."""
        in_task = [self._full(name) for name in re.findall(r"\{([^{}]+)\}", self.map.task)]
        named = [self._full(c.source) for c in self.map.constants.values() if c.source]
        refuse_unknown(f"constant in {self.log.name}", named, self.channels)
        named = list(dict.fromkeys(named + [name for name in in_task if name in self.channels]))
        values: dict[str, Array] = {}
        for span in self.log.reader.read(self.log.path, named) if named else ():
            for name, piece in span.pieces.items():
                if isinstance(piece, Block) and len(piece):
                    values.setdefault(name, piece.values[0])
        for name in named:
            if name not in values:
                raise LogError(f"{self.log.name}: constant {name!r} is empty")
        as_written = {c.source: values[self._full(c.source)] for c in self.map.constants.values() if c.source}
        return values | as_written | {"group": np.array(self._group), "stem": np.array(self.log.path.stem)}

    def episodes(self, spool: Path) -> Iterator[RawEpisode]:
        """Yield the raw episodes of this log and group."""
        rule, log = self.map.episodes, self.log
        row_signal = self.map.signals.get(self.map.row_stream) or next(iter(self.map.signals.values()))
        clock = self.map.clock_of(row_signal.clock)
        first_rows = None
        channel = rule.channel or ""
        if rule.by == "offsets":
            first_rows = self._first_rows(channel)
        if rule.by != "boundary":
            row_channel = self.map.channels_of(row_signal.source[0])[0]
            channel = (clock.channel if rule.by != "offsets" else None) or row_channel
        name = f"{log.name}#{self._group}" if self._group else log.name
        named = [self._full(c.source) for c in self.map.cameras.values() if c.source]
        cameras = {name: self.channels[name].dtype for name in named}
        boundaries = Boundaries(rule, self._full(channel), clock, first_rows, cameras)
        spans = log.reader.read(log.path, list(dict.fromkeys(self.full_names.values())))
        return cut_episodes(spans, boundaries, name, spool)

    def _first_rows(self, channel: str) -> Array:
        refuse_unknown(f"channel in {self.log.name}", [self._full(channel)], self.channels)
        parts = [
            piece.values.reshape(-1)
            for span in self.log.reader.read(self.log.path, [self._full(channel)])
            for piece in span.pieces.values()
            if isinstance(piece, Block)
        ]
        first_rows = np.concatenate(parts) if parts else np.zeros(0)
        if first_rows.dtype.kind not in "iu" or np.any(np.diff(first_rows) <= 0):
            raise LogError(f"{self.log.name}: {channel!r} is not a list of increasing first rows")
        return first_rows
