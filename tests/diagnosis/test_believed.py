"""What was measured of a robot, as a randomization of its twin."""

import numpy as np
import pytest

from twinloop.diagnosis.believed import believed
from twinloop.diagnosis.imperfection import HIDDEN, WIND, Measured
from twinloop.randomization import draw_many, load_randomization
from twinloop.twins import load_twin


def test_draws_are_like_what_was_measured_and_stay_within_bounds():
    twin = load_twin("franka_pick_place")
    rng = np.random.default_rng(0)
    play = np.abs(rng.normal(0.01, 0.004, 400))
    measured = (
        Measured("actuation", values={"joint1_backlash_rad": play}),
        Measured("sensing", values={HIDDEN: np.full(400, 0.1)}),
        Measured("environment", values={WIND[0]: rng.normal(1.0, 0.1, 400)}),
    )
    made = believed(measured, twin)
    assert sorted(made.names) == ["joint1_backlash_rad", "object_pose_hidden_m"], "twins know no wind"
    drawn = draw_many(made, 0, range(2000))
    assert drawn["joint1_backlash_rad"].mean() == pytest.approx(play.mean(), rel=0.1)
    assert drawn["joint1_backlash_rad"].std() == pytest.approx(play.std(), rel=0.15)
    assert drawn["joint1_backlash_rad"].min() >= 0.0
    assert set(drawn["object_pose_hidden_m"]) == {0.1}
    again = load_randomization(made.plain(), twin)
    assert again.content_hash == made.content_hash


def test_nothing_measured_is_nothing_believed():
    assert believed((Measured("latency"),), load_twin("franka_pick_place")).names == []
