"""Name files beside logs: `columns.json` names the columns of tables that have no header of their own.

{"run_1": ["time", "elbow", "elbow_cmd"], "sysid/run_2": [...]}    names by table, or by file and table
["time", "elbow", "elbow_cmd"]                                     names of every table with as many columns
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from twinloop.errors import DamagedLog
from twinloop.logs.reader import Channel, log_errors

NAME_FILES = ("columns.json", "column_names.json")
"""Names of such files; `STEM.columns.json` is for one log only."""

MAX_BYTES = 16 << 20

ANY_TABLE = ""
"""The key of names that fit every table of their length."""


def is_name_file(path: Path) -> bool:
    """Return whether a file only names the columns of logs beside it."""
    return path.name in NAME_FILES or path.name.endswith(".columns.json")


def name_columns(path: Path, channels: Mapping[str, Channel]) -> dict[str, Channel]:
    """Return the channels of a log; tables without names have those of the name file beside the log."""
    tables = {name for name, channel in channels.items() if len(channel.shape) == 1 and channel.shape != (1,)}
    nameless = [name for name in tables if not channels[name].elements]
    if not nameless:
        return dict(channels)
    known = load_names(path)
    return {
        name: replace(channel, elements=find_names(path, known, name, channel.shape[0]))
        if name in nameless
        else channel
        for name, channel in channels.items()
    }


def load_names(path: Path) -> dict[str, tuple[str, ...]]:
    """Load the names for a log by table; empty if there is no name file."""
    beside = [path.with_suffix(".columns.json"), *(path.parent / name for name in NAME_FILES)]
    file = next((candidate for candidate in beside if candidate.is_file()), None)
    if file is None or path.is_dir():
        return {}
    if file.stat().st_size > MAX_BYTES:
        raise DamagedLog(
            f"{file.name} is too large for names of columns", expected=f"at most {MAX_BYTES} bytes"
        )
    with log_errors(file, "names of columns"):
        content = json.loads(file.read_bytes())
    tables = content if isinstance(content, dict) else {ANY_TABLE: content}
    return {str(table): tuple(names) for table, names in tables.items() if _are_names(names)}


def find_names(path: Path, known: Mapping[str, tuple[str, ...]], table: str, width: int) -> tuple[str, ...]:
    """Return the names of one table's columns; empty if they are not known.

    Raises:
        DamagedLog: The name file names another number of columns than the table has.
    """
    for key in (f"{path.stem}/{table}", f"{path.name}/{table}", table or path.stem, path.stem, path.name):
        if key in known:
            if len(known[key]) != width:
                raise DamagedLog(
                    f"{path.name}: the name file does not fit {table or 'the table'}",
                    got=f"{len(known[key])} names for {key}",
                    expected=f"{width}, the number of its columns",
                    remedy="correct the name file, or rename it",
                )
            return known[key]
    names = known.get(ANY_TABLE, ())
    return names if len(names) == width else ()


def _are_names(names: object) -> bool:
    return (
        isinstance(names, list)
        and all(isinstance(name, str) and name for name in names)
        and len(set(names)) == len(names)
    )
