"""Stages are made once for the same inputs, resume when killed, and only one process makes them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from twinloop.errors import WorkspaceError
from twinloop.stages import Stages
from twinloop.steps import Station
from twinloop.twins import load_twin


class Counted:
    """Two stages, the second depending on what the first found; counts how often each was made."""

    def __init__(self, root):
        self.stages, self.made = Stages(root), []

    def go(self, number, parity=None):
        def first(folder, progress, number):
            self.made.append("first")
            (folder / "number.txt").write_text(str(number))
            return {"parity": number % 2 if parity is None else parity}

        def second(folder, progress, first):
            self.made.append("second")
            return {"twice": 2 * first.found["parity"]}

        done = self.stages.run("first", first, number=number)
        return self.stages.run("second", second, first=done)


def test_nothing_is_made_twice_and_changes_run_only_what_depends_on_them(tmp_path):
    path = Counted(tmp_path)
    assert path.go(3).found == {"twice": 2} and path.made == ["first", "second"]
    again = path.go(3)
    assert again.again and path.made == ["first", "second"]
    path.go(5)
    assert path.made == ["first", "second", "first"], "5 is odd as well, so the second stage stands"
    path.go(4)
    assert path.made[3:] == ["first", "second"]
    newest = Counted(tmp_path)
    newest.go(5)
    assert not newest.made
    assert [(done.name, done.found) for done in Stages(tmp_path).finished()] == [
        ("first", {"parity": 1}),
        ("second", {"twice": 2}),
    ], "what the newest run came through, and nothing of the others"


def test_a_stage_whose_file_was_lost_or_cut_is_made_again(tmp_path):
    path = Counted(tmp_path)
    path.go(3)
    file = next(tmp_path.glob("first-*/number.txt"))
    file.write_text("")
    path.go(3)
    assert path.made == ["first", "second", "first"] and file.read_text() == "3"


def test_what_a_stage_finds_must_be_plain(tmp_path):
    with pytest.raises(TypeError):
        Stages(tmp_path).run("odd", lambda folder, progress: {"value": object()})
    assert not list(tmp_path.glob("*/stage.json"))


SLOW = """
import sys, time
from pathlib import Path
from twinloop.stages import Stages
from twinloop.steps import Station
from twinloop.twins import load_twin

def make(folder, progress, n):
    for number in range(5):
        file = folder / f"{number}.txt"
        if not file.exists():
            if number == 3 and len(sys.argv) > 2:
                print("half", flush=True)
                time.sleep(60)
            file.write_text(str(number))
    return {"files": len(list(folder.glob("*.txt")))}

stages = Stages(sys.argv[1])
with stages.locked():
    print(stages.run("slow", make, n=5).found)
"""


def run_slow(root, *words):
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(root), *words], stdout=subprocess.PIPE, text=True
    )


def test_killed_half_way_it_goes_on_where_it_was_and_a_second_process_is_refused(tmp_path):
    with run_slow(tmp_path, "wait") as process:
        assert process.stdout.readline() == "half\n"
        stages = Stages(tmp_path)
        assert stages.running() == "slow" and not stages.finished()
        with pytest.raises(WorkspaceError, match=f"process {process.pid}"), stages.locked():
            pass
        os.kill(process.pid, signal.SIGKILL)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("slow-*/*.txt")}
    output, _ = run_slow(tmp_path).communicate()
    assert "'files': 5" in output and stages.running() is None
    after = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("slow-*/*.txt")}
    assert len(before) == 3 and all(after[name] == when for name, when in before.items())
    words = json.loads(next(tmp_path.glob("slow-*/stage.json")).read_text())
    assert words["inputs"] == {"n": 5} and len(words["files"]) == 5


def test_a_stage_depends_on_what_things_are_and_never_on_where(tmp_path):
    stages, twin = Stages(tmp_path), load_twin("servo_pendulum")

    def made(**given):
        return stages.run("stage", lambda folder, progress, **_: {}, **given).key

    first = made(twin=twin, among=[1, 2])
    assert made(twin=load_twin("servo_pendulum"), among=(1, 2)) == first
    assert made(twin=twin.with_values(motor_friction_nm=0.2), among=[1, 2]) != first
    assert made(twin=Station("tcp:1", "arm-7")) == made(twin=Station("tcp:2", "arm-7"))
    assert made(twin=Station("tcp:1", "arm-7")) != made(twin=Station("tcp:1", "arm-8"))
    with pytest.raises(TypeError, match="cannot depend on a place"):
        made(twin=tmp_path)
