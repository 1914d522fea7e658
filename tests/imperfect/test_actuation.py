"""Backlash, friction and saturation against what mechanics says about them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import TwinloopError, WrongUse
from twinloop.imperfect import backlash, friction, saturation
from twinloop.imperfect.backlash import Backlash
from twinloop.imperfect.friction import Friction
from twinloop.imperfect.saturation import Saturation


def driven(width, path):
    """The driven side's path when the driving side follows `path` (T,) in every environment."""
    state = backlash.make_state(np.zeros((len(width), 1)))
    outputs = []
    for x in path:
        state, output = backlash.step(Backlash(width), state, np.full((len(width), 1), x))
        outputs.append(output[:, 0])
    return np.array(outputs)


def test_the_hysteresis_loop_is_as_wide_as_the_backlash():
    width = np.array([0.0, 0.1, 0.5])
    x = np.sin(np.linspace(0, 4 * np.pi, 4_001))
    y = driven(width, x)
    rising, falling = slice(1_500, 2_501), slice(2_500, 3_501)
    at_rising = [np.interp(0.0, y[rising, i], x[rising]) for i in range(3)]
    at_falling = [np.interp(0.0, y[falling, i][::-1], x[falling][::-1]) for i in range(3)]
    np.testing.assert_allclose(np.subtract(at_rising, at_falling), width, atol=2e-3)
    np.testing.assert_allclose(y[2_000:].max(axis=0), 1 - width / 2, atol=1e-5)


def test_within_the_gap_nothing_moves():
    np.testing.assert_array_equal(driven(np.array([0.2]), [0.05, -0.09, 0.1, 0.0]), 0.0)


@settings(max_examples=60, deadline=None)
@given(
    path=st.lists(st.floats(-3, 3), min_size=2, max_size=12),
    width=st.floats(0, 2),
    splits=st.integers(2, 5),
)
def test_backlash_depends_on_the_path_and_not_on_how_finely_it_is_sampled(path, width, splits):
    fine = np.concatenate(
        [np.linspace(a, b, splits + 1)[1:] for a, b in zip([0.0, *path], path, strict=False)]
    )
    coarse = driven(np.array([width]), path)[-1]
    np.testing.assert_allclose(driven(np.array([width]), fine)[-1], coarse, atol=1e-12)


STRIBECK = Friction(
    coulomb_nm=1.0,
    viscous_nm_s_rad=0.2,
    stiction_extra_nm=0.5,
    stribeck_speed_rad_s=0.1,
    smooth_speed_rad_s=1e-4,
)


def test_the_stribeck_curve_falls_from_breakaway_to_coulomb_and_then_rises_with_viscosity():
    np.testing.assert_allclose(
        friction.dry_level_nm(STRIBECK, np.array([0.0, 0.1, 5.0])), [1.5, 1 + 0.5 / np.e, 1.0]
    )
    fast = friction.regularized_torque(STRIBECK, np.array([-10.0, 10.0]))
    np.testing.assert_allclose(fast, [1.0 + 2.0, -1.0 - 2.0])
    speeds = np.linspace(0.001, 3, 500)
    curve = -friction.regularized_torque(STRIBECK, speeds)
    lowest = np.argmin(curve)
    assert 0 < lowest < 499
    assert (np.diff(curve[:lowest]) < 0).all()
    assert (np.diff(curve[lowest:]) > 0).all()


def test_friction_grows_with_the_load_whatever_its_sign():
    params = Friction(coulomb_nm=1.0, load_coefficient=0.3)
    level = friction.dry_level_nm(params, np.array([1.0, 1.0, 1.0]), np.array([0.0, -10.0, 10.0]))
    np.testing.assert_allclose(level, [1.0, 4.0, 4.0])


def test_a_gear_loses_a_share_of_the_torques_on_either_side_and_more_at_rest():
    params = Friction(coulomb_nm=1.0, stiction_extra_nm=0.5, stribeck_speed_rad_s=0.1)
    load = friction.GearLoad(0.2, 0.1, 0.05, 0.3, drive_growth_per_nm=0.01)
    motor, external = np.array([5.0, 5.0, 5.0]), np.array([-4.0, -4.0, 4.0])
    level = friction.gear_level_nm(params, load, np.array([100.0, 0.0, 100.0]), motor, external)
    moving = 1.0 + (0.2 * 5 + 0.1 * 4) + 0.01 * 25
    resting = moving + 0.5 + (0.05 * 5 + 0.3 * 4)
    np.testing.assert_allclose(level, [moving, resting, 1.0 + (0.2 * 5 - 0.1 * 4) + 0.01 * 25])


def simulate(params, speed, applied, inertia, dt_s, steps):
    """The speed of free joints under a constant torque and stick-slip friction: (steps + 1, N)."""
    speeds = [np.array(speed, dtype=float)]
    for _ in range(steps):
        torque = friction.stick_slip_torque(params, speeds[-1], applied, inertia, dt_s)
        speeds.append(speeds[-1] + dt_s / inertia * (applied + torque))
    return np.array(speeds)


def test_a_joint_at_rest_stays_exactly_at_rest_below_breakaway_and_moves_above_it():
    applied = np.array([0.0, 1.2, -1.49, 1.51, -2.0])
    speeds = simulate(STRIBECK, np.zeros(5), applied, 0.1, 0.002, 200)
    np.testing.assert_array_equal(speeds[:, :3], 0.0)
    assert speeds[-1, 3] > 0.1
    assert speeds[-1, 4] < -0.1


