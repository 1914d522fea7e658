"""Other traces of an episode in a workspace: hard links to its files, and files that mention its id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_ID = re.compile(rb"[0-9a-f]{32}")
BLOCK_BYTES = 1 << 22


def find_hard_links(workspace: Path, files: Sequence[Path], inside: Sequence[Path]) -> list[Path]:
    """Find hard links to these files anywhere in the workspace except in the folders `inside`."""
    wanted = {_inode(path) for path in files if path.stat().st_nlink > 1}
    if not wanted:
        return []
    return [
        path
        for path in _files(workspace)
        if not any(path.is_relative_to(folder) for folder in inside) and _inode(path) in wanted
    ]


def find_mentions(workspace: Path, episode_ids: Sequence[str], excluded: Sequence[Path]) -> list[Path]:
    """Find files that mention one of these episodes, such as exports and reports, for a person to check."""
    wanted = {episode_id.encode() for episode_id in episode_ids}
    if not wanted:
        return []
    return sorted(
        path
        for path in _files(workspace)
        if not any(path.is_relative_to(folder) for folder in excluded) and _mentions_any(path, wanted)
    )


def _mentions_any(path: Path, wanted: set[bytes]) -> bool:
    if path.suffix == ".parquet":
        try:
            column = pq.read_table(path, columns=["episode_id"], partitioning=None).column("episode_id")
            return any(str(value).encode() in wanted for value in column.unique().to_pylist())
        except (OSError, KeyError, pa.ArrowException):
            return False
    tail = b""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            if any(match in wanted for match in _ID.findall(tail + block)):
                return True
            tail = block[-31:]
    return False


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
