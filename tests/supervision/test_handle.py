"""A loop waits for a person where a robot cannot judge its own trials, and says for how long."""

import json
from contextlib import contextmanager
from dataclasses import asdict

import pytest

from tests.supervision.people import answering, somebody
from twinloop.errors import NeedsPerson
from twinloop.loop_status import SETTINGS, LoopConfig, read_loop_status
from twinloop.robots.record import RecordingSpec
from twinloop.stages import Stages
from twinloop.supervision.handle import PersonNeeded, find_robot, supervised
from twinloop.supervision.person import PersonSupervisor

DRIVER = """
from dataclasses import replace
from tests.supervision.people import RealRobot


def make_robot():
    robot = RealRobot()
    robot.description = replace(robot.description, standin=True)
    return robot
"""


@pytest.fixture
def address(tmp_path):
    file = tmp_path / "arm.py"
    file.write_text(DRIVER)
    return f"python:{file}"


def test_the_status_says_how_many_trials_wait_and_what_to_run(address, tmp_path):
    stages = Stages(tmp_path / "loop")
    for name in ("generate", "train", "evaluate-sim"):
        stages.run(name, lambda out, on_progress: 0, lambda folder: 0)
    (stages.root / SETTINGS).write_text(json.dumps({"robot": address, "config": asdict(LoopConfig())}))

    def trials(out, on_progress):
        with supervised(find_robot(address), 12, 140.0):
            raise AssertionError("nobody stands there")

    with pytest.raises(
        NeedsPerson, match=r"needs a person: 12 trials, about 40 minutes(.|\n)*--attend"
    ) as told:
        stages.run("evaluate", trials, lambda folder: 0)
    assert isinstance(told.value, PersonNeeded)
    stages.note_need(str(told.value.need))
    status = read_loop_status(stages.root)
    assert (status.next_stage, status.reason) == (
        "evaluate",
        "evaluate needs a person: 12 trials, about 40 minutes",
    )
    assert status.next_step == f"twinloop loop --robot {address} --attend"


def test_stages_of_a_loop_go_through_the_person_beside_the_robot(address, tmp_path):
    from tests.supervision.people import Still
    from twinloop.datasets.outcomes import known_outcomes
    from twinloop.workflows import _recorded

    @contextmanager
    def attend(robot):
        person = PersonSupervisor(robot, "ann")
        with somebody(person, answering("redo", "success", "missed")):
            yield robot, person

    handle = find_robot(address, attend)
    dataset = _recorded(tmp_path, lambda done, total: None, handle, RecordingSpec(2, 0.4), lambda *_: Still())
    assert known_outcomes(dataset) == [None, True, False]
    again = _recorded(tmp_path, lambda done, total: None, handle, RecordingSpec(2, 0.4), lambda *_: Still())
    assert len(again) == 3, "nothing is missing"
