"""A user's own MJCF or URDF becomes a working twin, and a bad file says what is wrong with it."""

import struct

import mujoco
import numpy as np
import pytest

from twinloop.errors import InvalidTwin, WrongUse
from twinloop.randomization import load_randomization
from twinloop.twins import initial_state, load_twin, make_twin_from_model, save_twin

URDF = """
<robot name="two_links">
  <link name="base"><collision><geometry><mesh filename="package://two_links/meshes/part.stl"/></geometry></collision></link>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1"/><mass value="1.0"/><inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><mesh filename="package://two_links/meshes/pretty.dae"/></geometry></visual>
    <collision><geometry><mesh filename="package://two_links/meshes/part.stl"/></geometry></collision>
  </link>
  <link name="left">
    <inertial><origin xyz="0 0 0.05"/><mass value="0.1"/><inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="right">
    <inertial><origin xyz="0 0 0.05"/><mass value="0.1"/><inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="0.2" upper="1.5" effort="20" velocity="3"/></joint>
  <joint name="finger" type="prismatic"><parent link="upper"/><child link="left"/><axis xyz="0 1 0"/><origin xyz="0 0 0.3"/>
    <limit lower="0" upper="0.04" effort="10" velocity="1"/></joint>
  <joint name="other_finger" type="prismatic"><parent link="upper"/><child link="right"/><axis xyz="0 -1 0"/><origin xyz="0 0 0.3"/>
    <limit lower="0" upper="0.04" effort="10" velocity="1"/><mimic joint="finger"/></joint>
</robot>
"""

MJCF = """
<mujoco model="my cell">
  <compiler meshdir="parts"/>
  <option timestep="0.004"/>
  <asset><mesh name="part" file="part.stl"/></asset>
  <worldbody>
    <light pos="0 0 2"/>
    <camera name="eye" pos="0 -1 1"/>
    <geom type="plane" size="1 1 1"/>
    <body><joint axis="0 1 0"/><geom type="mesh" mesh="part" pos="0 0 0.6"/><site name="chip"/><body><joint type="slide"/><geom size="0.02" pos="0 0 0.8"/></body></body>
    <body name="mug" pos="0.5 0 0.05"><freejoint/><geom type="box" size="0.03 0.03 0.05" mass="0.2"/></body>
  </worldbody>
  <actuator><motor joint="joint_1" gear="5"/></actuator>
  <sensor><gyro site="chip"/></sensor>
</mujoco>
"""


