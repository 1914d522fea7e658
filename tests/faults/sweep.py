"""Every command under every fault: `python -m tests.faults.sweep`, in a process that runs under `disk.c`.

Each fault has a forked child of its own; another child, without faults, then looks at what is left, types the command
again and compares with an undisturbed run. Prints one line of JSON per scenario.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO

import av  # noqa: F401
import pyarrow.parquet  # noqa: F401

from tests.faults.crash import Change, Disk, State, read_trace
from tests.faults.layer import FULL_DISK, IO_ERROR, KINDS, RECORD, SHORT_WRITE, Counts, layer
from tests.faults.scenarios import SCENARIOS, Content, Scenario
from twinloop.datasets.partial_folder import find_leftovers, remove_leftovers
from twinloop.errors import TwinloopError

LONGEST_S = 60
"""A command that takes longer hangs."""


@dataclass
class Outcome:
    """What a sweep of one scenario did: faults by kind, crash states, and what went wrong."""

    name: str
    calls: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    crashes: int = 0
    kills: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """How a child ended: what it returned, or the error that it raised, with its place."""

    value: Content = None
    error: str | None = None
    message: str = ""
    place: str = ""


def in_child(act: Callable[[], Content]) -> Report:
    """Call a function in a forked child, which says where it was if it takes too long."""
    with tempfile.TemporaryFile("w+") as stuck:
        return _in_child(act, stuck)


def _in_child(act: Callable[[], Content], stuck: IO[str]) -> Report:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        faulthandler.dump_traceback_later(LONGEST_S, exit=True, file=stuck)
        try:
            report = Report(act())
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it is reported
            layer.disarm()
            kind = "refused" if isinstance(error, TwinloopError | OSError) else type(error).__name__
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
            report = Report(None, kind, str(error), place)
        layer.disarm()
        with os.fdopen(writing, "w") as file:
            json.dump(asdict(report), file, default=str)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if not text:
        stuck.seek(0)
        place = " < ".join(line.strip() for line in stuck if line.startswith("  File"))
        return Report(None, "died", f"ended with {os.waitstatus_to_exitcode(status)}", place)
    return Report(**json.loads(text))


class Sweep:
    """One scenario under every fault. `pick` chooses which of the distinct faults are tried."""

    def __init__(
        self, scenario: Scenario, work: Path, pick: Callable[[Sequence[int]], Iterable[int]], kills: int = 0
    ) -> None:
        self._scenario, self._pick, self._kills = scenario, pick, kills
        self._pristine, self._run, self._trace = work / "pristine", work / "run", work / "trace"
        self._outcome = Outcome(scenario.name)

    def run(self) -> Outcome:
        """Try every fault."""
        for module in self._scenario.imports:
            importlib.import_module(module)
        shutil.rmtree(self._run, ignore_errors=True)
        self._run.mkdir(parents=True)
        made = in_child(lambda: self._scenario.prepare(self._run))
        assert made.error is None, f"{self._scenario.name}: {made}"
        shutil.rmtree(self._pristine, ignore_errors=True)
        self._run.rename(self._pristine)
        self._before = in_child(lambda: self._content(self._pristine)).value
        counts = self._record()
        self._outcome.calls = counts.calls
        if counts.unseen:
            self._outcome.problems.append(f"{counts.unseen} changes were made in ways the layer cannot see")
        for kind in (IO_ERROR, FULL_DISK, SHORT_WRITE):
            chosen = list(self._pick(_distinct(self._changes, kind)))
            self._outcome.faults[KINDS[kind]] = len(chosen)
            for at in chosen:
                self._strike(kind, at)
        self._crash()
        for number in range(self._kills):
            self._kill(random.Random(f"{self._scenario.name} {number}"))
        return self._outcome

    def _content(self, folder: Path) -> Content:
        """The content, or that there is none yet."""
        try:
            return json.loads(json.dumps(self._scenario.content(folder), default=str))
        except (TwinloopError, OSError) as error:
            return f"{type(error).__name__}"

    def _fresh(self) -> None:
        shutil.rmtree(self._run, ignore_errors=True)
        shutil.copytree(self._pristine, self._run, copy_function=_copy_with_links({}))

    def _act(self, kind: str, at: int) -> Counts:
        trace = os.open(self._trace, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        layer.arm(self._run, kind, at, trace)
        try:
            self._scenario.act(self._run)
        finally:
            layer.disarm()
        return layer.counts()

    def _record(self) -> Counts:
        """Run undisturbed and keep the trace; the result is what every other run is compared with."""
        self._fresh()
        began = time.monotonic()
        done = in_child(lambda: asdict(self._act(RECORD, -1)))
        self._duration_s = time.monotonic() - began
        assert done.error is None, f"{self._scenario.name}: {done}"
        self._changes = read_trace(self._trace, self._run)
        found = in_child(lambda: self._content(self._run))
        assert found.error is None and found.value != self._before, f"{self._scenario.name}: {found}"
        self._after = found.value
        return Counts(**done.value)

    def _strike(self, kind: str, at: int) -> None:
        self._fresh()
        done = in_child(lambda: asdict(self._act(kind, at)))
        where = f"{KINDS[kind]} at call {at}"
        if done.error == "refused":
            self._outcome.refused += 1
            if "\n" in done.message.replace("\n  -> ", "", 1):
                self._problem(where, f"says more than two lines: {done.message}")
        elif done.error is not None:
            self._problem(where, f"{done.error}: {done.message} at {done.place}")
        marks = tuple(change.path for change in read_trace(self._trace, self._run) if change.op == "m")
        self._look(where, marks, finished=done.error is None)

    def _look(self, where: str, marks: tuple[str, ...], *, finished: bool = False) -> None:
        """Look at what a fault left, go on, and compare with an undisturbed run."""
        scenario = self._scenario

        def act() -> None:
            if not finished:
                scenario.check(self._run, marks, self._before, self._after)
                (scenario.repeat or scenario.act)(self._run)
            found = self._content(self._run)
            assert found == self._after, (
                f"{'reported success' if finished else 'after repeating'}: {str(found)[:300]}"
            )
            remove_leftovers(find_leftovers(self._run, below=True))
            left = sorted(_litter(self._run) - _litter(self._pristine))
            assert not left, f"left behind: {', '.join(left)}"

        done = in_child(act)
        if done.error is not None:
            self._problem(where, f"{done.error}: {done.message} at {done.place}")

    def _kill(self, rng: random.Random) -> None:
        """Kill a process that runs the command at a random moment."""
        self._fresh()
        after_s = rng.uniform(0.0, self._duration_s)
        child = os.fork()
        if child == 0:
            with suppress(Exception):
                self._act(RECORD, -1)
            os._exit(0)
        time.sleep(after_s)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self._outcome.kills += 1
            marks = tuple(change.path for change in read_trace(self._trace, self._run) if change.op == "m")
            self._look(f"killed after {after_s:.3f} s", marks)

    def _crash(self) -> None:
        """Every state that a crash at any moment can leave, once each."""
        for where, state in self._pick_states():
            self._outcome.crashes += 1
            shutil.rmtree(self._run, ignore_errors=True)
            self._run.mkdir()
            state.write(self._run)
            self._look(where, state.marks)

    def _pick_states(self) -> Iterator[tuple[str, State]]:
        disk, rng, seen = Disk(self._pristine), random.Random(0), set()
        changes = [change for change in self._changes if change.op != "#"]
        chosen = set(self._pick(_ends_of_writes(changes)))
        for number, change in enumerate(changes):
            disk.play(change)
            for kind, state in disk.states(rng) if number in chosen else ():
                if (digest := state.digest()) not in seen:
                    seen.add(digest)
                    yield f"crash after change {number} ({change.op} {change.path}): {kind}", state

    def _problem(self, where: str, what: str) -> None:
        self._outcome.problems.append(f"{where}: {what}")


def _distinct(changes: Sequence[Change], kind: str) -> list[int]:
    """Numbers of the calls to strike: all, but of many writes to one file in a row the first, one amid and the last."""
    calls = [change for change in changes if change.op == "#"]
    if kind != IO_ERROR:
        calls = [call for call in calls if (call.first if kind == FULL_DISK else call.second)]
    runs = [
        list(run)
        for _, run in groupby(
            range(len(calls)), lambda k: (calls[k].path, calls[k].second, k * (not calls[k].second))
        )
    ]
    return sorted({number for run in runs for number in (run[0], run[len(run) // 2], run[-1])})


def _ends_of_writes(changes: Sequence[Change]) -> list[int]:
    """Numbers of the changes to crash after: of many writes to one file in a row one amid and the last."""
    runs = [
        list(run)
        for _, run in groupby(
            range(len(changes)), lambda k: (changes[k].op, changes[k].path, k * (changes[k].op != "w"))
        )
    ]
    return sorted({number for run in runs for number in (run[len(run) // 2], run[-1])})


def _copy_with_links(known: dict[int, str]) -> Callable[[str, str], object]:
    """Copies a file, or links it where another name of it was copied before."""

    def copy(source: str, target: str) -> None:
        inode = Path(source).stat().st_ino
        if inode in known:
            os.link(known[inode], target)
        else:
            known[inode] = target
            shutil.copy2(source, target)

    return copy


def _litter(root: Path) -> set[str]:
    """Hidden and temporary files and folders, except locks."""
    names = (path.relative_to(root) for path in root.rglob("*"))
    marks = (".tmp", ".partial", ".spool", "journal.json", "staging", "parts", "unfinished")
    return {
        str(name)
        for name in names
        if (name.name.startswith(".") and name.name not in (".lock", ".cache")) or name.name.endswith(marks)
    }


def choose(fraction: float, most: int, seed: int) -> Callable[[Sequence[int]], Iterable[int]]:
    """Choose a fraction of the possible faults, at most `most`, always the same for a seed."""
    rng = random.Random(seed)

    def pick(possible: Sequence[int]) -> Iterable[int]:
        count = min(most, round(fraction * len(possible)))
        return sorted(rng.sample(possible, count))

    return pick


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sweep", description=__doc__)
    parser.add_argument("work", type=Path, help="an empty folder")
    parser.add_argument("--only", action="append", choices=[scenario.name for scenario in SCENARIOS])
    parser.add_argument("--fraction", type=float, default=1.0, help="of the possible faults")
    parser.add_argument("--most", type=int, default=10**9, help="faults of each kind in each scenario")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of faults")
    parser.add_argument("--kills", type=int, default=0, help="random kills of each scenario")
    parser.add_argument("--quick", action="store_true", help="leave out slow scenarios")
    arguments = parser.parse_args()
    for scenario in SCENARIOS:
        if scenario.name in (arguments.only or [scenario.name]) and not (arguments.quick and scenario.slow):
            pick = choose(arguments.fraction, arguments.most, arguments.seed)
            with suppress(BrokenPipeError):
                print(
                    json.dumps(
                        asdict(Sweep(scenario, arguments.work / "faults", pick, arguments.kills).run())
                    ),
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
