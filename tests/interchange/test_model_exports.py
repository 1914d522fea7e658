"""A twin as MJCF, URDF and USD: other programs read the same masses, joints and motion."""

import json

import mujoco
import numpy as np
import pytest

import twinloop as tl
from twinloop.interchange.links import list_links
from twinloop.interchange.urdf import render_stl, roll_pitch_yaw

TWINS = ["franka_pick_place", "so101_pick_place", "servo_pendulum", "cube_toss"]

TILTED = """<mujoco model="tilted"><worldbody>
  <body name="arm" pos="0.1 0.2 0.3" euler="20 30 40"><joint name="swing" axis="0.6 0 0.8" pos="0.05 0.01 -0.02" range="-1 2" ref="10"/>
    <inertial pos="0.03 0.02 0.01" mass="1.3" fullinertia="0.011 0.012 0.013 0.001 0.0005 -0.0007"/>
    <geom name="bar" type="capsule" fromto="0 0 0 0.2 0.1 0" size="0.02"/>
    <body name="slider" pos="0.2 0.1 0" quat="0.5 0.5 -0.5 0.5"><joint name="slide" type="slide" axis="0 1 0" range="-0.1 0.3"/>
      <geom name="wedge" type="mesh" mesh="wedge" mass="0.4"/>
      <body name="tip" pos="0 0 0.1"><geom name="ball" type="sphere" size="0.03" mass="0.2"/></body></body></body>
  </worldbody>
  <asset><mesh name="wedge" vertex="0 0 0  0.1 0 0  0 0.08 0  0 0 0.06"/></asset>
  <actuator><position name="swing" joint="swing" kp="40" kv="3" forcerange="-7 7"/></actuator></mujoco>"""
"""Everything that the built-in twins have straight is crooked here: anchors, references, axes, principal axes, a mesh."""


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Twins with values off their MJCF, and where each export of them is."""
    folder, made = tmp_path_factory.mktemp("models"), {}
    (folder / "tilted.xml").write_text(TILTED)
    for name in [*TWINS, "tilted"]:
        twin = tl.Twin("tilted", TILTED) if name == "tilted" else tl.load_twin(name)
        rng, values = np.random.default_rng(0), {}
        for parameter in twin.parameters:
            if parameter.stage == "model" and not parameter.choices:
                nominal, (low, high) = float(parameter.nominal), parameter.bounds
                reach = 0.2 * min(high - nominal, nominal - low)
                values[parameter.name] = nominal + reach * rng.uniform(-1.0, 1.0)
        twin = twin.with_values(values)
        made[name] = (
            twin,
            {to: tl.export_twin(twin, to, folder / f"{name}-{to}") for to in ("mjcf", "urdf", "usd")},
        )
    return made


def poses(model, joints):
    """Centre of mass and rotation of every named body with mass, and the model's joint names, at these positions."""
    data = mujoco.MjData(model)
    for name, value in joints.items():
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    named = [model.body(i).name for i in range(1, model.nbody) if model.body_mass[i] > 0]
    return {name: (data.body(name).xipos.copy(), data.body(name).xmat.reshape(3, 3).copy()) for name in named}


def draw_joints(model, rng):
    """Random positions of every joint that an export has."""
    links, _ = list_links(model)
    return {link.joint.name: rng.uniform(*(link.joint.limits or (-3.0, 3.0))) for link in links if link.joint}


def tensor(model, name):
    """The inertia about the centre of mass, in the body's axes."""
    body, turn = model.body(name), np.zeros(9)
    mujoco.mju_quat2Mat(turn, body.iquat)
    turn = turn.reshape(3, 3)
    return turn @ np.diag(body.inertia) @ turn.T


@pytest.mark.parametrize("name", [*TWINS, "tilted"])
def test_mjcf_is_the_twins_model_without_the_twin(twins, name):
    twin, exports = twins[name]
    found = mujoco.MjModel.from_xml_path(str(exports["mjcf"].folder / "model.xml"))
    expected = twin.make_model()
    for field in ("body_mass", "body_inertia", "body_ipos", "dof_frictionloss", "dof_damping", "dof_armature", "geom_friction",
                  "geom_size", "geom_solref", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "jnt_range"):  # fmt: skip
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), rtol=1e-5, atol=1e-9, err_msg=field
        )
    one, other = mujoco.MjData(found), mujoco.MjData(expected)
    for _ in range(50):
        mujoco.mj_step(found, one)
        mujoco.mj_step(expected, other)
    np.testing.assert_allclose(one.qpos, other.qpos, atol=1e-5)


