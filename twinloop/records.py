"""Typed results as plain JSON files: one writer, one reader, one way to say what is wrong with a file.

A record is a frozen dataclass of plain values and other records. Its file holds the fields and a format number, so that a newer
Twinloop's file is refused by an older one instead of being describe_read_error.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from twinloop.datasets.commit import write_atomically
from twinloop.errors import NewerFormat, WrongUse

Record = TypeVar("Record")


def plain(record: Any) -> dict[str, Any]:
    """The fields of a record as JSON values."""
    values: dict[str, Any] = TypeAdapter(type(record)).dump_python(record, mode="json")
    return values


def save_record(record: Any, file: str | Path, format: int) -> Path:  # noqa: A002 - the word of the file
    """Write a record atomically.

    Args:
        record: A dataclass of plain values.
        file: Where to write; its folder is made.
        format: The format number of this kind of record.

    Returns:
        The file.
    """
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": format, **plain(record)}, indent=1, ensure_ascii=False)
    write_atomically(target, (text + "\n").encode())
    return target


def load_record(kind: type[Record], file: str | Path, format: int, command: str) -> Record:  # noqa: A002
    """Read what `save_record` wrote.

    Args:
        kind: The type of the record.
        file: The file.
        format: The newest format number that this version can read.
        command: The command that writes such a file, for the error message.

    Returns:
        The record.

    Raises:
        NewerFormat: If a newer version wrote the file.
        WrongUse: If the file is missing or does not hold such a record.
    """
    path = Path(file)
    expected = f"a file that `{command}` wrote"
    try:
        values = json.loads(path.read_text())
        if not isinstance(values, dict) or not isinstance(values.get("format"), int):
            raise ValueError("it has no format number")
        if values["format"] > format:
            raise NewerFormat(
                f"{path} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        return TypeAdapter(kind).validate_python(values)
    except OSError as error:
        raise WrongUse(f"cannot read {path}", got=error.strerror, expected=expected) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WrongUse(
            f"{path} is not a valid {kind.__name__}", got=f"{where}: {first['msg']}", expected=expected
        ) from error
    except ValueError as error:
        raise WrongUse(f"{path} is not a valid {kind.__name__}", got=str(error), expected=expected) from error


def hash_of(value: Any) -> str:
    """A 128-bit hash of JSON values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
