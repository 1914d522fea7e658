"""The batched engine: what is loaded counts, what was there before does not."""

import numpy as np
import pytest

from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.tasks import make_cell, make_task
from twinloop.twins import load_twin


@pytest.fixture(scope="module")
def cell():
    return make_cell(load_twin("franka_pick_place"))


def loaded(cell, count, threads=1, masses=None):
    values = {} if masses is None else {"object_mass_kg": np.array(masses)}
    engine = MujocoBatch(cell, count, threads, tuple(values))
    start = make_task("pick_and_place", cell.twin).start(values, np.arange(count))
    engine.load(np.arange(count), values, start)
    return engine, start, values


def test_an_episode_does_not_depend_on_what_ran_in_its_slot_before(cell):
    engine, start, values = loaded(cell, 2, masses=[0.1, 0.3])
    ids, controls = np.arange(2), start.ctrl[:, None]
    for _ in range(5):
        engine.step(ids, controls)
    first = engine.qpos.copy(), engine.truth().effort
    for _ in range(7):
        engine.step(ids, controls + 0.05)
    engine.load(ids, values, start)
    for _ in range(5):
        engine.step(ids, controls)
    assert np.array_equal(engine.qpos, first[0])
    assert np.array_equal(engine.truth().effort, first[1])


def test_commands_for_every_physics_step_equal_one_held_command(cell):
    held, start, _ = loaded(cell, 1)
    each, _, _ = loaded(cell, 1)
    command = start.ctrl + 0.02
    for _ in range(3):
        held.step(np.arange(1), command[:, None])
        each.step(np.arange(1), np.repeat(command[:, None], cell.twin.substeps, axis=1))
    assert np.array_equal(held.qpos, each.qpos)


def test_a_resting_object_touches_the_table_with_its_weight_and_nothing_else(cell):
    engine, start, _ = loaded(cell, 1)
    for _ in range(20):
        engine.step(np.arange(1), start.ctrl[:, None])
    truth = engine.truth()
    assert (
        truth.object_table.touching[0]
        and not truth.robot_object.touching[0]
        and not truth.robot_table.touching[0]
    )
    assert 0.0 < truth.object_table.force_n[0] <= 0.1 * 9.81 + 1e-6
    assert truth.object_table.depth_m[0] < 0.001


def test_an_environment_that_diverges_is_reported_and_put_back_and_the_others_go_on(cell):
    engine, start, _ = loaded(cell, 3)
    other, _, _ = loaded(cell, 3)
    ids, controls = np.arange(3), start.ctrl[:, None]
    engine.qvel[1, 2] = 1e12
    broken = engine.step(ids, controls)
    other.step(ids, controls)
    assert broken is not None and broken.ids.tolist() == [1]
    assert broken.qvel[0, 2] == 1e12 and np.isfinite(engine.qpos).all()
    assert np.array_equal(engine.qpos[[0, 2]], other.qpos[[0, 2]])
