"""Typed results as plain JSON: one writer, one reader, one way to say what is wrong with a file.

A record is a frozen dataclass of plain values and other records. Its JSON holds the fields and the properties that are marked as
`derived`. A file also holds a format number, so that another version's file is refused instead of being misread.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError, computed_field

from twinloop.datasets.commit import write_atomically
from twinloop.errors import NewerFormat, WrongUse

Kind = TypeVar("Kind")
Saved = TypeVar("Saved", bound="SavedRecord")

NumberArray = Annotated[
    NDArray[Any],
    PlainValidator(lambda values: np.asarray(values, np.float64)),
    PlainSerializer(lambda values: np.asarray(values).tolist()),
]
"""An array of numbers as a field of a record; a list in its JSON."""

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)

if TYPE_CHECKING:
    derived = property
else:

    def derived(function: Callable[[Any], Any]) -> Any:
        """A property that is part of the record's JSON; reading ignores it."""
        return computed_field(property(function))


class Record:
    """A dataclass that can be printed as JSON."""

    def as_json(self) -> dict[str, Any]:
        """Fields and derived values as JSON values."""
        return plain(self)


class SavedRecord(Record):
    """A record with a file: its name, its format number, and the command that writes it."""

    FILE: ClassVar[str]
    FORMAT: ClassVar[int] = 1
    COMMAND: ClassVar[str]

    def as_json(self) -> dict[str, Any]:
        """What the file holds, as JSON values."""
        return {"format": self.FORMAT, **plain(self)}

    def save(self, folder: str | Path) -> Path:
        """Write the file into a folder, which is made where it does not exist; returns the file."""
        return save_record(self, Path(folder) / self.FILE)


def plain(record: Any) -> dict[str, Any]:
    """Fields and derived values of a dataclass as JSON values."""
    values: dict[str, Any] = _adapter(type(record)).dump_python(record, mode="json", warnings=False)
    return values


def save_record(record: SavedRecord, file: str | Path) -> Path:
    """Write a record atomically.

    Args:
        record: The record.
        file: Where to write; its folder is made.

    Returns:
        The file.
    """
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": record.FORMAT, **plain(record)}, indent=1, ensure_ascii=False)
    write_atomically(target, (text + "\n").encode())
    return target


def load_record(kind: type[Saved], place: str | Path, **more: Any) -> Saved:
    """Read what `save_record` wrote.

    Args:
        kind: The type of the record.
        place: The file, or the folder that holds it.
        more: Fields that are kept elsewhere.

    Returns:
        The record.

    Raises:
        NewerFormat: If a newer version wrote the file.
        WrongUse: If the file is missing, is of an older format or does not hold such a record.
    """
    path = Path(place)
    if path.is_dir() or not (path.exists() or path.suffix == ".json"):
        path = path / kind.FILE
    expected = f"a file that `{kind.COMMAND}` wrote"
    values = read_json(path, expected)
    number = values.get("format") if isinstance(values, dict) else None
    if not isinstance(number, int):
        raise WrongUse(f"{path} is not a valid {kind.__name__}", got="no format number", expected=expected)
    if number > kind.FORMAT:
        raise NewerFormat(f"{path} was written by a newer Twinloop", remedy="pip install --upgrade twinloop")
    if number < kind.FORMAT:
        raise WrongUse(
            f"{path} was written by an older Twinloop",
            got=f"format {number}",
            expected=f"format {kind.FORMAT}",
            remedy=f"write it again: {kind.COMMAND}",
        )
    return parse_record(kind, values | more, path, expected)


def find_records(root: str | Path, name: str) -> list[Path]:
    """Find the files of a record's name below a folder, except in hidden folders.

    Args:
        root: The folder.
        name: The name, such as `plan.json`.

    Returns:
        The files, the newest first.
    """
    top = Path(root)
    found = []
    for folder, inside, files in os.walk(top):
        inside[:] = sorted(one for one in inside if not one.startswith("."))
        if name in files:
            found.append(Path(folder) / name)
    return sorted(found, key=lambda path: (-path.stat().st_mtime_ns, str(path)))


def read_json(path: Path, expected: str) -> Any:
    """The content of a JSON file; `expected` says in an error what the file should be."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise WrongUse(f"cannot read {path}", got=error.strerror, expected=expected) from error
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{path} is not JSON", got=str(error), expected=expected) from error


def parse_record(kind: type[Kind], values: Any, path: Path, expected: str) -> Kind:
    """A record from JSON values; `path` and `expected` are for the error."""
    try:
        record: Kind = _adapter(kind).validate_python(values)
        return record
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WrongUse(
            f"{path} is not a valid {kind.__name__}", got=f"{where}: {first['msg']}", expected=expected
        ) from error


def hash_of(value: Any) -> str:
    """A 128-bit hash of JSON values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
