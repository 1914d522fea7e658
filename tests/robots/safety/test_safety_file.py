"""`safety.yaml`: nothing in it is optional, it is checked against robot and twin, and a stop outlives the process."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from tests.terminal import twinloop, twinloop_json
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Signal
from twinloop.errors import MapError, RobotError, SafetyStop, WrongUse
from twinloop.evaluation.environment import read_trial
from twinloop.robots import Observation, SafetyEnvelope, connected, load_limits
from twinloop.robots.controllers import OperatorController
from twinloop.robots.protocol import Description, Limits
from twinloop.robots.record import RecordingSpec, record
from twinloop.robots.safety.file import KINDS, load_safety_file, write_safety_file
from twinloop.robots.safety.limits import make_limits
from twinloop.tasks import make_cell
from twinloop.testing.robots import FakeRobot
from twinloop.twins import load_twin

FAKE = """
robot: fake_arm
by: anna
joints:
  shoulder: {low: -0.4, high: 0.4, speed: 3.0, acceleration: 20.0, jerk: 400.0}
  elbow: {low: -1.0, high: 1.0, speed: 3.0, acceleration: 20.0, jerk: 400.0}
silence_s: 0.15
approach_fraction: 0.5
overrides:
  workspace: {by: anna, reason: it stands alone}
  keep_out: {by: anna, reason: it stands alone}
  contact: {by: anna, reason: it feels nothing}
  payload: {by: anna, reason: it carries nothing}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "safety.yaml").write_text(FAKE)
    return tmp_path


def changed(**changes):
    return yaml.safe_dump(yaml.safe_load(FAKE) | changes)


def test_a_real_robot_without_limits_is_refused_before_it_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fake = FakeRobot()
    with (
        connected(fake),
        pytest.raises(RobotError, match=r"no safety limits.*safety\.yaml(?s:.*)robot limits"),
    ):
        record(fake, OperatorController(fake, "p"), tmp_path / "out", RecordingSpec(1, 1.0), supervisor=fake)
    assert not fake.sent and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [kind for kind in KINDS if kind not in yaml.safe_load(FAKE)["overrides"]])
