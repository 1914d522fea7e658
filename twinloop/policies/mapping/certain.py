"""The interface map of a policy that says everything of itself: one that declares it, or one of ours behind `twinloop serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from twinloop.policies.mapping.interface_map import InterfaceMap, read_declared_map

DECLARED = "interface_map"
"""Under this name a policy's metadata holds its own map."""
SERVER = "twinloop "
"""How the metadata of our own server names it."""


def find_certain_map(address: str, metadata: Mapping[str, Any]) -> InterfaceMap | None:
    """Read the map of a policy from what it says of itself: a map, or signals, elements, units and cameras that are ours by name.

    Args:
        address: The policy's address.
        metadata: What it says of itself.

    Returns:
        The map; None unless it declares one, or the server is ours and what it says makes a map.

    Raises:
        MapError: What it declares is no map.
    """
    if DECLARED in metadata:
        return read_declared_map(address, metadata[DECLARED])
    if not str(metadata.get("server", "")).startswith(SERVER):
        return None
    try:
        inputs: dict[str, Any] = {
            name: {"from": name, **_elements(said)} for name, said in metadata["observations"].items()
        }
        inputs |= {name: {"camera": name} for name in metadata["cameras"]}
        return InterfaceMap.model_validate(
            {
                "policy": address,
                "name": metadata["name"],
                "rate_hz": metadata["rate_hz"],
                "inputs": inputs,
                "history": metadata["history"],
                "output": "actions",
                "actions": [_elements(metadata["actions"])],
                "n_action_steps": metadata["n_action_steps"],
            }
        )
    except (ValidationError, KeyError, TypeError, AttributeError, ValueError):
        return None


def _elements(said: Mapping[str, Any]) -> dict[str, Any]:
    """Elements with their units; numbers of elements without names."""
    names = list(said["elements"]) or [str(number) for number in range(int(said["size"]))]
    return {"elements": names, "unit": list(said["units"])}
