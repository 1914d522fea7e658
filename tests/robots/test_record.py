"""Recording: whole episodes with who, where, what and how it went; a lost robot costs one episode."""

import numpy as np
import pytest

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.errors import DatasetError, RobotGone
from twinloop.robots import connected
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.testing.robots import FakeRobot

SPEC = RecordingSpec(3, 1.0, task="point at it", operator="person-7", consent="consent-3", site="lab 2")


def run(fake, out, spec=SPEC, **more):
    with connected(fake):
        return record(fake, OperatorController(fake, "person-7"), out, spec, supervisor=fake, **more)


def test_an_episode_says_who_where_what_and_how_it_went(tmp_path):
    fake = FakeRobot()
    recorded = run(fake, tmp_path / "out")
    assert known_outcomes(recorded) == [True] * 3
    assert fake.prepared == [0, 1, 2]
    episode = recorded.episode(0)
    origin = episode.provenance
    assert (origin.source, origin.actor, origin.actor_id) == ("real", "operator", "person-7")
    assert (origin.robot_serial, origin.site, origin.consent) == ("fake-1", "lab 2", "consent-3")
    assert {"twinloop", "python"} <= set(origin.software) and origin.recorded_at is not None
    assert episode.success is True and episode.task == "point at it"
    assert episode.time_s[0] == 0.0
    assert np.allclose(episode["action"], 0.5)
    assert np.allclose(episode["observation.state"][1], 0.25)


def test_an_episode_that_never_succeeds_ends_and_says_why(tmp_path):
    fake = FakeRobot()
    fake.steer = lambda: np.full(2, -0.5)
    recorded = run(fake, tmp_path / "out")
    assert known_outcomes(recorded) == [False] * 3
    episode = recorded.episode(2)
    assert len(episode) == 20 and episode.outcome.failure == "not_there"


def test_cameras_are_recorded(tmp_path):
    episode = run(FakeRobot(), tmp_path / "out", RecordingSpec(1, 0.5, cameras=("front",))).episode(0)
    frames = episode.frames["front"]
    assert frames.shape == (len(episode), 16, 16, 3) and abs(int(frames[0].mean()) - 128) < 6


def test_a_robot_that_reconnects_costs_one_episode_started_over(tmp_path):
    lines = []
    fake = FakeRobot(gone_after=8)
    assert len(run(fake, tmp_path / "out", log=lines.append)) == 3
    assert fake.connects == 2 and fake.prepared == [0, 1, 1, 2]
    assert "1 recorded episodes are safe" in lines[0] and "reconnected" in lines[1]


def test_a_robot_that_stays_lost_leaves_whole_episodes_and_raises(tmp_path):
    fake = FakeRobot(gone_after=8)

    def connect_once():
        if fake.connects:
            raise RobotGone("no answer")
        FakeRobot.connect(fake)

    fake.connect = connect_once
    spec = RecordingSpec(3, 1.0, reconnects=2, reconnect_wait_s=0.0)
    with pytest.raises(RobotGone, match="1 of 3 episodes are safe"):
        run(fake, tmp_path / "out", spec)
    assert len(open_dataset(tmp_path / "out")) == 1


def test_recording_again_appends_and_refuses_another_robots_dataset(tmp_path):
    run(FakeRobot(), tmp_path / "out")
    run(FakeRobot(), tmp_path / "out", RecordingSpec(2, 1.0, first=3))
    assert len(open_dataset(tmp_path / "out")) == 5
    with pytest.raises(DatasetError, match="cannot append"):
        run(FakeRobot(), tmp_path / "out", RecordingSpec(1, 1.0, cameras=("front",)))


def test_limits_that_had_to_cut_commands_are_noted(tmp_path):
    fake = FakeRobot()
    fake.steer = lambda: np.full(2, 9.0)
    run(fake, tmp_path / "out", RecordingSpec(1, 0.5))
    assert open_dataset(tmp_path / "out").episode(0).events[0].kind == "limited"


def test_a_stand_in_is_never_called_real(tmp_path):
    fake = FakeRobot()
    described = type(fake).description.fget(fake)
    from dataclasses import replace

    class Standin(FakeRobot):
        description = property(lambda self: replace(described, standin=True, engine="bullet stand-in"))

    run(Standin(), tmp_path / "out")
    rows = query([open_dataset(tmp_path / "out")], "select source, engine from episodes").to_pylist()
    assert {(row["source"], row["engine"]) for row in rows} == {("standin", "bullet stand-in")}
