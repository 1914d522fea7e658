"""Policies act, and recordings are made, through ROS 2: on a stand-in behind a node of its own, and on a bag that is played back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cyclonedds", reason="needs DDS: pip install 'twinloop[ros2]'")
pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from tests.quality import recordings
from tests.robots.ros2.domains import free_domain
from tests.robots.ros2.participant import STORE, make_header
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Outcome
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.experts import Setup, find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema
from twinloop.policies.interface import make_interface
from twinloop.policies.protocol import Execution
from twinloop.robots import Observation, connected, open_robot
from twinloop.robots.protocol import read_position
from twinloop.robots.record import RecordingSpec, record
from twinloop.robots.signals import make_reading
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

ROOT = Path(__file__).parents[3]
TWIN = "franka_reach"


class Bridge:
    """A stand-in behind a ROS 2 node in another process, and the person beside it: the trial supervisor."""

    def __init__(self, domain):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.robots.ros2.bridge", str(domain), f"standin:ideal@{TWIN}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert json.loads(self.process.stdout.readline()) == "ready"

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def prepare(self, number):
        self.ask("prepare", number)

    def steer(self):
        raise AssertionError("there is no leader arm")

    def judge(self, over=False):
        return Outcome(*self.ask("judge", over))

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class ReachPolicy:
    """The twin's scripted expert as a policy: it sees joints and target as they come over ROS 2."""

    def __init__(self, twin):
        self.name, self.id, self.execution = "reach", "reach-1", Execution(n_action_steps=1)
        self._cell = make_cell(twin)
        self.seen = ["observation.state", "observation.velocity", "observation.environment_state"]
        self.interface = make_interface(episode_schema(Job(twin, twin.task, "task")), self.seen, self.name)

    def reset(self, seed):
        self._seed, self._step, self._expert = seed, 0, None

    def infer(self, observation):
        reading = make_reading(self._cell, Observation(0.02 * self._step, observation))
        if self._expert is None:
            self._expert = find_expert(self._cell.twin.task)(Setup(self._cell, 1, 400))
            self._expert.restart(np.array([0]), reading, np.array([self._seed]))
        action = self._expert.act(reading, np.array([self._step]))
        self._step += 1
        return action


def write_config(file, twin, domain, **more):
    """The config of a twin's robot on the bridge's topics."""
    from yaml import safe_dump

    cell = make_cell(twin)
    rows = zip(cell.actuators, cell.control_low, cell.control_high, cell.turning, strict=True)
    joints = {
        name: {"low": float(low), "high": float(high), "speed_per_s": 4.0 if turns else float("inf")}
        | {"unit": "rad" if turns else "m"}
        for name, low, high, turns in rows
    }
    patient = {"max_age_s": 30.0}  # tests share their machine
    content = {
        "serial": "bridged-1",
        "robot_type": twin.robot,
        "twin": twin.name,
        "standin": True,
        "rate_hz": twin.control_hz,
        "joints": joints,
        "state": {"velocity": True, "effort": True, **patient},
        "command": {"topic": "/arm/joint_trajectory"},
        "signals": {
            scene.name: {"topic": "/scene", "elements": list(scene.elements), "units": list(scene.units)}
            | patient
            for scene in cell.observed_scene()
        },
        "domain_id": domain,
        "interface": "127.0.0.1",
        "connect_s": 60.0,
    }
    file.write_text(safe_dump(content | more, sort_keys=False))
    return f"ros2:{file}"


def test_a_policy_is_evaluated_through_ros2(tmp_path):
    twin = load_twin(TWIN)
    camera = next(one for one in twin.cameras if one.name == "front")
    size = {"height": camera.height, "width": camera.width, "max_age_s": 30.0}
    with free_domain() as domain:
        bridge = Bridge(domain)
        try:
            address = write_config(
                tmp_path / "arm.yaml", twin, domain, cameras={"front": {"topic": "/front/image_raw", **size}}
            )
            with connected(open_robot(address)) as robot:
                place = RobotEnvironment(robot, bridge, time_limit_s=20.0, cameras=("front",))
                found = evaluate(ReachPolicy(twin), place, episodes=2, out=tmp_path / "trials")
        finally:
            bridge.end()
    assert [trial.success for trial in found.trials] == [True, True]
    for number in (0, 1):
        episode = open_dataset(tmp_path / "trials").episode(number)
        steps = np.diff(episode.time_s) * twin.control_hz
        assert np.abs(steps - np.round(steps)).max() < 1e-3, "the stamps are the stand-in's steps"
        assert episode.frames["front"].shape[1:] == (camera.height, camera.width, 3)
        assert np.asarray(episode.frames["front"][0]).std() > 5, "there is something in the frame"
        age = episode["observation.frame_age"] * twin.control_hz
        assert np.abs(age - np.round(age)).max() < 1e-3 and age.min() >= 0
        assert episode.provenance.robot_serial == "bridged-1" and episode.provenance.source == "standin"


