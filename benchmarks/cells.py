"""Cells of a long table: data sets, policies and trials by name, kept and not made again, so that a table grows over sittings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twinloop.dataset.commit import write_atomically
from twinloop.learn.evaluate import evaluate_in_twin, evaluate_on_robot, exact_interval
from twinloop.learn.policy import load_policy
from twinloop.randomize import load_randomization
from twinloop.robot import connected, open_robot
from twinloop.twin import load_twin

TWIN = "franka_pick_place"
NOMINAL = {
    "environment": {
        "object_offset_x_m": [-0.09, 0.09],
        "object_offset_y_m": [-0.09, 0.09],
        "object_yaw_rad": [-0.75, 0.75],
        "target_offset_x_m": [-0.04, 0.04],
        "target_offset_y_m": [-0.04, 0.04],
    }
}
"""The nominal twin: only where things lie varies."""

BLOCK = 20
"""Trials that are made and kept together."""


class Cells:
    """What has been made so far, by name; stops making more when the sitting is over."""

    def __init__(
        self,
        root: Path,
        say: Any,
        limit: str = "TWINLOOP_LEARN_MINUTES",
        most_minutes: float | None = None,
    ) -> None:
        self.root, self._say = root, say
        minutes = os.environ.get(limit) if most_minutes is None else str(most_minutes)
        self._until = time.monotonic() + float(minutes) * 60 if minutes else float("inf")
        root.mkdir(parents=True, exist_ok=True)

    def folder(self, name: str, make: Callable[[Path], Any]) -> Path | None:
        """A folder that `make` fills; a part-made one is begun again by whoever makes it."""
        path, mark = self.root / name, self.root / f"{name}.done"
        if not mark.exists():
            if time.monotonic() > self._until:
                return None
            self._say.print(f"  {name} ...")
            make(path)
            mark.touch()
        return path

    def numbers(self, name: str, make: Callable[[], Any]) -> Any:
        """A JSON value that `make` gives."""
        path = self.root / f"{name}.json"
        if not path.exists():
            if time.monotonic() > self._until:
                return None
            self._say.print(f"  {name} ...")
            write_atomically(path, json.dumps(make()).encode())
        return json.loads(path.read_text())


def in_twin(path: Path, episodes: int) -> dict[str, Any]:
    """Success in the nominal twin, where only scenes vary."""
    twin = load_twin(TWIN)
    scenes = load_randomization({"name": "nominal", "randomization": NOMINAL}, twin)
    return evaluate_in_twin(
        load_policy(path), twin, episodes=episodes, seed=77, randomization=scenes
    ).as_json()


def on_standin(
    cells: Cells, path: Path, reality: str, trials: int, name: str | None = None
) -> dict[str, Any] | None:
    """Success in so many scenes, kept by `name`."""

    def measure() -> dict[str, Any]:
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            return evaluate_on_robot([load_policy(path)], robot, episodes=trials)[0].as_json()

    return cells.numbers(name or f"{path.name}@{reality}-{trials}", measure)


def tried(
    cells: Cells, path: Path, reality: str, trials: int, label: str | None = None
) -> dict[str, Any] | None:
    """Success so far, from blocks of scenes that are each measured once; None before the first. A reality in a file has a `label`."""
    blocks = []
    for first in range(0, trials, BLOCK):
        count = min(BLOCK, trials - first)

        def measure(begin: int = first, episodes: int = count) -> dict[str, Any]:
            robot = open_robot(f"standin:{reality}")
            with connected(robot):
                found = evaluate_on_robot([load_policy(path)], robot, episodes=episodes, first=begin)[0]
            return {"successes": found.successes, "episodes": episodes, "failures": found.failures}

        blocks.append(cells.numbers(f"{path.name}@{label or reality}-{first}-{count}", measure))
    known = [block for block in blocks if block is not None]
    won, of = (sum(block[key] for block in known) for key in ("successes", "episodes"))
    return {"successes": won, "episodes": of, "success": won / of} if known else None


def shown(made: list[dict[str, Any]], seeds: int) -> tuple[str, str, str]:
    if not made:
        return "not measured yet", "0", f"0 of {seeds}"
    won, of = sum(m["successes"] for m in made), sum(m["episodes"] for m in made)
    low, high = exact_interval(won, of)
    each = " / ".join(f"{100 * m['success']:.0f}" for m in made) if len(made) > 1 else ""
    share = f"{100 * won / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]" + (f" ({each})" if each else "")
    return share, str(of), f"{len(made)} of {seeds}"
