"""Where built-in twins, and those of plug-ins, are found by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from twinloop.plugins import Registry
from twinloop.twins.twin import Twin

TWINS: Registry[Callable[[], Twin]] = Registry("twin", "twins")


def read_files(*names: str) -> dict[str, bytes]:
    """Files of the library, by name."""
    return {name: (files("twinloop.twins.library") / name).read_bytes() for name in names}
