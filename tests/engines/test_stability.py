"""Joints whose simulation is unstable are named, with the time and the cause; sound twins are not accused."""

import numpy as np
import pytest

from twinloop.engines.stability import find_runaway, find_unstable_servos
from twinloop.tasks import make_cell
from twinloop.twins import list_twins, load_twin


@pytest.mark.parametrize("name", [twin.name for twin in list_twins()])
def test_every_library_twin_settles(name):
    assert find_unstable_servos(make_cell(load_twin(name))) == []


def test_a_gain_too_high_for_the_time_step_is_named_with_its_joint():
    twin = load_twin("so101")
    stiff = twin.with_values(
        elbow_flex_stiffness_nm_rad=89.0,
        elbow_flex_damping_nms_rad=0.0,
        elbow_flex_armature_kgm2=0.0,
        elbow_flex_friction_nm=0.0,
    )
    found = find_unstable_servos(make_cell(stiff))
    assert found and found[0].joint == "elbow_flex" and "gain of 89" in str(found[0])


def test_the_first_joint_to_run_away_is_found_with_its_time():
    cell = make_cell(load_twin("so101"))
    speeds = np.zeros((100, cell.model.nv))
    speeds[40:, 2] = 1e4
    speeds[60:, :] = np.inf
    found = find_runaway(cell, speeds)
    assert found.joint == "elbow_flex" and found.time_s == pytest.approx(40 * cell.twin.physics_dt_s)
    assert find_runaway(cell, np.full((100, cell.model.nv), 20.0)) is None
