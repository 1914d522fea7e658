"""In lockstep the reply to a command includes the next observation and outcome, equal to separate requests."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pybullet")

from twinloop.robots import connected, open_robot


def reading(robot):
    return {name: values.tolist() for name, values in robot.observe().signals.items()}


def test_what_comes_with_a_command_is_what_asking_gives():
    robot = open_robot("standin:mild")
    with connected(robot):
        robot.prepare(2)
        at = robot.observe().signals["observation.state"]
        for step in range(5):
            robot.act(at + 0.01 * step)
            signals, when, judged = reading(robot), robot.observe().time_s, robot.judge()
            robot._ahead = None
            assert (reading(robot), robot.observe().time_s, robot.judge()) == (signals, when, judged)


def test_what_was_told_ahead_is_forgotten_when_time_passes_or_the_scene_changes():
    robot = open_robot("standin:mild")
    with connected(robot):
        robot.prepare(2)
        at = robot.observe().signals["observation.state"]
        robot.act(at + 0.2 * np.ones_like(at))
        first = robot.observe().time_s
        robot.wait(5)
        assert robot.observe().time_s == pytest.approx(first + 0.1)
        robot.act(at)
        robot.prepare(3)
        assert robot.observe().time_s == 0.0
