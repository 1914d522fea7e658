"""Somebody beside a stand-in in real time, who sees its cell as it is, judges what they see, and acts on a screen as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from twinloop.robots.standin.reality import load_reality
from twinloop.robots.standin.serve import Server, open_listener
from twinloop.robots.standin.session import Session
from twinloop.twins import load_twin

MOVES_M = 0.002
"""The tool has moved, as a person sees it."""
LONGEST_S = 240.0
"""The longest that nothing may happen on a screen."""


class SeenCell:
    """A stand-in in real time, in a process of its own, whose true scene a person beside it sees."""

    def __init__(self, twin: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.supervision.beside", twin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={"MUJOCO_GL": "egl", **os.environ},
        )  # fmt: skip
        self.address = f"tcp:127.0.0.1:{self._answer()}"

    def look(self) -> tuple[bool, np.ndarray]:
        """Whether the task has succeeded, and the way from the tool to its target along the world's axes, m."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        reached, way_m = self._answer()
        return reached, np.array(way_m)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def standing(twin: str) -> Iterator[SeenCell]:
    """A cell that runs by the clock."""
    cell = SeenCell(twin)
    try:
        yield cell
    finally:
        cell.close()


def serve(twin: str) -> None:
    """Run the cell: prints its port, then for every line of input what a person sees."""
    session = Session(load_reality("ideal"), load_twin(twin), lockstep=False)
    listener = open_listener(0)
    print(listener.getsockname()[1], flush=True)

    def tell() -> None:
        for _ in sys.stdin:
            truth = session._truth
            way_m = truth.target_position[0] - truth.tool_position[0]
            print(json.dumps([session._verdict.success is True, way_m.tolist()]), flush=True)

    threading.Thread(target=tell, daemon=True).start()
    Server(session, listener, lockstep=False).run()


class Screen(Protocol):
    """What a person looks at and acts on."""

    def stage(self) -> str:
        """The stage of the trial that is shown; empty between two sessions."""

    def act(self, kind: str) -> None:
        """Press what starts, stops, judges, repeats, pauses or goes on; a failure and a reset with what is asked about them."""

    def drives(self) -> bool:
        """Whether the arm is driven from here."""

    def drive(self, way_m: np.ndarray) -> None:
        """Move the tool a little this way."""

    def over(self) -> bool:
        """Whether the command has ended."""


class Person:
    """Makes trials on a screen: starts them, and judges by what they see in the cell.

    Args:
        cell: The cell.
        screen: The screen.
        surprises: What they do in the first trials instead of judging: `stop`, `redo`, or `pause` before one.
    """

    def __init__(self, cell: SeenCell, screen: Screen, surprises: tuple[str, ...] = ()) -> None:
        self._cell, self._screen, self._left = cell, screen, list(surprises)
        self._rng = np.random.default_rng(4)

    def attend(self) -> bool:
        """Make trials until the command ends, which is true, or until the session is paused on purpose."""
        screen, idle_s = self._screen, time.monotonic()
        while not screen.over():
            stage = screen.stage()
            if stage not in ("", "waiting", "ended"):
                idle_s = time.monotonic()
            assert time.monotonic() - idle_s < LONGEST_S, f"nothing happens: {stage}"
            if stage == "placing" and self._left[:1] == ["pause"]:
                self._left.pop(0)
                self._press("pause")
                while screen.stage() != "paused":
                    time.sleep(0.1)
                return False
            answers = {"placing": "start", "stopped": "reset", "paused": "resume"}
            if stage in answers:
                self._press(answers[stage])
            elif stage == "running":
                self._watch()
            elif stage == "judging":
                self._judge()
            else:
                time.sleep(0.2)
        return True

    def _press(self, kind: str) -> None:
        before = self._screen.stage()
        time.sleep(float(self._rng.uniform(0.3, 0.9)))
        self._screen.act(kind)
        end_s = time.monotonic() + 20.0
        while self._screen.stage() == before and not self._screen.over() and time.monotonic() < end_s:
            time.sleep(0.05)

    def _watch(self) -> None:
        if self._left[:1] in (["stop"], ["redo"]):
            began = self._cell.look()[1]
            while self._screen.stage() == "running" and np.abs(self._cell.look()[1] - began).max() < MOVES_M:
                time.sleep(0.05)
            self._press(self._left.pop(0))
            return
        drives = self._screen.drives()
        while self._screen.stage() == "running" and not self._screen.over():
            reached, way_m = self._cell.look()
            if reached:
                self._judge()
            elif drives:
                self._screen.drive(way_m)
            else:
                time.sleep(0.1)

    def _judge(self) -> None:
        self._press("success" if self._cell.look()[0] else "failure")


if __name__ == "__main__":
    serve(sys.argv[1])
