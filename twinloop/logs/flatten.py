"""Flatten structured messages to channels, with the same rules for JSON, Protobuf and ROS.

A number or flag is a channel; a list of numbers is a vector; a struct of two or more numbers (x, y, z or x, y, z, w)
is a vector with named elements, so that the order of a quaternion is known; a struct {sec, nanosec} is one
time stamp in seconds; text stays text. Lists of structs and of text are not channels, except that a list of
names next to vectors of the same length (joint states) names their elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twinloop.errors import DamagedLog

Flat = dict[str, Any]
"""Channel path to a number, text, bytes or a list of numbers."""

MAX_DEPTH = 32
"""Nesting depth of structs."""

MAX_FIELDS = 4096
"""Channels per message."""

_STAMPS = ({"sec", "nanosec"}, {"sec", "nsec"}, {"secs", "nsecs"}, {"seconds", "nanos"})
_NAME_LISTS = ("name", "names", "joint_names")


def flatten(message: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Flat:
    """Return the channels of one message."""
    if depth > MAX_DEPTH:
        raise DamagedLog("a message has structs nested too deeply", expected=f"at most {MAX_DEPTH} levels")
    flat: Flat = {}
    for key, value in message.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            vector = as_vector(value)
            if vector is not None:
                flat[path] = vector
            else:
                flat |= flatten(value, path, depth + 1)
        elif isinstance(
            value, bool | int | float | str | bytes | bytearray | memoryview | np.ndarray | np.generic
        ):
            flat[path] = value
        elif isinstance(value, Sequence) and value and all(isinstance(v, bool | int | float) for v in value):
            flat[path] = list(value)
        if len(flat) > MAX_FIELDS:
            raise DamagedLog("a message has too many fields", expected=f"at most {MAX_FIELDS}")
    return flat


def element_names(message: Mapping[str, Any], path: str, size: int) -> tuple[str, ...]:
    """Return the names of a vector's elements: the keys of its struct, or the list of names next to it."""
    parent: Any = message
    *above, last = path.split(".")
    for key in above:
        parent = parent.get(key) if isinstance(parent, Mapping) else None
    if not isinstance(parent, Mapping):
        return ()
    value = parent.get(last)
    if isinstance(value, Mapping):
        return tuple(str(key) for key in value)
    for key in _NAME_LISTS:
        names = parent.get(key)
        if isinstance(names, list) and len(names) == size and all(isinstance(n, str) for n in names):
            return tuple(names)
    return ()


def as_vector(struct: Mapping[str, Any]) -> Any:
    """Return a time stamp as one number, a struct of numbers as a list, None for any other struct."""
    if set(struct) in _STAMPS:
        whole, part = struct.values()
        if isinstance(whole, int) and isinstance(part, int):
            return whole + part * 1e-9
    numbers = list(struct.values())
    if len(numbers) >= 2 and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        return [float(n) for n in numbers]
    return None
