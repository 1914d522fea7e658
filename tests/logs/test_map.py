"""A map says what is wrong with it; a proposed map says how sure it is."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.logs import examples
from twinloop.errors import LogError, MapError
from twinloop.logs.guess import (
    guess_angle,
    guess_clock_unit,
    guess_leader,
    guess_quaternion,
    guess_role,
    multiply_quaternions,
)
from twinloop.logs.ingest import ingest
from twinloop.logs.joints import Joints, load_joints
from twinloop.logs.log_map import load_map, parse_map
from twinloop.logs.propose import propose_map
from twinloop.logs.units import LOG_UNITS, conversion, stored_unit
from twinloop.twins.load import load_twin

GOOD = """
rate_hz: 50
provenance: {source: real}
clock: t
signals: {observation.state: {from: q, unit: rad}}
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rate_hz: 50", "rate_hz: -1"), "rate_hz: Input should be greater than 0"),
        (("rate_hz: 50\n", ""), "rate_hz is missing"),
        (("unit: rad", "unit: radd"), "no unit is called 'radd'.*did you mean 'rad'"),
        (("unit: rad", "units: rad"), "(?s)signals.observation.state.*did you mean 'unit'"),
        (("clock: t", "clok: t"), "(?s)clok is not a key of a map.*did you mean 'clock'"),
        (("source: real", "source: reel"), "provenance.source"),
        (("clock: t", "clock: {channel: t, rate_hz: 3}"), "either channel or rate_hz"),
        (("clock: t", "rows: {like: observation.stat}"), "did you mean 'observation.state'"),
        (("unit: rad", "unit: rad, rotate_by: x"), "rotate_by: nothing is called 'x'"),
        (("clock: t", "episodes: {by: gaps}"), "by: gaps needs gap_s"),
        (("clock: t", "cameras: {a: {}}"), "give either from or file"),
        (("unit: rad", "unit: rad, scale: 0"), "scale.*would erase the signal"),
        (("unit: rad", "unit: rad, sign: [1, 0]"), "sign.*would erase the signal"),
        (("unit: rad", "unit: rad, to: []"), "at least 1 item"),
        (("unit: rad", "unit: []"), "at least 1 item"),
        (("clock: t", "clock: " + "[" * 100_000), "levels of nesting"),
        (("clock: t", "- a"), "is not YAML"),
        (("rate_hz: 50", "rate_hz: !!python/object/apply:os.system ['true']"), "is not YAML"),
    ],
)
def test_a_wrong_map_is_answered_with_the_key_and_the_nearest_right_one(change, message):
    with pytest.raises(MapError, match=message):
        parse_map(GOOD.replace(*change))


def test_a_map_that_is_not_there_points_to_propose(tmp_path):
    with pytest.raises(MapError, match="--propose"):
        load_map(tmp_path / "map.yaml")


def test_units_that_do_not_belong_together_are_refused(tmp_path):
    examples.write_npz(tmp_path / "a.npz")
    with pytest.raises(MapError, match="'rad' cannot be converted to 'm'"):
        ingest(tmp_path / "a.npz", tmp_path / "out", parse_map(GOOD.replace("unit: rad", "unit: rad, to: m")))


def test_every_unit_converts_to_its_stored_unit_and_back():
    for unit in LOG_UNITS:
        factor, shift = conversion(unit, stored_unit(unit))
        back, unshift = conversion(stored_unit(unit), unit)
        assert (3.0 * factor + shift) * back + unshift == pytest.approx(3.0)
    assert conversion("deg", "rad")[0] == pytest.approx(np.pi / 180)
    assert conversion("°C", "K") == (1.0, 273.15)


def test_something_that_is_no_quaternion_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.arange(5) / 50, q=np.ones((5, 4)))
    log_map = parse_map(GOOD.replace("unit: rad", "unit: '1', quaternion: wxyz"))
    with pytest.raises(LogError, match=r"not a unit quaternion at sample 0; got norm 2\.000"):
        ingest(tmp_path / "a.npz", tmp_path / "out", log_map)


TWIN = Joints(examples.JOINTS, ((-1.0, 1.0),) * 3)


def test_names_tell_roles():
    expected = {
        "a/cmd": "command",
        "entries.goal_position": "command",
        "/joint_states.position": "position",
        "q_desired": "command",
        "omega_body": "angular velocity",
        "t_cmd": "time",
        "tau1": "torque",
        "quat_wxyz": "quaternion",
        "banana": None,
    }
    assert {name: guess_role(name) for name in expected} == expected


