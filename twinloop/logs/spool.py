"""Encoded pictures of one episode, kept on disk while the rest of the episode is being read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.dataset.commit import disk_errors
from twinloop.episode import Array
from twinloop.logs.reader import Pictures


@dataclass(frozen=True)
class Spooled:
    """Pictures one after the other in a file of our own; picture k is bytes `offsets[k]` to `offsets[k + 1]`."""

    path: Path
    offsets: Array
    time_s: Array

    def __len__(self) -> int:
        return len(self.time_s)

    def packets(self, first: int = 0, count: int | None = None) -> Iterator[bytes]:
        """The encoded pictures in order."""
        last = len(self) if count is None else first + count
        with self.path.open("rb") as file:
            file.seek(int(self.offsets[first]))
            for k in range(first, last):
                yield file.read(int(self.offsets[k + 1] - self.offsets[k]))

    def discard(self) -> None:
        """Give the disk space back."""
        self.path.unlink(missing_ok=True)


class Spool:
    """Appends pictures to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: list[int] = []
        self._times: list[Array] = []
        with disk_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")

    def add(self, pictures: Pictures) -> None:
        """Append pictures in the order of the log."""
        with disk_errors(self._path.parent):
            self._file.writelines(pictures.packets)
        self._sizes += [len(packet) for packet in pictures.packets]
        self._times.append(pictures.time_s)

    def close(self) -> Spooled:
        """Finish the file."""
        with disk_errors(self._path.parent):
            self._file.close()
        offsets = np.concatenate([[0], np.cumsum(self._sizes, dtype=np.int64)])
        return Spooled(self._path, offsets, np.concatenate([np.zeros(0), *self._times]))