@pytest.mark.parametrize("name", [*TWINS, "tilted"])
def test_mujoco_reads_the_urdf_as_the_same_bodies_that_move_the_same(twins, name):
    twin, exports = twins[name]
    folder, model = exports["urdf"].folder, twin.make_model()
    loaded = mujoco.MjModel.from_xml_path(str(folder / "robot.urdf"))
    rng = np.random.default_rng(1)
    for _ in range(5):
        joints = draw_joints(model, rng)
        expected, found = poses(model, joints), poses(loaded, joints)
        for body, (place, turn) in found.items():
            np.testing.assert_allclose(place, expected[body][0], atol=1e-8, err_msg=body)
            np.testing.assert_allclose(turn, expected[body][1], atol=1e-8, err_msg=body)
    files = {loaded: "robot"} | {
        mujoco.MjModel.from_xml_path(str(file)): file.stem
        for file in folder.glob("*.urdf")
        if file.stem != "robot"
    }
    seen = set()
    for part in files:
        for body in poses(part, {}):
            seen.add(body)
            np.testing.assert_allclose(part.body(body).mass, model.body(body).mass, rtol=1e-9)
            np.testing.assert_allclose(tensor(part, body), tensor(model, body), rtol=1e-6, atol=1e-12)
    left_out = {one.name for one in exports["urdf"].left_out}
    assert seen | left_out >= {model.body(i).name for i in range(1, model.nbody) if model.body_mass[i] > 0}
    for index in range(loaded.njnt):
        joint = loaded.joint(index).name
        np.testing.assert_allclose(loaded.jnt_axis[index], model.joint(joint).axis, atol=1e-9)
        if model.jnt_limited[model.joint(joint).id]:
            np.testing.assert_allclose(loaded.jnt_range[index], model.joint(joint).range, atol=1e-9)


@pytest.mark.parametrize("name", ["franka_pick_place", "tilted"])
def test_bullet_reads_the_urdf_as_the_same_bodies_that_move_the_same(twins, name):
    bullet = pytest.importorskip("pybullet")
    twin, exports = twins[name]
    model = twin.make_model()
    client = bullet.connect(bullet.DIRECT)
    try:
        flags = bullet.URDF_USE_INERTIA_FROM_FILE
        robot = bullet.loadURDF(
            str(exports["urdf"].folder / "robot.urdf"), useFixedBase=True, flags=flags, physicsClientId=client
        )
        joints = draw_joints(model, np.random.default_rng(2))
        infos = [
            bullet.getJointInfo(robot, i, physicsClientId=client)
            for i in range(bullet.getNumJoints(robot, physicsClientId=client))
        ]
        for info in infos:
            if info[1].decode() in joints:
                bullet.resetJointState(robot, info[0], joints[info[1].decode()], physicsClientId=client)
        expected, compared = poses(model, joints), 0
        for info in infos:
            body = info[12].decode()
            if body not in expected:
                continue
            state = bullet.getLinkState(robot, info[0], computeForwardKinematics=True, physicsClientId=client)
            np.testing.assert_allclose(state[0], expected[body][0], atol=1e-6, err_msg=body)
            mass, inertia = (
                bullet.getDynamicsInfo(robot, info[0], physicsClientId=client)[i] for i in (0, 2)
            )
            np.testing.assert_allclose(mass, model.body(body).mass[0], rtol=1e-6)
            np.testing.assert_allclose(sorted(inertia), sorted(model.body(body).inertia), rtol=1e-4)
            compared += 1
        assert compared == len(infos) - sum(info[12].decode() not in expected for info in infos) >= 3
    finally:
        bullet.disconnect(client)


def stage_poses(pxr, stage, joints):
    """World frame of every rigid body that joints reach, walked from joint to joint as USD defines them."""

    def frame(place, turn):
        made = np.eye(4)
        made[:3, :3] = np.array(pxr.Gf.Matrix3d(pxr.Gf.Quatd(turn))).T  # USD's matrices act on rows
        made[:3, 3] = place
        return made

    prims = [prim for prim in stage.Traverse() if prim.IsA(pxr.UsdPhysics.Joint)]
    found, waiting = {}, prims
    while waiting:
        left = []
        for prim in waiting:
            joint = pxr.UsdPhysics.Joint(prim)
            parent, (child,) = joint.GetBody0Rel().GetTargets(), joint.GetBody1Rel().GetTargets()
            if parent and parent[0].name not in found:
                left.append(prim)
                continue
            motion, value = np.eye(4), joints.get(prim.GetName(), 0.0)
            if prim.IsA(pxr.UsdPhysics.RevoluteJoint):
                motion[1:3, 1:3] = [[np.cos(value), -np.sin(value)], [np.sin(value), np.cos(value)]]
            else:
                motion[0, 3] = value
            first = frame(joint.GetLocalPos0Attr().Get(), joint.GetLocalRot0Attr().Get())
            second = frame(joint.GetLocalPos1Attr().Get(), joint.GetLocalRot1Attr().Get())
            found[child.name] = (
                (found[parent[0].name] if parent else np.eye(4)) @ first @ motion @ np.linalg.inv(second)
            )
        assert len(left) < len(waiting), "joints that hang on nothing"
        waiting = left
    return found


