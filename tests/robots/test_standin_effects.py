"""Effects do what their names say."""

import mujoco
import numpy as np
import pytest

pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from twinloop.robots.standin.reality import parse_reality
from twinloop.robots.standin.session import Session
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")


def session(text, number=0):
    made = Session(parse_reality(text), TWIN)
    made.prepare(number)
    return made


def step_response(text, steps=30):
    """Readings and true angles of joint 1 after a command of 0.2 rad, one per control step."""
    cell = session(text)
    goal = cell._truth.position[0] + cell._encoder_bias
    goal[0] += 0.2
    read, true = [], []
    for _ in range(steps):
        cell.act(goal)
        cell.tick()
        read.append(float(cell.observe(()).signals["observation.state"][0]))
        true.append(float(cell._truth.position[0, 0]))
    cell.close()
    return np.array(read), np.array(true)


def test_a_delayed_command_moves_the_arm_later_by_the_delay():
    _, prompt = step_response("")
    _, late = step_response("latency: {action_delay_s: 0.1}")
    assert np.allclose(late[5:], prompt[:-5], atol=2e-3)
    assert np.abs(late[:5] - late[0]).max() < 2e-3


def test_a_delayed_reading_shows_the_past():
    read, true = step_response("latency: {observation_delay_s: 0.06}")
    assert np.allclose(read[3:], true[:-3], atol=1e-4)


def test_an_encoder_bias_moves_the_arm_and_hides_it():
    read, true = step_response("{seed: 3, sensing: {encoder_bias_rad: 0.05}}", 60)
    assert abs(read[-1] - true[-1]) > 0.005
    same, _ = step_response("{seed: 3, sensing: {encoder_bias_rad: 0.05}}", 60)
    assert np.array_equal(read, same)


def test_dry_friction_leaves_the_arm_short_of_its_command():
    _, free = step_response("", 60)
    _, stuck = step_response("actuation: {dry_friction_share: 0.1}", 60)
    # 0.1 x 87 N m of friction against 4500 N m/rad: at most 1.9 mrad short, and some of it.
    assert 0.0002 < free[-1] - stuck[-1] < 0.0025


def test_a_heavier_arm_sags_by_what_the_controller_does_not_carry():
    cell = session("actuation: {link_mass_scale: 1.5}")
    stay = cell._truth.position[0].copy()
    stay[:7] = [TWIN.home[f"joint{number}"] for number in range(1, 8)]
    for _ in range(75):
        cell.act(stay)
        cell.tick()
    data = mujoco.MjData(cell.cell.model)
    data.qpos[:] = cell._world.qpos_qvel()[0]
    mujoco.mj_forward(cell.cell.model, data)
    elbow = 3
    expected = -0.5 * data.qfrc_bias[elbow] / cell.cell.model.actuator_gainprm[elbow, 0]
    sag = cell._truth.position[0, elbow] - TWIN.home["joint4"]
    assert sag == pytest.approx(expected, rel=0.1)
    cell.close()


def test_quantized_readings_are_whole_steps():
    read, _ = step_response("sensing: {encoder_quantum_rad: 0.01}")
    assert np.allclose(read / 0.01, np.round(read / 0.01), atol=1e-4)


def test_a_tilted_slippery_table_loses_the_object():
    cell = session("{contact: {friction: 0.05}, environment: {table_tilt_rad: 0.15}}")
    start = cell._truth.object_position[0].copy()
    for _ in range(50):
        cell.tick()
    moved = cell._truth.object_position[0] - start
    assert moved[0] > 0.02 and abs(moved[1]) < 0.02
    cell.close()


def test_on_a_tilted_table_the_object_lies_on_the_table():
    cell = session("environment: {table_tilt_rad: 0.12, table_height_m: 0.01}")
    for _ in range(25):
        cell.tick()
    above = cell._truth.object_position[0, 2] - cell._truth.table_height_m[0]
    assert 0.018 < above < 0.024, "half an edge of 4 cm"
    assert "object_lost" not in str(cell.judge(over=False))
    cell.close()


def test_a_knocked_object_moves_and_an_untouched_one_does_not():
    still, knocked = session(""), session("environment: {push_force_n: 1.2, push_rate_hz: 2}")
    for cell, low, high in ((still, 0.0, 0.001), (knocked, 0.005, np.inf)):
        start = cell._truth.object_position[0].copy()
        for _ in range(100):
            cell.tick()
        assert low <= np.linalg.norm(cell._truth.object_position[0] - start) < high
        cell.close()


def test_scenes_differ_between_episodes_and_repeat_with_their_number():
    cell = session("environment: {object_scatter_m: 0.1}")
    places = []
    for number in (1, 2, 1):
        cell.prepare(number)
        places.append(cell._truth.object_position[0].copy())
    assert np.array_equal(places[0], places[2]) and np.abs(places[0] - places[1]).max() > 0.005
    cell.close()


def test_people_differ_in_how_they_demonstrate():
    paths = []
    for human in ("{}", "{tremor_m: 0.003}", "{aim_error_m: 0.02}", "{speed_scale: 0.5}", "{overshoot: 0.3}"):
        cell = session(f"human: {human}")
        path = []
        for _ in range(25):
            path.append(cell.steer())
            cell.act(path[-1])
            cell.tick()
        paths.append(np.array(path))
        cell.close()
    for other in paths[1:]:
        assert np.abs(other - paths[0]).max() > 1e-3
