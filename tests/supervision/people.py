"""People for tests: they see the states of a `PersonSupervisor` and press what a function tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.trial import Action, TrialState
from twinloop.testing.robots import FakeRobot

Decide = Callable[[TrialState], Action | None]


class RealRobot:
    """A fake robot as a real one is: it neither sets scenes nor judges, and has no leader arm."""

    def __init__(self, gone_after: int | None = None) -> None:
        self.fake = FakeRobot(gone_after)
        self.description = self.fake.description
        self.connect, self.observe, self.act = self.fake.connect, self.fake.observe, self.fake.act
        self.close = self.fake.close


class Still:
    """A controller that commands the same place in every step, under the id of a policy."""

    actor = "policy"
    cameras = ()

    def __init__(self, actor_id: str = "still", on_act: Callable[[], None] = lambda: None) -> None:
        self.actor_id, self._on_act = actor_id, on_act

    def restart(self, observation, seed):
        """Nothing to do."""

    def act(self, observation):
        """Half a radian for both joints."""
        self._on_act()
        return np.full(2, 0.5)


@contextmanager
def somebody(person: PersonSupervisor, decide: Decide) -> Iterator[list[TrialState]]:
    """Somebody who presses what `decide` says of each new state; yields the states that they saw."""
    seen: list[TrialState] = []
    over = threading.Event()

    def watch() -> None:
        changed = -1
        while not over.is_set():
            state = person.wait_for_change(changed, 0.02)
            if state.changed == changed:
                continue
            changed = state.changed
            action = decide(state)
            if action is not None and action.kind in state.allowed:
                person.press(action)

    person.listen(seen.append)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def answering(*outcomes: str) -> Decide:
    """Starts every trial, and resets a robot that was stopped; when a trial is over says the next of these: `success`, `redo`, or a failure mode."""
    left = list(outcomes)

    def decide(state: TrialState) -> Action | None:
        if state.stage == "placing":
            return Action("start")
        if state.stage == "stopped":
            return Action("reset", note="nothing is wrong")
        if state.stage == "judging" and not state.describing:
            said = left.pop(0) if left else "success"
            return Action(said) if said in ("success", "redo") else Action("failure", failure=said)
        return None

    return decide
