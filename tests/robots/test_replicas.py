"""Replicas of a simulated robot share episodes, and what comes out is what one robot would do."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import open_dataset
from twinloop.errors import RobotGone
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.robots.controllers import OperatorController
from twinloop.robots.protocol import connected
from twinloop.robots.record import RecordingSpec, Station, record
from twinloop.robots.replicas import replicas, share
from twinloop.robots.standin.reality import load_reality, parse_reality
from twinloop.testing.robots import FakeRobot


class Simulated(FakeRobot):
    """Starts each episode elsewhere; scene 3 is out of the operator's reach."""

    depends = False

    @property
    def description(self):
        return replace(super().description, standin=True, independent_episodes=not self.depends)

    def replicate(self):
        return type(self)(self.gone_after)

    def prepare(self, number):
        super().prepare(number)
        self.position = np.full(2, -0.1 * number)
        self.far = number == 3
        self._steps = 0

    def steer(self):
        return np.full(2, -0.5 if self.far else 0.5)


def run(out, cores, robot=None, **more):
    robot, spec = robot or Simulated(), RecordingSpec(6, 1.0, reconnects=0, **more)
    with connected(robot), replicas(robot, robot, cores - 1) as others:
        assert len(others) == cores - 1
        stations = [Station(one, OperatorController(one, "p"), one) for one in others]
        return record(robot, OperatorController(robot, "p"), out, spec, supervisor=robot, replicas=stations)


def require_same(one, other):
    assert len(one) == len(other)
    for number in range(len(one)):
        a, b = one.episode(number), other.episode(number)
        assert a.outcome == b.outcome and np.array_equal(a.time_s, b.time_s)
        assert all(np.array_equal(a[name], b[name]) for name in a.signals)


def test_replicas_record_the_episodes_of_one_robot_in_their_order(tmp_path):
    alone, shared = run(tmp_path / "alone", 1), run(tmp_path / "shared", 3)
    assert known_outcomes(alone) == [True, True, True, False, True, True]
    require_same(alone, shared)


def test_nothing_is_kept_beyond_the_first_failure_where_that_ends_the_recording(tmp_path):
    alone, shared = (run(tmp_path / str(cores), cores, until_failure=True) for cores in (1, 2))
    assert known_outcomes(alone) == [True, True, True, False]
    require_same(alone, shared)


def test_a_replica_that_is_lost_leaves_the_episodes_before(tmp_path):
    with pytest.raises(RobotGone, match=r"[0-5] of 6 episodes are safe"):
        run(tmp_path / "out", 2, Simulated(gone_after=20))
    assert known_outcomes(open_dataset(tmp_path / "out")) == [True] * len(open_dataset(tmp_path / "out"))


def test_only_a_robot_that_supervises_independent_episodes_itself_is_replicated():
    robot, plain, depends = Simulated(), FakeRobot(), Simulated()
    depends.depends = True
    for one, supervisor, expected in (
        (robot, robot, 2),
        (robot, plain, 0),
        (plain, plain, 0),
        (depends, depends, 0),
    ):
        with connected(one), replicas(one, supervisor, 2) as others:
            assert len(others) == expected
    assert load_reality("severe").warms_up and not load_reality("remote").warms_up
    assert parse_reality("drift: {actuation.cold_friction_scale: 0.1}").warms_up


def test_an_error_at_one_place_ends_the_sharing():
    def work(place, item):
        if item == 3:
            raise ValueError(place)
        return item

    done = []
    with pytest.raises(ValueError, match=r"[ab]"):
        for result in share("ab", work, range(100)):
            done.append(result)
    assert done == [0, 1, 2]


def test_stand_ins_side_by_side_give_the_same_bits(tiny_policy, tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    from twinloop.robots import open_robot

    datasets = []
    for cores in (1, 2):
        monkeypatch.setattr("twinloop.evaluation.robot.usable_cores", lambda count=cores: count)
        with connected(open_robot("standin:remote")) as robot:
            environment = RobotEnvironment(robot, time_limit_s=0.4)
            found = evaluate(tiny_policy, environment, episodes=3, seed=7, out=tmp_path / str(cores))
        assert [trial.number for trial in found.trials] == [7, 8, 9]
        datasets.append(open_dataset(tmp_path / str(cores)))
    require_same(*datasets)
