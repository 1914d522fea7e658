"""Arms drawn from published figures agree with packaged models; see record_reference_kinematics.py for the sources."""

import json
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

from twinloop.twins import initial_state, load_twin

RECORDED = json.loads((Path(__file__).parent / "reference_kinematics.json").read_text())


@pytest.mark.parametrize("source", RECORDED)
def test_forward_kinematics_agree_within_a_millimetre_and_a_tenth_of_a_degree(source):
    reference = RECORDED[source]
    model = load_twin(reference["twin"]).make_model()
    data = mujoco.MjData(model)
    assert len(reference["configurations"]) >= 20
    for configuration in reference["configurations"]:
        for joint, position in configuration["joints"].items():
            data.joint(joint).qpos[0] = position
        mujoco.mj_kinematics(model, data)
        for body, pose in configuration["poses"].items():
            assert np.linalg.norm(data.body(body).xpos - pose[:3]) < 1e-3, (source, body)
            cosine = min(1.0, abs(float(np.dot(data.body(body).xquat, pose[3:]))))
            assert math.degrees(2 * math.acos(cosine)) < 0.1, (source, body)


@pytest.mark.parametrize("source", RECORDED)
def test_link_masses_agree(source):
    model = load_twin(RECORDED[source]["twin"]).make_model()
    masses = RECORDED[source]["masses_kg"]
    assert len(masses) >= 6
    for body, mass in masses.items():
        assert model.body(body).mass[0] == pytest.approx(mass, rel=1e-4), (source, body)


@pytest.mark.parametrize("joint", [4, 5, 6])
def test_a_wrist_joint_follows_a_target_at_2_rad_s_without_reaching_its_torque_limit(joint):
    """The target comes in steps of 0.04 rad at 50 Hz; a servo that is too stiff bounces between its limits."""
    twin = load_twin("franka_pick_place")
    model = twin.make_model()
    data = mujoco.MjData(model)
    start = initial_state(twin, {}, 1)
    data.qpos[:], data.ctrl[:] = start.qpos[0], start.ctrl[0]
    torques = []
    for step in range(200):
        if step % twin.substeps == 0:
            data.ctrl[joint] += 2.0 / twin.control_hz
        mujoco.mj_step(model, data)
        torques.append(abs(data.actuator_force[joint]))
    assert max(torques) < 12.0
    assert data.qvel[joint] == pytest.approx(2.0, rel=0.1)
