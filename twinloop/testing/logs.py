"""Conformance check for log readers, and a reader in memory for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError, UnknownName
from twinloop.logs.reader import SPAN_BYTES, Block, Channel, Images, LogReader, Span


def check_log_reader(reader: LogReader, path: Path, stranger: Path) -> None:
    """Check a log reader: `path` is a log of its format, `stranger` a file of another format."""
    assert 0 < reader.sniff(path) <= 1, "it does not recognise its own format"
    assert reader.sniff(stranger) < reader.sniff(path), "it rates a file of another format as high as its own"
    assert reader.sniff(path.parent / "there is no such file") == 0, (
        "it recognises a file that does not exist"
    )
    channels = reader.channels(path)
    names = [channel.name for channel in channels]
    assert names, "it finds no channel"
    assert len(set(names)) == len(names), "two channels have the same name"
    assert reader.channels(path) == channels, "it is stateful: the second answer differs from the first"
    for channel in channels:
        _check_channel(reader, path, channel)
    try:
        next(iter(reader.read(path, ["there is no such channel"])), None)
    except TwinloopError as error:
        assert "there is no such channel" in str(error), f"the error does not name the channel: {error}"
    else:
        raise AssertionError("it reads a channel that does not exist")


def _check_channel(reader: LogReader, path: Path, channel: Channel) -> None:
    count = 0
    last = -np.inf
    for span in reader.read(path, [channel.name]):
        assert set(span.pieces) <= {channel.name}, (
            f"{channel.name}: it returns channels that were not requested"
        )
        for piece in span.pieces.values():
            if isinstance(piece, Block):
                assert piece.values.ndim >= 2, f"{channel.name}: a scalar is (n, 1)"
                assert piece.values.shape[1:] == channel.shape, (
                    f"{channel.name}: shape differs from what it declares"
                )
                assert piece.values.nbytes <= 4 * SPAN_BYTES or len(piece.values) == 1, (
                    f"{channel.name}: unbounded block"
                )
            else:
                assert channel.has_images, f"{channel.name}: images in a channel of {channel.dtype}"
            count += len(piece)
            if isinstance(piece, Block | Images) and piece.time_s is not None and not span.part:
                assert len(piece.time_s) == len(piece)
                assert len(piece.time_s) == 0 or piece.time_s[0] >= last, (
                    f"{channel.name}: spans are out of order"
                )
                last = float(piece.time_s[-1]) if len(piece.time_s) else last
    if channel.count is not None:
        assert count == channel.count, f"{channel.name}: {count} samples, but it declares {channel.count}"


@dataclass(frozen=True)
class FakeReader:
    """A log in memory: arrays by channel name, read in spans of `rows`."""

    arrays: Mapping[str, Array]
    rows: int = 16
    time_s: Mapping[str, Array] = field(default_factory=dict)

    def sniff(self, path: Path) -> float:
        """Any existing file called *.fake."""
        return 1.0 if path.suffix == ".fake" and path.exists() else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """The arrays."""
        return [
            Channel(name, tuple(array.shape[1:]) or (1,), array.dtype.name, len(array))
            for name, array in self.arrays.items()
        ]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Blocks of `rows`."""
        for name in wanted:
            if name not in self.arrays:
                raise UnknownName("channel", name, self.arrays)
        for first in range(0, max((len(self.arrays[name]) for name in wanted), default=0), self.rows):
            pieces = {}
            for name in wanted:
                part = self.arrays[name][first : first + self.rows]
                if len(part):
                    values = part[:, None] if part.ndim == 1 else part
                    times = self.time_s.get(name)
                    pieces[name] = Block(values, None if times is None else times[first : first + self.rows])
            yield Span(pieces)
