"""What is wrong with a robot model is found, and the options of `twinloop init` mend it."""

import mujoco
import numpy as np
import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.engines.model_check import check_model
from twinloop.errors import InvalidTwin, WrongUse
from twinloop.twins import make_twin_from_model
from twinloop.twins.meshes import LIGHT_FACES, count_faces, simplify

ARM = """
<mujoco model="two links scene">
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" range="-3.14 3.14" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>
      <body name="fore" pos="0.3 0 0">
        <joint name="elbow" axis="0 1 0" range="-2 2" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="actuator1" joint="shoulder" kp="60" kv="4"/>
    <position name="actuator2" joint="elbow" kp="30" kv="1.5"/>
  </actuator>
  <sensor><actuatorpos name="seen" actuator="actuator2"/></sensor>
</mujoco>
"""


def make(folder, text, name="scene.xml", **options):
    file = folder / name
    file.write_text(text)
    twin = make_twin_from_model(file, **options)
    return twin, check_model(file, twin, angle=options.get("angle"))


def test_a_good_model_is_named_after_the_robot_and_its_joints(tmp_path):
    twin, findings = make(tmp_path, ARM)
    assert findings == ()
    assert (twin.name, twin.robot) == ("two_links", "two_links")
    model = twin.make_model()
    assert [model.actuator(i).name for i in range(2)] == ["shoulder", "elbow"]
    assert model.sensor("seen").objid[0] == 1, "what refers to an actuator still does"
    assert twin.has("elbow_stiffness_nm_rad") and twin.has("elbow_friction_nm")


@pytest.mark.parametrize(
    ("folder", "file", "model", "name"),
    [
        ("ur5e", "scene.xml", "", "ur5e"),
        ("ur5e", "gripper.xml", "", "gripper"),
        ("x", "scene.xml", ' model="Panda Scene"', "panda"),
        ("my-arm", "robot.xml", ' model="scene"', "my_arm"),
    ],
)
def test_a_twin_is_never_called_scene(tmp_path, folder, file, model, name):
    (tmp_path / folder).mkdir()
    text = ARM.replace(' model="two links scene"', model)
    assert make(tmp_path / folder, text, file)[0].name == name


def test_radians_that_are_read_as_degrees_are_found_and_mended(tmp_path):
    wrong = ARM.replace('<compiler angle="radian"/>', "")
    twin, (finding,) = make(tmp_path, wrong)
    assert "within ±3.14 degrees: they look like radians" in finding.found
    assert finding.option == "--angle radian"
    twin, findings = make(tmp_path, wrong, angle="radian")
    assert findings == () and twin.make_model().joint("elbow").range[1] == pytest.approx(2.0)


def test_degrees_that_are_read_as_radians_are_found(tmp_path):
    _, findings = make(tmp_path, ARM.replace("-3.14 3.14", "-170 170"))
    assert "limits of shoulder are up to 170 radians: they look like degrees" in findings[0].found


def test_torque_motors_become_servos_that_hold_the_arm_within_the_motors_torque(tmp_path):
    motors = ARM.replace("<position", "<motor").replace('kp="60" kv="4"', 'gear="40" ctrlrange="-1 1"')
    motors = motors.replace('kp="30" kv="1.5"', 'gear="20"')
    _, (finding,) = make(tmp_path, motors)
    assert finding.joints == ("shoulder", "elbow") and finding.option == "--servos"
    twin, findings = make(tmp_path, motors, servos=finding.joints)
    assert findings == (), "the new servos are stable"
    model = twin.make_model()
    assert (
        list(model.actuator("shoulder").forcerange) == [-40, 40] and not model.actuator("elbow").forcelimited
    )
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos).max() < 0.02, "it holds its pose against gravity"
    with pytest.raises(
        WrongUse, match=r"no joint with an actuator is called 'wrist'; available: elbow, shoulder"
    ):
        make(tmp_path, motors, servos=("wrist",))


def test_an_unstable_servo_is_found_and_replaced(tmp_path):
    stiff = ARM.replace('kp="30" kv="1.5"', 'kp="90000" kv="1"')
    _, (finding,) = make(tmp_path, stiff)
    assert finding.check == "stability" and "elbow" in finding.joints
    assert "needs steps below" in finding.found and "implicitfast" in finding.remedy
    assert make(tmp_path, stiff, servos=finding.joints)[1] == ()


def test_joints_without_names_are_found_and_names_that_clash_are_refused(tmp_path):
    nameless = ARM.replace('<joint name="elbow"', "<joint").replace('joint="elbow"', 'joint="shoulder"')
    _, findings = make(tmp_path, nameless)
    assert "1 joint has no name; here joint_2" in findings[0].found
    with pytest.raises(InvalidTwin, match="differ only in capitals or punctuation; got Elbow-1, elbow_1"):
        make(tmp_path, ARM.replace('"shoulder"', '"Elbow-1"').replace('"elbow"', '"elbow_1"'))
    with pytest.raises(InvalidTwin, match="give every joint, body and geom a name of its own"):
        make(tmp_path, ARM.replace('name="elbow"', 'name="shoulder"'))


