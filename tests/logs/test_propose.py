"""A proposed map groups channels, reads units off names, and asks the twin where names and ranges leave a doubt."""

import json

import numpy as np
import pytest
import yaml

from twinloop.errors import MapError
from twinloop.logs.bundle import find_bundles, split_unit
from twinloop.logs.ingest import ingest
from twinloop.logs.joints import Joints, load_joints
from twinloop.logs.log_map import parse_map
from twinloop.logs.propose import propose_map


@pytest.fixture(scope="module")
def franka():
    joints = load_joints("franka_pick_place")
    return joints.select(joints.known.orders[9])


def arm_motion(joints, amplitude=0.35, rows=400, seed=0):
    """(time, joint positions in rad and m, the tool's positions and quaternions) of a smooth motion."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(rows) * 0.02
    low, high = np.array(joints.ranges).T
    phase, speed = rng.uniform(0, 6, len(joints)), rng.uniform(0.3, 1.2, len(joints))
    q = (low + high) / 2 + amplitude * (high - low) * np.sin(time_s[:, None] * speed + phase)
    return time_s, q, *joints.tool_poses(q)


def write_csv(path, columns):
    table = np.column_stack(list(columns.values()))
    np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="", fmt="%.12g")
    return path


def test_units_are_read_off_names():
    expected = {
        "elbow_deg": ("elbow", "deg"),
        "tcp_x_mm": ("tcp_x", "mm"),
        "time_ms": ("time", "ms"),
        "speed [rad/s]": ("speed", "rad/s"),
        "vel_rad_s": ("vel", "rad/s"),
        "tau_nm": ("tau", "N·m"),
        "elbow": ("elbow", None),
        "arm [left]": ("arm [left]", None),
    }
    assert {name: split_unit(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("names", "label", "sources", "elements"),
    [
        (
            ["joint2", "joint1", "joint10"],
            "joint",
            ("joint1", "joint2", "joint10"),
            ("joint1", "joint2", "joint10"),
        ),
        (["q0_deg", "q1_deg"], "q", ("q0_deg", "q1_deg"), ("q0", "q1")),
        (["cmd_1", "cmd_2"], "cmd", ("cmd_1", "cmd_2"), ("joint1", "joint2")),
        (["x", "y", "z"], "xyz", ("x", "y", "z"), ("x", "y", "z")),
        (["vel_x", "vel_y", "vel_z"], "vel", ("vel_x", "vel_y", "vel_z"), ("x", "y", "z")),
        (["qx", "qy", "qz", "qw"], "q_quat", ("qx", "qy", "qz", "qw"), ("x", "y", "z", "w")),
    ],
)
def test_channels_that_belong_together_are_found_by_name(names, label, sources, elements):
    (found,) = find_bundles(names)
    assert (found.label, found.sources, found.elements) == (label, sources, elements)


def test_the_same_joints_with_two_roles_are_two_groups():
    groups = {g.label: g for g in find_bundles(["elbow", "wrist", "elbow_cmd", "wrist_cmd", "battery"])}
    assert groups["position"].sources == ("elbow", "wrist")
    assert groups["cmd"].sources == ("elbow_cmd", "wrist_cmd")
    assert groups["cmd"].elements == groups["position"].elements == ("elbow", "wrist")


def test_a_twins_joints_are_found_in_its_order_and_what_is_missing_is_said():
    joints = Joints(("shoulder_pan", "elbow_flex", "gripper"), ((-1.0, 1.0),) * 3)
    (found,) = find_bundles(["elbow_flex.pos", "shoulder_pan.pos"], joints)
    assert found.sources == ("shoulder_pan.pos", "elbow_flex.pos")
    assert "gripper" in found.guess.reason and found.guess.confidence < 0.9


def test_a_table_of_joints_becomes_one_state_and_one_action(tmp_path, franka):
    time_s, q, tool, turn = arm_motion(franka)
    columns = {"time_ms": 1000 * time_s}
    columns |= {f"joint{i + 1}": np.degrees(q[:, i]) for i in range(7)}
    columns |= {f"joint{i + 1}_cmd": np.degrees(np.roll(q[:, i], -5)) for i in range(7)}
    columns |= {f"tcp_{letter}": 1000 * tool[:, i] for i, letter in enumerate("xyz")}
    columns |= {f"q{letter}": turn[:, i] for i, letter in ((1, "x"), (2, "y"), (3, "z"), (0, "w"))}
    path = write_csv(tmp_path / "run.csv", columns)
    for twin in (None, franka):
        proposed = yaml.safe_load(propose_map(path, twin))
        assert proposed["clock"] == {"channel": "time_ms", "unit": "ms"}
        signals = proposed["signals"]
        assert signals["observation.state"]["from"] == [f"joint{i + 1}" for i in range(7)]
        assert signals["observation.state"]["unit"] == signals["action"]["unit"] == "deg"
        assert signals["action"]["from"] == [f"joint{i + 1}_cmd" for i in range(7)]
        assert signals["observation.tcp"]["unit"] == "mm"
        assert signals["observation.q_quat"]["quaternion"] == "xyzw"
    done = ingest(path, tmp_path / "out", parse_map(propose_map(path, franka)), accept_guesses=True)
    episode = done.dataset.episode(0)
    np.testing.assert_allclose(episode["observation.state"], q[:, :7], atol=1e-9)
    np.testing.assert_allclose(episode["observation.tcp"], tool, atol=1e-9)


@pytest.mark.parametrize(("unit", "factor"), [("m", 1.0), ("mm", 1000.0), ("cm", 100.0)])
@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_the_twins_tool_tells_length_and_quaternion_order(tmp_path, franka, unit, factor, order):
    time_s, q, tool, turn = arm_motion(franka)
    base = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])  # the cell's frame is not the robot's
    stored = turn if order == "wxyz" else turn[:, [1, 2, 3, 0]]
    np.savez(tmp_path / "run.npz", t=time_s, q=q, tcp=factor * (tool @ base.T + 0.3), rot=stored)
    text = propose_map(tmp_path / "run.npz", franka)
    signals = yaml.safe_load(text)["signals"]
    assert signals["observation.tcp"]["unit"] == unit
    assert signals["observation.rot"]["quaternion"] == order
    assert "the twin's tool" in text


@pytest.mark.parametrize("unit", ["rad", "deg"])
def test_where_ranges_cannot_tell_degrees_from_radians_the_tool_does(tmp_path, unit):
    joints = load_joints("so101_pick_place")
    rng = np.random.default_rng(1)
    time_s = np.arange(500) * 0.02
    q = 0.02 * np.sin(time_s[:, None] * rng.uniform(0.5, 2, 6) + rng.uniform(0, 6, 6))
    tool, _ = joints.tool_poses(q)
    np.savez(tmp_path / "run.npz", t=time_s, q=np.degrees(q) if unit == "deg" else q, tcp=tool)
    text = propose_map(tmp_path / "run.npz", joints)
    line = next(line for line in text.splitlines() if line.strip().startswith("unit:"))
    assert f'"{unit}"' in line and "the twin's tool then moves" in line


def test_an_empty_unit_is_refused_unless_a_reason_or_a_person_answers_for_it(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.arange(50) / 50, load=np.arange(50.0))
    text = (
        "rate_hz: 50\nprovenance: {source: real}\nclock: t\n"
        "signals: {observation.load: {from: load, unit: unknown REASON}}\n"
    )
    silent = parse_map(text.replace(" REASON", ""))
    with pytest.raises(MapError, match=r"signals.observation.load.unit is unknown") as refused:
        ingest(tmp_path / "a.npz", tmp_path / "out", silent)
    assert "fill in each unit" in refused.value.remedy and "--accept-guesses" in refused.value.remedy
    assert not (tmp_path / "out").exists()
    done = ingest(tmp_path / "a.npz", tmp_path / "accepted", silent, accept_guesses=True)
    software = done.dataset.episode(0).provenance.software
    assert software["accepted_guesses"] == "signals.observation.load.unit is unknown"
    reasoned = parse_map(text.replace(" REASON", ", unknown_because: servo units"))
    done = ingest(tmp_path / "a.npz", tmp_path / "reasoned", reasoned)
    assert "accepted_guesses" not in done.dataset.episode(0).provenance.software


def test_a_name_that_the_numbers_contradict_is_in_doubt(tmp_path):
    path = write_csv(
        tmp_path / "run.csv", {"time": np.arange(99) / 50, "elbow_pos_rad": np.linspace(0, 90, 99)}
    )
    line = next(line for line in propose_map(path).splitlines() if "unit:" in line and "rad" in line)
    assert "values reach 90" in line and "CHECK" in line


UR5E = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")


def ur5e_motion(rows=500):
    """(time, positions, commands) of six joints in rad at 125 Hz; the position lags by 50 ms."""
    time_s = np.arange(rows) / 125
    tones, shift = 0.5 + 0.2 * np.arange(6), np.arange(6)
    return time_s, *(
        0.8 * np.sin(tones * (time_s[:, None] - lag) + shift) - 0.2 * shift for lag in (0.05, 0.0)
    )


@pytest.mark.parametrize(
    ("measured", "commanded"),
    [
        ("actual_{}", "target_{}"),
        ("actual_{}_position", "target_{}_position"),
        ("{}.pos", "{}.goal"),
        ("{}", "{}_cmd"),
        ("measured/{}", "desired/{}"),
    ],
)
def test_measured_and_commanded_values_of_the_same_joints_are_state_and_action(tmp_path, measured, commanded):
    time_s, position, command = ur5e_motion()
    columns = {"timestamp": time_s}
    columns |= {measured.format(name): np.degrees(position[:, i]) for i, name in enumerate(UR5E)}
    columns |= {commanded.format(name): np.degrees(command[:, i]) for i, name in enumerate(UR5E)}
    signals = yaml.safe_load(propose_map(write_csv(tmp_path / "run.csv", columns)))["signals"]
    assert set(signals) == {"observation.state", "action"}
    assert signals["observation.state"]["from"] == [measured.format(name) for name in UR5E]
    assert signals["action"]["from"] == [commanded.format(name) for name in UR5E]
    for signal in signals.values():
        assert signal["elements"] == list(UR5E) and signal["unit"] == "deg"


def test_one_joint_is_enough_where_names_say_measured_and_commanded(tmp_path):
    time_s, position, command = ur5e_motion()
    columns = {
        "t": time_s,
        "actual_elbow": position[:, 2],
        "target_elbow": command[:, 2],
        "actual_width": time_s,
    }
    signals = yaml.safe_load(propose_map(write_csv(tmp_path / "run.csv", columns)))["signals"]
    assert signals["observation.state"]["from"] == "actual_elbow"
    assert signals["action"]["from"] == "target_elbow"


def test_a_controllers_numbered_columns_are_taken_in_the_twins_order_and_marked(tmp_path):
    time_s, position, command = ur5e_motion()
    columns = {"timestamp": time_s}
    for i in range(6):
        columns |= {f"actual_q_{i}": position[:, i], f"target_q_{i}": command[:, i]}
        columns |= {
            f"actual_qd_{i}": np.gradient(position[:, i], time_s),
            f"actual_TCP_pose_{i}": 0.1 * command[:, i],
        }
    path = write_csv(tmp_path / "rtde.csv", columns)
    text = propose_map(path, Joints(UR5E, ((-6.3, 6.3),) * 6))
    signals = yaml.safe_load(text)["signals"]
    assert [
        signals[name]["elements"] for name in ("observation.state", "action", "observation.velocity")
    ] == [list(UR5E)] * 3
    assert all("CHECK" in line for line in text.splitlines() if "elements" in line and "shoulder_pan" in line)
    pose = signals["observation.actual_TCP_pose"]
    assert pose["elements"] == ["x", "y", "z", "rx", "ry", "rz"] and pose["unit"][3:] == ["rad"] * 3
    assert yaml.safe_load(propose_map(path))["signals"]["observation.state"]["elements"][0] == "joint0"


def arm_table(rows=300, start_s=0.0):
    time_s, position, command = ur5e_motion(rows)
    columns = {"time": time_s + start_s} | {f"{name}_pos": position[:, i] for i, name in enumerate(UR5E)}
    return columns | {f"{name}_cmd": command[:, i] for i, name in enumerate(UR5E)}


@pytest.mark.parametrize("restarts", [False, True])
def test_gaps_in_time_are_offered_as_ends_of_episodes(tmp_path, restarts):
    columns = arm_table()
    part = np.arange(300) // 100
    columns["time"] = columns["time"] + (-0.8 if restarts else 4.0) * part
    path = write_csv(tmp_path / "run.csv", columns)
    text = propose_map(path)
    episodes = yaml.safe_load(text)["episodes"]
    assert episodes["by"] == "gaps" and 0.008 < episodes["gap_s"] < (0.8 if restarts else 4.0)
    assert "CHECK" in next(line for line in text.splitlines() if line.startswith("episodes"))
    done = ingest(path, tmp_path / "out", parse_map(text), accept_guesses=True)
    assert [len(episode) for episode in done.dataset] == [100, 100, 100]


def test_lost_samples_are_no_ends_of_episodes(tmp_path):
    columns = {name: np.delete(values, [50, 51, 120]) for name, values in arm_table().items()}
    assert yaml.safe_load(propose_map(write_csv(tmp_path / "run.csv", columns)))["episodes"] == {"by": "file"}


def test_settings_of_an_experiment_are_listed_and_no_signals(tmp_path):
    h5py = pytest.importorskip("h5py")
    columns = arm_table() | {"payload_kg": np.full(300, 1.5), "kp": np.full(300, 100.0)}
    text = propose_map(write_csv(tmp_path / "run.csv", columns))
    assert set(yaml.safe_load(text)["signals"]) == {"observation.state", "action"}
    assert "# payload_kg (1.5), kp (100)" in text
    time_s, position, command = ur5e_motion()
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        for number in range(2):
            group = file.create_group(f"data/demo_{number}")
            group["obs/joint_positions"], group["actions"], group["obs/t"] = position, command, time_s
        file["metadata/kp"], file["metadata/limits"] = np.ones(6), np.ones((6, 2))
        file["tool_offset"] = np.eye(4)
    text = propose_map(tmp_path / "demo.hdf5")
    proposed = yaml.safe_load(text)
    assert proposed["episodes"]["by"] == "groups"
    assert proposed["signals"]["action"]["from"] == "{group}/actions"
    assert "metadata/kp, metadata/limits, tool_offset" in text
    assert (
        len(ingest(tmp_path / "demo.hdf5", tmp_path / "out", parse_map(text), accept_guesses=True).dataset)
        == 2
    )


def test_devices_in_one_folder_are_told_apart(tmp_path):
    cell = tmp_path / "cell"
    cell.mkdir()
    (cell / "params.csv").write_text("mass,kp\n1.2,100\n")
    for number in range(3):
        write_csv(
            cell / f"gripper_{number}.csv", {"time": np.arange(300) / 125, "width_mm": np.arange(300.0)}
        )
        write_csv(cell / f"ur5e_{number}.csv", arm_table())
    text = propose_map(cell)
    assert yaml.safe_load(text)["files"] == "ur5e_*.csv" and "gripper_0.csv" in text
    done = ingest(cell, tmp_path / "out", parse_map(text), accept_guesses=True)
    assert len(done.dataset) == 3 and len(done.skipped) == 4
    both = tmp_path / "arms"
    for arm in ("left", "right"):
        (both / arm).mkdir(parents=True)
        write_csv(both / arm / "run.csv", arm_table())
    (line,) = (line for line in propose_map(both).splitlines() if line.startswith("files"))
    assert "2 folders (left, right)" in line and line.endswith("CHECK")


def test_a_name_file_names_the_signals_of_a_table(tmp_path):
    time_s, position, command = ur5e_motion()
    np.save(tmp_path / "run.npy", np.column_stack([time_s, position[:, :2], command[:, :2]]))
    names = ["time_s", "pos_meas1", "pos_meas2", "pos_des1", "pos_des2"]
    (tmp_path / "columns.json").write_text(json.dumps(names))
    text = propose_map(tmp_path / "run.npy", Joints(("shoulder", "elbow"), ((-3.0, 3.0),) * 2))
    proposed = yaml.safe_load(text)
    assert proposed["clock"] == {"channel": "values", "column": 0, "unit": "s"}
    assert proposed["signals"]["observation.state"]["columns"] == names[1:3]
    assert proposed["signals"]["action"]["columns"] == names[3:]
    assert proposed["signals"]["action"]["elements"] == ["shoulder", "elbow"]
    done = ingest(tmp_path / "run.npy", tmp_path / "out", parse_map(text), accept_guesses=True)
    np.testing.assert_array_equal(done.dataset.episode(0)["action"], command[:, :2])
