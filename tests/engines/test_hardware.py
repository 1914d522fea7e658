"""Imperfect hardware does to commands and readings what the twin's parameters say."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.engines.hardware import Hardware
from twinloop.engines.mujoco_batch import MujocoBatch
from twinloop.tasks import make_cell, make_task
from twinloop.twins import load_twin


def make(values, count=1, twin_name="franka_pick_place"):
    cell = make_cell(load_twin(twin_name))
    drawn = {name: np.full(count, value) for name, value in values.items()}
    ids = np.arange(count)
    start = make_task(cell.twin.task, cell.twin).start({}, ids)
    engine = MujocoBatch(cell, count, 1, ())
    engine.load(ids, {}, start)
    hardware = Hardware(cell, count, 100, drawn)
    hardware.restart(ids, drawn, ids + 5, engine.truth(), start.ctrl)
    return cell, hardware, engine.truth(), start.ctrl


def at(step, count=1):
    return np.full(count, step)


def test_ideal_hardware_changes_nothing():
    _, hardware, truth, ctrl = make({})
    reading = hardware.sense(truth, at(0))
    assert np.array_equal(reading.position, truth.position)
    assert np.array_equal(reading.object_position, truth.object_position)
    assert np.array_equal(hardware.command(ctrl + 0.1, at(0))[:, 0], ctrl + 0.1)


@pytest.mark.parametrize("delay_s", [0.004, 0.02, 0.05])
def test_a_command_arrives_after_its_delay_exact_to_the_physics_step(delay_s):
    cell, hardware, _, ctrl = make({"action_delay_s": delay_s})
    told = np.concatenate([hardware.command(ctrl + 0.1, at(step)) for step in range(5)], axis=1)
    arrived = np.flatnonzero(told[0, :, 0] == ctrl[0, 0] + 0.1)[0]
    assert arrived * cell.twin.physics_dt_s == pytest.approx(delay_s)


def test_an_encoder_bias_moves_the_reading_one_way_and_the_joint_the_other():
    _, hardware, truth, ctrl = make({"joint1_encoder_bias_rad": 0.02})
    assert hardware.sense(truth, at(0)).position[0, 0] == pytest.approx(truth.position[0, 0] + 0.02)
    assert hardware.command(ctrl, at(0))[0, 0, 0] == pytest.approx(ctrl[0, 0] - 0.02)


def test_encoders_count_in_steps_and_a_sliding_gripper_does_not():
    cell, hardware, truth, _ = make({"encoder_quantum_rad": 0.01})
    position = hardware.sense(truth, at(0)).position[0]
    np.testing.assert_allclose(position[cell.arm] / 0.01, np.rint(position[cell.arm] / 0.01), atol=1e-9)
    assert position[cell.gripper] == truth.position[0, cell.gripper]


def test_play_in_a_gear_swallows_a_small_reversal():
    _, hardware, _, ctrl = make({"joint2_backlash_rad": 0.02})
    there = hardware.command(ctrl + 0.1, at(0))[0, 0, 1]
    back = hardware.command(ctrl + 0.09, at(1))[0, 0, 1]
    assert there == back == pytest.approx(ctrl[0, 1] + 0.09)


def test_readings_are_noisy_by_the_deviation_that_was_asked_for():
    _, hardware, truth, _ = make({"encoder_noise_rad": 0.01, "object_pose_noise_m": 0.002}, count=200)
    readings = [hardware.sense(truth, at(step, 200)) for step in range(20)]
    joint = np.array([reading.position[:, 0] - truth.position[:, 0] for reading in readings])
    place = np.array([reading.object_position[:, 1] - truth.object_position[:, 1] for reading in readings])
    assert joint.std() == pytest.approx(0.01, rel=0.05)
    assert place.std() == pytest.approx(0.002, rel=0.05)


def test_drift_grows_to_its_deviation_in_a_minute():
    _, hardware, truth, _ = make({"encoder_drift_rad": 0.06}, count=400)
    for step in range(100):
        reading = hardware.sense(truth, at(step, 400))
    walked = reading.position[:, 0] - truth.position[:, 0]
    assert walked.std() == pytest.approx(0.06 * np.sqrt(99 * 0.02 / 60.0), rel=0.1)


def channel(cell, element):
    names = [name for group in cell.sensors for name in group.elements]
    return names.index(element)


def test_an_ideal_wrist_sensor_reads_the_weight_of_the_hand_and_gravity():
    cell, hardware, truth, _ = make({})
    reading = hardware.sense(truth, at(0)).sensors[0]
    hand_kg = 0.73 + 2 * 0.015
    assert reading[channel(cell, "wrist_force.z")] == pytest.approx(-9.81 * hand_kg, rel=1e-6)
    assert reading[channel(cell, "wrist_accelerometer.z")] == pytest.approx(-9.81, rel=1e-6)
    assert reading[channel(cell, "wrist_gyro.x")] == pytest.approx(0.0, abs=1e-9)


def test_a_force_sensor_that_warms_up_drifts_as_an_exponential_from_when_it_was_zeroed():
    values = {"force_drift_n": 8.0, "force_warm_up_s": 3.0, "force_age_s": 2.0, "torque_drift_nm": -0.4}
    cell, hardware, truth, _ = make(values)
    readings = np.array([hardware.sense(truth, at(step)).sensors[0] for step in range(100)])
    offsets = readings - truth.sensors[0]
    warm = 1.0 - np.exp(-(2.0 + np.arange(100) * cell.dt_s) / 3.0)
    np.testing.assert_allclose(offsets[:, channel(cell, "wrist_force.x")], 8.0 * warm, rtol=1e-9)
    np.testing.assert_allclose(offsets[:, channel(cell, "wrist_torque.z")], -0.4 * warm, rtol=1e-9)
    assert not offsets[:, channel(cell, "wrist_gyro.x")].any()


def test_an_inertial_unit_is_biased_noisy_and_drifts_by_what_was_asked_for():
    values = {
        "gyro_bias_rad_s": 0.05,
        "gyro_drift_rad_s": 0.12,
        "accelerometer_noise_m_s2": 0.3,
        "accelerometer_bias_m_s2": -0.2,
    }
    cell, hardware, truth, _ = make(values, count=400)
    errors = np.array([hardware.sense(truth, at(step, 400)).sensors - truth.sensors for step in range(100)])
    gyro, shake = channel(cell, "wrist_gyro.y"), channel(cell, "wrist_accelerometer.y")
    assert np.allclose(errors[0, :, gyro], 0.05)
    assert errors[-1, :, gyro].std() == pytest.approx(0.12 * np.sqrt(99 * 0.02 / 60.0), rel=0.1)
    assert errors[:, :, shake].std() == pytest.approx(0.3, rel=0.02)
    assert errors[:, :, shake].mean() == pytest.approx(-0.2, abs=0.01)


def test_a_lost_pose_repeats_the_last_one_even_when_poses_are_otherwise_exact():
    _, hardware, truth, _ = make({"object_pose_drop_probability": 0.5}, count=50)
    moved = replace(truth, object_position=truth.object_position + 0.1)
    hardware.sense(truth, at(0, 50))
    seen = hardware.sense(moved, at(1, 50)).object_position
    kept = np.isclose(seen[:, 0], truth.object_position[:, 0])
    assert 10 < kept.sum() < 40 and np.array_equal(seen[~kept], moved.object_position[~kept])


def test_a_perceived_pose_is_dropped_as_often_as_asked_and_the_last_one_stays():
    _, hardware, truth, _ = make({"object_pose_drop_probability": 0.3}, count=200)
    hardware.sense(truth, at(0, 200))
    missed = []
    for step in range(1, 40):
        truth = replace(truth, object_position=truth.object_position + 0.001)
        seen = hardware.sense(truth, at(step, 200)).object_position
        missed.append((seen != truth.object_position).any(axis=1))
    assert np.mean(missed) == pytest.approx(0.3, abs=0.02)


def test_a_late_pose_is_the_one_from_before_and_biased_scaled_and_tilted_as_asked():
    values = {
        "object_pose_delay_s": 0.04,
        "object_pose_bias_z_m": 0.01,
        "object_pose_scale_error": 0.05,
        "table_tilt_x_rad": 0.1,
    }
    _, hardware, truth, _ = make(values)
    seen = []
    for step in range(6):
        moved = replace(truth, object_position=truth.object_position + 0.01 * step)
        seen.append(hardware.sense(moved, at(step)))
    place = np.array([reading.object_position[0] for reading in seen])
    true = truth.object_position[0] + 0.01 * np.maximum(np.arange(6) - 2, 0)[:, None]
    np.testing.assert_allclose(place, 1.05 * true + [0.0, 0.0, 0.01], atol=1e-9)
    upright, tilted = (hardware.first_reading(truth).object_columns[0], seen[0].object_columns[0])
    assert tilted[2] - upright[2] == pytest.approx(0.1 * upright[1], abs=1e-9)
    assert tilted[5] - upright[5] == pytest.approx(0.1 * upright[4], abs=1e-9)


def test_an_object_that_the_tool_is_close_to_stays_where_it_was_last_seen():
    _, hardware, truth, _ = make({"object_pose_hidden_m": 0.1})
    far = replace(truth, tool_position=truth.object_position + 0.2)
    near = replace(
        far, tool_position=truth.object_position + 0.05 + 0.02, object_position=truth.object_position + 0.05
    )
    hardware.sense(far, at(0))
    assert np.array_equal(hardware.sense(near, at(1)).object_position, truth.object_position)


def test_a_steady_load_moves_a_joint_off_its_command_and_shows_in_the_effort():
    cell, hardware, truth, ctrl = make({"joint2_load_nm": 4.0, "joint2_load_slope_nm_rad": 2.0})
    reading = hardware.sense(truth, at(0))
    torque = 4.0 + 2.0 * truth.position[0, 1]
    assert reading.effort[0, 1] - truth.effort[0, 1] == pytest.approx(torque)
    stiffness = cell.model.actuator_gainprm[1, 0]
    told = hardware.command(ctrl, at(0))[0, 0]
    assert told[1] == pytest.approx(ctrl[0, 1] - torque / stiffness)
    assert np.array_equal(np.delete(told, 1), np.delete(ctrl[0], 1))


def test_parameters_of_loads_carry_their_units():
    twin = load_twin("so101_pick_place")
    assert twin.parameter("elbow_flex_load_nm").unit == "N·m"
    assert twin.parameter("elbow_flex_load_slope_nm_rad").unit == "N·m/rad"
