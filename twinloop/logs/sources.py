"""Find the logs at a path or pattern, and the reader for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from twinloop.errors import LogError
from twinloop.logs import read_csv, read_hdf5, read_json, read_lerobot, read_mcap, read_npz, read_rosbag2
from twinloop.logs.name_files import is_name_file, name_columns
from twinloop.logs.reader import READERS, Channel, LogReader

BUILT_IN = (read_csv, read_hdf5, read_json, read_lerobot, read_mcap, read_npz, read_rosbag2)
"""Imported so that they register themselves, as a plug-in does."""

SURE = 0.25
"""Confidence of a reader below which it is not used."""


@dataclass(frozen=True)
class Log:
    """One recording: its path, its name in the dataset, its format and reader."""

    path: Path
    name: str
    format: str
    reader: LogReader

    def channels(self) -> dict[str, Channel]:
        """Return every channel by name; a name file beside the log names the columns of its tables."""
        return name_columns(self.path, {channel.name: channel for channel in self.reader.channels(self.path)})


@dataclass(frozen=True)
class LogSearch:
    """Logs in order, and why files were ignored."""

    logs: tuple[Log, ...]
    ignored: dict[str, str]


def find_logs(
    source: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    files: Sequence[str] | None = None,
) -> LogSearch:
    """Find every log at a path, below a folder, or matching a pattern such as 'runs/*.csv', in alphabetical order."""
    path = Path(source)
    named = path.is_file() or (path.is_dir() and _find_reader(path, format) is not None)
    if named:
        root, candidates = path.parent, [path]
    elif path.is_dir():
        root, candidates = path, _list_candidates(path, format)
    else:
        root, pattern = _split_pattern(path)
        candidates = sorted(root.glob(pattern)) if pattern else []
    ignored: dict[str, str] = {}
    logs = []
    for candidate in candidates:
        name = candidate.relative_to(root).as_posix() if candidate.is_relative_to(root) else candidate.name
        if files is not None and not named and not any(fnmatch(name, pattern) for pattern in files):
            ignored[name] = "does not match `files` in the map"
            continue
        if is_name_file(candidate) and not named:
            ignored[name] = "names the columns of other logs"
            continue
        chosen = format if named and format else _find_reader(candidate, format)
        if chosen is None:
            ignored[name] = "unknown format"
        else:
            logs.append(Log(candidate, name, chosen, READERS.get(chosen)))
    if not logs:
        raise LogError(
            f"no log found at {source}",
            got=f"{len(ignored)} files of unknown format" if ignored else "no files",
            available=READERS.names(),
            remedy="check the path; `format:` in the map names a reader",
        )
    return LogSearch(tuple(logs), ignored)


def _split_pattern(path: Path) -> tuple[Path, str]:
    """Split a pattern into the folder it starts from and the rest."""
    for depth, part in enumerate(path.parts):
        if any(sign in part for sign in "*?["):
            return Path(*path.parts[:depth]), str(Path(*path.parts[depth:]))
    return path.parent, ""


def _find_reader(path: Path, format: str | None) -> str | None:  # noqa: A002
    """Return the reader with the highest confidence for a path."""
    try:
        if format is not None:
            return format if READERS.get(format).sniff(path) > 0 else None
        confidence = {name: READERS.get(name).sniff(path) for name in READERS}
    except OSError as error:
        raise LogError(f"{path} cannot be opened ({error.strerror or error})") from error
    best = max(confidence, key=lambda name: confidence[name])
    return best if confidence[best] >= SURE else None


def _list_candidates(folder: Path, format: str | None) -> list[Path]:  # noqa: A002
    """List the files below a folder, and folders that are logs themselves (a bag, a dataset)."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and _find_reader(path, format) is None:
            found += _list_candidates(path, format)
        else:
            found.append(path)
    return found
