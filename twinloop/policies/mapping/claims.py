"""What a policy says of itself, read from the metadata of its server or file into one shape.

Every stack has its own words: our server lists observations, cameras and actions; ONNX and TorchScript files list inputs with their
shapes; LeRobot lists features; mjlab lists joints. What is not said stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MAX_ENTRIES = 256
"""Inputs, or elements of one, that are read: metadata comes from strangers."""
TEXT_WORDS = ("prompt", "task", "instruction", "language", "text")
IMAGE_WORDS = ("image", "camera", "rgb", "pixels", "video")


@dataclass(frozen=True)
class Claim:
    """One input or output: its name, what it is, and, where the policy says so, its shape and the names and units of its elements."""

    name: str
    kind: Literal["vector", "image", "text"]
    shape: tuple[int | None, ...] = ()
    elements: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    is_float: bool | None = None

    @property
    def size(self) -> int | None:
        """Numbers of a vector."""
        return len(self.elements) or (self.shape[-1] if self.kind == "vector" and self.shape else None)


@dataclass(frozen=True)
class Claims:
    """What a policy says of itself."""

    inputs: tuple[Claim, ...] = ()
    action: Claim | None = None
    rate_hz: float | None = None
    n_action_steps: int | None = None
    history: tuple[int, ...] = ()


def read_claims(metadata: Mapping[str, Any]) -> Claims:
    """Read a policy's metadata.

    Args:
        metadata: Plain values, from a server or a file; anything that is not understood is left out.

    Returns:
        The claims.
    """
    inputs = [
        *_read_ports(metadata.get("observations")),
        *_read_ports(metadata.get("cameras"), "image"),
        *_read_ports(metadata.get("inputs")),
        *_read_ports(metadata.get("input_features")),
    ]
    if metadata.get("takes_task") is True:
        inputs.append(Claim("prompt", "text"))
    joints = _names(metadata.get("joint_names"))
    action = _read_port("actions", metadata.get("actions"), "vector") if "actions" in metadata else None
    outputs = [*_read_ports(metadata.get("outputs")), *_read_ports(metadata.get("output_features"))]
    if action is None and outputs:
        named = [one for one in outputs if "action" in one.name]
        action = (named or outputs)[0]
    if joints and (action is None or action.size in (None, len(joints))):
        action = Claim(action.name if action else "actions", "vector", (len(joints),), joints)
    return Claims(
        tuple(inputs),
        action,
        _positive(metadata.get("rate_hz") or metadata.get("fps") or metadata.get("control_hz")),
        _whole(metadata.get("n_action_steps")),
        _history(metadata.get("history")),
    )


def _read_ports(entries: object, kind: Literal["image"] | None = None) -> list[Claim]:
    """Inputs or outputs that are listed by name."""
    if not isinstance(entries, Mapping):
        return []
    found = [_read_port(str(name), entry, kind) for name, entry in list(entries.items())[:MAX_ENTRIES]]
    return [one for one in found if one is not None]


def _read_port(name: str, entry: object, kind: Literal["vector", "image"] | None = None) -> Claim | None:
    if not isinstance(entry, Mapping):
        return None
    if "height" in entry and "width" in entry:
        return Claim(name, "image", (_whole(entry["height"]), _whole(entry["width"]), 3))
    shape = _shape(entry.get("shape"))
    if size := _whole(entry.get("size")):
        shape = (size,)
    said = str(entry.get("type") or entry.get("dtype") or "").lower()
    words = name.lower()
    if "string" in said or said == "language" or (not shape and any(word in words for word in TEXT_WORDS)):
        return Claim(name, "text")
    seen = kind or ("image" if said == "visual" or _is_image(shape, words) else "vector")
    elements, units = _names(entry.get("elements") or entry.get("names")), _names(entry.get("units"))
    is_float = None if not said else ("float" in said or "double" in said)
    return Claim(name, seen, shape, elements, units, is_float)


def _is_image(shape: tuple[int | None, ...], words: str) -> bool:
    colours = len(shape) >= 3 and 3 in (shape[-1], shape[-3])
    return colours or (len(shape) >= 2 and any(word in words for word in IMAGE_WORDS))


def _shape(value: object) -> tuple[int | None, ...]:
    """A shape; an axis of any length is None."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > 8:
        return ()
    return tuple(_whole(side) for side in value)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_ENTRIES:
        return ()
    return (
        tuple(one for one in value if isinstance(one, str)) if all(isinstance(v, str) for v in value) else ()
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 20 else None


def _positive(value: object) -> float | None:
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e5
        else None
    )


def _history(value: object) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(one, int) and -1000 < one <= 0 for one in value):
        return ()
    return tuple(value)
