"""The same cell in two engines: Bullet's kinematics and masses are MuJoCo's."""

import mujoco
import numpy as np
import pytest

from twinloop.tasks import make_cell
from twinloop.twins import Twin, initial_state, load_twin

bullet = pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from twinloop.engines.bullet_world import BulletWorld  # noqa: E402
from twinloop.engines.multibody import make_trees  # noqa: E402
from twinloop.tasks import Start  # noqa: E402

ODD_ARM = """<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body name="base" pos="0.1 0.2 0.3" euler="0.3 -0.4 0.5">
      <inertial mass="1" pos="0 0 0.1" diaginertia="0.01 0.02 0.03"/>
      <body name="upper" pos="0 0.1 0.2" euler="1 0.2 0">
        <joint name="turn" axis="0.6 0 0.8" pos="0.02 -0.03 0.05" range="-2 2" ref="0.3"/>
        <joint name="slide" type="slide" axis="0 1 0" range="-0.2 0.2"/>
        <inertial mass="0.7" pos="0.01 0.02 0.03" quat="0.9 0.1 0.3 0.2" diaginertia="0.004 0.005 0.006"/>
        <geom type="capsule" size="0.02 0.1" pos="0 0 0.1"/>
        <body name="hand" pos="0.3 0 0" euler="0 1.5707963267948966 0">
          <joint name="wrist" axis="1 0 0" range="-1 1"/>
          <geom type="ellipsoid" size="0.03 0.02 0.04" mass="0.2"/>
        </body>
      </body>
    </body>
    <body name="thing" pos="0.5 0 1"><freejoint/><geom type="sphere" size="0.05" mass="0.3"/></body>
    <geom type="plane" size="1 1 0.1"/>
  </worldbody>
  <actuator>
    <position joint="turn" kp="50"/><position joint="slide" kp="50"/><position joint="wrist" kp="50"/>
  </actuator>
</mujoco>"""
"""Several joints in one body with their axes off its origin, a reference angle, turned frames, an ellipsoid."""

CELLS = {
    name: load_twin(name) for name in ("franka_pick_place", "so101_pick_place", "servo_pendulum", "cube_toss")
} | {"odd_arm": Twin("odd_arm", ODD_ARM, control_hz=50.0)}


@pytest.fixture(params=CELLS)
def world(request):
    twin = CELLS[request.param]
    made = BulletWorld(make_cell(twin), twin.make_model(), 0.002, bullet_steps=2)
    yield made
    made.close()


def random_start(world, rng):
    model = world.model
    qpos = initial_state(world.cell.twin, {}, 1).qpos
    for joint in range(model.njnt):
        at = model.jnt_qposadr[joint]
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            quat = rng.normal(size=4)
            qpos[0, at + 3 : at + 7] = quat / np.linalg.norm(quat)
        else:
            qpos[0, at] += rng.uniform(-0.15, 0.15)
    mocap = np.zeros((1, model.nmocap, 3))
    return Start(qpos, np.zeros((1, model.nv)), np.zeros((1, model.nu)), mocap)


def test_every_body_is_where_mujoco_has_it(world):
    data = mujoco.MjData(world.model)
    for seed in range(5):
        start = random_start(world, np.random.default_rng(seed))
        world.reset(start)
        data.qpos[:] = start.qpos[0]
        mujoco.mj_forward(world.model, data)
        for part in world._parts:
            for body, link in part.links.items():
                if link < 0:
                    place = world._bullet.getBasePositionAndOrientation(part.number)[0]
                else:
                    place = world._bullet.getLinkState(part.number, link, computeForwardKinematics=1)[0]
                if world.model.body_mass[body] > 0:
                    assert np.allclose(place, data.xipos[body], atol=1e-9), world.model.body(body).name


def test_masses_and_inertias_are_mujocos(world):
    for part in world._parts:
        for body, link in part.links.items():
            info = world._bullet.getDynamicsInfo(part.number, link)
            assert info[0] == pytest.approx(world.model.body_mass[body], abs=1e-12)
            if info[0] > 0:
                assert np.allclose(info[2], world.model.body_inertia[body], rtol=1e-9)


def test_joint_limits_are_mujocos(world):
    model = world.model
    for part in world._parts:
        for joint, mine in part.joints:
            info = world._bullet.getJointInfo(part.number, mine)
            if model.jnt_limited[joint]:
                expected = model.jnt_range[joint] - model.qpos0[model.jnt_qposadr[joint]]
                assert np.allclose(info[8:10], expected)


def test_the_state_reads_back_in_mujocos_coordinates(world):
    start = random_start(world, np.random.default_rng(7))
    world.reset(start)
    qpos, qvel = world.qpos_qvel()
    for joint in np.flatnonzero(world.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        turn = slice(world.model.jnt_qposadr[joint] + 3, world.model.jnt_qposadr[joint] + 7)
        qpos[turn] *= np.sign(qpos[turn] @ start.qpos[0][turn])  # q and -q are one rotation
    assert np.allclose(qpos, start.qpos[0], atol=1e-7)
    assert np.allclose(qvel, 0.0)


def test_gravity_torques_agree_with_mujoco():
    twin = CELLS["franka_pick_place"]
    world = BulletWorld(make_cell(twin), twin.make_model(), 0.002, bullet_steps=2)
    start = random_start(world, np.random.default_rng(3))
    world.reset(start)
    data = mujoco.MjData(world.model)
    data.qpos[:] = start.qpos[0]
    mujoco.mj_forward(world.model, data)
    chain = world._chain
    offsets = [float(q) for q in start.qpos[0][world.model.jnt_qposadr[world.model.dof_jntid[chain.dofs]]]]
    torques = world._bullet.calculateInverseDynamics(world._number, offsets, world._still, world._still)
    assert np.allclose(torques, data.qfrc_bias[chain.dofs], atol=1e-6)
    world.close()


def test_a_plane_without_size_becomes_a_large_box():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom type="plane" size="0 0 1"/></worldbody></mujoco>'
    )
    (tree,) = make_trees(model)
    assert "10 10 0.1" in tree.urdf
