"""Every policy of a workspace, as its record says, without loading any: name, recipe, data, and how it learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from twinloop.records import Record, find_records

RECORD = "policy.json"
MAX_BYTES = 64 << 20


def _known(error: Any) -> Any:
    """An error that was not computed is not a number in the record."""
    return None if isinstance(error, float) and not isfinite(error) else error


Loss = Annotated[float | None, BeforeValidator(_known)]


@dataclass(frozen=True)
class CurvePoint:
    """One point of a learning curve; errors are mean losses in scaled units, None where they are not known."""

    stage: str
    step: int
    validation: Loss
    training: Loss = None
    elapsed_s: float | None = None


@dataclass(frozen=True)
class PolicySummary(Record):
    """A policy as its record says.

    `folder` is where it lies, seen from the workspace, and `copies` the other places that hold the same policy, such as the
    registry. `problem` says why a record cannot be read, and then hardly anything else is known.
    """

    name: str
    id: str
    folder: str
    recipe: str | None = None
    created_at: str | None = None
    twin: str | None = None
    foreign: bool = False
    datasets: tuple[Mapping[str, Any], ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    copies: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class _Results:
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True)
class _Record:
    """What a listing reads of a record."""

    name: str
    id: str
    recipe: str | None = None
    created_at: str | None = None
    twin: Mapping[str, str | None] = field(default_factory=dict)
    datasets: tuple[Mapping[str, Any], ...] = ()
    results: _Results = field(default_factory=_Results)
    foreign: Mapping[str, Any] | None = None


_ADAPTER = TypeAdapter(_Record)


def list_policies(workspace: str | Path) -> tuple[PolicySummary, ...]:
    """List the policies below a folder.

    Args:
        workspace: The workspace, or any folder.

    Returns:
        Each policy once, however many copies there are, the newest last; those without a date first.
    """
    root = Path(workspace)
    found: dict[str, PolicySummary] = {}
    for path in sorted(
        find_records(root, RECORD), key=lambda path: (path.is_relative_to(root / "registry"), str(path))
    ):
        one = _read(path, str(path.parent.relative_to(root)))
        before = found.get(one.id)
        if before is None or one.problem:
            found[one.id] = one
        else:
            found[one.id] = replace(before, copies=(*before.copies, one.folder))
    return tuple(sorted(found.values(), key=lambda one: (one.created_at or "", one.name)))


def _read(path: Path, folder: str) -> PolicySummary:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        record = _ADAPTER.validate_python(json.loads(path.read_text()))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        problem = f"{RECORD} cannot be read ({reason})"
        return PolicySummary(path.parent.name, f"unread:{folder}", folder, problem=problem)
    return PolicySummary(
        record.name,
        record.id,
        folder,
        record.recipe,
        record.created_at,
        record.twin.get("name"),
        record.foreign is not None,
        record.datasets,
        record.results.curve,
    )
