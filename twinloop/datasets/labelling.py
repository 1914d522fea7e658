"""What people decide about episodes: outcome, phases over time, which part to keep; and where raters disagree.

Phases and the kept part are labels like any other: `phases` is text such as `reach=0.2:1.4 grasp=1.4:2.1` and `keep` text such
as `0.4:3.2`, times in s since the episode's first row. `trim` writes a dataset of the kept parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from twinloop.datasets.labels import JUDGED, Label, Value, add_labels, load_labels
from twinloop.datasets.query import find_episodes, query
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import WrongUse

PHASES = "phases"
KEEP = "keep"
OUTCOME_FIELDS = ("success", "failure")
MOST_PHASES = 100
MOST_CHARACTERS = 200
"""Longest failure mode, phase or name of a rater."""

_PHASE_NAME = re.compile(r"[\w\-]{1,60}")


@dataclass(frozen=True)
class PhaseRange:
    """One phase of an episode, from `start_s` to `end_s` since its first row."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Disagreement:
    """An episode whose raters do not say the same: what each said last, by name."""

    episode: int
    episode_id: str
    field: str
    said: Mapping[str, Value]


@dataclass(frozen=True)
class Agreement:
    """How raters of a dataset agree about success.

    Attributes:
        raters: Who labelled anything, or judged a labelled episode at the robot.
        compared: Episodes that two or more raters judged.
        agreed: Those of them about which all say the same.
        kappa: Cohen's kappa of the pair of raters with most episodes in common; None without such a pair or variation.
        disagreements: Episodes to look at again.
    """

    raters: tuple[str, ...]
    compared: int
    agreed: int
    kappa: float | None
    disagreements: tuple[Disagreement, ...]


def label_episodes(
    dataset: str | Path | Dataset,
    values: Mapping[str, Value],
    by: str,
    *,
    numbers: Sequence[int] = (),
    where: str | None = None,
) -> list[Label]:
    """Label episodes by number or by an SQL condition; durable on return.

    Args:
        dataset: The dataset.
        values: Label by field: `success` (True or None), `failure` (a mode, which means no success), `phase`, `phases`, `keep`.
        by: Who decides.
        numbers: Episodes by number.
        where: Instead of numbers, a condition on the table `episodes`.

    Returns:
        The labels that were added.

    Raises:
        WrongUse: No episode is named, a value is not of its field's form, or the dataset was not written by Twinloop.
    """
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if opened.manifest is None:
        raise WrongUse(
            f"{opened.root} was not written by Twinloop and is never changed in place",
            remedy=f"twinloop data merge {opened.root} --out NEW",
        )
    ids = find_episodes(opened, where) if where else [opened.episode(number).id for number in numbers]
    if not ids:
        raise WrongUse("no episode matches", got=where)
    _check_values(values, min(opened.episode(number).duration_s for number in numbers) if numbers else None)
    if len(by) > MOST_CHARACTERS:
        raise WrongUse("the name of an author is too long", expected=f"at most {MOST_CHARACTERS} characters")
    return add_labels(opened.root, ids, values, by)


def current_labels(labels: Iterable[Label]) -> dict[str, dict[str, Value]]:
    """The last value of every field of each labelled episode, by episode id."""
    current: dict[str, dict[str, Value]] = {}
    for label in labels:
        current.setdefault(label.episode_id, {})[label.field] = label.value
    return current


def format_phases(phases: Sequence[PhaseRange]) -> str:
    """Phases as the text of a label, such as `reach=0.2:1.4 grasp=1.4:2.1`."""
    ordered = sorted(phases, key=lambda one: (one.start_s, one.end_s))
    return " ".join(f"{one.name}={one.start_s:.6g}:{one.end_s:.6g}" for one in ordered)


def parse_phases(text: str) -> tuple[PhaseRange, ...]:
    """Phases from the text of a label.

    Raises:
        WrongUse: It is not such a text, or phases overlap.
    """
    found = []
    for part in text.split():
        name, _, times = part.rpartition("=")
        if not _PHASE_NAME.fullmatch(name):
            raise WrongUse(
                "not a phase", got=part[:80], expected="NAME=START:END, times in s, such as grasp=1.4:2.1"
            )
        found.append(PhaseRange(name, *parse_range(times)))
    if len(found) > MOST_PHASES:
        raise WrongUse("too many phases", got=len(found), expected=f"at most {MOST_PHASES}")
    found.sort(key=lambda one: (one.start_s, one.end_s))
    for before, after in pairwise(found):
        if after.start_s < before.end_s - 1e-9:
            raise WrongUse(
                f"phases {before.name} and {after.name} overlap",
                got=f"{before.name} ends at {before.end_s:g} s, {after.name} begins at {after.start_s:g} s",
            )
    return tuple(found)


