"""YAML that others wrote: plain values only, and bounded before anything is built.

libyaml's loader is ten times as fast as Python's, but deep nesting overflows its stack and ends the process; aliases
that multiply make a few lines into gigabytes for whoever walks through them. Both are counted on the stream of parse
events, which is flat, before the loader sees the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader  # type: ignore[assignment]

MAX_DEPTH = 64
MAX_VALUES = 2_000_000


def read_yaml(path: Path) -> Any:
    """Return the values in a YAML file.

    Raises:
        OSError: The file cannot be read.
        yaml.YAMLError: Its content is not plain YAML in UTF-8, or is too large or too deeply nested.
    """
    return parse_yaml(path.read_bytes())


def parse_yaml(text: str | bytes) -> Any:
    """Return the values in YAML text.

    Raises:
        yaml.YAMLError: The text is not plain YAML in UTF-8, or is too large or too deeply nested; said in one line.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        _check_size(text)
        return yaml.load(text, Loader=SafeLoader)
    # Bytes that are not UTF-8, impossible dates, empty numbers: PyYAML lets errors of Python through.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise yaml.YAMLError(
            " ".join(str(error).replace('in "<unicode string>", ', "in ").split())
        ) from error


def _check_size(text: str) -> None:
    """Refuse nesting deeper than `MAX_DEPTH`, and more than `MAX_VALUES` once aliases are written out."""
    anchored: dict[str | None, int] = {}
    open_: list[tuple[str | None, int]] = []
    counts = [0]
    for event in yaml.parse(text, Loader=SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in (anchor for anchor, _ in open_):
                raise yaml.YAMLError(f"*{event.anchor} contains itself (line {_line(event.start_mark)})")
            counts[-1] += anchored.get(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, _line(event.start_mark)))
            counts.append(1)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, _ = open_.pop()
            count = counts.pop()
            counts[-1] += count
            if anchor is not None:
                anchored[anchor] = count
        elif isinstance(event, yaml.ScalarEvent):
            counts[-1] += 1
        if len(open_) > MAX_DEPTH:
            raise yaml.YAMLError(f"more than {MAX_DEPTH} levels of nesting (line {open_[-1][1]})")
        if counts[-1] > MAX_VALUES:
            raise yaml.YAMLError(f"more than {MAX_VALUES:,} values")


def _line(mark: Any) -> int:
    return int(mark.line) + 1
