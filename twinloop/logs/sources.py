"""From what the user names (a file, a folder, a pattern) to logs, each with the reader for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from twinloop.errors import LogError
from twinloop.logs import read_csv, read_hdf5, read_json, read_lerobot, read_mcap, read_npz, read_rosbag2
from twinloop.logs.reader import READERS, LogReader

BUILT_IN = (read_csv, read_hdf5, read_json, read_lerobot, read_mcap, read_npz, read_rosbag2)
"""Imported so that they enter the registry, as a plug-in would."""

SURE = 0.25
"""Below this a reader's sniff does not count."""


@dataclass(frozen=True)
class Log:
    """One recording: its path, the name it is known by in the dataset, and who reads it."""

    path: Path
    name: str
    format: str
    reader: LogReader


@dataclass(frozen=True)
class Found:
    """Logs in order, and files that were passed over, with the reason."""

    logs: tuple[Log, ...]
    ignored: dict[str, str]


def find_logs(source: str | Path, *, format: str | None = None, files: Sequence[str] | None = None) -> Found:  # noqa: A002
    """Every log at a path, under a folder, or fitting a pattern such as 'runs/*.csv', in alphabetical order."""
    path = Path(source)
    named = path.is_file() or (path.is_dir() and _reader_of(path, format) is not None)
    if named:
        root, candidates = path.parent, [path]
    elif path.is_dir():
        root, candidates = path, _logs_below(path, format)
    else:
        root, pattern = _divided(path)
        candidates = sorted(root.glob(pattern)) if pattern else []
    ignored: dict[str, str] = {}
    logs = []
    for candidate in candidates:
        name = candidate.relative_to(root).as_posix() if candidate.is_relative_to(root) else candidate.name
        if files is not None and not named and not any(fnmatch(name, pattern) for pattern in files):
            ignored[name] = "not named by `files` in the map"
            continue
        chosen = format if named and format else _reader_of(candidate, format)
        if chosen is None:
            ignored[name] = "no reader knows it"
        else:
            logs.append(Log(candidate, name, chosen, READERS.get(chosen)))
    if not logs:
        raise LogError(
            f"no log was found at {source}",
            got=f"{len(ignored)} files that no reader takes" if ignored else "nothing there",
            available=READERS.names(),
            remedy="check the path; `format:` in the map names a reader",
        )
    return Found(tuple(logs), ignored)


def _divided(path: Path) -> tuple[Path, str]:
    """A pattern as the folder it starts from and the rest."""
    for depth, part in enumerate(path.parts):
        if any(sign in part for sign in "*?["):
            return Path(*path.parts[:depth]), str(Path(*path.parts[depth:]))
    return path.parent, ""


def _reader_of(path: Path, format: str | None) -> str | None:  # noqa: A002
    """The name of the reader that is most sure of the path."""
    try:
        if format is not None:
            return format if READERS.get(format).sniff(path) > 0 else None
        confidence = {name: READERS.get(name).sniff(path) for name in READERS}
    except OSError as error:
        raise LogError(f"{path} cannot be opened ({error.strerror or error})") from error
    best = max(confidence, key=lambda name: confidence[name])
    return best if confidence[best] >= SURE else None


def _logs_below(folder: Path, format: str | None) -> list[Path]:  # noqa: A002
    """Files of a folder, and folders in it that are logs themselves (a bag, a dataset)."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and _reader_of(path, format) is None:
            found += _logs_below(path, format)
        else:
            found.append(path)
    return found
