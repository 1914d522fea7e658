"""The trajectory of commands: whatever is asked of it, position, speed, acceleration, jerk and workspace hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import WrongUse
from twinloop.robots.safety.motion import Bounds, Motion, SafeMotion, stop_from
from twinloop.robots.safety.workspace import Workspace, find_elbow
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

STEP_S = 0.02


def bounds(size=2, low=-1.0, high=1.0, speed=2.0, acceleration=15.0, jerk=200.0):
    each = (np.full(size, value) for value in (low, high, speed, acceleration, jerk))
    return Bounds(*each, STEP_S)


def require_within(path, limits, start):
    """Every difference of the commands, computed here and not by what is tested; the robot rests before the first."""
    whole = np.concatenate([[start] * 3, path])
    speed = np.diff(whole, axis=0) / STEP_S
    acceleration = np.diff(speed, axis=0) / STEP_S
    jerk = np.diff(acceleration, axis=0) / STEP_S
    assert (path >= np.minimum(limits.low, start) - 1e-6).all()
    assert (path <= np.maximum(limits.high, start) + 1e-6).all()
    for found, allowed in ((speed, limits.speed), (acceleration, limits.acceleration), (jerk, limits.jerk)):
        assert (np.abs(found) <= allowed * (1 + 1e-6) + 1e-6).all()


wild = st.floats(-1e300, 1e300) | st.floats(-1.5, 1.5) | st.sampled_from([-1.0, 0.0, 1.0])


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.floats(-1.2, 1.2), st.floats(-1.2, 1.2)),
    st.lists(st.tuples(wild, wild, st.booleans()), max_size=25),
    st.tuples(st.floats(0.1, 10.0), st.floats(1.0, 60.0), st.floats(20.0, 5000.0)),
)
def test_no_sequence_of_targets_leaves_range_speed_acceleration_or_jerk(start, targets, limits):
    speed, acceleration, jerk = limits
    within = bounds(speed=speed, acceleration=acceleration, jerk=jerk)
    start = np.array(start)
    motion = SafeMotion(within, start)
    path = [motion.advance(np.array(target), stay=stay)[0] for *target, stay in targets]
    end = list(stop_from(motion.motion, within)[0][1:])
    if path:
        require_within(np.array(path + end), within, start)


def test_a_stop_ends_at_rest_and_keeps_its_limits():
    rng = np.random.default_rng(4)
    within = bounds(200, low=-1e9, high=1e9)
    start = Motion(np.zeros(200), rng.uniform(-2, 2, 200), rng.uniform(-15, 15, 200))
    positions, velocities = stop_from(start, within)
    assert np.abs(velocities[-1]).max() < 1e-6
    acceleration = np.diff(velocities, axis=0) / STEP_S
    assert np.abs(acceleration).max() <= 15.0 + 1e-6
    jerk = np.diff(np.concatenate([[start.acceleration], acceleration, np.zeros((1, 200))]), axis=0) / STEP_S
    assert np.abs(jerk).max() <= 200.0 + 1e-4
    assert len(positions) < 40, "0.8 s"


def test_commands_within_the_limits_pass_to_the_last_bit():
    within, time_s = bounds(), STEP_S * np.arange(200)
    smooth = 0.6 * (1 - np.cos(2.0 * time_s))[:, None] * np.array([0.5, 0.8])
    motion = SafeMotion(within, np.zeros(2))
    for target in smooth:
        command, causes = motion.advance(target)
        assert np.array_equal(command, target) and not causes


def test_a_far_target_is_reached_without_overshoot_and_said_to_be_limited():
    within = bounds()
    motion = SafeMotion(within, np.zeros(2))
    path, kinds = [], set()
    for _ in range(60):
        command, causes = motion.advance(np.array([0.7, -0.4]))
        path.append(command)
        kinds |= causes
    assert np.allclose(path[-1], [0.7, -0.4], atol=1e-9)
    assert np.max(path, axis=0)[0] < 0.701 and kinds >= {"speed", "jerk"}
    assert motion.resting


def test_a_moving_target_is_caught_up_with():
    motion = SafeMotion(bounds(), np.zeros(2))
    for step in range(60):
        target = 0.8 * np.sin(2.0 * STEP_S * step + np.array([0.3, 0.5]))
        command, _ = motion.advance(target)
    assert np.array_equal(command, target)


def test_limits_that_hardly_let_a_robot_stop_are_refused():
    with pytest.raises(WrongUse, match="hardly able to stop"):
        bounds(speed=100.0, acceleration=1.0)


@pytest.fixture(scope="module")
def arm():
    return make_cell(load_twin("so101"))


def make_workspace(cell, tool_speed_m_s=np.inf):
    size = len(cell.actuators)
    return Workspace(
        cell, range(size), np.ones(size), box=np.array([[-0.2, -0.2, 0.03], [0.3, 0.2, 0.25]]),
        planes=np.array([[[0.28, 0.0, 0.0], [-1.0, 0.0, 0.0]]]), elbow=find_elbow(cell),
        tool_speed_m_s=tool_speed_m_s, step_s=STEP_S,
    )  # fmt: skip


@pytest.mark.parametrize("tool_speed_m_s", [np.inf, 0.25])
def test_no_sequence_of_targets_takes_tool_or_elbow_out_of_the_workspace(arm, tool_speed_m_s):
    """Against MuJoCo's own kinematics: the places of the tool's site and the elbow's body."""
    import mujoco

    workspace = make_workspace(arm, tool_speed_m_s)
    size, data = len(arm.actuators), mujoco.MjData(arm.model)
    within = Bounds(
        arm.control_low,
        arm.control_high,
        np.full(size, 4.0),
        np.full(size, 27.0),
        np.full(size, 533.0),
        STEP_S,
    )
    start = np.array([0.0, -1.2, 1.2, 0.6, 0.0, 0.3])
    assert (workspace.margins(start[None, None], start) > 0).all(), "the start is inside"
    rng, site, elbow = np.random.default_rng(1), arm.model.site(arm.twin.role("tool")).id, find_elbow(arm)
    stopped_by = set()
    for _ in range(4):
        motion, before, path = SafeMotion(within, start, workspace.margins), None, []
        target = start
        for step in range(25):
            if step % 6 == 0:
                target = rng.uniform(arm.control_low, arm.control_high)
            command, causes = motion.advance(target)
            path.append(command)
            stopped_by |= causes
            data.qpos[arm.qpos_addresses[:, 0]] = command
            mujoco.mj_kinematics(arm.model, data)
            for place in (data.site_xpos[site], data.body(elbow).xpos):
                assert (place >= np.array([-0.2, -0.2, 0.03]) - 1e-6).all()
                assert (place <= np.array([0.28, 0.2, 0.25]) + 1e-6).all(), "the plane is closer than the box"
            tool = np.array(data.site_xpos[site])
            if before is not None:
                assert np.linalg.norm(tool - before) <= tool_speed_m_s * STEP_S + 1e-6
            before = tool
        require_within(np.array(path), within, start)
    assert "workspace" in stopped_by


def test_an_arm_that_starts_outside_its_workspace_comes_back_and_goes_no_further_out(arm):
    workspace = make_workspace(arm)
    size = len(arm.actuators)
    within = Bounds(
        arm.control_low,
        arm.control_high,
        np.full(size, 4.0),
        np.full(size, 27.0),
        np.full(size, 533.0),
        STEP_S,
    )
    outside, inside = np.zeros(size), np.array([0.0, -1.2, 1.2, 0.6, 0.0, 0.3])
    depth = workspace.margins(outside[None, None], outside).min()
    assert depth < -0.01
    motion = SafeMotion(within, outside, workspace.margins)
    further = [motion.advance(np.array([0.0, 0.5, -0.5, 0.0, 0.0, 0.0]))[0] for _ in range(20)]
    assert workspace.margins(np.array(further)[:, None], outside).min() >= depth - 1e-6
    back = [motion.advance(inside)[0] for _ in range(120)]
    assert np.allclose(back[-1], inside, atol=1e-6)
    assert workspace.margins(np.array(back)[:, None], outside).min() >= depth - 1e-6
