"""Search a workspace for copies of removed episodes: frames by perceptual hash, rows by values, files by content.

Images, videos, and images and videos inside pages (data URIs), notebooks and SVGs are compared with the removed
frames; tables, JSON, text and arrays with the removed rows. A file that is explained as well by episodes that were kept
is not named. Files of strangers may lie in a workspace, so sizes are bounded and nothing is executed; what cannot be
searched is named too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.consent.fingerprints import Fingerprints, distances, hash_frame, hash_windows
from twinloop.episode import Array

MAX_BITS = 40
"""Of 256. On 2 x 14 episodes of a rendered Franka cell, 128 x 128: copies as JPEG differ in up to 10 bits, at half the size and as
JPEG in up to 34, at double the size in up to 6; the nearest frames of other episodes in 46 or more (same camera)."""
MIN_ROWS = 3
"""Windows of values that must agree; one may by chance, where readings are coarse."""
MAX_BYTES = 1 << 28
MAX_VIDEO_FRAMES = 50_000
CAPTION = 240 / 288
"""The part of a video of ours that is the camera's, above the caption."""

IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"})
VIDEOS = frozenset({".mp4", ".webm", ".mkv", ".avi", ".mov", ".m4v"})
ARRAYS = frozenset({".npy", ".npz"})
TABLES = frozenset({".parquet", ".feather", ".arrow"})
TEXTS = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".html", ".htm", ".svg", ".md", ".yaml", ".yml", ".xml", ".ipynb", ".js"})  # fmt: skip
HDF5 = frozenset({".h5", ".hdf5"})

_EMBEDDED = re.compile(rb'(image|video)/[\w.+-]+(?:;base64,|":\s*")([A-Za-z0-9+/=\s\\]{64,})')
_NUMBER = re.compile(rb"-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+(?:[eE][-+]?\d+)?|[nN]a[nN]|null")


@dataclass(frozen=True)
class Found:
    """A file that holds copies, or (`certain` False) that cannot be searched, and why it is named."""

    path: str
    what: str
    certain: bool = True


@dataclass(eq=False)
class _Content:
    """What of a file can be compared: hashes of its images, (N, 4), and its sequences of numbers."""

    frames: Array
    numbers: list[Array]


def search_copies(
    files: Iterator[Path],
    removed: Fingerprints,
    digests: Collection[str],
    kept: Callable[[], Fingerprints],
) -> list[Found]:
    """Find copies in files.

    Args:
        files: The files to search.
        removed: Of the removed episodes.
        digests: SHA-256 of removed artefacts, to find copies of them.
        kept: Makes the fingerprints of what was kept; called only if something is found.

    Returns:
        Each file with copies, and each that could not be searched.
    """
    found, others = [], None
    for path in files:
        if digests and _digest(path) in digests:
            found.append(Found(str(path), "a copy of a file that was removed"))
            continue
        try:
            content = _read(path, removed)
        except (OSError, ValueError, ArithmeticError, KeyError, MemoryError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            found.append(Found(str(path), f"cannot be searched ({reason})", certain=False))
            continue
        if content is None or not (what := _compare(content, removed, None)):
            continue
        others = others or kept()
        if what := _compare(content, removed, others):
            found.append(Found(str(path), what))
    return found


def _compare(content: _Content, removed: Fingerprints, kept: Fingerprints | None) -> str:
    """What of a file is of removed episodes, and not nearer to what was kept; empty if nothing is."""
    parts = []
    if len(content.frames) and len(removed.frames):
        least = distances(content.frames, removed.frames)
        alike = least <= MAX_BITS
        if kept is not None and alike.any():
            alike[alike] = distances(content.frames[alike], kept.frames) >= least[alike]
        parts += [_count(int(alike.sum()), "frame")] if alike.any() else []
    windows = [hash_windows(values, length) for values in content.numbers for length in removed.windows]
    rows = np.intersect1d(np.concatenate(windows), removed.rows) if windows else np.empty(0)
    if kept is not None:
        rows = np.setdiff1d(rows, kept.rows)
    return ", ".join(parts + ([_count(len(rows), "run") + " of values"] if len(rows) >= MIN_ROWS else []))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _read(path: Path, removed: Fingerprints) -> _Content | None:
    """The comparable content of a file; None if it is of no known kind."""
    kind = path.suffix.lower()
    frames: Iterator[Array] | list[Array]
    if kind in VIDEOS:
        return _Content(_hash(_read_video(str(path))), []) if len(removed.frames) else None
    if kind not in IMAGES | ARRAYS | TABLES | TEXTS | HDF5:
        return None
    if path.stat().st_size > MAX_BYTES and kind not in TABLES | HDF5:
        raise ValueError(f"more than {MAX_BYTES >> 20} MiB")
    if kind in IMAGES:
        return _Content(_hash(_read_image(path)), [])
    if kind in TEXTS:
        content = path.read_bytes()
        frames = _read_embedded(content) if len(removed.frames) else []
        return _Content(_hash(frames), _read_numbers(_EMBEDDED.sub(b"", content)))
    if kind in ARRAYS:
        loaded: Any = np.load(path, allow_pickle=False)
        arrays = [loaded] if kind == ".npy" else [loaded[name] for name in loaded.files]
    elif kind in HDF5:
        arrays = _read_hdf5(path)
    else:
        arrays = _read_table(path)
    images = [frame for array in arrays if _is_images(array) for frame in array]
    tables = [array for array in arrays if not _is_images(array) and array.dtype.kind in "fiu"]
    return _Content(_hash(images), [part for array in tables for part in _both_ways(array)])


def _hash(images: Iterator[Array] | list[Array]) -> Array:
    found = [code for image in images if (code := hash_frame(image)) is not None]
    return np.array(found, np.uint64).reshape(-1, 4)


def _read_image(source: Path | io.BytesIO) -> list[Array]:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(source) as image:
                return [np.asarray(image.convert("RGB"))]
        except (Image.DecompressionBombError, Image.DecompressionBombWarning, SyntaxError) as error:
            raise ValueError(str(error)) from error


def _read_video(source: str | io.BytesIO) -> Iterator[Array]:
    """Every frame, whole and without the place of a caption."""
    import av

    try:
        with av.open(source) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number == MAX_VIDEO_FRAMES:
                    raise ValueError(f"more than {MAX_VIDEO_FRAMES} frames")
                image = frame.to_ndarray(format="gray")
                yield image
                yield image[: round(CAPTION * len(image))]
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"no video can be read: {error}") from error


