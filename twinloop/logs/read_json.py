"""JSON files: a list of records, an object of lists, records inside an object, or one record per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import DamagedLog
from twinloop.logs.flatten import element_names, flatten
from twinloop.logs.reader import (
    READERS,
    Block,
    Channel,
    Span,
    as_rows,
    describe_array,
    log_errors,
    read_head,
    refuse_unknown,
)

KIND = "JSON"

MAX_FILE_BYTES = 256 << 20
"""A document is parsed as a whole, so its size is limited; JSON Lines may have any size."""

MAX_LINE_BYTES = 16 << 20
_RECORDS_PER_SPAN = 4096


class JsonReader:
    """Reads .json documents and .jsonl lines."""

    def sniff(self, path: Path) -> float:
        """Check the first character and the extension."""
        if not read_head(path, 256).lstrip().startswith((b"{", b"[")):
            return 0.0
        return 0.9 if path.suffix.lower() in (".json", ".jsonl", ".ndjson") else 0.3

    def channels(self, path: Path) -> list[Channel]:
        """List lists of numbers, and single values as constants."""
        with log_errors(path, KIND):
            if _is_lines(path):
                records = list(islice(_lines(path), 64))
                columns = _columns(path, records, "")
                return [_describe_lines(name, values, records[0]) for name, values in columns.items()]
            return [describe_array(name, v.shape, v.dtype) for name, v in _document(path).items()]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Yield a document at once, lines in blocks."""
        with log_errors(path, KIND):
            if not _is_lines(path):
                document = _document(path)
                refuse_unknown(f"channel in {path.name}", wanted, document)
                yield Span({name: Block(as_rows(np.atleast_1d(document[name]))) for name in wanted})
                return
            records = _lines(path)
            while block := list(islice(records, _RECORDS_PER_SPAN)):
                columns = _columns(path, block, "")
                refuse_unknown(f"channel in {path.name}", wanted, columns)
                yield Span({name: Block(as_rows(columns[name])) for name in wanted})


READERS.register("json")(JsonReader())


def _describe_lines(name: str, values: Array, example: Mapping[str, Any]) -> Channel:
    """Return a channel of a file of lines, which are not counted."""
    channel = describe_array(name, values.shape, values.dtype)
    elements = element_names(example, name, channel.shape[0]) if channel.shape != (1,) else ()
    return replace(channel, count=None, elements=elements)


def _is_lines(path: Path) -> bool:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    with path.open("rb") as file:
        first, second = file.readline(MAX_LINE_BYTES).strip(), file.readline(MAX_LINE_BYTES).strip()
    return first.startswith(b"{") and first.endswith(b"}") and second.startswith(b"{")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DamagedLog(
                    f"{path.name}, line {number}, is too long", expected=f"{MAX_LINE_BYTES} bytes"
                )
            if line.strip():
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise DamagedLog(f"{path.name}, line {number}, is not an object")
                yield record


def _document(path: Path) -> dict[str, Array]:
    """Return every channel of a document; a constant is 0-dimensional."""
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise DamagedLog(
            f"{path.name} is too large for one JSON document",
            got=f"{size / 1e6:.0f} MB",
            expected=f"at most {MAX_FILE_BYTES / 1e6:.0f} MB",
            remedy="write one record per line (.jsonl), which is read in blocks",
        )
    with path.open("rb") as file:
        content = json.load(file)
    if isinstance(content, list):
        return (
            _columns(path, content, "")
            if content and isinstance(content[0], dict)
            else {"values": _array(path, "values", content)}
        )
    if not isinstance(content, dict):
        raise DamagedLog(f"{path.name} is neither a list nor an object", got=type(content).__name__)
    found: dict[str, Array] = {}
    for name, value in content.items():
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
            found |= {f"{name}.{key}": column for key, column in _columns(path, value, name).items()}
        elif isinstance(value, list) and value and isinstance(value[0], list | int | float):
            found[name] = _array(path, name, value)
        elif isinstance(value, bool | int | float | str):
            found[name] = np.asarray(value)
        elif isinstance(value, dict):
            found |= {
                f"{name}.{key}": np.asarray(v)
                for key, v in flatten(value).items()
                if not isinstance(v, bytes)
            }
    return found


def _columns(path: Path, records: Sequence[Any], where: str) -> dict[str, Array]:
    """Convert records to columns; a field that some records lack is not a channel."""
    flats = []
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise DamagedLog(f"{path.name}: entry {number} of {where or 'the list'} is not an object")
        flats.append(flatten(record))
    if not flats:
        return {}
    shared = [key for key in flats[0] if all(key in flat for flat in flats)]
    return {key: _array(path, key, [flat[key] for flat in flats]) for key in shared}


def _array(path: Path, name: str, values: Sequence[Any]) -> Array:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DamagedLog(f"{path.name}: {name!r} has entries of different sizes") from error
    if array.dtype.kind == "O":
        # A null among numbers is a missing sample; anything else is not a channel of numbers.
        array = np.asarray([np.nan if value is None else value for value in values])
    if array.dtype.kind not in "biufU" or (
        array.dtype.kind == "U" and not all(isinstance(v, str) for v in values)
    ):
        raise DamagedLog(f"{path.name}: {name!r} mixes numbers with other values")
    return array
