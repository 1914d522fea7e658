"""Stages run once for the same inputs, resume when killed, keep typed results, and only one process runs them."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

from twinloop.errors import WorkspaceError
from twinloop.stages import StageListener, Stages, StoppedEarly
from twinloop.supervision.handle import RobotHandle
from twinloop.twins import load_twin


@dataclass(frozen=True)
class Parity:
    """A typed result."""

    odd: bool


class Counted:
    """Two stages, the second depending on the first one's result; counts how often each was made."""

    def __init__(self, root):
        self.stages, self.made = Stages(root), []

    def run(self, number):
        def first(out, on_progress, number):
            self.made.append("first")
            (out / "number.txt").write_text(str(number))
            return Parity(number % 2 == 1)

        def second(out, on_progress, parity):
            self.made.append("second")
            (out / "twice.txt").write_text(str(2 * parity.odd))
            return 2 * int(parity.odd)

        parity = self.stages.run(
            "first", first, lambda out: Parity(int((out / "number.txt").read_text()) % 2 == 1), number=number
        )
        return self.stages.run(
            "second", second, lambda out: int((out / "twice.txt").read_text()), parity=parity
        )


def test_nothing_is_made_twice_and_changes_run_only_what_depends_on_them(tmp_path):
    path = Counted(tmp_path)
    assert path.run(3) == 2 and path.made == ["first", "second"]
    assert path.run(3) == 2 and path.made == ["first", "second"]
    assert path.stages.reached[-1].cached
    path.run(5)
    assert path.made == ["first", "second", "first"], "5 is odd as well, so the second stage stands"
    path.run(4)
    assert path.made[3:] == ["first", "second"]
    newest = Counted(tmp_path)
    assert newest.run(5) == 2 and not newest.made
    assert newest.stages.reached[0].result == Parity(True), "a loaded result is of the same type"
    assert Stages(tmp_path).finished() == ["first", "second"]


def test_a_stage_whose_file_was_lost_or_truncated_is_made_again(tmp_path):
    path = Counted(tmp_path)
    path.run(3)
    file = next(tmp_path.glob("first-*/number.txt"))
    file.write_text("")
    path.run(3)
    assert path.made == ["first", "second", "first"] and file.read_text() == "3"


def test_a_stage_whose_function_fails_is_unfinished(tmp_path):
    def fail(out, on_progress):
        (out / "half.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Stages(tmp_path).run("odd", fail, lambda out: None)
    assert not list(tmp_path.glob("*/stage.json")) and Stages(tmp_path).running() == "odd"


def test_a_run_stops_after_the_stage_that_was_named_and_its_listener_follows(tmp_path):
    events = []

    class Recorder(StageListener):
        def on_start(self, name):
            events.append(("start", name))

        def on_progress(self, name, done, total):
            events.append((name, done, total))

        def on_end(self, stage):
            events.append(("end", stage.name, stage.cached))

    def make(out, on_progress):
        on_progress(1, 2)
        return 7

    for cached in (False, True):
        stages = Stages(tmp_path, Recorder(), until="one")
        with pytest.raises(StoppedEarly):
            stages.run("one", make, lambda out: 7)
        assert events[-1] == ("end", "one", cached)
    assert events == [("start", "one"), ("one", 1, 2), ("end", "one", False), ("end", "one", True)]


SLOW = """
import sys, time
from twinloop.stages import Stages

def make(out, on_progress, n):
    for number in range(5):
        file = out / f"{number}.txt"
        if not file.exists():
            if number == 3 and len(sys.argv) > 2:
                print("half", flush=True)
                time.sleep(60)
            file.write_text(str(number))
    return len(list(out.glob("*.txt")))

stages = Stages(sys.argv[1])
with stages.locked():
    print(stages.run("slow", make, lambda out: len(list(out.glob("*.txt"))), n=5))
"""


def run_slow(root, *arguments):
    command = [sys.executable, "-c", SLOW, str(root), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_half_way_it_resumes_and_a_second_process_is_refused(tmp_path):
    with run_slow(tmp_path, "wait") as process:
        assert process.stdout.readline() == "half\n"
        stages = Stages(tmp_path)
        assert stages.running() == "slow" and not stages.finished()
        with pytest.raises(WorkspaceError, match=f"process {process.pid}"), stages.locked():
            pass
        os.kill(process.pid, signal.SIGKILL)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("slow-*/*.txt")}
    output, _ = run_slow(tmp_path).communicate()
    assert output.strip() == "5" and stages.running() is None
    after = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("slow-*/*.txt")}
    assert len(before) == 3 and all(after[name] == when for name, when in before.items())
    facts = json.loads(next(tmp_path.glob("slow-*/stage.json")).read_text())
    assert facts["inputs"] == {"n": 5} and len(facts["files"]) == 5


def test_a_stage_depends_on_what_its_inputs_are_and_never_on_where(tmp_path):
    stages, twin = Stages(tmp_path), load_twin("servo_pendulum")

    def folder(**inputs):
        stages.run("stage", lambda out, on_progress, **_: 1, lambda out: 1, **inputs)
        return stages.folder("stage")

    first = folder(twin=twin, among=[1, 2])
    assert folder(twin=load_twin("servo_pendulum"), among=(1, 2)) == first
    assert folder(twin=twin.with_values(motor_friction_nm=0.2), among=[1, 2]) != first
    assert folder(robot=RobotHandle("tcp:1", "arm-7")) == folder(robot=RobotHandle("tcp:2", "arm-7"))
    assert folder(robot=RobotHandle("tcp:1", "arm-7")) != folder(robot=RobotHandle("tcp:1", "arm-8"))
    with pytest.raises(TypeError, match="cannot depend on a path"):
        folder(place=tmp_path)
