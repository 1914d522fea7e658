"""Open-loop prediction against MuJoCo stepped by hand, and against analytic answers."""

from dataclasses import replace
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from twinloop.episode import Schema, Signal, make_episode
from twinloop.errors import WrongUse
from twinloop.generation.open_loop import replay_actions
from twinloop.identification.predict import Predictor, Window, held_integral
from twinloop.identification.recording import (
    Channel,
    find_channels,
    find_travel,
    read_recording,
    rotation_between,
    turning_rates,
)
from twinloop.identification.windows import (
    cut,
    duration_s,
    find_horizon_s,
    sensor_noise,
    split_episodes,
    spread,
    unmoved_noise,
)
from twinloop.measure.trace import slopes
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

from .worlds import record


def make_predictor(name="servo_pendulum", truth=None, varying=("action_delay_s",), **how):
    twin = load_twin(name)
    cell = make_cell(twin)
    episode = record(twin, truth or {}, 3, noise=0.0, **how)
    channels = find_channels(cell, episode)
    return Predictor(cell, [read_recording(cell, episode, channels)], channels, varying, threads=1), episode


def test_prediction_is_what_mujoco_does():
    dt_s = load_twin("servo_pendulum").physics_dt_s
    predictor, episode = make_predictor(rate_hz=1.0 / dt_s, seconds=1.0)
    model = predictor.cell.twin.make_model()
    data = mujoco.MjData(model)
    data.qvel[:] = predictor.recordings[0].qvel[0]
    commands = episode.signals["action"][:, 0]
    positions = [data.qpos[0]]
    for row in range(len(commands) - 1):
        data.ctrl[0] = commands[row]
        mujoco.mj_step(model, data)
        positions.append(float(data.qpos[0]))
    residual = predictor.residuals({}, [Window(0, 0, len(episode))])[0, :, 0]
    np.testing.assert_allclose(residual + episode.signals["observation.state"][:, 0], positions, atol=1e-9)


