"""The stand-in by the clock and over TCP, and with other twins than the usual one."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from twinloop.datasets.outcomes import known_outcomes
from twinloop.errors import RobotError
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import ExpertController, OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.tasks import make_task
from twinloop.twins import load_twin

ROOT = Path(__file__).parents[2]
TWINLOOP = Path(sys.executable).with_name("twinloop")


@contextmanager
def served(*words, **environment):
    """`twinloop standin` in a process of its own; gives the address it says."""
    process = subprocess.Popen(
        [TWINLOOP, "standin", "--reality", "mild", "--port", "0", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    try:
        said = ""
        while "}" not in said:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        yield json.loads(said)["robot"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_by_the_clock_time_passes_without_commands_and_only_forward():
    with served("--realtime") as address:
        robot = open_robot(address)
        assert address.startswith("tcp:127.0.0.1:")
        with connected(robot):
            assert robot.description.lockstep is False
            robot.prepare(0)
            stamps = [robot.observe().time_s]
            while len(stamps) < 2000 and stamps[-1] < stamps[0] + 0.3:
                stamps.append(robot.observe().time_s)
            assert np.all(np.diff(stamps) >= 0) and stamps[-1] > stamps[0], "time passes without a command"
            home = robot.observe().signals["observation.state"]
            sent = np.clip(home[: len(robot.description.limits.low)], *_limits(robot))
            for _ in range(5):
                before = robot.observe().time_s
                robot.act(sent)
                assert robot.observe().time_s >= before
            with pytest.raises(RobotError, match="runs in real time"):
                robot.wait(1)


def _limits(robot):
    return robot.description.limits.low, robot.description.limits.high


def test_episodes_recorded_by_the_clock_have_rising_stamps(tmp_path):
    twin = load_twin("franka_pick_place")
    with served("--realtime") as address:
        robot = open_robot(address)
        with connected(robot):
            controller = ExpertController(twin, "chirp", 1.0)
            spec = RecordingSpec(2, 1.0, judged=False)
            recorded = record(robot, controller, tmp_path / "out", spec, supervisor=robot)
    assert len(recorded) == 2
    for episode in recorded:
        assert np.all(np.diff(episode.time_s) > 0)


def test_over_tcp_a_second_client_and_a_wrong_token_are_refused(monkeypatch):
    with served("--lockstep", TWINLOOP_ROBOT_TOKEN="secret") as address:
        monkeypatch.setenv("TWINLOOP_ROBOT_TOKEN", "guess")
        with pytest.raises(RobotError, match="token is wrong"):
            open_robot(address).connect()
        monkeypatch.setenv("TWINLOOP_ROBOT_TOKEN", "secret")
        robot = open_robot(address)
        with connected(robot):
            robot.prepare(0)
            first = robot.observe()
            robot.wait(3)
            assert robot.observe().time_s == pytest.approx(first.time_s + 3 / 50)
            with pytest.raises(RobotError, match="busy"):
                open_robot(address).connect()


@pytest.mark.parametrize("name", ["so101_pick_place", pytest.param("franka_push", marks=pytest.mark.slow)])
def test_other_twins_have_a_stand_in_too(tmp_path, name):
    twin = load_twin(name)
    time_limit_s = make_task(twin.task, twin).time_limit_s
    robot = open_robot(f"standin:ideal@{name}")
    with connected(robot):
        assert robot.description.twin == name
        assert robot.observe(("front",)).frames["front"].std() > 5
        controller = ExpertController(twin, twin.task, time_limit_s)
        spec = RecordingSpec(1, time_limit_s)
        recorded = record(robot, controller, tmp_path / "expert", spec, supervisor=robot)
        operator = OperatorController(robot, "person-7")
        spec = RecordingSpec(1, 2.0, operator="person-7")
        shown = record(robot, operator, tmp_path / "shown", spec, supervisor=robot)
    assert known_outcomes(recorded) == [True]
    assert len(shown) == 1
    episode = recorded.episode(0)
    assert (episode.provenance.twin, episode.provenance.source) == (name, "standin")


def test_commands_sent_quicker_than_the_robot_takes_them_are_not_too_many():
    with served("--realtime") as address:
        robot = open_robot(address)
        with connected(robot):
            robot.prepare(0)
            home = robot.observe().signals["observation.state"]
            sent = np.clip(home[: len(robot.description.limits.low)], *_limits(robot))
            for _ in range(400):
                robot.act(sent)
            assert robot.observe().time_s >= 0.0
