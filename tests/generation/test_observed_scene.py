"""Whatever an expert sees is recorded, so that a policy can learn from it: also a target in a cell without an object."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.errors import InvalidTwin
from twinloop.experts.reading import name_signals
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout
from twinloop.randomization.scenes import training_scenes
from twinloop.robots.protocol import Observation
from twinloop.robots.signals import list_signals, make_reading
from twinloop.tasks import make_cell
from twinloop.twins import make_twin_from_model

REACHER = """
<mujoco model="reacher">
  <worldbody>
    <body name="goal" pos="0.3 0.1 0.2" mocap="true"><geom size="0.02" contype="0" conaffinity="0"/></body>
    <body name="arm"><joint name="hinge" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/></body>
  </worldbody>
  <actuator><position joint="hinge" kp="5" kv="0.5"/></actuator>
</mujoco>
"""


@pytest.fixture
def reacher(tmp_path):
    (tmp_path / "reacher.xml").write_text(REACHER)
    return make_twin_from_model(tmp_path / "reacher.xml")


def test_a_target_without_an_object_is_placed_and_recorded(reacher):
    assert reacher.roles == {"target": "goal"}
    job = Job(reacher, "excite", "waypoints", training_scenes(reacher), max_steps=2)
    first, second = rollout(job, 1, [0, 1])
    assert first.schema.signal("observation.environment_state").elements == (
        "target.x",
        "target.y",
        "target.z",
    )
    for episode in (first, second):
        draw = episode.provenance.draw
        place = (0.3 + draw["target_offset_x_m"], 0.1 + draw["target_offset_y_m"], 0.2)
        np.testing.assert_allclose(episode["observation.environment_state"][0], place, atol=1e-6)


def test_an_expert_on_a_robot_sees_the_target_that_the_robot_reports(reacher):
    cell = make_cell(reacher)
    assert [signal.name for signal in list_signals(cell)][-1] == "observation.environment_state"
    reported = {"observation.state": np.zeros(1), "observation.environment_state": np.array([0.3, 0.2, 0.1])}
    reading = make_reading(cell, Observation(0.0, reported))
    np.testing.assert_array_equal(reading.target_position, [[0.3, 0.2, 0.1]])
    assert not reading.object_position.any()
    np.testing.assert_array_equal(
        name_signals(cell, reading)["observation.environment_state"][0],
        reported["observation.environment_state"],
    )


def test_a_target_that_no_scene_can_place_is_refused(tmp_path):
    (tmp_path / "fixed.xml").write_text(REACHER.replace(' mocap="true"', ""))
    twin = replace(make_twin_from_model(tmp_path / "fixed.xml"), roles={"target": "goal"})
    with pytest.raises(
        InvalidTwin, match=r"the target cannot be placed; got the body 'goal'; expected .*mocap"
    ):
        make_cell(twin)
