"""`Plan` and `Item`: what to record, how much of it, what it costs and what it should bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twinloop.planning.power import Gain
from twinloop.planning.remedies import Kind
from twinloop.records import SavedRecord, derived, load_record

State = Literal["planned", "recording", "done"]
STATES: tuple[State, ...] = ("planned", "recording", "done")


@dataclass(frozen=True)
class Item:
    """One thing to record.

    `unit` is what is counted: episodes, runs, people. `settings` has one entry for each: what to set before it. `trials` of a
    policy, before and after, would show the gain of this item alone; the plan counts their time. `counts` is SQL for the
    episodes of a dataset that belong to this item. `power` is the arithmetic behind the numbers. `added_by` and `added_at` say who added
    it to a plan that was made before, and when; None if the plan was made with it.
    """

    id: str
    kind: Kind
    title: str
    why: str
    dimension: str | None
    episodes: int
    trials: int
    minutes: float
    gain: Gain
    power: str
    simulation: str
    required: str | None
    command: str
    counts: str
    settings: tuple[Mapping[str, float | str], ...] = ()
    unit: str = "episodes"
    added_by: str | None = None
    added_at: str | None = None

    @derived
    def hours(self) -> float:
        """An operator's hours."""
        return self.minutes / 60.0

    @derived
    def gain_per_hour(self) -> float | None:
        """Points per hour; None where the gain is not known."""
        if self.gain.points is None:
            return None
        return self.gain.points / max(self.hours, 1e-9)


@dataclass(frozen=True)
class Move:
    """Who put an item into a state, and when."""

    item: str
    state: State
    by: str
    at: str
    note: str = ""


@dataclass(frozen=True)
class Plan(SavedRecord):
    """Items in order of gain per hour; and how many trials afterwards show the largest of their gains, and their minutes.

    `moves` is what people have done with the items, oldest first; an item without any is planned.
    """

    FILE, COMMAND = "plan.json", "twinloop plan --out FILE"

    made_at: str
    items: tuple[Item, ...]
    success: float | None
    trials: int
    trial_minutes: float
    sources: Mapping[str, str]
    assumptions: tuple[str, ...]
    moves: tuple[Move, ...] = ()

    @derived
    def hours(self) -> float:
        """An operator's hours in all, with the trials."""
        return sum(item.hours for item in self.items) + self.trial_minutes / 60.0

    def item(self, name: str) -> Item | None:
        """The item with this id."""
        return next((item for item in self.items if item.id == name), None)

    def last_move(self, name: str) -> Move | None:
        """What was last done with the item with this id."""
        return next((move for move in reversed(self.moves) if move.item == name), None)

    def state(self, name: str) -> State:
        """The state of the item with this id."""
        move = self.last_move(name)
        return move.state if move else "planned"


def load_plan(path: str | Path) -> Plan:
    """Read a plan that `twinloop plan --out` wrote.

    Args:
        path: The file, or the folder that holds `plan.json`.

    Returns:
        The plan.

    Raises:
        WrongUse: If there is no such file or it is not a plan.
    """
    return load_record(Plan, path)
