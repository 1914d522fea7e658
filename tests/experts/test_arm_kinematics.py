"""The arm's own kinematics agree with MuJoCo's."""

import mujoco
import numpy as np
import pytest

from twinloop.experts.kinematics import Arm, step_towards
from twinloop.tasks import make_cell
from twinloop.twins import load_twin


@pytest.mark.parametrize("name", ["franka_pick_place", "so101_pick_place", "servo_pendulum"])
def test_tool_pose_and_jacobian_agree_with_mujoco(name):
    cell = make_cell(load_twin(name))
    arm, model = Arm(cell), cell.model
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    joints = rng.uniform(-1.0, 1.0, (20, len(arm.actuators)))
    pose, jacobian = arm.tool_jacobian(joints)
    site = model.site(cell.twin.role("tool")).id
    for row in range(len(joints)):
        data.qpos[cell.qpos_addresses[arm.actuators, 0]] = joints[row]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, site)
        dofs = cell.dof_addresses[arm.actuators, 0]
        np.testing.assert_allclose(pose.place[row], data.site_xpos[site], atol=1e-12)
        matrix = np.stack([pose.x[row], pose.y[row], pose.z[row]], axis=1)
        np.testing.assert_allclose(matrix.ravel(), data.site_xmat[site], atol=1e-12)
        np.testing.assert_allclose(jacobian[row, :3], linear[:, dofs], atol=1e-12)
        np.testing.assert_allclose(jacobian[row, 3:], angular[:, dofs], atol=1e-12)


def test_joint_steps_reduce_the_error_and_follow_the_preferred_step_where_the_task_is_silent():
    rng = np.random.default_rng(1)
    jacobian, error = rng.normal(size=(8, 6, 7)), 0.01 * rng.normal(size=(8, 6))
    preferred = 0.1 * rng.normal(size=(8, 7))
    step = step_towards(jacobian, error, preferred, damping=1e-4)
    np.testing.assert_allclose((jacobian @ step[:, :, None])[:, :, 0], error, atol=1e-6)
    free = np.linalg.svd(jacobian)[2][:, -1]
    np.testing.assert_allclose((free * step).sum(axis=1), (free * preferred).sum(axis=1), atol=1e-6)
