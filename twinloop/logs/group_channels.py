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
from twinloop.logs.reader import Block, Channel
from twinloop.logs.sources import Log


def find_groups(
    log_map: LogMap, log: Log, channels: Mapping[str, Channel]
) -> tuple[list[str], dict[str, str]]:
    """Find groups of channels that are episodes ("" if the map has no groups), and why others are skipped."""
    if log_map.episodes.by != "groups":
        return [""], {}
    template = next(iter(log_map.signals.values())).source[0]
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
        names += [clock.channel for clock in log_map.clocks.values() if clock.channel]
        if log_map.episodes.by == "boundary" and log_map.episodes.channel:
            names.append(log_map.episodes.channel)
        self.full_names = {name: self._full(name) for name in dict.fromkeys(names)}
        for name, full in self.full_names.items():
            if full not in channels:
                where = f" (group {group})" if group else ""
                raise UnknownName(f"channel in {log.name}{where}", full if group else name, channels)
        self._channels = channels

    def _full(self, name: str) -> str:
        return name.replace("{group}", self._group)

    def constants(self, log: Log) -> dict[str, Array]:
        """Read the constants of the log that the map or its task text uses."""
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
        """Yield the raw episodes of this log and group."""
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
        boundaries = Boundaries(episodes, self._full(channel or ""), clock, first_rows, cameras)
        spans = log.reader.read(log.path, list(dict.fromkeys(self.full_names.values())))
        return cut_episodes(spans, boundaries, name, spool)
