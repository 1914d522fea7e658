"""The safety envelope: random command sequences, and how soon a robot is held when policy, recorder or link die."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.report import Section, Settings, Table, Target
from twinloop.robots.safety.motion import Bounds, SafeMotion, stop_from
from twinloop.robots.safety.workspace import Workspace, find_elbow, reachable_box
from twinloop.robots.standin.reality import load_reality
from twinloop.robots.standin.serve import Server, open_listener
from twinloop.robots.standin.session import Session
from twinloop.tasks import Cell, make_cell
from twinloop.twins import load_twin

TITLE = "The safety envelope"
SEQUENCES, IN_WORKSPACE, COMMANDS = 10_000, 300, 8
"""Of one joint each; of six joints in a workspace; and the commands of each."""
TOGETHER = 1000
STEP_S = 0.02
REPEATS = 5
STILL = 1e-4
"""Largest change of a target that stands still, rad."""
HOLD_S = 0.2
"""What is promised: a hold begins by then."""


def run(settings: Settings) -> Section:
    loads = [os.getloadavg()[0]]
    quick = settings.quick
    sequences = _draw_sequences(100 if quick else SEQUENCES, 10 if quick else IN_WORKSPACE, settings.say)
    settings.say.print("  fault drills ...")
    drills = {
        name: [_drill(settings.work, *how) for _ in range(1 if quick else REPEATS)]
        for name, how in DRILLS.items()
    }
    loads.append(os.getloadavg()[0])
    rows = tuple(
        (name, str(len(times)), f"{1e3 * float(np.median(times)):.0f} ms", f"{1e3 * max(times):.0f} ms")
        for name, times in drills.items()
    )
    worst = max(time_s for times in drills.values() for time_s in times)
    outside = sum(count for _, _, count, _ in sequences)
    tables = (
        Table(
            "Random command sequences; every limit computed from the commands themselves",
            ("limits", "sequences", "outside", "largest fraction of a limit"),
            tuple((name, str(total), str(count), f"{part:.9f}") for name, total, count, part in sequences),
        ),
        Table(
            "Fault drills on a stand-in in real time: from the fault until the target stands still, on the robot's own clock",
            ("fault", "drills", "median", "longest"),
            rows,
        ),
    )
    targets = (
        Target("no command sequence leaves the envelope", f"{outside} of {sum(s[1] for s in sequences)}", outside == 0),
        Target("a killed policy, a killed recorder and a cut link lead to a hold within 200 ms", f"{1e3 * worst:.0f} ms", worst <= HOLD_S),
    )  # fmt: skip
    notes = (
        "Targets are drawn uniformly beyond the range, as steps, extremes (1e300) and noise; limits are drawn too. Those in a workspace "
        "move a SO-101 through a box that its reach leaves on every side, checked for tool and elbow.",
        "The robot's clock is that of the stand-in's server, in steps of 20 ms. The target stands still once its last change is over: "
        "the policy's last command, or the hold, which brings it to where the arm is. A dead recorder or link leaves that to the robot "
        "itself, here the stand-in after 150 ms; in the other drills the stand-in does not hold by itself.",
    )
    return Section("safety", TITLE, tables, targets, notes, {}, tuple(loads))


def _draw_sequences(plain: int, inside: int, say: Console) -> list[tuple[str, int, int, float]]:
    rng = np.random.default_rng(0)
    cell = make_cell(load_twin("so101"))
    size = len(cell.actuators)
    low, high = (np.array(end) for end in reachable_box(cell, find_elbow(cell)))
    middle, half = 0.5 * (low + high), 0.3 * (high - low)
    workspace = Workspace(
        cell, range(size), np.ones(size), box=np.stack([middle - half, middle + half]), planes=np.zeros((0, 2, 3)),
        elbow=find_elbow(cell), tool_speed_m_s=0.5, step_s=STEP_S,
    )  # fmt: skip
    found = []
    for name, total, space in (
        ("one joint", plain, None),
        ("six joints, workspace, tool speed", inside, workspace),
    ):
        # Without a workspace joints do not depend on each other: each is a sequence, and many are one trajectory.
        together = 1 if space is not None else min(total, TOGETHER)
        tried = [_try_sequences(rng, cell, together, space) for _ in range(total // together)]
        parts = np.concatenate(tried)
        say.print(f"  {name}: {len(parts)} sequences, largest fraction {parts.max():.9f}")
        found.append((name, len(parts), int((parts > 1.0 + 1e-6).sum()), float(parts.max())))
    return found


def _try_sequences(rng: np.random.Generator, cell: Cell, count: int, space: Workspace | None) -> np.ndarray:
    """The largest fraction of any limit that each of so many sequences, and the stop after it, reaches, (count,)."""
    size = len(cell.actuators) if space is not None else 1
    low, high = cell.control_low, cell.control_high
    if space is None:
        joints = rng.integers(len(low), size=count)
        low, high = low[joints], high[joints]
    speed, acceleration = rng.uniform(0.3, 5.0, count), rng.uniform(8.0, 60.0, count)
    drawn = (speed, acceleration, acceleration / rng.uniform(0.03, 0.15, count))
    most = [np.repeat(values, size) for values in drawn]
    limits = Bounds(low, high, most[0], most[1], most[2], STEP_S)
    start = rng.uniform(low, high)
    while space is not None and (space.margins(start[None, None], start) < 0.0).any():
        start = rng.uniform(low, high)
    motion = SafeMotion(limits, start, space.margins if space else None)
    kinds, target, path = np.repeat(rng.integers(4, size=count), size), start, []
    for step in range(COMMANDS):
        steps, extremes = rng.uniform(1.5 * low, 1.5 * high), rng.choice([-1e300, 1e300], len(low))
        noise = target + rng.normal(0.0, 0.05, len(low))
        if step == 0:
            target = steps
        target = np.select([kinds == 0, kinds == 1, kinds == 2], [steps, extremes, noise], target)
        path.append(motion.advance(target)[0])
    path.extend(stop_from(motion.motion, limits)[0][1:])
    whole = np.concatenate([[start] * 3, path])
    parts = np.abs(2.0 * whole - low - high).max(axis=0) / (high - low)
    for allowed in (limits.speed, limits.acceleration, limits.jerk):
        whole = np.diff(whole, axis=0) / STEP_S
        parts = np.maximum(parts, np.abs(whole).max(axis=0) / allowed)
    worst = parts.reshape(count, size).max(axis=1)
    if space is not None:
        before = [start, *path[:-1]]
        margins = [space.margins(now[None, None], last).min() for now, last in zip(path, before, strict=True)]
        worst = np.maximum(
            worst, 1.0 - min(0.0, *margins) * 1e3
        )  # a millimetre outside counts as twice the limit
    return worst


class _Cell(Session):
    """A stand-in that notes, on its own clock, when a command came last and when its target moved last."""

    def __init__(self, holds_itself: bool) -> None:
        self.commands, self.moved_s, self._holds_itself = 0, 0.0, holds_itself
        super().__init__(load_reality("mild"), load_twin("franka_reach"), lockstep=False)

    def act(self, action: np.ndarray) -> np.ndarray:
        self.commands += 1
        return super().act(action)

    def _watch(self) -> None:
        if self._holds_itself:
            super()._watch()

    def tick(self) -> None:
        before = self._commanded
        super().tick()
        if np.abs(self._commanded - before).max() > STILL:
            self.moved_s = self.clock_s


@contextmanager
def _serving(cell: _Cell) -> Iterator[int]:
    """The cell behind a loopback port, in a thread."""
    listener = open_listener(0)
    server, end = Server(cell, listener, lockstep=False), threading.Event()

    def serve() -> None:
        while not end.is_set():
            server.turn()
        server.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        end.set()
        thread.join()
        listener.close()


class _Link:
    """A connection through this process, which can be cut: from then on nothing passes, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._inner, self._cut = port, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def _accept(self) -> None:
        with suppress(OSError):
            one, _ = self._listener.accept()
            other = socket.create_connection(("127.0.0.1", self._inner))
            for source, sink in ((one, other), (other, one)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while (data := source.recv(1 << 16)) and not self._cut.is_set():
                sink.sendall(data)


Fault = Callable[[subprocess.Popen[str], int, _Link], None]


def _drill(work: Path, fault: Fault, holds_itself: bool, stop_after_s: float = 0.0) -> float:
    """One drill: seconds of the robot's clock from the fault until its target stands still."""
    out = work / "safety"
    shutil.rmtree(out, ignore_errors=True)
    cell = _Cell(holds_itself)
    with _serving(cell) as port:
        link = _Link(port)
        address = f"tcp:127.0.0.1:{link.port}"
        words = [
            sys.executable,
            "-m",
            "benchmarks.safety_worker",
            "record",
            address,
            str(out),
            str(stop_after_s),
        ]
        worker = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert worker.stdout is not None
        policy = int(worker.stdout.readline())
        while cell.commands < (5 if stop_after_s else 60):
            if worker.poll() is not None:
                raise RuntimeError(f"the recorder ended by itself, with {worker.returncode}")
            time.sleep(0.01)
        if stop_after_s:
            worker.stdout.readline()
        fault_s = cell.clock_s
        fault(worker, policy, link)
        while cell.clock_s < fault_s + 1.5:
            time.sleep(0.01)
        for process in (worker.pid, policy):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        worker.wait()
    cell.close()
    return max(0.0, cell.moved_s - fault_s)


DRILLS: dict[str, tuple[Fault, bool] | tuple[Fault, bool, float]] = {
    "policy killed": (lambda worker, policy, link: os.kill(policy, signal.SIGKILL), False),
    "policy hangs": (lambda worker, policy, link: os.kill(policy, signal.SIGSTOP), False),
    "recorder killed": (lambda worker, policy, link: worker.kill(), True),
    "recorder hangs": (lambda worker, policy, link: os.kill(worker.pid, signal.SIGSTOP), True),
    "link cut": (lambda worker, policy, link: link.cut(), True),
    "stop pressed": (lambda worker, policy, link: None, False, 5.0),
}
