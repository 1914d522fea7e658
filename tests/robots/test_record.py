"""Recording: whole episodes with who, where, what and how it went; a lost robot costs one episode."""

import time
from dataclasses import replace

import numpy as np
import pytest

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Actor
from twinloop.errors import DatasetError, RobotError, RobotGone
from twinloop.robots import Limits, Observation, SafetyEnvelope, connected, declared_limits
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, _Pace, record
from twinloop.testing.robots import FakeRobot

SPEC = RecordingSpec(3, 1.0, task="point at it", operator="person-7", consent="consent-3", site="lab 2")


def enclosed(robot):
    return SafetyEnvelope(robot, declared_limits(robot.description))


def run(fake, out, spec=SPEC, **more):
    with connected(fake):
        arm = enclosed(fake)
        return record(arm, OperatorController(fake, "person-7"), out, spec, supervisor=fake, **more)


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


class ClockedArm(FakeRobot):
    """Runs by the clock at 50 Hz, at most 1 rad/s; keeps when each command came."""

    def __init__(self):
        super().__init__()
        self.times_s = []

    @property
    def description(self):
        slow = Limits((-1.0, -1.0), (1.0, 1.0), (1.0, 1.0))
        return replace(super().description, lockstep=False, rate_hz=50.0, limits=slow)

    def observe(self, cameras=()):
        return Observation(time.monotonic(), super().observe(cameras).signals)

    def act(self, action):
        self.times_s.append(time.monotonic())
        return super().act(action)


class Script:
    """Acts as it is told, control step after control step."""

    actor: Actor = "expert"
    actor_id, cameras = "script", ()

    def __init__(self, act):
        self._act = act

    def restart(self, observation, seed):
        self._episode, self._step = seed, 0

    def act(self, observation):
        self._step += 1
        return self._act(self._episode, self._step)


def test_after_a_stall_the_recorder_neither_catches_up_nor_jumps(tmp_path):
    arm = ClockedArm()

    def stall_once(_, step):
        time.sleep(0.5 if step == 5 else 0.0)
        return np.full(2, 0.9)

    with connected(arm):
        spec = RecordingSpec(1, 1.0, judged=False)
        recorded = record(enclosed(arm), Script(stall_once), tmp_path / "out", spec)
    times_s, sent = np.array(arm.times_s), np.array(arm.sent)[:, 0]
    moved = sent[None, :] - sent[:, None]
    passed_s = times_s[None, :] - times_s[:, None]
    assert (moved - passed_s)[passed_s > 0].max() <= 0.02, (
        "1 rad/s over any stretch, but for a late control step"
    )
    assert np.diff(sent).max() <= 0.02 + 1e-6, "one control step at a time"
    after = times_s > times_s[0] + 0.5
    assert after.sum() <= 50 * np.ptp(times_s[after]) + 4, "no burst of commands"
    episode = recorded.episode(0)
    assert episode.time_s[-1] < 1.0 and len(episode) < 40, "the ticks that were missed are dropped"
    assert any(event.kind == "held" for event in episode.events)


def test_a_late_loop_drops_ticks_instead_of_catching_up():
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    pace = _Pace(ClockedArm().description, clock=lambda: now[0], sleep=sleep)
    ticks = []
    for busy_s in (0.001, 0.001, 2.005, 0.001, 0.001, 0.03, 0.001):
        now[0] += busy_s
        pace.wait()
        ticks.append(round(now[0], 3))
    assert ticks == [0.02, 0.04, 2.045, 2.06, 2.08, 2.11, 2.12]


@pytest.mark.parametrize("arm", [FakeRobot, ClockedArm])
@pytest.mark.parametrize(
    ("ending", "error"),
    [(lambda: np.array([np.nan, 0.0]), RobotError), (lambda: 1 / 0, ZeroDivisionError), (None, KeyboardInterrupt)],
)  # fmt: skip
def test_whatever_ends_a_recording_the_robot_is_told_to_hold(tmp_path, arm, ending, error):
    robot = arm()

    def act(episode, step):
        if (episode, step) != (1, 4):
            return np.full(2, 0.9 * (-1) ** step)
        if ending is None:
            raise KeyboardInterrupt
        return ending()

    with connected(robot), pytest.raises(error):
        record(enclosed(robot), Script(act), tmp_path / "out", RecordingSpec(2, 0.3, judged=False))
    assert len(open_dataset(tmp_path / "out")) == 1, "whole episodes are safe"
    assert np.allclose(robot.sent[-1], robot.position, atol=1e-6), "the last command is to stay"