def write_stl(path):
    """A tetrahedron of 10 cm as binary STL."""
    corners = [(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)]
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    body = b"".join(
        struct.pack("<3f", 0, 0, 0) + b"".join(struct.pack("<3f", *corners[i]) for i in face) + b"\0\0"
        for face in faces
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0" * 80 + struct.pack("<I", len(faces)) + body)


@pytest.fixture
def urdf(tmp_path):
    write_stl(tmp_path / "two_links/meshes/part.stl")
    file = tmp_path / "two_links/urdf/two_links.urdf"
    file.parent.mkdir()
    file.write_text(URDF)
    return file


@pytest.fixture
def mjcf(tmp_path):
    write_stl(tmp_path / "parts/part.stl")
    file = tmp_path / "cell.xml"
    # The joint gets its name by the include, as users' files do it.
    (tmp_path / "arm.xml").write_text("<mujoco><default/></mujoco>")
    text = MJCF.replace("<body><joint axis", '<body><joint name="joint_1" axis')
    file.write_text(text.replace("<asset>", '<include file="arm.xml"/><asset>'))
    return file


def test_a_urdf_with_meshes_becomes_a_twin_that_holds_its_pose(urdf):
    twin = make_twin_from_model(urdf)
    assert (twin.name, twin.control_hz, sorted(twin.assets)) == ("two_links", 50.0, ["part.stl"])
    model = twin.make_model()
    assert [model.actuator(i).name for i in range(model.nu)] == ["shoulder", "finger"]
    assert list(model.actuator("shoulder").forcerange) == [-20, 20]
    assert twin.home["shoulder"] == pytest.approx(0.2)
    data = mujoco.MjData(model)
    start = initial_state(twin, {}, 1)
    data.qpos[:], data.ctrl[:] = start.qpos[0], start.ctrl[0]
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert abs(data.joint("shoulder").qpos[0] - 0.2) < 0.03
    data.ctrl[1] = 0.03
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert data.joint("other_finger").qpos[0] == pytest.approx(data.joint("finger").qpos[0], abs=2e-3)
    assert data.joint("finger").qpos[0] == pytest.approx(0.03, abs=5e-3)


def test_the_parameters_of_a_users_cell_are_listed_with_the_files_numbers(urdf):
    twin = make_twin_from_model(urdf)
    names = {parameter.name for parameter in twin.parameters}
    assert {
        "shoulder_friction_nm",
        "shoulder_damping_nms_rad",
        "shoulder_armature_kgm2",
        "shoulder_stiffness_nm_rad",
        "shoulder_servo_damping_nms_rad",
        "shoulder_force_limit_nm",
        "finger_stiffness_n_m",
        "finger_friction_n",
        "action_delay_s",
        "shoulder_backlash_rad",
        "shoulder_encoder_bias_rad",
        "servo_stiffness_scale",
    } <= names
    assert twin.parameter("shoulder_force_limit_nm").nominal == 20.0
    model = twin.make_model({"shoulder_friction_nm": 0.7, "shoulder_force_limit_nm": 5.0})
    assert model.dof_frictionloss[0] == 0.7
    assert list(model.actuator("shoulder").forcerange) == [-5, 5]


def test_an_mjcf_with_meshes_includes_and_nameless_parts_becomes_a_twin(mjcf):
    twin = make_twin_from_model(mjcf, name="my_cell")
    assert (twin.name, twin.roles, twin.control_hz) == ("my_cell", {"object": "mug"}, 50.0)
    assert [camera.name for camera in twin.cameras] == ["eye"]
    assert twin.parameter("object_mass_kg").nominal == pytest.approx(0.2)
    assert twin.has("joint_1_gain_scale")
    assert twin.has("joint_2_damping_ns_m")
    assert twin.has("gyro_bias_rad_s") and not twin.has("force_bias_n")
    config = {
        "randomization": {"physics": {"object_mass_kg": [0.1, 0.4], "friction_coefficient": [0.4, 1.2]}}
    }
    assert load_randomization(config, twin).names == ["object_mass_kg", "object_friction"]


def test_names_that_no_parameter_could_have_are_made_into_words(urdf):
    urdf.write_text(URDF.replace('"shoulder"', '"left/Shoulder-1"'))
    twin = make_twin_from_model(urdf)
    assert twin.has("left_shoulder_1_backlash_rad") and twin.has("left_shoulder_1_friction_nm")


def test_a_users_twin_survives_its_folder_without_the_original_files(mjcf, tmp_path):
    twin = make_twin_from_model(mjcf)
    folder = save_twin(twin, tmp_path / "saved")
    (tmp_path / "parts/part.stl").unlink()
    mjcf.unlink()
    again = load_twin(folder)
    assert again == twin
    np.testing.assert_array_equal(again.make_model().mesh_vert, twin.make_model().mesh_vert)


def test_a_control_rate_is_moved_to_a_whole_number_of_steps(mjcf):
    assert make_twin_from_model(mjcf, control_hz=60.0).control_hz == 62.5


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a.xml", "not xml", "is not XML"),
        ("a.xml", "<html/>", r"got <html>; expected <mujoco> \(MJCF\) or <robot> \(URDF\)"),
        ("a.xml", "<mujoco><worldbody><bodyy/></worldbody></mujoco>", "bodyy"),
        ("a.xml", "<mujoco><asset><mesh name='m' file='absent.stl'/></asset></mujoco>", "absent.stl"),
        ("a.urdf", "<robot name='r'><link/></robot>", "not a URDF"),
        ("a.urdf", "<robot name='r'/>", "has no joints"),
        ("a.urdf", URDF.replace("part.stl", "absent.stl"), "missing mesh; got package://two_links/meshes/absent"),
        ("a.urdf", URDF.replace("package://two_links/meshes/part.stl", "part.dae"), "does not read; got part.dae"),
        ("a.urdf", URDF.replace('mimic joint="finger"', 'mimic joint="thumb"'), "mimics a joint that does not exist"),
        ("a.urdf", URDF.replace('<mass value="1.0"/>', '<mass value="0"/>'), "does not compile"),
    ],
)  # fmt: skip
def test_a_bad_file_says_what_is_wrong(tmp_path, file, text, words):
    write_stl(tmp_path / "two_links/meshes/part.stl")
    (tmp_path / "part.dae").write_text("<COLLADA/>")
    (tmp_path / file).write_text(text)
    with pytest.raises(InvalidTwin, match=words):
        make_twin_from_model(tmp_path / file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(WrongUse, match="is not a file"):
        make_twin_from_model(tmp_path / "absent.xml")
