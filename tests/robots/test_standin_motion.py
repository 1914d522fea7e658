"""The stand-in moves as its servos should, and holds without a command."""

import numpy as np
import pytest

from twinloop.errors import RobotError, RobotGone, TwinloopError

STEP_RAD = 0.3


def state(robot):
    return np.asarray(robot.observe().signals["observation.state"], np.float64)


def test_a_joint_follows_its_command(ideal):
    robot = ideal
    goal = state(robot)
    goal[0] += STEP_RAD
    goal[3] -= STEP_RAD
    for _ in range(100):
        robot.act(goal)
    assert np.allclose(state(robot)[:7], goal[:7], atol=2e-3)


def test_every_arm_of_the_library_can_be_served(standin):
    for twin in ("so101_pick_place", "franka_push"):
        robot = standin("ideal", twin)
        before = state(robot)
        robot.act(before)
        assert robot.description.twin == twin
        assert np.abs(state(robot) - before).max() < 0.05


def test_the_same_commands_give_the_same_readings_bit_for_bit(standin):
    seen = []
    for _ in range(2):
        robot = standin("ideal")
        robot.prepare(3)
        rng = np.random.default_rng(0)
        start = state(robot)
        for _ in range(20):
            robot.act(start + rng.normal(0, 0.02, len(start)))
        seen.append(robot.observe())
    assert all(np.array_equal(seen[0].signals[name], seen[1].signals[name]) for name in seen[0].signals)


def test_time_passes_by_one_control_step_per_command(ideal):
    robot = ideal
    begin = robot.observe().time_s
    for _ in range(5):
        robot.act(state(robot))
    assert robot.observe().time_s - begin == pytest.approx(5 / robot.description.rate_hz)
    assert robot.observe().time_s == robot.observe().time_s


def test_without_commands_for_200_ms_it_holds_where_it_is(ideal):
    robot = ideal
    goal = state(robot)
    goal[0] += 1.0
    for _ in range(3):
        robot.act(goal)
    robot.wait(11)
    stopped = state(robot)
    robot.wait(100)
    assert stopped[0] < goal[0] - 0.02
    assert abs(state(robot)[0] - stopped[0]) < 0.05


def test_commands_out_of_range_are_clipped_and_nonsense_is_refused(ideal):
    robot = ideal
    limits, start = robot.description.limits, state(robot)
    reach = np.asarray(limits.speed_per_s) / robot.description.rate_hz
    assert np.array_equal(robot.act(np.full(8, 99.0)), np.minimum(start + reach, limits.high))
    for _ in range(100):
        sent = robot.act(np.full(8, 99.0))
    assert np.array_equal(sent, limits.high)
    with pytest.raises(RobotError, match="finite"):
        robot.act(np.full(8, np.nan))
    with pytest.raises(RobotError, match="shape"):
        robot.act(np.zeros(3))
    assert np.isfinite(state(robot)).all()


def test_a_second_client_is_told_that_the_robot_is_busy(ideal):
    from twinloop.robots import RemoteRobot

    robot = ideal
    other = RemoteRobot(robot._address, token=robot._token)
    with pytest.raises(RobotError, match="busy"):
        other.connect()
    other.close()


def test_the_wrong_token_is_refused(standin):
    from twinloop.robots import RemoteRobot

    robot = standin("ideal")
    address = robot._address
    robot._hang_up()
    stranger = RemoteRobot(address, token="guess")
    with pytest.raises(RobotError, match="token"):
        stranger.connect()
    stranger.close()


def test_a_server_that_died_is_told_and_can_be_started_again(standin):
    robot = standin("ideal")
    robot._process.kill()
    robot._process.wait()
    with pytest.raises(RobotGone):
        robot.observe()
    robot.connect()
    assert np.isfinite(state(robot)).all()


def test_an_unknown_reality_names_the_ones_there_are(standin):
    with pytest.raises(TwinloopError, match="ideal"):
        standin("idael")
