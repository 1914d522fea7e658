"""CSV files: every numeric column is a channel, read in blocks with Arrow."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.errors import DamagedLog
from twinloop.logs.name_files import find_names, load_names
from twinloop.logs.reader import (
    READERS,
    SPAN_BYTES,
    Block,
    Channel,
    Span,
    log_errors,
    read_head,
    refuse_unknown,
)

KIND = "CSV"
_DELIMITERS = ",;\t "
_HEAD_BYTES = 64 << 10

MAX_COLUMNS = 10_000
"""Columns; more are not a log."""


@dataclass(frozen=True)
class _Head:
    names: tuple[str, ...]
    delimiter: str
    skip: int
    numbered: bool = False
    decimal: str = "."


class CsvReader:
    """Reads delimited text with or without a header line; a leading '#' before the header is fine.

    A name file beside it may take the place of the header."""

    def sniff(self, path: Path) -> float:
        """The extension, or a first line of numbers."""
        start = read_head(path, 4096)
        if not start or b"\0" in start:
            return 0.0
        if path.suffix.lower() in (".csv", ".tsv"):
            return 0.9
        if path.suffix.lower() not in (".txt", ".dat", ""):
            return 0.0
        rows = [re.findall(r"[^,;\s]+", line) for line in start.decode(errors="replace").splitlines()[1:4]]
        return 0.3 if rows and all(row and all(_is_number(field) for field in row) for row in rows) else 0.0

    def channels(self, path: Path) -> list[Channel]:
        """Every column; the rows are not counted, since that means reading the file."""
        with log_errors(path, KIND):
            head = _head(path)
            first = next(_blocks(path, head, head.names), None)
            if first is None:
                raise DamagedLog(f"{path.name} has no rows")
            return [
                Channel(
                    name,
                    dtype="text" if values.dtype.kind == "U" else values.dtype.name,
                    number_of=len(head.names) if head.numbered else None,
                )
                for name, values in first.items()
            ]

    def read(self, path: Path, wanted: Sequence[str]) -> Iterator[Span]:
        """Blocks of rows of the wanted columns."""
        with log_errors(path, KIND):
            head = _head(path)
            refuse_unknown(f"column in {path.name}", wanted, head.names)
            for block in _blocks(path, head, tuple(dict.fromkeys(wanted))):
                yield Span({name: Block(values[:, None]) for name, values in block.items()})


READERS.register("csv")(CsvReader())


def _head(path: Path) -> _Head:
    start = read_head(path, _HEAD_BYTES)
    if not start.strip():
        raise DamagedLog(f"{path.name} is empty")
    lines = start.decode("utf-8-sig").splitlines()
    skip = 0
    while skip + 1 < len(lines) and lines[skip].startswith("#") and lines[skip + 1].startswith("#"):
        skip += 1
    first = lines[skip].lstrip("#").strip()
    second = lines[skip + 1].strip() if skip + 2 < len(lines) else ""
    delimiter = _find_delimiter(first, second)
    fields = _fields(first, delimiter)
    decimal = _find_decimal(_fields(second or first, delimiter))
    if len(fields) > MAX_COLUMNS:
        raise DamagedLog(f"{path.name} has too many columns", got=len(fields), expected=MAX_COLUMNS)
    if all(_is_number(field.replace(decimal, ".")) for field in fields):
        known = find_names(path, load_names(path), "", len(fields))
        names = known or tuple(f"column_{i}" for i in range(len(fields)))
        return _Head(names, delimiter, skip, not known, decimal)
    names = tuple(field or f"column_{i}" for i, field in enumerate(fields))
    if twice := [name for name in names if names.count(name) > 1]:
        raise DamagedLog(f"{path.name} has two columns called {twice[0]!r}")
    return _Head(names, delimiter, skip + 1, decimal=decimal)


def _fields(line: str, delimiter: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter))]


def _find_delimiter(first: str, second: str) -> str:
    """Return the sign that cuts two lines into as many fields; names may contain blanks, and numbers commas."""
    counts = {sign: len(_fields(first, sign)) for sign in _DELIMITERS}
    equal = [sign for sign in _DELIMITERS if second and len(_fields(second, sign)) == counts[sign] > 1]
    return max(equal or _DELIMITERS, key=lambda sign: (counts[sign], -_DELIMITERS.index(sign)))


def _find_decimal(fields: Sequence[str]) -> str:
    """Return the decimal sign: a comma if numbers have one, as spreadsheets write them in many countries."""
    return "," if any(re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", field) for field in fields) else "."


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _blocks(path: Path, head: _Head, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    with _open(path, head, wanted, None) as reader:
        types = _types(next(iter(reader), None))
    with _open(path, head, wanted, types) as reader:
        for batch in reader:
            if batch.num_rows:
                yield {
                    name: _numpy(column)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }


def _open(path: Path, head: _Head, wanted: Sequence[str], types: dict[str, Any] | None) -> Any:
    from pyarrow import csv as arrow_csv

    return arrow_csv.open_csv(
        path,
        read_options=arrow_csv.ReadOptions(
            block_size=SPAN_BYTES, skip_rows=head.skip, column_names=list(head.names), use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=head.delimiter),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=list(wanted),
            strings_can_be_null=False,
            column_types=types,
            decimal_point=head.decimal,
        ),
    )


def _types(batch: Any) -> dict[str, Any]:
    """Numbers as float64, since fractions and holes may come later; but nanoseconds must not lose their digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True) if batch is not None else ():
        if pa.types.is_integer(column.type):
            largest = pc.max(column).as_py() or 0
            types[name] = pa.int64() if abs(largest) > 1 << 53 else pa.float64()
        elif pa.types.is_floating(column.type) or pa.types.is_null(column.type):
            types[name] = pa.float64()
        elif not pa.types.is_boolean(column.type):
            types[name] = pa.string()
    return types


def _numpy(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_string(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:
        raise DamagedLog("a column of flags has empty cells", remedy="write 0 and 1 instead")
    return values
