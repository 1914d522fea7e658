"""Raw episodes: collect the spans of a reader and cut them where the map says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.clocks import to_seconds
from twinloop.logs.log_map import Clock, EpisodeMap
from twinloop.logs.reader import Block, Images, Piece, Span, VideoSpan
from twinloop.logs.spool import Spool, Spooled

EPISODE_BYTES = 256 << 20
"""Memory limit for the numbers of one episode; a longer recording is cut, which the report notes."""


@dataclass(frozen=True)
class Raw:
    """Samples of one channel in one episode, unconverted."""

    values: Array
    time_s: Array | None


@dataclass(frozen=True)
class RawEpisode:
    """One episode before conversion; `forced` marks a cut made only to bound memory."""

    name: str
    channels: Mapping[str, Raw]
    images: Mapping[str, Spooled | VideoSpan]
    forced: bool = False


@dataclass
class _Collector:
    """Collects the pieces of the current episode."""

    folder: Path
    cameras: Mapping[str, str] = field(default_factory=dict)
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    spools: dict[str, Spool] = field(default_factory=dict)
    videos: dict[str, VideoSpan] = field(default_factory=dict)
    bytes: int = 0
    taken: int = 0

    def add(self, pieces: Mapping[str, Piece]) -> None:
        for name, piece in pieces.items():
            if name in self.cameras and isinstance(piece, Block):
                piece = _as_images(name, piece)
            if isinstance(piece, Block):
                self.blocks.setdefault(name, []).append(piece)
                self.bytes += piece.values.nbytes
            elif isinstance(piece, Images):
                if name not in self.spools:
                    path = self.folder / f"{self.taken}-{len(self.spools)}.images"
                    self.spools[name] = Spool(path, self.cameras.get(name, ""))
                self.spools[name].add(piece)
            else:
                self.videos[name] = piece

    def take(self, name: str, *, forced: bool = False) -> RawEpisode:
        channels = {channel: _join(channel, blocks) for channel, blocks in self.blocks.items()}
        images: dict[str, Spooled | VideoSpan] = {n: spool.close() for n, spool in self.spools.items()}
        images |= self.videos
        self.blocks, self.spools, self.videos, self.bytes = {}, {}, {}, 0
        self.taken += 1
        return RawEpisode(name, channels, images, forced)

    @property
    def empty(self) -> bool:
        return not (self.blocks or self.spools or self.videos)


def _as_images(name: str, block: Block) -> Images:
    if block.values.dtype != np.uint8 or block.values.ndim != 4 or block.values.shape[-1] != 3:
        raise LogError(
            f"channel {name!r} is not a camera",
            got=f"{block.values.shape[1:]} {block.values.dtype}",
            expected="height x width x 3, uint8",
        )
    times = block.time_s if block.time_s is not None else np.full(len(block.values), np.nan)
    return Images([image.tobytes() for image in block.values], times)


def _join(channel: str, blocks: list[Block]) -> Raw:
    if len({block.values.shape[1:] for block in blocks}) > 1:
        shapes = sorted({str(block.values.shape[1:]) for block in blocks})
        raise LogError(f"channel {channel!r} changes its shape within an episode", got=" and ".join(shapes))
    times = [block.time_s for block in blocks if block.time_s is not None]
    return Raw(np.concatenate([block.values for block in blocks]), np.concatenate(times) if times else None)


@dataclass(frozen=True)
class Boundaries:
    """Where to cut: the map's rule, the channel it uses, its clock, and the first rows (by: offsets).

    `cameras` maps each channel of images to its encoding.
    """

    episodes: EpisodeMap
    channel: str | None
    clock: Clock
    first_rows: Array | None = None
    cameras: Mapping[str, str] = field(default_factory=dict)


def cut_episodes(
    spans: Iterator[Span], boundaries: Boundaries, name: str, folder: Path
) -> Iterator[RawEpisode]:
    """Yield one raw episode after another; only one is in memory."""
    cutter = _Cutter(boundaries, name, folder)
    for span in spans:
        yield from cutter.feed(span)
    yield from cutter.finish()


class _Cutter:
    def __init__(self, boundaries: Boundaries, name: str, folder: Path) -> None:
        self._boundaries = boundaries
        self._name = name
        self._collected = _Collector(folder, boundaries.cameras)
        self._rows: dict[str, int] = {}
        self._part: str | None = None
        self._last: float | str | None = None
        self._start: float | None = None
        self._number = 0
        self._value: float | str | None = None

    def feed(self, span: Span) -> Iterator[RawEpisode]:
        if self._boundaries.episodes.by == "parts" and self._part is not None and span.part != self._part:
            yield from self._emit()
        self._part = span.part
        rest: Mapping[str, Piece] = span.pieces
        for key, value in self._cuts(span):
            before, rest = self._split(rest, key)
            self._collected.add(before)
            yield from self._emit()
            self._value = value
        self._collected.add(rest)
        for name, piece in span.pieces.items():
            if isinstance(piece, Block):
                self._rows[name] = self._rows.get(name, 0) + len(piece.values)
        if self._collected.bytes > EPISODE_BYTES and self._boundaries.episodes.by != "parts":
            yield from self._emit(forced=True)

    def finish(self) -> Iterator[RawEpisode]:
        yield from self._emit()

    def _emit(self, *, forced: bool = False) -> Iterator[RawEpisode]:
        if self._collected.empty:
            return
        if self._value is not None and self._value in self._boundaries.episodes.leave_out:
            self._collected.take("skipped")
            return
        label = f"#{self._number}"
        if self._boundaries.episodes.by == "parts":
            label = f"#{self._part}"
        elif self._boundaries.episodes.by in ("file", "groups") and not (forced or self._number):
            label = ""
        self._number += 1
        yield self._collected.take(self._name + label, forced=forced)

    def _split(self, pieces: Mapping[str, Piece], key: float) -> tuple[dict[str, Piece], dict[str, Piece]]:
        """Split pieces at the key: a log time, or a row number if the log has no time stamps."""
        before: dict[str, Piece] = {}
        after: dict[str, Piece] = {}
        for name, piece in pieces.items():
            if isinstance(piece, VideoSpan):
                raise LogError(
                    "a whole video file cannot be cut into episodes", remedy="episodes: {by: file}"
                )
            if isinstance(piece, Images):
                place = int(np.searchsorted(piece.time_s, key))
                before[name] = Images(piece.packets[:place], piece.time_s[:place])
                after[name] = Images(piece.packets[place:], piece.time_s[place:])
            elif piece.time_s is not None:
                place = int(np.searchsorted(piece.time_s, key))
                before[name] = Block(piece.values[:place], piece.time_s[:place])
                after[name] = Block(piece.values[place:], piece.time_s[place:])
            else:
                place = int(key) - self._rows.get(name, 0) - self._cut_rows.get(name, 0)
                place = min(max(place, 0), len(piece.values))
                before[name], after[name] = Block(piece.values[:place]), Block(piece.values[place:])
                self._cut_rows[name] = self._cut_rows.get(name, 0) + place
        return {n: p for n, p in before.items() if _length(p)}, {n: p for n, p in after.items() if _length(p)}

    def _cuts(self, span: Span) -> Iterator[tuple[float, float | str | None]]:
        """Yield the cuts in this span: (key, value of the boundary channel from there on)."""
        self._cut_rows: dict[str, int] = {}
        episodes, channel = self._boundaries.episodes, self._boundaries.channel
        if episodes.by in ("file", "parts", "groups") and episodes.longest_s is None:
            return
        piece = span.pieces.get(channel or "")
        if not isinstance(piece, Block) or not len(piece.values):
            return
        first = self._rows.get(channel or "", 0)
        keys = piece.time_s if piece.time_s is not None else first + np.arange(len(piece.values))
        if episodes.by == "offsets":
            assert self._boundaries.first_rows is not None
            inside = self._boundaries.first_rows[
                (self._boundaries.first_rows > first)
                & (self._boundaries.first_rows < first + len(piece.values))
            ]
            if first and first in self._boundaries.first_rows:
                yield float(first), None
            yield from ((float(row), None) for row in inside)
        elif episodes.by == "boundary":
            yield from self._changes(piece.values.reshape(len(piece.values), -1)[:, 0], keys)
        else:
            yield from self._pauses(piece, keys)

    def _changes(self, values: Array, keys: Array) -> Iterator[tuple[float, float | str | None]]:
        for place in np.flatnonzero(np.append(True, values[1:] != values[:-1])):
            value = values[place].item()
            if self._last is None and place == 0:
                self._value = value
            elif value != self._last or place > 0:
                yield float(keys[place]), value
            self._last = value

    def _pauses(self, piece: Block, keys: Array) -> Iterator[tuple[float, float | str | None]]:
        clock = self._boundaries.clock
        if clock.rate_hz is not None:
            times = keys / clock.rate_hz
        elif clock.channel is not None or piece.time_s is None:
            times = to_seconds(piece.values, clock)
        else:
            times = piece.time_s
        last = self._last if isinstance(self._last, float) else float(times[0])
        self._start = float(times[0]) if self._start is None else self._start
        jumped = np.abs(np.diff(times, prepend=last)) > (self._boundaries.episodes.gap_s or np.inf)
        longest = self._boundaries.episodes.longest_s
        for place in range(len(times)) if longest else np.flatnonzero(jumped):
            if jumped[place] or (longest and times[place] - self._start > longest):
                yield float(keys[place]), None
                self._start = float(times[place])
        self._last = float(times[-1])


def _length(piece: Piece) -> int:
    if isinstance(piece, Block):
        return len(piece.values)
    return len(piece.packets) if isinstance(piece, Images) else piece.count
