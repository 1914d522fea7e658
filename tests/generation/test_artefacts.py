"""Artefacts are found where they are planted, and not where there are none."""

import numpy as np
import pytest

from twinloop.engines import mujoco_batch
from twinloop.generation.artefacts import COLUMNS, find_artefacts
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout
from twinloop.randomization.scenes import training_scenes
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

GRAVITY = 9.81


@pytest.fixture
def cell():
    return make_cell(load_twin("franka_pick_place"))


def resting(steps=50):
    trace = np.zeros((steps, COLUMNS))
    trace[:, 2] = 1.0
    trace[:, 6:9] = (0.5, 0.1, 0.02)
    trace[:, 14] = 0.25
    return trace


def kinds(cell, trace):
    time_s = np.arange(len(trace)) * cell.dt_s
    return [event.detail.split()[0] for event in find_artefacts(cell, trace, time_s, GRAVITY)]


def test_an_object_at_rest_shows_no_artefact(cell):
    assert kinds(cell, resting()) == []


def test_a_falling_object_shows_no_artefact(cell):
    trace = resting()
    time_s = np.arange(len(trace)) * cell.dt_s
    trace[:, 8] = 6.0 - 0.5 * GRAVITY * time_s**2
    trace[:, 11] = -GRAVITY * time_s
    trace[:, 2] = 0.0
    cut = trace[: round(0.4 * cell.twin.control_hz)]
    assert kinds(cell, cut) == []


def test_deep_overlap_is_penetration(cell):
    trace = resting()
    trace[20, 4] = 0.01
    assert kinds(cell, trace) == ["penetration"]


def test_an_object_inside_the_table_has_tunnelled(cell):
    trace = resting()
    trace[30:, 8] = -0.01
    assert "tunnelling" in kinds(cell, trace)


def test_an_object_that_moves_further_than_its_speed_allows_has_tunnelled(cell):
    trace = resting()
    trace[30:, 6] += 0.1
    assert "tunnelling" in kinds(cell, trace)


def test_an_object_that_keeps_reversing_jitters(cell):
    trace = resting()
    trace[:, 9] = 0.1 * (-1.0) ** np.arange(len(trace))
    assert "jitter" in kinds(cell, trace)


def test_an_object_that_speeds_up_alone_has_energy_from_nowhere(cell):
    trace = resting()
    trace[:, 9] = np.linspace(0.0, 2.0, len(trace))
    trace[:, 6] += np.cumsum(trace[:, 9]) * cell.dt_s
    assert kinds(cell, trace) == ["energy"]


def test_a_simulation_that_diverges_ends_its_episode_and_keeps_the_state(monkeypatch):
    twin = load_twin("franka_push")
    job = Job(twin, twin.task, "push", max_steps=12)
    expected = list(rollout(job, 1, range(3)))
    step = mujoco_batch.MujocoBatch.step

    def sabotage(self, ids, controls):
        if 1 in ids and self.truth().time_s[1] > 0.1 and not np.isnan(controls).any():
            controls = controls.copy()
            self.qvel[1, 0] = 1e12
        return step(self, ids, controls)

    monkeypatch.setattr(mujoco_batch.MujocoBatch, "step", sabotage)
    before, broken, after = rollout(job, 1, range(3))
    assert (broken.success, broken.outcome.failure) == (False, "simulation_diverged")
    assert len(broken) < 12
    (event,) = [event for event in broken.events if event.kind == "artefact" and "non-finite" in event.detail]
    assert '"qpos": [' in event.detail and "NaN" not in event.detail
    assert (before.id, after.id) == (expected[0].id, expected[2].id)


def test_tossed_cubes_sink_in_too_little_to_be_flagged():
    twin = load_twin("cube_toss")
    tosses = list(rollout(Job(twin, "toss", "passive"), 3, range(16)))
    assert not [event for toss in tosses for event in toss.events if event.kind == "artefact"]


@pytest.mark.parametrize("name", ["franka_pick_place", "so101_pick_place"])
def test_a_bumped_expert_leans_on_the_table_without_sinking_into_it(name):
    twin = load_twin(name)
    job = Job(twin, twin.task, twin.task, training_scenes(twin), expert_noise=0.5)
    events = [event.detail for episode in rollout(job, 5, range(24)) for event in episode.events]
    assert [detail for detail in events if detail.startswith("penetration")] == []