JOINTS = ("Rotation", "Pitch", "Elbow", "Wrist_Pitch", "Wrist_Roll", "Jaw")


def read_real_motion(rows):
    """Times, positions and velocities of a real SO-101."""
    with np.load(recordings.REAL / "so101/motions_38.npz") as file:
        return tuple(file[f"actuator_bandwidth/{key}"][rows].astype(float) for key in ("t", "pos", "vel"))


def move_standin(steps):
    """The same of a stand-in that swings all its joints."""
    times, position, velocity = [], [], []
    with connected(open_robot("standin:mild@so101")) as robot:
        limits = robot.description.limits
        start = read_position(robot.description, robot.observe())
        for step in range(steps):
            robot.act(np.clip(start + 0.3 * np.sin(0.15 * step), limits.low, limits.high))
            seen = robot.observe()
            times.append(seen.time_s)
            position.append(seen.signals["observation.state"])
            velocity.append(seen.signals["observation.velocity"])
    return np.array(times), np.array(position, float), np.array(velocity, float)


def write_bag(folder, t, position, velocity):
    """A bag of an arm's joint states, written by rosbags; returns stamps and positions."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    kind = "sensor_msgs/msg/JointState"
    stamps = 1_600_000_000.0 + t
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/joint_states", kind, typestore=STORE)
        for stamp_s, *row in zip(stamps, position, velocity, strict=True):
            message = STORE.types[kind](make_header(stamp_s), list(JOINTS), *row, np.zeros(0))
            writer.write(connection, round(stamp_s * 1e9), STORE.serialize_cdr(message, kind))
    return stamps, position


class Stay:
    """Commands the arm to stay where it is."""

    actor, actor_id, cameras = "expert", "stay", ()

    def restart(self, observation, seed):
        """Nothing to do."""

    def act(self, observation):
        return observation.signals["observation.state"]


NO_RECORDINGS = pytest.mark.skipif(not recordings.present(), reason="no real recordings; set TWINLOOP_REAL_DATA")  # fmt: skip


@pytest.mark.parametrize("source", ["stand-in", pytest.param("real", marks=NO_RECORDINGS)])
def test_a_bag_of_an_arm_that_is_played_back_is_recorded_with_its_stamps(source, tmp_path, other, domain):
    motion = move_standin(120) if source == "stand-in" else read_real_motion(slice(0, 120))
    stamps, position = write_bag(tmp_path / "bag", *motion)
    twin = load_twin("so101")
    limits = {"low": -4.0, "high": 4.0, "speed_per_s": 10.0}
    address = write_config(
        tmp_path / "arm.yaml",
        twin,
        domain,
        rate_hz=50,
        joints=dict.fromkeys(JOINTS, limits),
        state={"velocity": True, "max_age_s": 30.0},
        signals={},
    )
    other.ask("listen", "/arm/joint_trajectory", "trajectory_msgs/msg/JointTrajectory")
    other.send("play", str(tmp_path / "bag"), 1.0)
    with connected(open_robot(address)) as robot:
        data = record(robot, Stay(), tmp_path / "out", RecordingSpec(1, 1.0, judged=False))
    assert other.answer() is True
    episode = data.episode(0)
    starts = np.flatnonzero(np.abs(position - episode["observation.state"][0]).max(axis=1) < 1e-6)
    found = [
        first + np.searchsorted(stamps[first:] - stamps[first] + 1e-3, episode.time_s) for first in starts
    ]
    errors_s = [np.abs(stamps[rows] - stamps[rows[0]] - episode.time_s).max() for rows in found]
    rows = found[int(np.argmin(errors_s))]
    assert min(errors_s) < 1e-5, "the stamps are those of the bag"
    assert len(rows) > 10 and (np.diff(rows) > 0).all()
    assert np.abs(position[rows] - episode["observation.state"]).max() < 1e-6
