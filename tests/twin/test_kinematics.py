"""Arms drawn from published figures agree with packaged models; see record_reference_kinematics.py for the sources."""

import json
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

from twinloop.twin import load_twin

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
