"""Encoded images of one episode, spooled to disk while the rest of the episode is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import disk_errors
from twinloop.episode import Array
from twinloop.logs.reader import Images


@dataclass(frozen=True)
class Spooled:
    """Concatenated images in a temporary file, with their sizes in bytes and their times.

    `undecodable` counts skipped images at the start, whose keyframe came earlier.
    """

    path: Path
    sizes: Sequence[int]
    time_s: Array
    undecodable: int

    def __len__(self) -> int:
        return len(self.time_s)

    def packets(self) -> Iterator[bytes]:
        """Yield the encoded images in order."""
        with self.path.open("rb") as file:
            for size in self.sizes:
                yield file.read(size)


class Spool:
    """Appends images to a file, starting at the first keyframe if the codec has keyframes."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path = path
        self._encoding = encoding
        self._undecodable = 0
        self._sizes: list[int] = []
        self._times: list[Array] = []
        with disk_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")

    def add(self, images: Images) -> None:
        """Append images in the order of the log."""
        if not self._sizes:
            first = _first_keyframe(images.packets, self._encoding)
            self._undecodable += first
            images = images[first:]
        with disk_errors(self._path.parent):
            self._file.writelines(images.packets)
        self._sizes += [len(packet) for packet in images.packets]
        self._times.append(images.time_s)

    def close(self) -> Spooled:
        """Finish the file."""
        with disk_errors(self._path.parent):
            self._file.close()
        time_s = np.concatenate([np.zeros(0), *self._times])
        return Spooled(self._path, self._sizes, time_s, self._undecodable)


def _first_keyframe(packets: Sequence[bytes], encoding: str) -> int:
    """Count the packets before the first that can be decoded on its own."""
    if encoding not in ("h264", "h265"):
        return 0
    for number, packet in enumerate(packets):
        kinds = _unit_kinds(packet, encoding)
        # Without start codes the stream is not Annex B; leave it to the decoder.
        if not kinds or kinds & _KEY_UNITS[encoding]:
            return number
    return len(packets)


_KEY_UNITS = {"h264": {5, 7}, "h265": {*range(16, 22), 32, 33}}
"""NAL unit types that start a decodable image: IDR and parameter sets."""


def _unit_kinds(packet: bytes, encoding: str) -> set[int]:
    kinds = set()
    place = packet.find(b"\0\0\1")
    while 0 <= place < len(packet) - 3:
        header = packet[place + 3]
        kind = header & 0x1F if encoding == "h264" else (header >> 1) & 0x3F
        kinds.add(kind)
        if kind in _KEY_UNITS[encoding] or (encoding == "h264" and kind == 1):
            break
        place = packet.find(b"\0\0\1", place + 3)
    return kinds
