"""Episodes of a dataset as a list to look through: filters, counts of each choice, order, pages; of 100,000 as fast as of ten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinloop.datasets.query import find_episodes
from twinloop.datasets.reader import Dataset
from twinloop.datasets.sidecar import SCHEMA
from twinloop.episode import Array
from twinloop.errors import UnknownName
from twinloop.quality.require import last_report

Success = Literal["success", "failure", "unlabelled"]
Quality = Literal["ok", "note", "warning", "blocking", "unchecked"]

FACETS = ("source", "outcome", "failure", "quality", "site", "operator", "task")
"""Columns whose values are few enough to choose from."""
MOST_CHOICES = 50
"""Values of a facet that are counted; the rest is reached with a search or SQL."""
NONE = "(none)"
"""Stands for a missing value among the choices."""

_COLUMNS = (
    "episode_index", "episode_id", "duration_s", "source", "success", "failure", "site", "actor", "actor_id", "robot_serial",
    "recorded_at", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class EpisodeLine:
    """One episode in a list.

    Attributes:
        episode: Its number.
        id: Its identity, which copies keep.
        task: What was asked, in words.
        rows: Time steps.
        duration_s: From the first to the last, s.
        source: real, sim, standin or unknown.
        success: As last labelled; None if unknown.
        failure: The failure mode.
        quality: Worst finding of the last check of the dataset, "ok" without one, or "unchecked".
        site: Where it was recorded.
        operator: Who or what acted.
        robot: Serial number of the robot.
        recorded_at: When.
        seed: Of a simulated episode.
    """

    episode: int
    id: str
    task: str
    rows: int
    duration_s: float | None
    source: str
    success: bool | None
    failure: str | None
    quality: str
    site: str | None
    operator: str | None
    robot: str | None
    recorded_at: datetime | None
    seed: int | None


@dataclass(frozen=True)
class EpisodeFilter:
    """Which episodes to list; None of a field lists all, and fields are combined with "and".

    `text` is looked for in the id, task, failure, operator and number; `where` is an SQL condition on the table `episodes`.
    """

    source: str | None = None
    outcome: Success | None = None
    failure: str | None = None
    quality: Quality | None = None
    site: str | None = None
    operator: str | None = None
    task: str | None = None
    text: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class Choice:
    """One value of a facet, and how many episodes have it."""

    value: str
    episodes: int


@dataclass(frozen=True)
class EpisodeList:
    """Every episode of one dataset, one row each, in memory; see `list_episodes`."""

    dataset: Dataset
    table: pa.Table

    def __len__(self) -> int:
        return len(self.table)

    def find(self, wanted: EpisodeFilter) -> Array:
        """Rows of the episodes that a filter lets through, in order, shape (found,).

        Raises:
            WrongUse: Its `where` is no condition on the table `episodes`.
            UnknownName: Its outcome or quality is none of those there are.
        """
        _check_choice("outcome", wanted.outcome, get_args(Success))
        _check_choice("quality", wanted.quality, get_args(Quality))
        kept = np.ones(len(self.table), bool)
        for name in FACETS:
            if (value := getattr(wanted, name)) is not None:
                kept &= _equal(self.table.column(name), value)
        if wanted.text:
            kept &= self._contains(wanted.text.casefold())
        if wanted.where:
            ids = pa.array(find_episodes(self.dataset, wanted.where), pa.string())
            kept &= np.asarray(pc.is_in(self.table.column("episode_id"), value_set=ids))
        return np.flatnonzero(kept)

    def order(self, rows: Array, by: str, descending: bool = False) -> Array:
        """The same rows, ordered by a column; missing values come last.

        Raises:
            UnknownName: There is no such column.
        """
        names = {"episode": "episode_index", "rows": "length", "id": "episode_id", "robot": "robot_serial"}
        name = names.get(by, by)
        if name not in self.table.column_names:
            raise UnknownName("column", by, sorted({*EpisodeLine.__dataclass_fields__}))
        values = self.table.column(name).take(pa.array(rows))
        places = pc.sort_indices(
            pa.table({"value": values, "row": rows}),
            sort_keys=[
                ("value", "descending" if descending else "ascending", "at_end"),
                ("row", "ascending", "at_end"),
            ],
        )
        return np.asarray(np.asarray(rows)[np.asarray(places)])

    def lines(self, rows: Sequence[int] | Array) -> list[EpisodeLine]:
        """These rows as episodes."""
        return [_line(values) for values in self.table.take(pa.array(np.asarray(rows, np.int64))).to_pylist()]

    def number_of(self, episode_id: str) -> int | None:
        """The number of the episode with this id; None where the dataset has none."""
        place = pc.index(self.table.column("episode_id"), episode_id).as_py()
        return None if place < 0 else int(self.table.column("episode_index")[place].as_py())

    def count_choices(self, rows: Array | None = None) -> dict[str, list[Choice]]:
        """How many of these rows, of all by default, have each value of each facet; the most frequent first."""
        table = self.table if rows is None else self.table.take(pa.array(rows))
        found = {}
        for name in FACETS:
            counted = pc.value_counts(table.column(name).combine_chunks()).to_pylist()
            choices = [
                Choice(NONE if one["values"] is None else one["values"], one["counts"]) for one in counted
            ]
            found[name] = sorted(choices, key=lambda one: (-one.episodes, one.value))[:MOST_CHOICES]
        return found

    @property
    def checked(self) -> bool:
        """Whether the dataset was checked as it is now."""
        return len(self.table) > 0 and self.table.column("quality")[0].as_py() != "unchecked"

    def count_outcomes(self) -> dict[str, tuple[int, int, int]]:
        """Episodes, successes and failures of each source, the most frequent source first."""
        found: dict[str, list[int]] = {}
        counted = self.table.group_by(["source", "outcome"]).aggregate([([], "count_all")]).to_pylist()
        for one in counted:
            totals = found.setdefault(one["source"], [0, 0, 0])
            totals[0] += one["count_all"]
            if one["outcome"] in ("success", "failure"):
                totals[1 if one["outcome"] == "success" else 2] += one["count_all"]
        ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        return {source: (every, good, bad) for source, (every, good, bad) in ordered}

    def _contains(self, text: str) -> Array:
        kept = np.zeros(len(self.table), bool)
        for name in ("episode_id", "task", "failure", "operator"):
            hit = pc.match_substring(self.table.column(name), text, ignore_case=True)
            kept |= np.asarray(pc.fill_null(hit, False))
        if text.isdecimal():
            kept |= np.asarray(self.table.column("episode_index")) == int(text[:18])
        return kept


def list_episodes(dataset: Dataset) -> EpisodeList:
    """Read one row per episode, with its outcome as last labelled and what the last check found.

    Args:
        dataset: The dataset.

    Returns:
        The list, in the order of the episodes.

    Raises:
        DamagedDataset: A table cannot be read.
    """
    index = dataset.index
    side = dataset.provenance_table()
    if side is None:
        side = pa.table({"episode_index": index.numbers, "episode_id": [str(one) for one in index.numbers]})
    columns = {name: _column(side, name) for name in _COLUMNS}
    columns |= _labelled(dataset, columns)
    tasks = pa.DictionaryArray.from_arrays(
        pa.array(index.task_of, pa.int32()), pa.array(index.tasks, pa.string())
    )
    success = columns["success"]
    columns |= {
        "task": tasks.cast(pa.string()),
        "length": pa.array(index.length),
        "source": pc.fill_null(columns["source"], "unknown"),
        "outcome": pc.if_else(
            pc.is_null(success), "unlabelled", pc.if_else(pc.fill_null(success, False), "success", "failure")
        ),
        "operator": pc.coalesce(columns["actor_id"], columns["actor"]),
    }
    return EpisodeList(dataset, pa.table(columns | {"quality": _quality(dataset, columns["episode_id"])}))


def _column(side: pa.Table, name: str) -> pa.Array:
    if name not in side.column_names:
        return pa.nulls(len(side), SCHEMA.field(name).type)
    return side.column(name).combine_chunks()


def _labelled(dataset: Dataset, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Outcomes as last labelled."""
    if dataset.manifest is None or not dataset.outcomes:
        return {}
    success, failure = columns["success"].to_pylist(), columns["failure"].to_pylist()
    for place, name in enumerate(columns["episode_id"].to_pylist()):
        if (outcome := dataset.outcomes.get(name)) is not None:
            success[place], failure[place] = outcome.success, outcome.failure
    return {"success": pa.array(success, pa.bool_()), "failure": pa.array(failure, pa.string())}


