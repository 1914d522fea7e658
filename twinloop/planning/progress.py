"""How much of a plan is recorded, and whether the gain is what the plan promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import TwinloopError, WrongUse
from twinloop.planning.items import Item, Plan
from twinloop.planning.power import draw_rates
from twinloop.records import Record, derived, parse_record, read_json


@dataclass(frozen=True)
class ItemProgress(Record):
    """How much of one item is recorded; `problem` says why it could not be counted."""

    id: str
    title: str
    recorded: int
    wanted: int
    succeeded: int
    problem: str | None = None

    @derived
    def left(self) -> int:
        """Episodes still to record."""
        return max(0, self.wanted - self.recorded)


@dataclass(frozen=True)
class Review(Record):
    """Success before and after, the gain promised, and the fraction of it reached; hours are those between recordings."""

    before: float
    after: float
    gained: float
    low: float
    high: float
    promised: float
    promised_low: float
    promised_high: float
    kept: bool
    recovered: float | None
    hours_planned: float
    hours_recorded: float | None
    done: tuple[ItemProgress, ...]
    verdict: str


def plan_status(plan: Plan, datasets: Sequence[str | Path | Dataset]) -> tuple[ItemProgress, ...]:
    """Count what has been recorded since the plan was made, item by item."""
    opened = [one if isinstance(one, Dataset) else open_dataset(one) for one in datasets]
    if not opened:
        raise WrongUse("nothing to count in", remedy="--data DATASET")
    return tuple(count_item(item, plan, opened) for item in plan.items if item.episodes)


def plan_review(
    plan: Plan,
    before: str | Path,
    after: str | Path,
    datasets: Sequence[str | Path | Dataset] = (),
    *,
    done_items: Sequence[str] = (),
) -> Review:
    """Compare the promised gain with the one reached: evaluations before and after, as `twinloop evaluate --json` prints them.

    The promise is that of the items that were recorded (at least half of their episodes), or of `done_items`; gains overlap, so the
    promise of several lies between the largest and their sum.
    """
    first, second = _evaluation(before), _evaluation(after)
    if Path(before).read_bytes() == Path(after).read_bytes():
        raise WrongUse("before and after are the same evaluation", got=f"{before} and {after}")
    counted = plan_status(plan, datasets) if datasets else ()
    kept = set(done_items) or {one.id for one in counted if one.wanted and one.recorded >= 0.5 * one.wanted}
    for name in done_items:
        if plan.item(name) is None:
            raise WrongUse("the plan has no such item", got=name, available=[i.id for i in plan.items])
    items = [item for item in plan.items if item.id in kept and item.gain.points is not None]
    rng = np.random.default_rng(0)
    gained = 100.0 * (
        draw_rates(rng, second.successes, second.episodes) - draw_rates(rng, first.successes, first.episodes)
    )
    low, high = (float(value) for value in np.quantile(gained, [0.025, 0.975]))
    points = 100.0 * (second.rate - first.rate)
    room = 100.0 * (1.0 - first.rate)
    promised = min(max((i.gain.points or 0.0 for i in items), default=0.0), room)
    promised_low = max((i.gain.low or 0.0 for i in items), default=0.0)
    promised_high = min(sum(i.gain.high or 0.0 for i in items), room)
    fits = bool(items) and high >= promised_low and low <= promised_high
    return Review(
        before=first.rate,
        after=second.rate,
        gained=points,
        low=low,
        high=high,
        promised=promised,
        promised_low=promised_low,
        promised_high=promised_high,
        kept=fits,
        recovered=points / promised if promised > 0.0 else None,
        hours_planned=sum(item.hours for item in items),
        hours_recorded=_hours(datasets, plan) if datasets else None,
        done=counted,
        verdict=_verdict(counted, items, fits, (low, high), (promised_low, promised_high), plan.trials),
    )


def _verdict(
    counted: Sequence[ItemProgress],
    items: Sequence[Item],
    fits: bool,
    reached: tuple[float, float],
    promised: tuple[float, float],
    trials: int,
) -> str:
    (low, high), (least, most) = reached, promised
    if not items and any(one.recorded for one in counted):
        return "less than half of every item is recorded, so nothing is promised yet"
    if not items:
        return "nothing of the plan was recorded, so nothing was promised"
    if fits and low <= 0.0 < least:
        asked = f"; the plan asks for {trials} trials before and after" if trials else ""
        return f"undecided: the gain may be anything from {low:.0f} to {high:.0f} points{asked}"
    if fits:
        return "the gain agrees with the promise"
    if high < least:
        return "the gain is smaller than promised: the loss has another cause, or the data did not reach the policy"
    return f"the gain ({low:.0f} to {high:.0f}) is larger than promised (at most {most:.0f}): raise `recovers` in the cost file"


def count_item(item: Item, plan: Plan, datasets: Sequence[Dataset], *, undated: bool = True) -> ItemProgress:
    """Count what has been recorded of one item since it is in the plan.

    Args:
        item: The item.
        plan: The plan.
        datasets: Where to count. One that cannot be asked, such as for a signal it lacks, counts nothing; where none can, the
            answer says why.
        undated: Count episodes without a recording time too.

    Returns:
        How much is recorded.
    """
    recorded = succeeded = asked = 0
    problem = None
    people = "actor_id" in item.counts.split(" from ")[0]
    for dataset in datasets:
        try:
            found = {
                row.get("actor_id") if people else row["episode_index"] for row in _rows(dataset, item.counts)
            }
            fresh = _fresh(dataset, item.added_at or plan.made_at, undated)
        except TwinloopError as error:
            problem = error.what
            continue
        asked += 1
        if people:
            recorded += len(found & {row["actor_id"] for row in fresh})
            continue
        here = [row for row in fresh if row["episode_index"] in found]
        recorded += len(here)
        succeeded += sum(row["success"] is True for row in here)
    return ItemProgress(item.id, item.title, recorded, item.episodes, succeeded, None if asked else problem)


def _rows(dataset: Dataset, sql: str) -> list[dict[str, Any]]:
    return list(query([dataset], sql).to_pylist())


def _fresh(dataset: Dataset, since: str, undated: bool = True) -> list[dict[str, Any]]:
    """Episodes recorded since then, and those without a recording time unless they are not to count."""
    made = datetime.fromisoformat(since)
    rows = _rows(
        dataset, "select episode_index, success, actor_id, recorded_at from episodes where source <> 'sim'"
    )
    return [
        row for row in rows if (undated if row["recorded_at"] is None else _utc(row["recorded_at"]) >= made)
    ]


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _hours(datasets: Sequence[str | Path | Dataset], plan: Plan) -> float | None:
    """Hours between recordings, pauses of more than half an hour left out."""
    moments = []
    for one in datasets:
        dataset = one if isinstance(one, Dataset) else open_dataset(one)
        moments += [_utc(row["recorded_at"]) for row in _fresh(dataset, plan.made_at) if row["recorded_at"]]
    if len(moments) < 2:
        return None
    gaps = np.diff(np.sort([moment.timestamp() for moment in moments]))
    return float(gaps[gaps < 1800.0].sum() / 3600.0)


@dataclass(frozen=True)
class EvaluationCounts:
    """Successes and episodes of an evaluation."""

    successes: int
    episodes: int

    @property
    def rate(self) -> float:
        """The success rate."""
        return self.successes / self.episodes


def _evaluation(path: str | Path) -> EvaluationCounts:
    file, expected = Path(path), "what `twinloop evaluate --json` prints"
    values = read_json(file, expected)
    if isinstance(values, dict) and values.get("evaluations"):
        values = values["evaluations"][0]
    counts = parse_record(EvaluationCounts, values, file, expected)
    if not 0 <= counts.successes <= counts.episodes or counts.episodes == 0:
        raise WrongUse(f"{file} counts wrongly", got=f"{counts.successes} of {counts.episodes}")
    return counts