def test_a_held_command_integrates_to_its_area():
    stamps, values = np.array([0.0, 1.0, 3.0]), np.array([[2.0], [-1.0], [4.0]])
    at = np.array([-1.0, 0.5, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(held_integral(stamps, values, at)[:, 0], [-2.0, 1.0, 2.0, 1.0, 0.0, 4.0])


def test_delay_shifts_the_response_and_is_smooth_below_a_step():
    # Without dry friction: when a joint breaks away is not smooth in anything.
    predictor, _ = make_predictor(varying=("action_delay_s", "motor_friction_nm"))
    window = [Window(0, 0, 600)]
    delays = np.array([0.02, 0.0201, 0.0202, 0.03])
    at_rest = np.tile([0.0, -predictor.recordings[0].qvel[0, 0]], (4, 1, 1))
    slippery = {"action_delay_s": delays, "motor_friction_nm": np.zeros(4)}
    made = predictor.residuals(slippery, window, at_rest)[:, :, 0]
    assert np.abs(made[1] - made[0]).max() > 1e-6
    np.testing.assert_allclose(
        made[2] - made[1], made[1] - made[0], atol=0.05 * np.abs(made[1] - made[0]).max()
    )
    readings = predictor.recordings[0].readings[:600, 0]
    np.testing.assert_allclose((made[3] + readings)[2:], (made[0] + readings)[:-2], atol=1e-9)


def test_action_and_observation_delay_are_one_and_the_same_open_loop():
    predictor, _ = make_predictor(varying=("action_delay_s", "observation_delay_s"))
    made = predictor.residuals(
        {"action_delay_s": np.array([0.05, 0.0, 0.02]), "observation_delay_s": np.array([0.0, 0.05, 0.03])},
        [Window(0, 0, 300)],
    )
    np.testing.assert_allclose(made[1:], np.broadcast_to(made[:1], made[1:].shape), atol=1e-9)


def test_an_encoder_bias_moves_the_joint_and_not_the_reading_where_gravity_is_level():
    predictor, _ = make_predictor(varying=("motor_encoder_bias_rad",))
    made = predictor.residuals({"motor_encoder_bias_rad": np.array([0.0, 0.1])}, [Window(0, 0, 400)])[:, :, 0]
    assert np.abs(made[1] - made[0]).max() > 1e-3, "the weight hangs elsewhere, so it must show"
    assert np.abs(made[1] - made[0]).max() < 0.1, "the servo follows the biased encoder"


def test_a_window_from_the_middle_starts_from_the_recording():
    predictor, episode = make_predictor(rate_hz=250.0)
    residual = predictor.residuals({}, [Window(0, 0, 500), Window(0, 500, len(episode))])[0, :, 0]
    assert np.abs(residual).max() < 2e-3


def test_the_offset_of_a_start_is_what_it_says():
    predictor, _ = make_predictor()
    names = [handle.label for handle in predictor.handles]
    assert names == ["motor", "motor speed"]
    offsets = np.zeros((3, 1, 2))
    offsets[1, 0, 0], offsets[2, 0, 1] = 0.01, 0.5
    made = predictor.residuals({}, [Window(0, 0, 200)], offsets)[:, :, 0]
    assert made[1, 0] - made[0, 0] == pytest.approx(0.01)
    assert made[2, 1] - made[0, 1] == pytest.approx(0.5 / 200.0, rel=0.2)


def test_many_rows_and_windows_give_what_each_gives_alone():
    predictor, _ = make_predictor(varying=("action_delay_s", "motor_damping_nms_rad"))
    values = {
        "action_delay_s": np.array([0.0, 0.01, 0.05]),
        "motor_damping_nms_rad": np.array([0.02, 0.04, 0.01]),
    }
    windows = [Window(0, 0, 100), Window(0, 100, 400), Window(0, 50, 90)]
    together = predictor.residuals(values, windows)
    for row in range(3):
        one = {name: column[row : row + 1] for name, column in values.items()}
        begin = 0
        for window in windows:
            alone = predictor.residuals(one, [window])[0]
            np.testing.assert_array_equal(together[row, begin : begin + len(window)], alone)
            begin += len(window)


def test_slopes_and_turning_rates_of_known_motion():
    time_s = np.sort(np.random.default_rng(1).uniform(0, 2, 300))
    np.testing.assert_allclose(slopes(time_s, 3.0 - 2.0 * time_s + time_s**2), -2.0 + 2.0 * time_s, atol=1e-6)
    rate = np.array([0.3, -1.2, 0.7])
    angle = np.linalg.norm(rate) * time_s / 2
    quat = np.concatenate(
        [np.cos(angle)[:, None], np.sin(angle)[:, None] * rate / np.linalg.norm(rate)], axis=1
    )
    np.testing.assert_allclose(turning_rates(time_s, quat), np.tile(rate, (300, 1)), atol=1e-6)
    np.testing.assert_allclose(rotation_between(quat[:1], -quat[:1]), 0.0, atol=1e-12)


def test_windows_cover_a_recording_without_overlap():
    predictor, _ = make_predictor()
    windows = cut(predictor.recordings, [0], 0.7)
    rows = np.concatenate([np.arange(window.start, window.stop) for window in windows])
    assert len(rows) == len(set(rows.tolist()))
    assert len(rows) > 0.85 * len(predictor.recordings[0])
    assert cut(predictor.recordings, [0], None) == (Window(0, 0, len(predictor.recordings[0])),)


def of_duration(*seconds):
    return [SimpleNamespace(time_s=np.arange(0.0, duration, 0.02)) for duration in seconds]


def test_with_more_data_than_is_fitted_every_recording_contributes_in_proportion():
    recordings = of_duration(*[30.0] * 20, *[120.0] * 10)
    windows = spread(recordings, range(30), None, 240.0)
    count = np.bincount([window.recording for window in windows], minlength=30)
    assert count.min() >= 1 and count[20:].mean() == pytest.approx(4 * count[:20].mean(), rel=0.6)
    assert duration_s(windows, recordings) == pytest.approx(240.0, rel=0.2)
    places = [w.start / len(recordings[w.recording].time_s) for w in windows]
    assert np.histogram(places, 4, (0.0, 1.0))[0].min() > 0.15 * len(windows), "not always the same part"


def test_data_that_is_short_enough_is_fitted_whole():
    recordings = of_duration(30.0, 40.0)
    assert spread(recordings, [0, 1], None, 240.0) == cut(recordings, [0, 1], None)
    assert spread(recordings, [0, 1], 0.5, 240.0) == cut(recordings, [0, 1], 0.5)


def test_far_more_recordings_than_windows_are_taken_evenly():
    recordings = of_duration(*[2.0] * 1000)
    used = sorted({window.recording for window in spread(recordings, range(1000), None, 100.0)})
    assert 80 <= len(used) <= 110 and used[0] == 0 and used[-1] == 999


def test_a_servo_needs_no_short_windows():
    predictor, _ = make_predictor()
    assert find_horizon_s(predictor, [0]) is None


def test_noise_is_measured_off_the_readings():
    twin = load_twin("servo_pendulum")
    cell = make_cell(twin)
    for noise, quantum, expected in ((2e-3, 0.0, 2e-3), (0.0, 0.01, 0.01 / np.sqrt(12))):
        episode = record(twin, {}, 5, noise=noise, quantum=quantum)
        recording = read_recording(cell, episode, find_channels(cell, episode))
        assert sensor_noise([recording])[0] == pytest.approx(expected, rel=0.3)


def test_a_gripper_that_is_never_moved_does_not_count_by_the_micrometre():
    cell = make_cell(load_twin("franka_pick_place"))
    gripper = Channel("gripper", "position", "m", (7, 8), (1.0, 1.0), 7)
    joint = Channel("joint1", "position", "rad", (0,), (1.0,), 0)
    travel = find_travel(cell, [gripper, joint])
    assert travel == pytest.approx([0.08, 2 * 2.8973], rel=0.01)
    moving = np.linspace(0.0, 0.5, 50)
    still = SimpleNamespace(readings=np.stack([0.08 + 1e-6 * np.sin(moving), moving], axis=1))
    noise = np.array([1e-7, 1e-5])
    np.testing.assert_allclose(unmoved_noise(noise, [still], travel), [8e-5, 1e-5])
    opened = SimpleNamespace(readings=np.stack([0.1 * moving, moving], axis=1))
    np.testing.assert_allclose(unmoved_noise(noise, [still, opened], travel), noise)


def test_the_split_depends_on_ids_alone():
    ids = [f"episode-{i}" for i in range(20)]
    fitted, held = split_episodes(ids)
    assert len(held) == 5 and not set(fitted) & set(held)
    again = split_episodes(list(reversed(ids)))[1]
    assert {list(reversed(ids))[i] for i in again} == {ids[i] for i in held}
    with pytest.raises(WrongUse, match="at least 2 episodes"):
        split_episodes(["alone"])


GEAR = {
    "stiction_extra_nm": 0.02,
    "drive_load_friction": 0.3,
    "external_load_stiction": 0.2,
    "drive_load_growth_per_nm": 0.4,
}


@pytest.mark.parametrize(("name", "servo"), [("servo_pendulum", "motor"), ("so101", "servo")])
def test_gears_are_predicted_as_they_are_generated(name, servo):
    values = {f"{servo}_{ending}": value for ending, value in GEAR.items()}
    twin = load_twin(name)
    exact = replace(twin, parameters=tuple(p for p in twin.parameters if p.name != "encoder_quantum_rad"))
    asked = record(exact, {}, 3, noise=0.0, rate_hz=twin.control_hz, seconds=2.0, size=0.4)
    made = replay_actions(asked, exact, values).replayed
    cell = make_cell(exact)
    channels = find_channels(cell, made)
    recording = read_recording(cell, made, channels)
    recording = replace(recording, qvel=np.zeros_like(recording.qvel))
    predictor = Predictor(cell, [recording], channels, list(values), threads=1)
    window = [Window(0, 0, len(made))]
    with_gear = predictor.residuals({k: np.array([v]) for k, v in values.items()}, window)[0]
    without = predictor.residuals({}, window)[0]
    assert np.abs(without).max() > 0.01
    # Episodes are stored as float32, and when a joint breaks away depends on the last digit.
    assert np.abs(with_gear).max() < 0.1 * np.abs(without).max()


def test_a_servo_that_was_off_is_predicted_to_swing_freely():
    twin = load_twin("servo_pendulum")
    cell = make_cell(twin)
    time_s = np.arange(400) / 200.0
    schema = Schema(
        (
            Signal("observation.state", (1,), ("rad",), "float64", ("motor.pos",)),
            Signal("action", (1,), ("rad",), "float64", ("motor.target",)),
            Signal("observation.torque_enable", (1,), ("bool",), "bool"),
        ),
        200.0,
    )
    on = (time_s < 0.5)[:, None]
    held = np.full((400, 1), 0.3)
    episode = make_episode(
        schema,
        time_s,
        {"observation.state": held, "action": held * 0.0 + 1.0, "observation.torque_enable": on},
        task="excite",
    )
    channels = find_channels(cell, episode)
    recording = read_recording(cell, episode, channels)
    predictor = Predictor(cell, [recording], channels, (), threads=1)
    path = predictor.residuals({}, [Window(0, 0, 400)])[0, :, 0] + 0.3
    model, data = twin.make_model(), mujoco.MjData(twin.make_model())
    data.qpos[0], expected = 0.3, []
    for step in range(2000):
        if step % 5 == 0:
            expected.append(float(data.qpos[0]))
        if step == 500:
            model.actuator_gainprm[:], model.actuator_biasprm[:], model.actuator_damping[:] = 0.0, 0.0, 0.0
        data.ctrl[0] = 1.0
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(path, expected, atol=1e-9)
    assert path[100:].min() < -0.1, "it falls and swings through"
