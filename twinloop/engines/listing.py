"""The registered engines, whether each is installed, and how it computes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from twinloop.engines.protocol import ENGINES


@dataclass(frozen=True)
class EngineDescription:
    """One engine. `version` is None where `package` is not installed; `extra` is what to install it with."""

    name: str
    package: str
    version: str | None
    extra: str | None
    device: str
    bits: int
    determinism: str


def list_engines() -> tuple[EngineDescription, ...]:
    """Describe every registered engine, in alphabetical order."""
    return tuple(_describe(name) for name in ENGINES)


def _describe(name: str) -> EngineDescription:
    entry = ENGINES.get(name)
    package, extra = getattr(entry, "needs", None) or ("mujoco", None)
    try:
        found = version(package)
    except PackageNotFoundError:
        found = None
    return EngineDescription(
        name,
        package,
        found,
        extra,
        getattr(entry, "device", "processor"),
        32 if getattr(entry, "single_precision", False) else 64,
        getattr(entry, "determinism", "the same bits at any number of threads and workers"),
    )