def test_an_actuator_that_drives_no_joint_is_found(tmp_path):
    text = ARM.replace(
        '<body name="fore" pos="0.3 0 0">', '<body name="fore" pos="0.3 0 0"><site name="jet"/>'
    )
    _, findings = make(tmp_path, text.replace("</actuator>", '<general name="jet" site="jet"/></actuator>'))
    assert any("'jet' does not drive a joint" in finding.found for finding in findings)


def test_inertias_that_no_body_has_are_balanced_and_named(tmp_path):
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="{}" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    joint = '<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="5" velocity="1"/></joint>'
    _, findings = make(
        tmp_path,
        f'<robot name="r">{link.format("base", 0.01)}{link.format("arm", 0.05)}{joint}</robot>',
        "r.urdf",
    )
    assert [finding.check for finding in findings] == ["inertias"] and "inertia of arm" in findings[0].found


def write_ball(path, rings):
    """A ball of 10 cm as Wavefront OBJ, with 2 * rings * rings faces."""
    around, up = np.meshgrid(np.arange(rings) * 2 * np.pi / rings, np.linspace(0.01, np.pi - 0.01, rings + 1))
    points = 0.1 * np.stack([np.sin(up) * np.cos(around), np.sin(up) * np.sin(around), np.cos(up)], axis=-1)
    lines = ["v {:.6f} {:.6f} {:.6f}".format(*point) for point in points.reshape(-1, 3)]
    for row in range(rings):
        for column in range(rings):
            a, b = row * rings + column + 1, row * rings + (column + 1) % rings + 1
            lines += [f"f {a} {a + rings} {b}", f"f {b} {a + rings} {b + rings}"]
    path.write_text("\n".join(lines))


def test_heavy_meshes_are_found_and_simplified_while_masses_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("twinloop.engines.model_check.HEAVY_FACES", 3000)
    write_ball(tmp_path / "ball.obj", 40)
    text = ARM.replace(
        "<worldbody>", '<asset><mesh name="ball" file="ball.obj" scale="1 2 1"/></asset><worldbody>'
    )
    text = text.replace('<body name="fore"', '<geom type="mesh" mesh="ball" pos="0.1 0 0"/><body name="fore"')
    heavy, (finding,) = make(tmp_path, text)
    assert "meshes with 3,200 faces (ball 3,200)" in finding.found and finding.option == "--light-meshes"
    light, findings = make(tmp_path, text, light_meshes=True)
    assert findings == () and list(light.assets) == ["ball-light.stl"]
    before, after = heavy.make_model(), light.make_model()
    assert 100 < count_faces(after)["ball"] <= LIGHT_FACES
    for field in ("body_mass", "body_inertia", "body_ipos"):
        np.testing.assert_allclose(getattr(after, field), getattr(before, field), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(spread(after), spread(before), atol=0.02)


def spread(model):
    """The corners of the box around the only mesh geom, in the world."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    geom = int(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)[0])
    places = np.asarray(model.mesh_vert) @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
    return places.min(axis=0), places.max(axis=0)


def test_a_sheet_too_thin_for_a_grid_becomes_a_box():
    vertices = np.array([[0, 0, 0], [1e-6, 0, 0], [0, 1e-6, 1.0]])
    found, faces = simplify(vertices, np.array([[0, 1, 2]]), 500)
    assert len(faces) == 12 and np.ptp(found, axis=0)[2] == pytest.approx(1.0)


def test_init_prints_what_it_found_and_the_command_that_mends_it(tmp_path):
    (tmp_path / "arm.xml").write_text(
        ARM.replace("<position", "<motor").replace('kp="60" kv="4"', "").replace('kp="30" kv="1.5"', "")
    )
    said = " ".join(twinloop("init", "bench", "--model", "arm.xml", cwd=tmp_path).split())
    assert "model check: 1 finding" in said and "commands are forces or torques" in said
    assert "rm -r bench && twinloop init bench --model arm.xml --servos" in said
    mended = twinloop_json("init", "mended", "--model", "arm.xml", "--servos", cwd=tmp_path)
    assert mended["findings"] == [] and mended["twin"] == "twins/two_links"
    assert "expected radian or degree" in twinloop(
        "init", "x", "--model", "arm.xml", "--angle", "turn", cwd=tmp_path, code=2
    )
    assert "--model FILE" in twinloop("init", "x", "--servos", cwd=tmp_path, code=2)