@pytest.mark.parametrize("name", [*TWINS, "tilted"])
def test_usd_holds_the_same_bodies_that_move_the_same(twins, name):
    pxr = pytest.importorskip("pxr")
    from pxr import Gf, Usd, UsdGeom, UsdPhysics  # noqa: F401

    twin, exports = twins[name]
    model = twin.make_model()
    stage = Usd.Stage.Open(str(exports["usd"].folder / "twin.usda"))
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0 and UsdGeom.GetStageUpAxis(stage) == "Z"
    bodies = {prim.GetName(): prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)}
    assert bodies
    joints = draw_joints(model, np.random.default_rng(3))
    expected, walked = poses(model, joints), stage_poses(pxr, stage, joints)
    for body, prim in bodies.items():
        mass = UsdPhysics.MassAPI(prim)
        np.testing.assert_allclose(mass.GetMassAttr().Get(), model.body(body).mass[0], rtol=1e-6)
        np.testing.assert_allclose(mass.GetDiagonalInertiaAttr().Get(), model.body(body).inertia, rtol=1e-5)
        if body in walked and body in expected:
            centre = walked[body] @ [*mass.GetCenterOfMassAttr().Get(), 1.0]
            np.testing.assert_allclose(centre[:3], expected[body][0], atol=2e-6, err_msg=body)
            np.testing.assert_allclose(walked[body][:3, :3], expected[body][1], atol=2e-6, err_msg=body)
    for joint in joints:
        prim = next(p for p in stage.Traverse() if p.GetName() == joint and p.IsA(UsdPhysics.Joint))
        hinge = prim.IsA(UsdPhysics.RevoluteJoint)
        typed = UsdPhysics.RevoluteJoint(prim) if hinge else UsdPhysics.PrismaticJoint(prim)
        if model.jnt_limited[model.joint(joint).id]:
            limits = np.array([typed.GetLowerLimitAttr().Get(), typed.GetUpperLimitAttr().Get()])
            np.testing.assert_allclose(
                np.radians(limits) if hinge else limits, model.joint(joint).range, rtol=1e-5, atol=1e-7
            )
    if name == "tilted":
        drive = UsdPhysics.DriveAPI(next(p for p in stage.Traverse() if p.GetName() == "swing"), "angular")
        assert (
            drive.GetStiffnessAttr().Get() == pytest.approx(40 * np.pi / 180)
            and drive.GetMaxForceAttr().Get() == 7
        )


def test_the_sidecar_says_what_urdf_cannot(twins):
    twin, exports = twins["franka_pick_place"]
    model = twin.make_model()
    found = json.loads((exports["urdf"].folder / "twin.json").read_text())
    assert found["content_hash"] == twin.content_hash and found["control_hz"] == 50.0
    actuators = {one["name"]: one for one in found["actuators"]}
    assert actuators["joint2"]["gain"] == model.actuator("joint2").gainprm[0]
    assert actuators["gripper"]["drives"] == "tendon"
    assert found["joints"]["joint3"]["armature"] == model.joint("joint3").armature[0]
    assert found["parameters"]["action_delay_s"]["unit"] == "s"
    assert found["contacts"]["object_face_top"]["friction"] == model.geom("object_face_top").friction.tolist()
    reasons = {one.name: one.reason for one in exports["urdf"].left_out}
    assert "several joints" in reasons["distractor_1"] and "sidecar" in reasons["gripper"]
    assert "distractor_1" not in {one.name for one in exports["mjcf"].left_out}


def test_angles_and_meshes_survive_their_formats():
    rng = np.random.default_rng(4)
    for _ in range(50):
        quat, turn = rng.normal(size=4), np.zeros(9)
        mujoco.mju_quat2Mat(turn, quat / np.linalg.norm(quat))
        roll, pitch, yaw = roll_pitch_yaw(turn.reshape(3, 3))
        back = [
            np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
            for a in (roll, pitch, yaw)
        ]
        about_y, about_z = np.roll(back[1], (1, 1), (0, 1)), np.roll(back[2], (2, 2), (0, 1))
        np.testing.assert_allclose(about_z @ about_y @ back[0], turn.reshape(3, 3), atol=1e-12)
    upright = np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]])
    assert roll_pitch_yaw(upright) == pytest.approx((0.0, np.pi / 2, 0.0))
    stl = render_stl(np.eye(3), np.array([[0, 1, 2]]))
    assert len(stl) == 84 + 50 and np.frombuffer(stl[84:96], "<f4") == pytest.approx(3 * [3**-0.5])
