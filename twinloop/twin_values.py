"""Values that a twin's parameters may take: nominal, a sample of a posterior, or a draw of a randomization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from twinloop.anchoring import Anchor, load_anchor
from twinloop.episode import Array
from twinloop.errors import TwinloopError, UnknownName, WrongUse
from twinloop.identification.result import Identification, load_identification
from twinloop.randomization import (
    Randomization,
    default_randomization,
    draw_many,
    load_randomization,
    select_draw,
)
from twinloop.randomization.scenes import training_scenes
from twinloop.twins import Twin, load_twin
from twinloop.workspace import MARKER, Workspace

Kind = Literal["nominal", "posterior", "randomization"]
NOMINAL, POSTERIOR, DEFAULT, TRAINING = "nominal", "posterior", "default", "training"
DRAWS = 1_000
"""Numbered draws of a randomization; schedules over progress run over as many."""
LARGEST_CONFIG = 1 << 20


@dataclass(frozen=True)
class ValueSource:
    """Where values come from: its kind, the name by which it is asked for, what it is, and how many sets of values it has."""

    name: str
    kind: Kind
    about: str
    count: int


@dataclass(frozen=True, eq=False)
class Spread:
    """How the values of one parameter are spread: bin `edges` (bins + 1,) in its unit and the fraction of values in each (bins,)."""

    edges: Array
    fractions: Array
    middle: float
    low: float
    high: float


def find_value_sources(workspace: Workspace, place: str, twin: Twin | None = None) -> list[ValueSource]:
    """Find where values of a twin's parameters may come from.

    Args:
        workspace: The workspace.
        place: The twin's folder, seen from the workspace.
        twin: The twin in it, where it is loaded already.

    Returns:
        Its nominal values, its posterior if it was identified, built-in randomizations, and those in the workspace that fit it.
    """
    twin = twin or load_twin(workspace.root / place)
    found = [ValueSource(NOMINAL, "nominal", "nominal values", 1)]
    identified = _identification(workspace, place)
    if identified is not None:
        found.append(ValueSource(POSTERIOR, "posterior", "samples of the posterior", len(identified.samples)))
    found.append(ValueSource(DEFAULT, "randomization", "what usually varies", DRAWS))
    if twin.task:
        found.append(
            ValueSource(TRAINING, "randomization", "where objects and targets lie in training", DRAWS)
        )
    for name in _configs(workspace):
        try:
            made = _load(workspace, twin, name)
        except TwinloopError:
            continue
        about = f"{len(made.names)} parameters vary"
        found.append(ValueSource(name, "randomization", about, DRAWS))
    return found


def read_values(
    workspace: Workspace,
    place: str,
    source: str = NOMINAL,
    number: int = 0,
    seed: int = 0,
    twin: Twin | None = None,
) -> dict[str, float | str]:
    """Read one set of values.

    Args:
        workspace: The workspace.
        place: The twin's folder, seen from the workspace.
        source: The name of a source, as `find_value_sources` lists them.
        number: Which of its sets.
        seed: Random seed of a randomization's draws.
        twin: The twin in the folder, where it is loaded already.

    Returns:
        Values that are not nominal, by parameter, within the parameters' bounds.

    Raises:
        UnknownName: There is no such source.
        WrongUse: It has no set of that number.
    """
    twin = twin or load_twin(workspace.root / place)
    if source == NOMINAL:
        return {}
    if source == POSTERIOR:
        identified = _require_identification(workspace, place)
        if not 0 <= number < len(identified.samples):
            raise WrongUse("no such sample", got=number, expected=f"0 to {len(identified.samples) - 1}")
        columns = _clipped(twin, identified)
        return {name: float(values[number]) for name, values in columns.items()}
    if not 0 <= number < DRAWS:
        raise WrongUse("no such draw", got=number, expected=f"0 to {DRAWS - 1}")
    made = _load(workspace, twin, source)
    return select_draw(draw_many(made, seed, [number]), 0)


def read_spread(
    workspace: Workspace,
    place: str,
    source: str,
    parameter: str,
    *,
    bins: int = 40,
    seed: int = 0,
    twin: Twin | None = None,
) -> Spread | None:
    """Read how the values of one parameter are spread.

    Args:
        workspace: The workspace.
        place: The twin's folder, seen from the workspace.
        source: The name of a source.
        parameter: The parameter.
        bins: Number of bins.
        seed: Random seed of a randomization's draws.
        twin: The twin in the folder, where it is loaded already.

    Returns:
        The spread; None where the source does not vary the parameter, or it takes words.

    Raises:
        UnknownName: There is no such source or parameter.
    """
    twin = twin or load_twin(workspace.root / place)
    if twin.parameter(parameter).choices or source == NOMINAL:
        return None
    values: Mapping[str, Array]
    if source == POSTERIOR:
        values = _clipped(twin, _require_identification(workspace, place))
    else:
        values = draw_many(_load(workspace, twin, source), seed, np.arange(DRAWS))
    if parameter not in values:
        return None
    column = np.asarray(values[parameter], np.float64)
    low, middle, high = (float(v) for v in np.quantile(column, (0.025, 0.5, 0.975)))
    counts, edges = np.histogram(column, bins=bins)
    return Spread(edges, counts / max(len(column), 1), middle, low, high)


def _clipped(twin: Twin, identified: Identification) -> dict[str, Array]:
    """Posterior samples by parameter, within the bounds of those that the twin has."""
    return {
        name: np.clip(np.asarray(identified.samples)[:, column], *twin.parameter(name).bounds)
        for column, name in enumerate(identified.names)
        if twin.has(name)
    }


def _identification(workspace: Workspace, place: str) -> Identification | None:
    folder = workspace.root / place
    return load_identification(folder) if (folder / Identification.FILE).is_file() else None


def _require_identification(workspace: Workspace, place: str) -> Identification:
    found = _identification(workspace, place)
    if found is None:
        raise UnknownName(
            "source of values", POSTERIOR, [one.name for one in find_value_sources(workspace, place)]
        )
    return found


def _configs(workspace: Workspace) -> Iterator[str]:
    """Files of a workspace that may hold a randomization, seen from there."""
    for pattern in ("*.yaml", "configs/*.yaml", f"*/anchor-*/{Anchor.FILE}"):
        for path in sorted(workspace.root.glob(pattern)):
            if path.is_file() and path.name != MARKER and path.stat().st_size <= LARGEST_CONFIG:
                yield str(path.relative_to(workspace.root))


def _load(workspace: Workspace, twin: Twin, source: str) -> Randomization:
    if source == DEFAULT:
        return default_randomization(twin).over(DRAWS)
    if source == TRAINING:
        return training_scenes(twin).over(DRAWS)
    if source not in _configs(workspace):
        raise UnknownName(
            "source of values", source, (NOMINAL, POSTERIOR, DEFAULT, TRAINING, *_configs(workspace))
        )
    path: Path = workspace.root / source
    if path.name == Anchor.FILE:
        return load_anchor(path.parent).randomization(twin).over(DRAWS)
    return load_randomization(path, twin).over(DRAWS)
