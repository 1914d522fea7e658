"""Commands that write, under I/O errors, full disks, short writes and crashes; and the layer that makes these."""

import json
import random

import pytest

from tests.faults import layer
from tests.faults.crash import Change, Disk, read_trace

needs_compiler = pytest.mark.skipif(not layer.IS_AVAILABLE, reason="the layer takes Linux and a C compiler")


def sweep(folder, *words):
    """The outcome of each scenario."""
    lines = layer.run(layer.build(folder), "tests.faults.sweep", folder, *words).splitlines()
    return [json.loads(line) for line in lines]


def assert_nothing_lost(outcomes):
    assert {outcome["name"]: outcome["problems"] for outcome in outcomes if outcome["problems"]} == {}
    for outcome in outcomes:
        assert outcome["crashes"] and all(outcome["faults"].values()), outcome
    assert sum(outcome["refused"] for outcome in outcomes), "no fault was noticed"


@needs_compiler
def test_no_fault_loses_what_was_committed_or_passes_a_part_for_the_whole(tmp_path):
    assert_nothing_lost(sweep(tmp_path, "--quick", "--most", 2))


@pytest.mark.slow
@needs_compiler
def test_no_fault_harms_the_slower_commands_either(tmp_path):
    assert_nothing_lost(sweep(tmp_path, "--most", 12, "--kills", 3))


CARELESS = """
import os
from pathlib import Path
from tests.faults.layer import layer
folder = Path({folder!r})
layer.arm(folder, "R", trace=os.open({trace!r}, os.O_CREAT | os.O_WRONLY))
(folder / "new").write_bytes(b"content")
(folder / "new").replace(folder / "old")
with (folder / "safe").open("wb") as file:
    file.write(b"kept")
    file.flush()
    os.fsync(file.fileno())
os.fsync(os.open(folder, os.O_RDONLY))
"""


@needs_compiler
def test_what_no_fsync_has_made_safe_is_lost_in_a_crash(tmp_path):
    folder, trace = tmp_path / "place", tmp_path / "trace"
    folder.mkdir()
    (folder / "old").write_bytes(b"before")
    disk, states = Disk(folder), []
    program = CARELESS.format(folder=str(folder), trace=str(trace))
    layer.run_program(layer.build(tmp_path), program)
    for change in read_trace(trace, folder):
        disk.play(change)
        states.append(dict(disk.states(random.Random(0))))
    assert states[-1]["killed"].content == {"old": b"content", "safe": b"kept"}
    assert states[-1]["data lost"].content == {"old": b"", "safe": b"kept"}
    assert states[-1]["names lost"].content == states[-1]["killed"].content
    assert states[-3]["names lost"].content == {"old": b"before"}


def test_names_reach_the_disk_in_order_and_for_certain_with_their_folder(tmp_path):
    disk = Disk(tmp_path)
    for op, first, second, path, other in (
        ("d", 0, 0, "a", ""),
        ("c", 1, 1, "a/x", ""),
        ("s", 2, 1, "a", ""),
        ("r", 0, 0, "a/x", "a/y"),
        ("d", 0, 0, "b", ""),
    ):
        disk.play(Change(op, first, second, b"", path, other))
    states = dict(disk.states(random.Random(0)))
    assert set(states["killed"].content) == {"a", "a/y", "b"}
    assert set(states["names lost"].content) == {"a", "a/x"}
