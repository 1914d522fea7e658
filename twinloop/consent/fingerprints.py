"""Fingerprints of episodes, to find copies of their frames and rows in other files.

Frames: a perceptual hash of 256 bits, the signs of low spatial frequencies (as pHash: Zauner 2010, "Implementation and
benchmarking of perceptual image hash functions"); scaling and JPEG change few bits. Rows: hashes of neighbouring values,
rounded to 4 decimals, along each signal's elements and along each element's time, so that a table is found whichever
way it is laid out. Windows without two values of at least 3 decimals, such as constants and counters, prove nothing
and are left out.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array

SIDE = 32
"""Images are compared at this many pixels each way."""
FREQUENCIES = 16
MIN_CONTRAST = 3.0
"""Standard deviation in grey levels below which an image shows nothing to recognize."""
DECIMALS = 4
TIME_WINDOW = 4
MAX_WINDOW = 8

_COSINES = np.cos(np.pi * (np.arange(SIDE) + 0.5)[None, :] * np.arange(FREQUENCIES)[:, None] / SIDE)
_MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Of frames (N, 4) uint64, of rows (M,) uint64 sorted, and the window lengths the rows were hashed with."""

    frames: Array
    rows: Array
    windows: tuple[int, ...]

    def join(self, other: Fingerprints) -> Fingerprints:
        """Those of both."""
        return Fingerprints(
            np.unique(np.concatenate([self.frames, other.frames]), axis=0),
            np.union1d(self.rows, other.rows),
            tuple(sorted({*self.windows, *other.windows})),
        )

    def save(self, path: Path) -> None:
        """Write them to a file."""
        buffer = io.BytesIO()
        np.savez(buffer, frames=self.frames, rows=self.rows, windows=np.array(self.windows, np.int64))
        write_atomically(path, buffer.getvalue())


NOTHING = Fingerprints(np.empty((0, 4), np.uint64), np.empty(0, np.uint64), ())


def load_fingerprints(path: Path) -> Fingerprints:
    """Read what `save` wrote; a file that does not exist has none."""
    if not path.exists():
        return NOTHING
    with np.load(path, allow_pickle=False) as file:
        return Fingerprints(file["frames"], file["rows"], tuple(map(int, file["windows"])))


def make_fingerprints(dataset: Dataset, numbers: Iterable[int]) -> Fingerprints:
    """Fingerprints of every frame and row of these episodes."""
    frames, rows, windows = [], [NOTHING.rows], set()
    for number in numbers:
        episode = dataset.episode(number)
        for camera in episode.frames.values():
            frames += [found for frame in camera if (found := hash_frame(np.asarray(frame))) is not None]
        for values in episode.signals.values():
            if np.issubdtype(values.dtype, np.floating):
                table = values.reshape(len(values), -1).astype(np.float64)
                length = min(table.shape[1], MAX_WINDOW)
                windows |= {length, TIME_WINDOW} - {1}
                rows += [hash_windows(table[:, :length].ravel(), length, step=length)] if length > 1 else []
                rows += [hash_windows(column, TIME_WINDOW) for column in table.T]
    found = np.unique(np.array(frames, np.uint64).reshape(-1, 4), axis=0)
    return Fingerprints(found, np.unique(np.concatenate(rows)), tuple(sorted(windows)))


def hash_frame(image: Array) -> Array | None:
    """The perceptual hash of an image (height, width) or (height, width, 3+), 4 x uint64; None if it shows nothing."""
    from PIL import Image

    pixels = image[..., :3].mean(axis=2) if image.ndim == 3 else np.asarray(image)
    if min(pixels.shape) < FREQUENCIES or pixels.std() < MIN_CONTRAST:
        return None
    small = Image.fromarray(pixels.astype(np.float32)).resize((SIDE, SIDE), Image.Resampling.BOX)
    low = (_COSINES @ np.asarray(small, np.float64) @ _COSINES.T).ravel()
    bits = np.packbits(low > np.median(low[1:]))
    return np.asarray(bits.view(np.uint64))


def distances(images: Array, frames: Array) -> Array:
    """The smallest number of differing bits (len(images),) from each image to any of the frames."""
    least = np.full(len(images), 4 * 64)
    for row, image in enumerate(images):
        for begin in range(0, len(frames), 1 << 18):
            differing = np.bitwise_count(frames[begin : begin + (1 << 18)] ^ image).sum(axis=1)
            least[row] = min(least[row], int(differing.min()))
    return least


def hash_windows(values: Array, length: int, *, step: int = 1) -> Array:
    """Hashes (uint64) of each run of `length` values that says something."""
    finite = np.where(np.isfinite(values) & (np.abs(values) < 1e12), values, 0.0)
    if len(finite) < length:
        return NOTHING.rows
    codes = np.round(finite * 10**DECIMALS).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(codes, length)[::step]
    ordered = np.sort(windows, axis=1)
    fine = (ordered % 10 ** (DECIMALS - 2) != 0) & np.diff(
        ordered, axis=1, prepend=ordered[:, :1] - 1
    ).astype(bool)
    hashes = np.full(len(windows), length, np.uint64)
    for position in range(length):
        hashes = (hashes ^ windows[:, position].astype(np.uint64)) * _MIXER
        hashes ^= hashes >> np.uint64(29)
    return np.asarray(hashes[fine.sum(axis=1) >= 2])