def _read_embedded(content: bytes) -> Iterator[Array]:
    """Images and frames of videos inside a page, a notebook or another text; what is damaged shows nothing."""
    for kind, text in _EMBEDDED.findall(content):
        try:
            data = io.BytesIO(base64.b64decode(re.sub(rb"\\n|[\s\\]", b"", text), validate=False))
            yield from _read_image(data) if kind == b"image" else _read_video(data)
        except (ValueError, OSError, binascii.Error):
            continue


def _read_numbers(content: bytes) -> list[Array]:
    """The numbers of a text in order of appearance, and column by column where its lines are a table."""
    lines = [_NUMBER.findall(line) for line in content.splitlines()]
    rows = [
        np.array([float(word) if word[-1:].isdigit() else np.nan for word in line]) for line in lines if line
    ]
    if not rows:
        return []
    whole = [np.concatenate(rows)]
    counts = np.array([len(row) for row in rows])
    usual = np.bincount(counts).argmax()
    table = [row for row in rows if len(row) == usual]
    return [*whole, np.stack(table).T.ravel()] if len(table) > 1 and usual > 1 else whole


def _read_table(path: Path) -> list[Array]:
    """The numeric columns of a table, side by side as in its rows."""
    table = (
        pq.read_table(path, partitioning=None) if path.suffix == ".parquet" else pa.feather.read_table(path)
    )
    parts = []
    for column in table.columns:
        values, width = column.combine_chunks(), 1
        if pa.types.is_fixed_size_list(values.type):
            width, values = values.type.list_size, values.flatten()
        elif pa.types.is_list(values.type) and len(table):
            lengths = np.unique(np.diff(values.offsets.to_numpy()))
            width, values = (int(lengths[0]), values.flatten()) if len(lengths) == 1 else (0, values)
        if width and (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
            part = values.to_numpy(zero_copy_only=False).astype(np.float64)
            if len(part) == len(table) * width:
                parts.append(part.reshape(len(table), width))
    return [np.concatenate(parts, axis=1)] if parts else []


def _read_hdf5(path: Path) -> list[Array]:
    try:
        import h5py
    except ImportError as error:
        raise ValueError("needs h5py: pip install 'twinloop[logs]'") from error
    found: list[Array] = []

    def keep(_: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and entry.dtype.kind in "fiu" and entry.nbytes <= MAX_BYTES:
            found.append(np.asarray(entry))

    with h5py.File(path, "r") as file:
        file.visititems(keep)
    return found


def _is_images(array: Array) -> bool:
    return array.dtype == np.uint8 and array.ndim == 4 and array.shape[-1] in (1, 3, 4)


def _both_ways(array: Array) -> list[Array]:
    """The values row by row and column by column."""
    table = array.astype(np.float64).reshape(len(array), -1) if array.ndim else np.empty((0, 1))
    return [table.ravel(), table.T.ravel()] if table.shape[1] > 1 else [table.ravel()]


def _digest(path: Path) -> str:
    """SHA-256 of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def walk_files(workspace: Path, excluded: Collection[Path]) -> Iterator[Path]:
    """Every file below a folder, hidden ones too, except in excluded folders; links are not followed."""
    for place, folders, names in os.walk(workspace):
        folders[:] = sorted(name for name in folders if Path(place, name) not in excluded)
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path
