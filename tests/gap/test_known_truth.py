"""Recordings that differ from the twin by one imperfection show a gap in that dimension, and in no other."""

import numpy as np
import pytest

from twinloop.gap.run import measure_gap

from .worlds import OPTIONS, record_arm, simulate

JOINTS = ("sensing", "actuation", "latency")


def headline(found, dimension, name):
    return next(m for m in found[dimension].headlines if m.name == name)


SAME = {"action_delay_s": 0.02}
"""The twin's own value."""
PLAY = {
    f"{joint}_backlash_rad": 0.02
    for joint in ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
}


@pytest.mark.parametrize(
    ("changed", "how", "dimension", "name", "difference"),
    [
        ({"action_delay_s": 0.06}, {}, "latency", "command to response", -40.0),
        (PLAY, {}, "actuation", "dead band", -0.02),
        # Counting in steps of 1.5 mrad looks like noise of 0.46 mrad by itself, in the twin too.
        (SAME, {"noise": 3e-3}, "sensing", "noise", -2.6e-3),
        (SAME, {"quantum": 6e-3}, "sensing", "quantization step", -4.466e-3),
    ],
    ids=["delay", "backlash", "noise", "step"],
)
def test_one_imperfection_shows_where_it_belongs(tmp_path, changed, how, dimension, name, difference):
    real = record_arm(tmp_path / "real", changed, **how)
    found = measure_gap(real, "so101", only=JOINTS, options=OPTIONS)
    assert found.shown == (dimension,)
    shown = headline(found, dimension, name)
    assert shown in found[dimension].shown and shown.excludes_zero
    assert shown.value == pytest.approx(difference, rel=0.05)
    assert shown.low <= shown.value <= shown.high
    assert shown.episodes == shown.sim_episodes == 6 and shown.samples == 6 * 300


def test_no_imperfection_shows_nothing(tmp_path):
    real = record_arm(tmp_path / "real", SAME)
    found = measure_gap(real, "so101", only=JOINTS, options=OPTIONS)
    assert found.shown == ()
    assert all(found[name].evaluated for name in JOINTS)


def test_friction_shows_as_a_dead_band_and_not_as_latency(tmp_path):
    real = record_arm(tmp_path / "real", {"joint_friction_scale": 4.0})
    found = measure_gap(real, "so101", only=JOINTS, options=OPTIONS)
    assert found.shown == ("actuation",)
    assert headline(found, "actuation", "dead band").high < 0.0


def test_contact_shows_in_tosses_with_other_friction_and_not_in_the_same(tmp_path):
    rough = simulate(tmp_path / "rough", "cube_toss", {"object_friction": 0.5})
    same = simulate(tmp_path / "same", "cube_toss", {"throw_speed_scale": [0.9, 1.1]})
    with_gap, without = (
        measure_gap(data, "cube_toss", only=("contact",), options=OPTIONS) for data in (rough, same)
    )
    assert with_gap.shown == ("contact",) and without.shown == ()
    assert headline(with_gap, "contact", "replay error in contact, object").high < -1e-3


def test_a_given_data_set_is_compared_beside_the_replay(tmp_path):
    real = record_arm(tmp_path / "real", {"action_delay_s": 0.05})
    sim = record_arm(tmp_path / "sim", {"action_delay_s": 0.03}, first=50)
    found = measure_gap(real, "so101", sim, only=("latency",), options=OPTIONS)
    by_side = {m.against: m for m in found["latency"].headlines}
    assert set(by_side) == {"the twin's replay", "sim"}
    assert by_side["the twin's replay"].value == pytest.approx(-30.0, abs=1.5)
    assert by_side["sim"].low <= -20.0 <= by_side["sim"].high < 0.0


def test_numerics_tell_of_the_time_step_and_of_artefacts(tmp_path):
    data = simulate(tmp_path / "tosses", "cube_toss", {"throw_speed_scale": [0.9, 1.1]}, count=4)
    found = measure_gap(data, "cube_toss", data, only=("numerics",), options=OPTIONS)
    end = headline(found, "numerics", "half the time step, object at the end")
    assert 0.0 < end.value < 0.05 and end.unit == "m" and end.episodes == 4
    flagged = headline(found, "numerics", "episodes with artefacts")
    assert flagged.value == 0.0 and flagged.high == pytest.approx(0.6024, abs=1e-3)


def test_what_has_no_data_is_not_evaluated_and_never_zero(tmp_path):
    data = simulate(tmp_path / "tosses", "cube_toss", {"throw_speed_scale": [0.9, 1.1]}, count=3)
    found = measure_gap(data, "cube_toss", data, options=OPTIONS)
    for name in ("visual", "object", "human", "actuation", "latency"):
        assert not found[name].evaluated and not found[name].measures
        assert all(one.needs for one in found[name].not_evaluated) and found[name].not_evaluated
    assert "camera frames" in found["visual"].not_evaluated[0].needs
    plain = found.as_json()
    assert plain["dimensions"]["visual"]["measures"] == [] and not plain["dimensions"]["visual"]["evaluated"]


@pytest.mark.slow
def test_an_interval_holds_the_truth_over_robots(tmp_path):
    """Forty robots with the same delay, four episodes each: the interval may miss it about once in twenty."""
    held = []
    for robot in range(40):
        real = record_arm(
            tmp_path / str(robot), {"action_delay_s": 0.05}, count=4, first=100 * robot, noise=2e-3
        )
        found = measure_gap(real, "so101", only=("latency",), options=OPTIONS)
        shown = headline(found, "latency", "command to response")
        held.append(shown.low <= -30.0 <= shown.high)
    assert np.mean(held) >= 0.875
