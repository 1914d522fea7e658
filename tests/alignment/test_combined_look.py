"""What is left of an alignment, and how a camera looks, as one randomization."""

from dataclasses import replace

import numpy as np
import pytest

import twinloop
from twinloop.alignment.result import Alignment, CameraEstimate
from twinloop.anchoring import combine_look
from twinloop.errors import WrongUse
from twinloop.looks.measured import MeasuredLook
from twinloop.twins import camera_parameters, has_aligned_camera


@pytest.fixture(scope="module")
def nominal():
    return twinloop.load_twin("franka_pick_place")


@pytest.fixture(scope="module")
def alignment(nominal):
    own = [
        replace(p, nominal=0.07) if p.name == "camera_front_yaw_rad" else p
        for p in camera_parameters("front")
    ]
    twin = replace(nominal, parameters=(*nominal.parameters, *own))
    yaw = CameraEstimate(
        value=0.07, low=0.0504, high=0.0896, unit="rad", name="yaw_rad", parameter="camera_front_yaw_rad", nominal=0.0,
        prior=0.1, determined=True,
    )  # fmt: skip
    return Alignment(
        twin, nominal.content_hash, "front", "aligned", "", (yaw,), np.array([[1e-4]]), ("0-0",), (), 3.0, 0.5, 0.4, 0.9
    )  # fmt: skip


def test_what_an_alignment_leaves_open_varies(nominal, alignment):
    assert has_aligned_camera(alignment.twin) and not has_aligned_camera(nominal)
    combined = combine_look(alignment.twin, None, [alignment])
    assert combined.names == ["camera_front_yaw_rad"]
    assert combined["camera_front_yaw_rad"].std == pytest.approx(0.01, rel=1e-3)
    with pytest.raises(WrongUse, match="stand where they were drawn"):
        combine_look(nominal, None, [alignment])


def test_a_measured_look_joins_it(alignment):
    draws = np.random.default_rng(0).normal(-0.5, 0.05, 200)
    look = MeasuredLook(values={"light and colour": {"exposure_stops": draws}})
    combined = combine_look(alignment.twin, look, [alignment])
    assert set(combined.names) == {"camera_front_yaw_rad", "exposure_stops"}
    assert combined["exposure_stops"].mean == pytest.approx(-0.5, abs=0.02)
