"""Raw episodes: collect the spans of a reader and cut them where the map says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.video import VideoFrames
from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.clocks import to_seconds
from twinloop.logs.log_map import Clock, EpisodeMap
from twinloop.logs.reader import Block, Images, Piece, Span
from twinloop.logs.spool import Spool, Spooled

EPISODE_BYTES = 256 << 20
"""Memory limit for the numbers of one episode; a longer recording is cut, which the report notes."""


@dataclass(frozen=True)
class RawEpisode:
    """One episode before conversion; `forced` marks a cut made only to bound memory; `task` is the log's own text."""

    name: str
    channels: Mapping[str, Block]
    images: Mapping[str, Spooled | VideoFrames]
    forced: bool = False
    task: str = ""


def _as_images(name: str, block: Block) -> Images:
    if block.values.dtype != np.uint8 or block.values.ndim != 4 or block.values.shape[-1] != 3:
        raise LogError(
            f"channel {name!r} is not a camera",
            got=f"{block.values.shape[1:]} {block.values.dtype}",
            expected="height x width x 3, uint8",
        )
    times = block.time_s if block.time_s is not None else np.full(len(block.values), np.nan)
    return Images([image.tobytes() for image in block.values], times)


def join_blocks(channel: str, blocks: Sequence[Block]) -> Block:
    """Join blocks of one channel, which must have the same shape."""
    if len({block.values.shape[1:] for block in blocks}) > 1:
        shapes = sorted({str(block.values.shape[1:]) for block in blocks})
        raise LogError(f"channel {channel!r} changes its shape within an episode", got=" and ".join(shapes))
    times = [block.time_s for block in blocks if block.time_s is not None]
    return Block(np.concatenate([block.values for block in blocks]), np.concatenate(times) if times else None)


@dataclass(frozen=True)
class Boundaries:
    """Where to cut: the map's rule, the channel it uses, its clock, and the first rows (by: offsets).

    `cameras` maps each channel of images to its encoding.
    """

    episodes: EpisodeMap
    channel: str
    clock: Clock
    first_rows: Array | None
    cameras: Mapping[str, str]


def cut_episodes(
    spans: Iterator[Span], boundaries: Boundaries, name: str, folder: Path
) -> Iterator[RawEpisode]:
    """Yield one raw episode after another; only one is in memory."""
    cutter = _Cutter(boundaries, name, folder)
    for span in spans:
        yield from cutter.feed(span)
    yield from cutter.emit()


class _Cutter:
    """Collects the pieces of the current episode."""

    def __init__(self, boundaries: Boundaries, name: str, folder: Path) -> None:
        self._boundaries = boundaries
        self._name = name
        self._folder = folder
        self._blocks: dict[str, list[Block]] = {}
        self._spools: dict[str, Spool] = {}
        self._videos: dict[str, VideoFrames] = {}
        self._rows: dict[str, int] = {}
        self._part: str | None = None
        self._task = ""
        self._last: float | str | None = None
        self._start: float | None = None
        self._taken = 0
        self._number = 0
        self._value: float | str | None = None

    def feed(self, span: Span) -> Iterator[RawEpisode]:
        if self._boundaries.episodes.by == "parts" and self._part is not None and span.part != self._part:
            yield from self.emit()
        self._part, self._task = span.part, span.task
        rest: Mapping[str, Piece] = span.pieces
        for key, value in self._cuts(span):
            before, rest = self._split(rest, key)
            self._collect(before)
            yield from self.emit()
            self._value = value
        self._collect(rest)
        for name, piece in span.pieces.items():
            if isinstance(piece, Block):
                self._rows[name] = self._rows.get(name, 0) + len(piece)
        held = sum(block.values.nbytes for blocks in self._blocks.values() for block in blocks)
        if held > EPISODE_BYTES and self._boundaries.episodes.by != "parts":
            yield from self.emit(forced=True)

    def _collect(self, pieces: Mapping[str, Piece]) -> None:
        cameras = self._boundaries.cameras
        for name, piece in pieces.items():
            if name in cameras and isinstance(piece, Block):
                piece = _as_images(name, piece)
            if isinstance(piece, Block):
                self._blocks.setdefault(name, []).append(piece)
            elif isinstance(piece, Images):
                if name not in self._spools:
                    path = self._folder / f"{self._taken}-{len(self._spools)}.images"
                    self._spools[name] = Spool(path, cameras.get(name, ""))
                self._spools[name].add(piece)
            else:
                self._videos[name] = piece

    def emit(self, *, forced: bool = False) -> Iterator[RawEpisode]:
        if not (self._blocks or self._spools or self._videos):
            return
        channels = {channel: join_blocks(channel, blocks) for channel, blocks in self._blocks.items()}
        images = {name: spool.close() for name, spool in self._spools.items()} | self._videos
        self._blocks, self._spools, self._videos = {}, {}, {}
        self._taken += 1
        rule = self._boundaries.episodes
        if self._value is not None and self._value in rule.leave_out:
            return
        label = f"#{self._number}"
        if rule.by == "parts":
            label = f"#{self._part}"
        elif rule.by in ("file", "groups") and not (forced or self._number):
            label = ""
        self._number += 1
        yield RawEpisode(self._name + label, channels, images, forced, self._task)

    def _split(self, pieces: Mapping[str, Piece], key: float) -> tuple[dict[str, Piece], dict[str, Piece]]:
        """Split pieces at the key: a log time, or a row number if the log has no time stamps."""
        before: dict[str, Piece] = {}
        after: dict[str, Piece] = {}
        for name, piece in pieces.items():
            if isinstance(piece, VideoFrames):
                raise LogError(
                    "a whole video file cannot be cut into episodes", remedy="episodes: {by: file}"
                )
            if piece.time_s is not None:
                place = int(np.searchsorted(piece.time_s, key))
            else:
                place = int(key) - self._rows.get(name, 0) - self._cut_rows.get(name, 0)
                place = min(max(place, 0), len(piece))
                self._cut_rows[name] = self._cut_rows.get(name, 0) + place
            before[name], after[name] = piece[:place], piece[place:]
        return {n: p for n, p in before.items() if len(p)}, {n: p for n, p in after.items() if len(p)}

    def _cuts(self, span: Span) -> Iterator[tuple[float, float | str | None]]:
        """Yield the cuts in this span: (key, value of the boundary channel from there on)."""
        self._cut_rows: dict[str, int] = {}
        episodes, channel = self._boundaries.episodes, self._boundaries.channel
        if episodes.by in ("file", "parts", "groups") and episodes.longest_s is None:
            return
        piece = span.pieces.get(channel)
        if not isinstance(piece, Block) or not len(piece):
            return
        first = self._rows.get(channel, 0)
        keys = piece.time_s if piece.time_s is not None else first + np.arange(len(piece))
        rows = self._boundaries.first_rows
        if rows is not None:
            inside = rows[(rows >= max(first, 1)) & (rows < first + len(piece))]
            yield from ((float(row), None) for row in inside)
        elif episodes.by == "boundary":
            yield from self._changes(piece.values.reshape(len(piece), -1)[:, 0], keys)
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