def _quality(dataset: Dataset, ids: pa.Array) -> pa.Array:
    """The worst finding of each episode."""
    report = last_report(dataset)
    if report is None:
        return pa.array(["unchecked"] * len(ids), pa.string())
    worst: dict[str, str] = {}
    ranks = {"note": 1, "warning": 2, "blocking": 3}
    for finding in report.findings:
        if not report.overridden(finding):
            before = worst.get(finding.episode_id, "ok")
            worst[finding.episode_id] = max(before, finding.severity, key=lambda one: ranks.get(one, 0))
    return pa.array([worst.get(one, "ok") for one in ids.to_pylist()], pa.string())


def _check_choice(what: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise UnknownName(what, value, known)


def _equal(column: pa.ChunkedArray, value: str) -> Array:
    if value == NONE:
        return np.asarray(pc.is_null(column))
    return np.asarray(pc.fill_null(pc.equal(column, value), False))


def _line(values: Mapping[str, Any]) -> EpisodeLine:
    return EpisodeLine(
        episode=values["episode_index"],
        id=values["episode_id"] or "",
        task=values["task"] or "",
        rows=values["length"],
        duration_s=values["duration_s"],
        source=values["source"],
        success=values["success"],
        failure=values["failure"],
        quality=values["quality"],
        site=values["site"],
        operator=values["operator"],
        robot=values["robot_serial"],
        recorded_at=values["recorded_at"],
        seed=values["seed"],
    )
