"""Conversions between our robot and a foreign policy, each against known truth."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Turn

from twinloop.episode import Camera, Schema, Signal
from twinloop.errors import MapError, PolicyGone
from twinloop.policies.mapping.arm_pose import ArmPose
from twinloop.policies.mapping.decode import ActionDecoder, At, resample
from twinloop.policies.mapping.encode import InputEncoder, Observed
from twinloop.policies.mapping.frames import convert_frames
from twinloop.policies.mapping.interface_map import ImageInput, parse_interface_map
from twinloop.policies.mapping.rotations import SIZES, rotation_from_numbers, rotation_to_numbers
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

SCHEMA = Schema(
    (
        Signal("observation.state", (3,), ("rad", "rad", "m"), elements=("a.pos", "b.pos", "g.pos")),
        Signal("action", (3,), ("rad", "rad", "m"), elements=("a.target", "b.target", "g.target")),
    ),
    50.0,
    (Camera("front", 8, 16),),
)
GRIPPER = "{gripper: g.target, open: 1, closed: -1, opened_at: 0.08, closed_at: 0}"
BOTH = "elements: [b.target, a.target]"


def make_map(inputs="x: {from: observation.state}", actions=f"[{{{BOTH}}}, {GRIPPER}]", more=""):
    return parse_interface_map(f"policy: 'onnx:x'\ninputs: {{{inputs}}}\nactions: {actions}\n{more}")


def encode(inputs, state, **more):
    encoder = InputEncoder(make_map(inputs, **more), SCHEMA, None)
    state = np.asarray(state, float)
    state = state if state.ndim == 2 else state[None]
    observed = Observed({"observation.state": state[None]}, {}, ["go"], np.array([[7.0, 8.0]]))
    return encoder.encode(observed)


def decode(actions, raw, reading=(0.1, 0.2, 0.03), before=(0.4, 0.5, 0.06)):
    decoder = ActionDecoder(make_map(actions=actions), SCHEMA, None)
    at = At(np.array([reading]), np.array([before]), np.array([[0.7, 0.8, 0.09]]))
    pending = decoder.decode(np.asarray(raw, float)[None], at)
    now = np.array([[1.0, 2.0, 0.0]])
    return np.stack([decoder.settle(pending[:, step], now)[0] for step in range(pending.shape[1])])


def test_elements_come_in_the_policys_order_unit_sign_scale_and_offset():
    made = encode("x: {from: observation.state, elements: [b.pos, a.pos], unit: deg, sign: [1, -1], offset: 10}", [0.1, 0.2, 0.03])  # fmt: skip
    assert made["x"] == pytest.approx(np.array([[np.degrees(0.2) + 10, -np.degrees(0.1) + 10]]))
    made = encode("x: {from: observation.state, elements: g.pos, unit: mm, scale: 0.1}", [0.1, 0.2, 0.03])
    assert made["x"] == pytest.approx(np.array([[3.0]]))


def test_a_vector_is_put_together_from_signals_constants_and_the_last_action():
    parts = "[{from: observation.state, elements: b.pos}, {constant: [5, 6]}, {last_action: true}]"
    made = encode(f"x: {{parts: {parts}}}, t: {{task: true}}, u: {{text: hello}}", [0.1, 0.2, 0.03])
    assert made["x"] == pytest.approx(np.array([[0.2, 5, 6, 7, 8]]))
    assert made["t"] == ["go"] and made["u"] == ["hello"]


def test_history_is_an_axis_or_one_long_vector():
    rows = [[1, 2, 3], [4, 5, 6]]
    given = "x: {from: observation.state}"
    assert encode(given, rows, more="history: [-1, 0]")["x"].tolist() == [rows]
    assert encode(given, rows, more="history: [-1, 0]\nflatten_history: true")["x"].tolist() == [[1, 2, 3, 4, 5, 6]]  # fmt: skip


def test_commands_come_back_in_our_order_and_unit():
    raw = [[np.degrees(0.2) + 10, -np.degrees(0.1) + 10, 1.0], [10, 10, -1.0]]
    made = decode(f"[{{{BOTH}, unit: deg, sign: [1, -1], offset: 10}}, {GRIPPER}]", raw)
    assert made == pytest.approx(np.array([[0.1, 0.2, 0.08], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("relative_to", "expected"),
    [
        ("nothing", [[2.0, 1.0], [4.0, 3.0]]),
        ("chunk_start", [[2.1, 1.2], [4.1, 3.2]]),
        ("previous", [[2.4, 1.5], [6.4, 4.5]]),
        ("reading", [[3.0, 3.0], [5.0, 5.0]]),
    ],
)
def test_relative_actions_are_added_to_what_the_map_says(relative_to, expected):
    made = decode(f"[{{{BOTH}, relative_to: {relative_to}}}, {GRIPPER}]", [[1, 2, 0], [3, 4, 0]])
    assert made[:, :2] == pytest.approx(np.array(expected))


def test_a_difference_in_degrees_has_no_offset():
    made = decode(f"[{{{BOTH}, unit: deg, offset: 90, relative_to: chunk_start}}, {GRIPPER}]", [[0, 180, 0]])
    assert made[0, :2] == pytest.approx([0.1 + np.pi, 0.2])


def test_a_gripper_with_a_threshold_is_open_or_closed_whichever_end_is_larger():
    upward = GRIPPER.replace("closed: -1", "closed: -1, threshold: 0.5")
    assert decode(f"[{{{BOTH}}}, {upward}]", [[0, 0, 0.4], [0, 0, 0.6]])[:, 2].tolist() == [0.0, 0.08]
    downward = "{gripper: g.target, open: 0, closed: 1, threshold: 0.5, opened_at: 0.08, closed_at: 0}"
    assert decode(f"[{{{BOTH}}}, {downward}]", [[0, 0, 0.4], [0, 0, 0.6]])[:, 2].tolist() == [0.08, 0.0]


def test_numbers_without_use_are_left_out_and_joints_without_numbers_stay():
    made = decode("[{ignore: 2}, {elements: [b.target]}, {hold: [a.target, g.target]}]", [[9, 9, 5]])
    assert made.tolist() == [[0.7, 5.0, 0.09]]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (f"[{{{BOTH}}}]", "(?s)nothing commands g.target.*hold: .g.target"),
        (f"[{{{BOTH}}}, {{elements: [a.target, g.target]}}]", "a.target is commanded twice"),
        (f"[{{{BOTH}, unit: m}}, {GRIPPER}]", "actions.0.unit: 'rad' cannot be converted to 'm'"),
        (f"[{{{BOTH}, sign: [1, 1, 1]}}, {GRIPPER}]", "actions.0.sign: wrong number of values"),
        ("[{elements: [a.targett]}]", "actions.0: nothing is called 'a.targett'.*did you mean 'a.target'"),
        (f"[{{{BOTH}}}, {{gripper: g.target, open: 1, closed: 0}}]", "(?s)are not known.*opened_at"),
        ("[{pose: tool}]", "(?s)a pose needs the robot's twin.*twin: NAME"),
    ],
)
def test_a_map_that_does_not_fit_the_robot_is_refused(actions, message):
    with pytest.raises(MapError, match=message):
        ActionDecoder(make_map(actions=actions), SCHEMA, None)


def test_chunks_at_another_rate_glide_and_grippers_jump():
    chunk = np.array([[[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]])
    faster = resample(chunk, 2.0, [1])
    assert faster[0].tolist() == [[0, 0], [0.5, 0], [1, 1], [1.5, 1], [2, 0], [2, 0]]
    assert resample(chunk, 0.5, [])[0].tolist() == [[0, 0]]
    assert resample(chunk, 1.0, []) is chunk


@pytest.mark.parametrize("layout", sorted(SIZES))
def test_a_rotation_survives_each_layout(layout):
    matrices = Turn.random(50, random_state=3).as_matrix()
    numbers = rotation_to_numbers(matrices, layout)
    assert numbers.shape == (50, SIZES[layout])
    assert np.abs(rotation_from_numbers(numbers, layout) - matrices).max() < 1e-12


def test_rotation_layouts_mean_what_the_field_means():
    quarter = np.array([[[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]])  # a quarter turn about z
    half = np.sqrt(0.5)
    assert rotation_to_numbers(quarter, "quaternion_wxyz")[0] == pytest.approx([half, 0, 0, half])
    assert rotation_to_numbers(quarter, "quaternion_xyzw")[0] == pytest.approx([0, 0, half, half])
    assert rotation_to_numbers(quarter, "rotation_vector")[0] == pytest.approx([0, 0, np.pi / 2])
    assert rotation_to_numbers(quarter, "matrix_6d")[0] == pytest.approx([0, 1, 0, -1, 0, 0])
    x_then_y = rotation_from_numbers(np.array([[0.3, 0.4, 0.0]]), "euler_xyz")[0]
    assert x_then_y == pytest.approx(Turn.from_rotvec([0, 0.4, 0]).as_matrix() @ Turn.from_rotvec([0.3, 0, 0]).as_matrix())  # fmt: skip


def test_a_rotation_of_zeros_is_no_rotation():
    for layout in ("quaternion_wxyz", "matrix_6d", "matrix"):
        with pytest.raises(PolicyGone, match="without a direction"):
            rotation_from_numbers(np.zeros((1, SIZES[layout])), layout)


def frames():
    """Red from the left to the right, green from the top to the bottom, blue 10."""
    made = np.full((1, 8, 16, 3), 10, np.uint8)
    made[0, :, :, 0] = np.arange(16) * 16
    made[0, :, :, 1] = np.arange(8)[:, None] * 32
    return made


def test_frames_are_cropped_padded_or_stretched():
    crop = convert_frames(frames(), ImageInput(camera="front", size=(8, 8)))
    assert np.array_equal(crop, frames()[:, :, 4:12]), "the middle, not resized"
    padded = convert_frames(frames(), ImageInput(camera="front", size=(16, 16), fit="pad"))
    assert np.array_equal(padded[:, 4:12], frames()) and not padded[:, :4].any() and not padded[:, 12:].any()
    stretched = convert_frames(frames(), ImageInput(camera="front", size=(8, 8), fit="stretch"))
    assert stretched.shape == (1, 8, 8, 3) and np.array_equal(stretched[0, :, :, 1], frames()[0, :, :8, 1])
    assert np.abs(stretched[0, 4, 1:-1, 0] - (np.arange(1, 7) * 32 + 8.0)).max() <= 1, "mean of two columns"


def test_channels_layout_range_and_normalisation_follow_each_other():
    plain = convert_frames(frames(), ImageInput(camera="front"))
    assert plain.dtype == np.uint8 and np.array_equal(plain, frames())
    turned = convert_frames(frames(), ImageInput(camera="front", channels="bgr", layout="chw"))
    assert turned.shape == (1, 3, 8, 16) and np.array_equal(turned[0, 2], frames()[0, :, :, 0])
    scaled = convert_frames(frames(), ImageInput(camera="front", value_range=(-1, 1)))
    assert scaled.dtype == np.float32 and scaled[..., 2] == pytest.approx(10 / 127.5 - 1)
    normal = convert_frames(frames(), ImageInput(camera="front", mean=(0.5, 0.5, 0.1), std=(1, 1, 0.2)))
    assert normal[..., 2] == pytest.approx((10 / 255 - 0.1) / 0.2, abs=1e-6)


@pytest.mark.parametrize(("name", "unreached"), [("franka_pick_place", 0.01), ("so101_pick_place", 0.0)])
def test_inverse_kinematics_brings_the_tool_where_forward_kinematics_says(name, unreached):
    """Goals of a chunk, a few tens of degrees from where the arm is; 10 um and 0.1 mrad are far below any arm's repeatability."""
    twin = load_twin(name)
    arm, rng = ArmPose(twin), np.random.default_rng(0)
    home = np.array([twin.home.get(joint, 0.0) for joint in arm.names])
    cell = make_cell(twin)
    ends = cell.control_low[arm.actuators], cell.control_high[arm.actuators]
    goals = np.clip(home + rng.normal(0.0, 0.2, (200, len(home))), *ends)
    positions, rotations = arm.forward(goals)
    solved = arm.inverse(np.tile(home, (200, 1)), positions, rotations)
    reached = (solved.position_error_m < 1e-5) & (solved.rotation_error_rad < 1e-4)
    assert 1 - reached.mean() <= unreached
    there, turned = arm.forward(solved.joints)
    assert np.linalg.norm(there - positions, axis=1)[reached].max() < 1e-5
    assert np.abs(turned - rotations)[reached].max() < 1e-4
    alone = arm.inverse(home[None], positions[7:8], rotations[7:8])
    assert np.array_equal(alone.joints[0], solved.joints[7]), "a goal is solved by itself"