def parse_range(text: str) -> tuple[float, float]:
    """Two times such as `0.4:3.2`, s.

    Raises:
        WrongUse: It is not such a text, or ends before it begins.
    """
    try:
        start, end = (float(part) for part in text.split(":"))
    except ValueError:
        start, end = math.nan, math.nan
    if not (0.0 <= start < end < 1e7):
        raise WrongUse("not a range of time", got=text[:80], expected="START:END in s, such as 0.4:3.2")
    return start, end


def compare_raters(dataset: str | Path | Dataset) -> Agreement:
    """Compare what raters said last about the success of the same episodes; whoever judged the trial at the robot is one of them.

    Args:
        dataset: The dataset.

    Returns:
        Their agreement; Cohen's kappa corrects it for chance (Cohen 1960).
    """
    opened = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    labels = load_labels(opened.root)
    rows = query([opened], "select episode_id, episode_index from episodes").to_pylist()
    number_of = {row["episode_id"]: int(row["episode_index"]) for row in rows}
    said: dict[str, dict[str, Value]] = {}
    for label in labels:
        if label.field in OUTCOME_FIELDS and label.episode_id in number_of:
            if label.episode_id not in said:
                said[label.episode_id] = _said_at_the_robot(opened, number_of[label.episode_id])
            said[label.episode_id][label.by] = _judgement(label)
    several = {one: known for one, views in said.items() if len(known := _known(views)) > 1}
    apart = [one for one, views in several.items() if len(set(map(_succeeded, views.values()))) > 1]
    modes = [one for one, views in several.items() if one not in apart and len(set(views.values())) > 1]
    found = [
        Disagreement(number_of[one], one, "failure" if one in modes else "success", several[one])
        for one in sorted((*apart, *modes), key=number_of.__getitem__)
    ]
    judges = {by for views in said.values() for by in _known(views)}
    raters = tuple(sorted(judges | {label.by for label in labels}))
    return Agreement(raters, len(several), len(several) - len(apart), _kappa(several.values()), tuple(found))


def _said_at_the_robot(dataset: Dataset, number: int) -> dict[str, Value]:
    """The judgement of the person who attended the trial, by their name."""
    outcome, events = dataset.recorded_outcome(number)
    judges = [event.detail.removeprefix("by ") for event in events if event.kind == JUDGED]
    return dict.fromkeys(judges[-1:], outcome.failure or outcome.success)


def _check_values(values: Mapping[str, Value], duration_s: float | None) -> None:
    for field, value in values.items():
        if not isinstance(value, str):
            continue
        if field not in (PHASES, KEEP):
            if not value.strip() or len(value) > MOST_CHARACTERS or not value.isprintable():
                expected = f"1 to {MOST_CHARACTERS} characters on one line"
                raise WrongUse(f"bad {field}", got=value[:80], expected=expected)
        elif value:
            ranges = parse_phases(value) if field == PHASES else (PhaseRange(KEEP, *parse_range(value)),)
            last = max((one.end_s for one in ranges), default=0.0)
            if duration_s is not None and last > duration_s + 1e-3:
                expected = f"at most {duration_s:g} s"
                raise WrongUse(f"{field} ends after the episode", got=f"{last:g} s", expected=expected)


def _judgement(label: Label) -> Value:
    """True for a success, the mode or False for a failure, None for unknown."""
    if label.field == "failure":
        return label.value if label.value else None
    return label.value if isinstance(label.value, bool) else None


def _known(views: Mapping[str, Value]) -> dict[str, Value]:
    return {rater: value for rater, value in views.items() if value is not None}


def _succeeded(value: Value) -> bool:
    return value is True


def _kappa(several: Iterable[Mapping[str, Value]]) -> float | None:
    pairs: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for views in several:
        raters = sorted(views)
        for i, first in enumerate(raters):
            for second in raters[i + 1 :]:
                pair = (_succeeded(views[first]), _succeeded(views[second]))
                pairs.setdefault((first, second), []).append(pair)
    if not pairs:
        return None
    judged = max(pairs.values(), key=len)
    n = len(judged)
    observed = sum(a == b for a, b in judged) / n
    rates = [sum(pair[side] for pair in judged) / n for side in (0, 1)]
    chance = rates[0] * rates[1] + (1 - rates[0]) * (1 - rates[1])
    return None if chance == 1.0 else (observed - chance) / (1 - chance)
