"""Conditions of an episode: object, site, light, clutter, participant.

They come from the episode's provenance (site, robot, the person who acted, drawn parameters), from signals called
`condition.NAME` that hold one value throughout, and from the user's table: a CSV file with a column `episode`
(number or id) and one column per condition.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twinloop.episode import Episode
from twinloop.errors import WrongUse, first_line
from twinloop.twins import Twin

Known = Mapping[str, float | str]
PREFIX = "condition."
MOST_VALUES, FEW_EACH = 6, 3
"""A number with more different values, or fewer episodes of each, is cut in two at its median."""

_PEOPLE = ("participant", "operator", "person")


def load_conditions(path: str | Path) -> dict[str, dict[str, float | str]]:
    """A table of conditions, by the episode's number or id."""
    rows = read_csv(path)
    if not rows or "episode" not in rows[0]:
        raise WrongUse(
            f"{path} does not say which episode a row belongs to",
            got=", ".join(map(str, rows[0])) if rows else "no row",
            expected="a column called 'episode' with numbers or ids",
        )
    table: dict[str, dict[str, float | str]] = {}
    for row in rows:
        values = {
            name: _value(text)
            for name, text in row.items()
            if name != "episode" and name and isinstance(text, str) and text
        }
        table[str(row["episode"]).strip()] = values
    return table


def read_csv(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a header, in UTF-8."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WrongUse(f"{path} cannot be read as CSV", got=first_line(error)) from error


def conditions_of(episode: Episode, table: Known | None = None) -> dict[str, float | str]:
    """All known conditions of one episode; those of `table` take precedence."""
    made: dict[str, float | str] = {}
    provenance = episode.provenance
    if provenance.site:
        made["site"] = provenance.site
    if provenance.robot_serial:
        made["robot"] = provenance.robot_serial
    if provenance.actor == "operator" and provenance.actor_id:
        made["participant"] = provenance.actor_id
    made.update(provenance.draw)
    for signal in episode.schema.signals:
        if signal.name.startswith(PREFIX) and signal.size == 1:
            rows = np.asarray(episode.signals[signal.name]).reshape(-1)
            if np.all(rows == rows[0]):
                made[signal.name.removeprefix(PREFIX)] = float(rows[0])
    made.update(table or {})
    return made


def dimension_of(name: str, twin: Twin) -> str:
    """The gap dimension that a condition belongs to."""
    if twin.has(name):
        return twin.parameter(name).dimension
    if name == "object" or name.startswith("object_"):
        return "object"
    return "human" if name in _PEOPLE else "environment"


def sliced(
    real: Sequence[Known], sim: Sequence[Known]
) -> dict[str, tuple[list[str | None], list[str | None]]]:
    """For every condition that differs between real episodes, the slice each real and each simulated one falls in."""
    made = {}
    for name in sorted({name for known in real for name in known}):
        values = [known.get(name) for known in real]
        others = [known.get(name) for known in sim]
        present = [value for value in values if value is not None]
        if len(set(present)) < 2:
            continue
        numbers = [value for value in [*present, *others] if isinstance(value, int | float)]
        most = min(MOST_VALUES, len(present) // FEW_EACH)
        if len(set(present)) > max(2, most) and len(numbers) >= len(present):
            edge = float(np.median([float(value) for value in present if not isinstance(value, str)]))
            made[name] = (_halves(values, edge), _halves(others, edge))
        else:
            made[name] = (_words(values), _words(others))
    return made


def most_frequent(values: Sequence[str | None], most: int) -> list[str]:
    """The slices with most episodes, in alphabetical order."""
    counts = Counter(value for value in values if value is not None)
    return sorted(name for name, _ in counts.most_common(most))


def _halves(values: Sequence[float | str | None], edge: float) -> list[str | None]:
    return [
        None
        if value is None or isinstance(value, str)
        else f"<= {edge:.3g}"
        if value <= edge
        else f"> {edge:.3g}"
        for value in values
    ]


def _words(values: Sequence[float | str | None]) -> list[str | None]:
    return [
        None if value is None else value if isinstance(value, str) else f"{value:.6g}" for value in values
    ]


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.strip()
