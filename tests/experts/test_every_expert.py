"""Every registered expert passes the conformance check in the twins it is for."""

import numpy as np
import pytest

from twinloop.experts import EXPERTS, default_expert
from twinloop.experts.excitation import MAX_SPEED_RAD_S
from twinloop.experts.protocol import Setup
from twinloop.tasks import make_cell
from twinloop.testing.fakes import StillExpert
from twinloop.testing.plugins import check_expert
from twinloop.twins import list_twins, load_twin

EXCITATIONS = ("chirp", "multisine", "prbs", "waypoints")


@pytest.mark.parametrize("twin", list_twins(), ids=lambda twin: twin.name)
def test_the_usual_expert_of_every_built_in_twin_conforms(twin):
    check_expert(default_expert(twin.task), twin)


@pytest.mark.parametrize("name", sorted(EXPERTS.names()))
def test_every_expert_conforms_in_the_pick_and_place_twin(name):
    check_expert(name, load_twin("franka_pick_place"), steps=10)


def test_the_fake_expert_conforms():
    EXPERTS.register("fake_still")(StillExpert)
    try:
        check_expert("fake_still", load_twin("franka_push"), steps=5)
    finally:
        del EXPERTS._entries["fake_still"]


@pytest.mark.parametrize("name", EXCITATIONS)
@pytest.mark.parametrize("twin_name", ["servo_pendulum", "franka_pick_place"])
def test_excitation_starts_and_ends_at_home_and_respects_the_speed_limit(name, twin_name):
    cell = make_cell(load_twin(twin_name))
    steps = round(6.0 * cell.twin.control_hz)
    expert = EXPERTS.get(name)(Setup(cell, 3, steps))
    expert.restart(np.arange(3), None, np.array([1, 2, 3]))
    plan = np.array([expert.act(None, np.full(3, step)) for step in range(steps)])
    assert np.array_equal(plan[0], plan[-1])
    assert np.abs(np.diff(plan, axis=0)).max() * cell.twin.control_hz < 1.5 * MAX_SPEED_RAD_S
    assert plan.std(axis=0).max() > 0.05
    assert not np.array_equal(plan[:, 0], plan[:, 1])