def test_every_limit_is_there_or_overridden_by_somebody(here, name):
    content = yaml.safe_load(FAKE)
    joints, keys = content["joints"].values(), {"range": ("low", "high")}.get(name, (name,))
    for part in (content, *joints):
        for key in (*keys, f"{name}_s", f"{name}_fraction"):
            part.pop(key, None)
    (here / "safety.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(RobotError, match=f"lacks a limit; got no {name}"):
        load_limits(FakeRobot().description)
    content["overrides"][name] = {"by": "anna", "reason": "the controller does"}
    (here / "safety.yaml").write_text(yaml.safe_dump(content))
    assert load_limits(FakeRobot().description).overrides[name] == "the controller does (anna)"


@pytest.mark.parametrize(
    ("changes", "error", "answer"),
    [
        ({"robot": "other"}, RobotError, "about another robot; got other; expected fake_arm"),
        ({"by": ""}, MapError, "by"),
        ({"joints": {"shoulder": {}}}, RobotError, "lacks a limit"),
        ({"silense_s": 1}, MapError, "not a key of a safety file(?s:.*)silence_s"),
        ({"silence_s": -1}, MapError, "silence_s"),
        ({"silence_s": float("nan")}, MapError, "silence_s"),
        ({"overrides": {"gravity": {"by": "a", "reason": "b"}}}, RobotError, "names no limit; got gravity"),
        ({"overrides": {}}, RobotError, "got no workspace, keep_out, contact, payload"),
        ({"people": "nobody.yaml"}, MapError, "file of limits for people .* cannot be read"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_key(here, changes, error, answer):
    (here / "safety.yaml").write_text(changed(**changes))
    with pytest.raises(error, match=answer):
        load_limits(FakeRobot().description)


def test_workspace_and_contact_need_the_twin(here):
    content = yaml.safe_load(FAKE)
    del content["overrides"]["workspace"]
    content["workspace"] = {"low": [0, 0, 0], "high": [1, 1, 1], "elbow": "forearm"}
    (here / "safety.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(RobotError, match="need the robot's twin; got a robot that names no twin"):
        load_limits(FakeRobot().description)


def test_what_the_envelope_does_and_what_is_overridden_is_in_the_episode_and_counted(here):
    fake = FakeRobot()
    with connected(fake):
        record(fake, OperatorController(fake, "p"), here / "out", RecordingSpec(1, 1.0), supervisor=fake)
    episode = open_dataset(here / "out").episode(0)
    kinds = [event.kind for event in episode.events]
    assert kinds.count("override") == 4 and kinds.count("limited") == 1
    (limited,) = [event.detail for event in episode.events if event.kind == "limited"]
    assert "range" in limited and "jerk" in limited
    assert np.abs(episode["action"][:, 0]).max() <= 0.4 + 1e-6, "narrower than the robot declares"
    assert read_trial(0, episode).interventions == {"limited": int(limited.split()[0])}


def test_a_stop_outlives_the_process_and_only_a_person_resets_it(here):
    fake = FakeRobot()
    robot = SafetyEnvelope(fake)
    with connected(robot):
        robot.act(np.array([0.1, 0.1]))
        robot.stop("it hit the table", "the safety envelope")
    another = SafetyEnvelope(fake)
    with pytest.raises(SafetyStop, match=r"was stopped at 2.*it hit the table(?s:.*)robot reset"):
        another.connect()
    with pytest.raises(WrongUse, match="names who looked"):
        another.limits.latch.reset("", "fine")
    another.reset("anna", "nothing broken")
    another.connect()
    another.act(np.zeros(2))
    log = another.limits.latch.entries()
    assert [(entry.kind, entry.by) for entry in log] == [("stop", "the safety envelope"), ("reset", "anna")]


class Feeling(FakeRobot):
    """Reports a force sensor, which feels 90 N from the fifth command on."""

    @property
    def description(self) -> Description:
        base = super().description
        force = Signal("observation.force", (3,), ("N",), elements=("x", "y", "z"))
        return replace(base, signals=(*base.signals, force), twin="so101")

    def observe(self, cameras=()):
        seen = super().observe(cameras)
        felt = np.array([0.0, 0.0, 90.0 if len(self.sent) >= 5 else 5.0], np.float32)
        return Observation(seen.time_s, {**seen.signals, "observation.force": felt}, seen.frames)


def test_too_much_force_stops_the_robot_ends_the_episode_and_the_recording(here):
    content = yaml.safe_load(FAKE)
    del content["overrides"]["contact"]
    content["contact"] = {"signal": "observation.force", "force_n": 50.0}
    (here / "safety.yaml").write_text(yaml.safe_dump(content))
    robot = Feeling()
    with connected(robot), pytest.raises(SafetyStop, match=r"force 90 N.*limit 50 N.*safe in"):
        record(robot, OperatorController(robot, "p"), here / "out", RecordingSpec(3, 1.0), supervisor=robot)
    episode = open_dataset(here / "out").episode(0)
    assert len(open_dataset(here / "out")) == 1 and episode.outcome.failure == "safety_stop"
    assert "force 90 N" in next(event.detail for event in episode.events if event.kind == "stopped")
    (here / "people.yaml").write_text(
        "{by: anna, source: our risk assessment 7, tool_speed_m_s: 0.2, contact_force_n: 4}"
    )
    content["people"] = "people.yaml"
    (here / "safety.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(RobotError, match="does not command every joint of twin"):
        load_limits(robot.description)  # a tool speed needs the kinematics


@pytest.fixture(scope="module")
def proposed(tmp_path_factory):
    """The description of a stand-in of the SO-101, its twin, and the file that is proposed for it."""
    from twinloop.robots.signals import describe_cell

    cell = make_cell(load_twin("so101_pick_place"))
    description = describe_cell(cell, serial="so101-1", lockstep=True)
    path = tmp_path_factory.mktemp("proposed") / "safety.yaml"
    write_safety_file(path, description, cell, "anna")
    return description, cell, path


def test_what_is_proposed_is_complete_and_never_overwritten(proposed):
    description, cell, path = proposed
    file, _ = load_safety_file(path)
    limits = make_limits(file, description, cell)
    assert not limits.overrides and limits.contact is not None and limits.workspace is not None
    assert limits.declared == description.limits or max(limits.declared.speed_per_s) <= 4.0
    with pytest.raises(WrongUse, match="exists already"):
        write_safety_file(path, description, cell, "anna")
    with pytest.raises(RobotError, match=r"handles more than the robot may carry; got 0\.0\d+ kg"):
        make_limits(file.model_copy(update={"payload_kg": 0.001}), description, cell)


def test_joint_torques_beyond_what_the_twin_expects_are_found_and_gravity_is_not(proposed):
    """Exact torques of MuJoCo's inverse dynamics for a moving arm; then 1 N·m from outside, which shows within 0.2 s."""
    import mujoco

    description, cell, path = proposed
    file, _ = load_safety_file(path)
    contact = file.contact.model_copy(update={"torque_nm": dict.fromkeys(cell.actuators[:5], 0.6)})
    guard = make_limits(file.model_copy(update={"contact": contact}), description, cell).contact
    model = cell.twin.make_model()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data, dofs = mujoco.MjData(model), cell.dof_addresses[:, 0]
    rng = np.random.default_rng(0)
    middle, swing = np.array([0.0, -0.8, 0.8, 0.5, 0.0, 0.3]), np.array([0.4, 0.4, 0.4, 0.4, 0.4, 0.0])
    found, most = None, 0.0
    for step in range(300):
        time_s = 0.02 * step
        phase = 3.0 * time_s + np.arange(6)
        data.qpos[:] = model.qpos0
        data.qpos[cell.qpos_addresses[:, 0]] = middle + swing * np.sin(phase)
        data.qvel[:], data.qacc[:] = 0.0, 0.0
        data.qvel[dofs], data.qacc[dofs] = 3.0 * swing * np.cos(phase), -9.0 * swing * np.sin(phase)
        mujoco.mj_inverse(model, data)
        torque = data.qfrc_inverse[dofs] + rng.normal(0.0, 0.01, 6)
        if step >= 200:
            torque[2] += 1.0
        signals = {"observation.effort": torque, "observation.state": data.qpos[cell.qpos_addresses[:, 0]]}
        found = guard.find(Observation(time_s, signals))
        if step < 200:
            most = max(most, float(np.abs(guard.beyond[:5]).max()))
        if found:
            break
    assert most < 0.4 and found is not None and found.startswith("torque on elbow_flex from outside: -0.")
    assert 200 < step < 210


def test_units_that_are_no_angle_and_wide_limits_are_handled(proposed):
    description, cell, path = proposed
    file, _ = load_safety_file(path)
    percent = replace(description, action=replace(description.action, units=("%",)))
    with pytest.raises(RobotError, match="units of angle or length; got %"):
        make_limits(file, percent, cell)
    narrow = replace(description, limits=Limits((-0.1,) * 6, (0.1,) * 6, (1.0,) * 6))
    assert make_limits(file, narrow, cell).declared.high == (0.1,) * 6, "the robot's own limits stay"


def test_limits_are_proposed_read_and_reset_from_the_command_line(tmp_path):
    twinloop("init", "bench", "--twin", "servo_pendulum", "--driver", cwd=tmp_path)
    bench = tmp_path / "bench"
    address = f"python:{next((bench / 'driver').glob('[!t]*_robot.py'))}"
    made = twinloop_json("robot", "limits", address, "--by", "anna", cwd=bench)
    file = bench / "twins/servo_pendulum/safety.yaml"
    assert made["file"].endswith("twins/servo_pendulum/safety.yaml") and made["missing"] == ["contact"]
    words = (
        "record",
        "--robot",
        address,
        "--excite",
        "chirp",
        "--episodes",
        "1",
        "--seconds",
        "0.5",
        "--out",
        "data/one",
    )
    assert "lacks a limit; got no contact" in twinloop(*words, cwd=bench, code=1)
    file.write_text(file.read_text() + "overrides: {contact: {by: anna, reason: it feels nothing}}\n")
    twinloop(*words, cwd=bench)
    assert twinloop("robot", "stops", address, cwd=bench).strip() == "never stopped"
    assert "is not stopped" in twinloop(
        "robot", "reset", address, "--by", "anna", "--reason", "ok", cwd=bench, code=2
    )
