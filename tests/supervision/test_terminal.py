"""A person at a terminal: single keys through a pseudo-terminal, of the command that a user types."""

import os

import pytest

from tests.supervision.keyboard import Terminal
from tests.supervision.people import RealRobot
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.errors import NeedsPerson
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.terminal import at_terminal


def test_trials_are_run_by_single_keys(tmp_path):
    pytest.importorskip("pybullet")
    words = (
        "record",
        "--robot",
        "standin:ideal",
        "--out",
        "out",
        "--episodes",
        "2",
        "--expert",
        "task",
        "--seconds",
        "0.4",
    )
    terminal = Terminal(*words, "--attend", cwd=tmp_path)
    terminal.wait_for(r"trial 1 of 2; left: 2 trials, about 2 minutes")
    terminal.wait_for(r"Put the object \d+\.\d cm in front of the robot's base")
    terminal.press("n")
    terminal.wait_for("note: ")
    for letter in "new cubé x\x7f\x7f":
        terminal.press(letter)
    terminal.wait_for("new cubé x")  # in one piece, and no bar between its letters
    terminal.press("\n")
    terminal.wait_for("noted")
    terminal.press("\n")
    terminal.wait_for("did it succeed")
    terminal.press("r")
    terminal.wait_for("void: the person beside the robot does it again")
    terminal.wait_for("trial 1 of 2, 1 void")
    terminal.press("\n")
    terminal.wait_for("did it succeed")
    terminal.press("f")
    terminal.wait_for("failure[?].*2 never_touched.*7 another")
    terminal.press("7")
    terminal.wait_for("failure mode: ")
    terminal.press("hit the lamp\n")
    terminal.wait_for("phase[?]")
    terminal.press("1")
    terminal.wait_for("severity[?]")
    terminal.press("2")
    terminal.wait_for("failure: hit the lamp")
    terminal.wait_for("trial 2 of 2")
    terminal.press("p")
    terminal.wait_for("paused")
    terminal.press("q")
    assert terminal.end() == 3 and "the same command resumes" in terminal.shown
    again = Terminal(*words, "--attend", cwd=tmp_path)
    again.wait_for("trial 2 of 2, 1 void")
    again.press("\n")
    again.wait_for("did it succeed")
    again.press("s")
    again.wait_for("recorded 2 episodes")
    assert again.end() == 0
    dataset = open_dataset(tmp_path / "out")
    assert known_outcomes(dataset) == [None, False, True]
    failed = dataset.episode(1)
    events = {event.kind: event.detail for event in failed.events}
    assert (failed.outcome.failure, events["phase"], events["severity"]) == (
        "hit the lamp",
        "approach",
        "major",
    )
    assert events["judged"] == "by ann"
    assert any(event.detail == "new cubé" for event in dataset.episode(0).events)


def test_without_a_terminal_somebody_is_asked_for():
    reader, writer = os.pipe()
    try:
        with (
            pytest.raises(NeedsPerson, match=r"twinloop operate --robot"),
            at_terminal(PersonSupervisor(RealRobot(), "ann"), print, reader),
        ):
            pass
    finally:
        os.close(reader)
        os.close(writer)