def test_ranges_tell_degrees_from_radians_better_with_a_twin():
    small = np.random.default_rng(0).uniform(-20, 20, (50, 3))
    assert guess_angle(np.radians(small)).value == "rad"
    assert guess_angle(10 * small).value == "deg"
    without, with_twin = guess_angle(small / 10), guess_angle(small / 10, TWIN)
    assert (without.value, with_twin.value) == ("rad", "deg"), (
        "2 rad is beyond the twin's joints, 2 deg is not"
    )
    assert with_twin.confidence > without.confidence


@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
@pytest.mark.parametrize("frame", ["body", "world"])
def test_an_angular_velocity_tells_quaternion_order_and_frame(order, frame):
    rng = np.random.default_rng(3)
    time_s = np.arange(200) * 0.01
    omega = np.cumsum(rng.normal(0, 0.5, (200, 3)), axis=0) + np.array([1, 2, -3])
    rotation = np.zeros((200, 4))
    rotation[0] = [0.3, 0.5, -0.6, np.sqrt(1 - 0.09 - 0.25 - 0.36)]
    for k in range(199):
        size = np.linalg.norm(omega[k]) * 0.01
        step = np.append(np.cos(size / 2), np.sin(size / 2) * omega[k] / np.linalg.norm(omega[k]))[None]
        now = rotation[k][None]
        rotation[k + 1] = (
            multiply_quaternions(now, step) if frame == "body" else multiply_quaternions(step, now)
        )
    stored = rotation if order == "wxyz" else rotation[:, [1, 2, 3, 0]]
    guess, where = guess_quaternion("rotation", (), stored, omega, time_s)
    assert (guess.value, where.value) == (order, frame)
    assert guess.confidence > 0.9


def test_clocks_and_leaders_are_told_apart():
    assert guess_clock_unit(np.arange(5) * 20 + 1_760_000_000_000).value == "ms"
    assert guess_clock_unit(np.arange(5) * 0.02).value == "s"
    assert guess_clock_unit(np.arange(5) * 20_000).value == "us"
    assert guess_clock_unit(np.arange(5) * 20_000_000).value == "ns"
    wave = np.cumsum(np.random.default_rng(0).normal(size=(500, 2)), axis=0)
    late = np.roll(wave, 5, axis=0)
    assert guess_leader(wave[10:], late[10:]) == 1
    assert guess_leader(late[10:], wave[10:]) == -1


@pytest.mark.parametrize("kind", ["csv", "npz", "json", "hdf5", "mcap", "rosbag2"])
def test_a_proposed_map_is_complete_marks_every_guess_and_ingests_the_log(tmp_path, kind):
    from tests.logs.test_readers import CHANNELS

    name, write, _ = CHANNELS[kind]
    path = write(tmp_path / name)
    text = propose_map(path)
    log_map = parse_map(text)
    for line in text.splitlines():
        if re.match(r"\s+unit: ", line) and '"1"' not in line:
            assert "# confidence" in line, line
    with pytest.raises(MapError, match="unreviewed guess"):
        ingest(path, tmp_path / "out", log_map, map_text=text)
    done = ingest(path, tmp_path / "out", log_map, map_text=text, accept_guesses=True)
    assert len(done.dataset) == 1
    kept = done.dataset.root / "meta/twinloop/ingest" / done.dataset.id
    assert (kept / "map.yaml").read_text() == text
    accepted = done.dataset.episode(0).provenance.software["accepted_guesses"]
    assert "(source) is an unreviewed guess" in accepted
    assert examples.load_reports(done.dataset)[done.dataset.id]["accepted_guesses"]


def test_a_twin_names_the_joints_and_their_order(tmp_path):
    examples.write_mcap_json(tmp_path / "a.mcap")
    text = propose_map(tmp_path / "a.mcap", Joints(("wrist", "Elbow", "shoulder"), TWIN.ranges))
    assert "columns: [2, 1, 0]" in text and "reordered to the twin's order" in text


def test_maps_in_the_docs_parse():
    for path in (Path(__file__).parents[2] / "docs/maps").glob("*.yaml"):
        load_map(path)
        assert yaml.safe_load(path.read_text())["provenance"]["licence"], f"{path.name} names no licence"


def test_a_built_in_twin_gives_its_joints(tmp_path):
    joints = load_joints("so101_pick_place")
    assert joints.names == tuple(load_twin("so101_pick_place").home)
    assert all(low < high for low, high in joints.ranges)
    fingers = load_joints("franka_pick_place")
    assert fingers.names[7:] == ("gripper", "finger_joint1", "finger_joint2"), (
        "what lies on the table is not the robot's"
    )
    assert fingers.units[7:] == ("m", "m", "m")
