"""Every registered task passes the conformance check, in every built-in twin that is for it."""

import numpy as np
import pytest

from twinloop.errors import WrongUse
from twinloop.tasks import TASKS, make_cell, make_task
from twinloop.testing.fakes import WaitTask
from twinloop.testing.plugins import check_task
from twinloop.twins import list_twins, load_twin


@pytest.mark.parametrize("twin", list_twins(), ids=lambda twin: twin.name)
def test_the_task_of_every_built_in_twin_conforms(twin):
    check_task(twin.task, twin)


def test_every_registered_task_is_the_task_of_some_twin():
    assert set(TASKS.names()) == {twin.task for twin in list_twins()}


def test_a_task_in_a_twin_without_the_parts_it_needs_is_refused():
    with pytest.raises(WrongUse, match="needs a part"):
        make_task("pick_and_place", load_twin("servo_pendulum"))


def test_the_fake_task_conforms():
    TASKS.register("fake_wait")(WaitTask)
    try:
        check_task("fake_wait", load_twin("franka_push"))
    finally:
        del TASKS._entries["fake_wait"]


def test_a_cell_knows_the_opening_of_coupled_fingers():
    cell = make_cell(load_twin("franka_pick_place"))
    qpos = np.zeros((1, cell.model.nq))
    for finger in ("finger_joint1", "finger_joint2"):
        qpos[0, cell.model.joint(finger).qposadr[0]] = 0.02
    assert cell.positions(qpos)[0, cell.gripper] == pytest.approx(0.04)
