"""Cells of a long table: datasets, policies and trials by name, kept and not made again, so that a table grows over sittings.

Datasets and policies stay in benchmarks/work. How trials went is entered in benchmarks/measured, which belongs to the repository,
with the commit it was measured on: a later sitting adds to it on any machine, and makes a policy again only to try it further.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT, Settings, commit
from twinloop.datasets.commit import write_atomically
from twinloop.evaluation.result import Evaluation
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.networks.policy import load_policy
from twinloop.randomization import load_randomization
from twinloop.robots import connected, open_robot
from twinloop.stats.interval import exact_interval
from twinloop.twins import load_twin

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

MOST = int(os.environ.get("TWINLOOP_TRIALS", "1000"))
"""Trials of each policy that a sitting makes at most: breadth before depth."""


class Cells:
    """What has been made so far, by name; stops making more when the sitting is over."""

    def __init__(
        self,
        root: Path,
        say: Any,
        limit: str = "TWINLOOP_LEARN_MINUTES",
        most_minutes: float | None = None,
        ledger: Path | None = None,
    ) -> None:
        self.root, self._say, self._ledger = root, say, ledger or root / "measured.json"
        minutes = os.environ.get(limit) if most_minutes is None else str(most_minutes)
        self._until = time.monotonic() + float(minutes) * 60 if minutes else float("inf")
        root.mkdir(parents=True, exist_ok=True)

    @property
    def kept(self) -> Cells:
        """The same cells, of which no more are made."""
        return Cells(self.root, self._say, most_minutes=0.0, ledger=self._ledger)

    def folder(self, name: str, make: Callable[[Path], Any]) -> Path | None:
        """A folder that `make` fills; a part-made one is begun again by whoever makes it. Of two processes the second waits."""
        path, mark = self.root / name, self.root / f"{name}.done"
        if mark.exists():
            return path
        if time.monotonic() > self._until:
            return None
        with (self.root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mark.exists():
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

    def measured(self, name: str, make: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        """How trials went, from the ledger; what `make` gives is entered there. None while the sitting does not get to it."""
        known: dict[str, Any] = _entries(self._ledger)
        if name not in known and time.monotonic() <= self._until:
            self._say.print(f"  {name} ...")
            found = make()
            if found is not None:
                _enter(self._ledger, name, found | {"commit": commit()})
                return found
        return known.get(name)

    def known_block(self, where: str) -> int | None:
        """How many trials from this scene on were measured together, if any."""
        sizes = (
            name.rpartition("-")[2] for name in _entries(self._ledger) if name.rpartition("-")[0] == where
        )
        return next((int(size) for size in sizes if size.isdigit()), None)

    def commits(self) -> str:
        """The commits on which the ledger's entries were measured."""
        return ", ".join(sorted({entry["commit"] for entry in _entries(self._ledger).values()})) or "none"


def open_cells(settings: Settings, name: str, limit: str = "TWINLOOP_LEARN_MINUTES") -> Cells:
    """The cells of a table; a quick run keeps its numbers to itself."""
    if settings.quick:
        return Cells(settings.work / f"{name}-quick", settings.say, limit)
    ledger = ROOT / f"benchmarks/measured/{name}.json"
    return Cells(settings.work / name, settings.say, limit, ledger=ledger)


def _entries(ledger: Path) -> dict[str, Any]:
    return json.loads(ledger.read_text()) if ledger.exists() else {}


def _enter(ledger: Path, name: str, found: dict[str, Any]) -> None:
    """Add one entry; several sittings may be at work at once."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = sorted((_entries(ledger) | {name: found}).items())
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in entries)
        write_atomically(ledger, f"{{\n{lines}\n}}\n".encode())


def in_twin(path: Path, episodes: int) -> dict[str, Any]:
    """Success in the nominal twin, where only scenes vary."""
    twin = load_twin(TWIN)
    scenes = load_randomization({"name": "nominal", "randomization": NOMINAL}, twin)
    return counted(evaluate(load_policy(path), TwinEnvironment(twin, scenes), episodes=episodes, seed=77))


def counted(found: Evaluation) -> dict[str, Any]:
    """What a table needs of an evaluation."""
    return {"successes": found.successes, "episodes": len(found.trials), "failures": found.failures}


def on_standin(
    cells: Cells, path: Path, reality: str, trials: int, name: str | None = None
) -> dict[str, Any] | None:
    """Success in so many scenes, kept by `name`."""

    def measure() -> dict[str, Any]:
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            return evaluate(load_policy(path), robot, episodes=trials).as_json()

    return cells.numbers(name or f"{path.name}@{reality}-{trials}", measure)


def portion(trials: int, seeds: int, seed: int) -> range:
    """The scenes of one training seed: all seeds together meet `trials` of them, each another part."""
    each = -(-trials // seeds)
    return range(min(trials, each * seed), min(trials, each * (seed + 1)))


def tried(
    cells: Cells,
    name: str,
    policy: Callable[[], Path | None],
    reality: str,
    scenes: range,
    label: str | None = None,
    block: int = BLOCK,
) -> dict[str, Any] | None:
    """Success so far of the policy of this name in blocks of scenes that are each measured once; None before the first.

    It is made only if some are missing. A reality in a file has a `label`.
    """
    blocks = []
    first = scenes.start
    while first < scenes.stop:
        where = f"{name}@{label or reality}-{first}"
        count = cells.known_block(where) or min(block, scenes.stop - first)

        def measure(begin: int = first, episodes: int = count) -> dict[str, Any] | None:
            path = policy()
            if path is None:
                return None
            robot = open_robot(f"standin:{reality}")
            with connected(robot):
                return counted(evaluate(load_policy(path), robot, episodes=episodes, seed=begin))

        here = cells if first < scenes.start + MOST else cells.kept
        blocks.append(here.measured(f"{where}-{count}", measure))
        first += count
    known = [made for made in blocks if made is not None]
    won, of = (sum(made[key] for made in known) for key in ("successes", "episodes"))
    return {"successes": won, "episodes": of} if known else None


def shown(made: list[dict[str, Any]], seeds: int) -> tuple[str, str, str]:
    if not made:
        return "not measured yet", "0", f"0 of {seeds}"
    won, of = sum(m["successes"] for m in made), sum(m["episodes"] for m in made)
    rate = exact_interval(won, of)
    each = " / ".join(f"{100 * m['successes'] / m['episodes']:.0f}" for m in made) if len(made) > 1 else ""
    share = f"{100 * rate.value:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}]" + (
        f" ({each})" if each else ""
    )
    return share, str(of), f"{len(made)} of {seeds}"