def test_coulomb_friction_stops_a_joint_after_the_time_mechanics_says_and_never_reverses_it():
    dt_s = 1e-3
    speeds = simulate(Friction(coulomb_nm=2.0), np.array([3.0, -3.0]), np.zeros(2), 0.5, dt_s, 1_500)
    stopped = np.argmax(speeds[:, 0] == 0.0) * dt_s
    assert stopped == pytest.approx(0.5 * 3.0 / 2.0, abs=2 * dt_s)
    assert (speeds[:, 0] >= 0).all()
    assert (speeds[:, 1] <= 0).all()
    np.testing.assert_array_equal(speeds[-1], 0.0)


@settings(max_examples=100, deadline=None)
@given(
    speed=st.floats(-50, 50),
    dt_s=st.floats(1e-4, 0.5),
    inertia=st.floats(1e-4, 10),
    coulomb=st.floats(0, 20),
    viscous=st.floats(0, 20),
    extra=st.floats(0, 5),
)
def test_stick_slip_friction_never_adds_energy_at_any_step(speed, dt_s, inertia, coulomb, viscous, extra):
    params = Friction(coulomb, viscous, extra)
    after = simulate(params, [speed], np.zeros(1), inertia, dt_s, 1)[-1, 0]
    assert abs(after) <= abs(speed) * (1 + 1e-12)
    assert after * speed >= -1e-9 * speed * speed


def test_a_block_pulled_by_a_slow_spring_sticks_and_slips():
    dt_s, stiffness, pull_speed = 1e-3, 50.0, 0.02
    params = Friction(coulomb_nm=1.0, stiction_extra_nm=1.0, stribeck_speed_rad_s=0.02)
    position, speed = 0.0, np.zeros(1)
    speeds, forces = [], []
    for t in range(20_000):
        force = np.array([stiffness * (pull_speed * t * dt_s - position)])
        speed = speed + dt_s / 0.1 * (force + friction.stick_slip_torque(params, speed, force, 0.1, dt_s))
        position += dt_s * float(speed[0])
        speeds.append(float(speed[0]))
        forces.append(float(force[0]))
    stuck = np.array(speeds) == 0.0
    last_stuck = np.flatnonzero(stuck[:-1] & ~stuck[1:])
    assert len(last_stuck) >= 3
    assert stuck.mean() > 0.5
    np.testing.assert_allclose(np.array(forces)[last_stuck], 2.0, atol=2 * stiffness * pull_speed * dt_s)


def test_torque_is_limited_and_follows_the_torque_speed_line_past_the_corner():
    params = Saturation(limit_nm=2.0, stall_nm=8.0, no_load_speed_rad_s=10.0)
    corner = float(saturation.corner_speed_rad_s(params))
    assert corner == pytest.approx(7.5)
    speeds = np.array([0.0, corner - 1e-9, corner, 8.75, 10.0, 12.0])
    asked = np.full(6, 100.0)
    np.testing.assert_allclose(saturation.apply(params, asked, speeds), [2, 2, 2, 1, 0, 0], atol=1e-8)
    np.testing.assert_allclose(saturation.apply(params, -asked, -speeds), [-2, -2, -2, -1, 0, 0], atol=1e-8)
    np.testing.assert_allclose(saturation.apply(params, -asked, speeds), -2.0)
    np.testing.assert_allclose(saturation.apply(params, np.full(6, -0.5), speeds), -0.5)


def test_a_motor_without_limits_delivers_what_is_asked():
    torque = np.array([[1e6, -3.0]])
    np.testing.assert_array_equal(saturation.apply(Saturation(), torque, np.array([[1e3, -50.0]])), torque)
    stopped = saturation.apply(Saturation(no_load_speed_rad_s=5.0), torque, np.array([[5.0, -6.0]]))
    np.testing.assert_array_equal(stopped, 0.0)


def test_parameters_may_differ_by_environment_and_by_channel():
    torque = np.full((2, 3), 10.0)
    still = np.zeros((2, 3))
    by_environment = saturation.apply(Saturation(np.array([1.0, 2.0])), torque, still)
    np.testing.assert_array_equal(by_environment, [[1, 1, 1], [2, 2, 2]])
    by_channel = saturation.apply(Saturation(np.array([[1.0, 2.0, 3.0]])), torque, still)
    np.testing.assert_array_equal(by_channel, [[1, 2, 3], [1, 2, 3]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Backlash(-0.1), r"Backlash.width .* got -0.1; .* at least 0"),
        (lambda: Friction(coulomb_nm=float("nan")), r"Friction.coulomb_nm .* got nan"),
        (lambda: Friction(stribeck_speed_rad_s=0.0), r"Friction.stribeck_speed_rad_s .* got 0; .* above 0"),
        (lambda: Saturation(limit_nm=-1.0), r"Saturation.limit_nm .* got -1"),
        (lambda: Saturation(stall_nm=np.array([1.0, 0.0])), r"Saturation.stall_nm .* got 0 at index \(1,\)"),
    ],
)
def test_bad_parameters_are_refused_with_what_was_got_and_expected(make, message):
    with pytest.raises(TwinloopError, match=message):
        make()


def test_stick_slip_friction_needs_a_positive_time_step():
    with pytest.raises(WrongUse, match="must be positive; got 0"):
        friction.stick_slip_torque(STRIBECK, np.zeros(1), np.zeros(1), 1.0, 0.0)
