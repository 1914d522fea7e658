"""The safety envelope of a robot without a safety file: its declared range and speed, silence, clock and stop."""

import gc
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.episode import Signal
from twinloop.errors import RobotError, SafetyStop
from twinloop.robots import Description, Limits, Observation, SafetyEnvelope, connected, declared_limits
from twinloop.robots.limits import limit_command
from twinloop.testing.robots import FakeRobot

LIMITS = Limits((-1.0, -0.5), (1.0, 2.0), (1.0, 0.2))
RATE_HZ = 50.0


class Arm(FakeRobot):
    """A fake robot with a clock of its own that keeps the time of every command."""

    def __init__(self, start=(0.0, 0.0), echo=lambda sent: sent, lockstep=False, **description):
        super().__init__()
        self.position, self.time_s, self.times_s = np.array(start, float), 0.0, []
        self._echo, self._changes = (
            echo,
            {"limits": LIMITS, "rate_hz": RATE_HZ, "lockstep": lockstep} | description,
        )

    @property
    def description(self) -> Description:
        return replace(super().description, **self._changes)

    def observe(self, cameras=()):
        return Observation(self.time_s, super().observe(cameras).signals)

    def act(self, action):
        sent = super().act(action)
        self.times_s.append(self.time_s)
        return self._echo(sent)


def limited(arm, limits=None):
    """A connected robot behind its envelope, on a machine whose clock runs with the robot's; waiting passes its time."""

    def sleep(seconds):
        arm.time_s += seconds

    robot = SafetyEnvelope(
        arm, limits or declared_limits(arm.description), clock=lambda: arm.time_s, sleep=sleep
    )
    robot.connect()
    return robot


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-3.0, 3.0)
pauses_s = st.sampled_from([0.0, 1e-6, 0.005, 0.02, 0.0199999, 3.0, 1e6]) | st.floats(0.0, 0.05)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0)),
    st.lists(st.tuples(pauses_s, numbers, numbers, st.sampled_from(["act", "observe", "hold"])), max_size=30),
)
def test_no_sequence_of_commands_leaves_the_range_or_exceeds_the_speed(start, sequence):
    arm = Arm(start)
    robot = limited(arm)
    begin = arm.position.astype(np.float32).astype(float)
    for pause_s, *action, verb in sequence:
        arm.time_s += pause_s
        if verb == "observe":
            robot.observe()
        elif verb == "hold":
            robot.hold()
        elif np.isfinite(action).all():
            robot.act(np.array(action))
        else:
            before = len(arm.sent)
            with pytest.raises(RobotError, match="finite"):
                robot.act(np.array(action))
            assert len(arm.sent) == before
    reach = np.array(LIMITS.speed_per_s) / RATE_HZ
    low, high = np.minimum(LIMITS.low, begin) - 1e-6, np.maximum(LIMITS.high, begin) + 1e-6
    for index, sent in enumerate(arm.sent):
        assert (low <= sent).all() and (sent <= high).all(), "never further outside than it started"
        last = arm.sent[index - 1] if index else begin
        assert (np.abs(sent - last) <= reach + 1e-9).all()
    for first in range(len(arm.sent)):  # over any stretch of time, not only from one command to the next
        passed_s = np.array(arm.times_s[first:]) - arm.times_s[first]
        moved = np.abs(np.array(arm.sent[first:]) - arm.sent[first])
        allowed = np.array(LIMITS.speed_per_s) * passed_s[:, None] + 3 * reach
        assert (moved <= allowed + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_a_robot_that_lies_about_what_it_sent_does_not_loosen_its_limits(echoes):
    answers = iter(echoes)
    arm = Arm(echo=lambda sent: np.array(next(answers)))
    robot = limited(arm)
    for _ in echoes:
        try:
            robot.act(np.array([5.0, 5.0]))
        except RobotError as error:
            assert "does not return the command it sent" in str(error)
        arm.time_s += 1.0 / RATE_HZ
    steps = np.abs(np.diff(arm.sent, axis=0, prepend=np.zeros((1, 2))))
    assert (steps <= 2 * np.array(LIMITS.speed_per_s) / RATE_HZ + 1e-9).all()
    reached = len(echoes) * np.array(LIMITS.speed_per_s) / RATE_HZ
    assert (np.abs(arm.sent) <= reached + 1e-9).all()


def test_commands_after_a_stall_do_not_make_up_for_it():
    arm = Arm()
    robot = limited(arm)
    robot.act(np.array([1.0, 0.0]))
    arm.time_s += 2.0
    for _ in range(110):  # 110 commands in 0.2 s, as a loop sent that tried to catch up
        arm.time_s += 0.2 / 110
        robot.act(np.array([1.0, 0.0]))
    moved = arm.sent[-1][0] - arm.sent[0][0]
    assert 0.19 < moved <= 0.26, "0.2 s and a few control steps at 1 rad/s"


def test_commands_at_the_same_time_of_the_robots_clock_are_as_many_as_a_loops_jitter_brings():
    arm = Arm()
    robot = limited(arm)
    for _ in range(50):
        robot.act(np.array([1.0, 1.0]))
    assert np.allclose(arm.sent[-1], [0.04, 0.008]) and len(arm.sent) == 50, (
        "two control steps, then the same again"
    )


def test_an_arm_that_starts_outside_its_range_comes_back_at_its_speed_limit():
    arm = Arm(start=(1.5, -0.6))
    robot = limited(arm)
    for _ in range(60):
        robot.act(np.array([0.0, 0.0]))
        arm.time_s += 1.0 / RATE_HZ
    path = np.array(arm.sent)[:, 0]
    assert path[0] == pytest.approx(1.48) and np.all(np.diff(path) < 0.0)
    assert np.abs(np.diff(path)).max() <= 0.02 + 1e-9 and path[-1] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("reading", "answer"),
    [
        ({}, "does not report where it is.*no observation.state.*position_signal"),
        ({"observation.state": np.zeros(3)}, r"does not report where it is.*shape \(3,\)"),
        ({"observation.state": np.array([0.0, np.nan])}, "reading of its position is not finite"),
    ],
)
def test_without_a_position_the_first_command_is_refused(reading, answer):
    arm = Arm()
    arm.observe = lambda cameras=(): Observation(0.0, reading)
    robot = limited(arm)
    with pytest.raises(RobotError, match=f"(?s){answer}"):
        robot.act(np.array([0.1, 0.1]))
    assert not arm.sent


def test_a_position_in_other_units_than_the_action_is_refused():
    degrees = Signal("observation.state", (2,), ("deg",), elements=("shoulder", "elbow"))
    robot = limited(Arm(signals=(degrees,)))
    with pytest.raises(RobotError, match="different units; got deg and rad"):
        robot.act(np.zeros(2))


def test_without_a_speed_limit_no_position_is_needed():
    arm = Arm(limits=Limits((-1.0, -1.0), (1.0, 1.0), (math.inf, math.inf)))
    arm.observe = lambda cameras=(): Observation(0.0, {})
    robot = limited(arm)
    assert np.array_equal(robot.act(np.array([9.0, 0.3])), [1.0, 0.3])
    assert np.array_equal(robot.act(np.array([-9.0, 0.3])), [-1.0, 0.3])


def test_a_clock_that_goes_back_or_stops_being_a_number_is_refused():
    arm = Arm()
    robot = limited(arm)
    arm.time_s = 5.0
    robot.act(np.zeros(2))
    arm.time_s = 1.0
    with pytest.raises(RobotError, match=r"clock went back; got 1\.000 s after 5\.000 s"):
        robot.observe()
    robot.restart()
    robot.act(np.zeros(2))
    arm.time_s = math.nan
    with pytest.raises(RobotError, match="clock gives no time"):
        robot.observe()
    assert len(arm.sent) == 2


def test_a_hold_stays_where_the_robot_is_or_at_the_last_command_without_a_reading():
    arm = Arm(start=(1.5, 0.0))
    robot = limited(arm)
    assert np.array_equal(robot.hold(), [1.5, 0.0]), "also outside the range"
    sent = robot.act(np.zeros(2))
    arm.observe = lambda cameras=(): Observation(arm.time_s, {"observation.state": np.full(2, np.nan)})
    assert np.array_equal(robot.hold(), sent)


@pytest.mark.parametrize(
    ("limits", "answer"),
    [
        (((0.0,), (math.nan,), (1.0,)), "a limit is not a number"),
        (((math.nan,), (1.0,), (1.0,)), "a limit is not a number"),
        (((0.0,), (1.0,), (math.nan,)), "a limit is not a number"),
        (((0.0,), (1.0,), (-1.0,)), "a speed limit is negative"),
        (((math.inf,), (math.inf,), (1.0,)), "no finite number"),
        (((2.0,), (1.0,), (1.0,)), "above the upper"),
    ],
)
def test_limits_that_limit_nothing_are_refused(limits, answer):
    with pytest.raises(RobotError, match=answer):
        Limits(*limits)


@pytest.mark.parametrize("rate_hz", [0.0, -50.0, math.nan, math.inf])
def test_a_rate_that_is_no_rate_is_refused(rate_hz):
    with pytest.raises(RobotError, match="control rate"):
        replace(FakeRobot().description, rate_hz=rate_hz)


def test_limits_of_another_length_than_the_action_are_refused():
    with pytest.raises(RobotError, match="limits do not fit the action; got 1; expected 2 of each"):
        replace(FakeRobot().description, limits=Limits((0.0,), (1.0,), (1.0,)))


def test_in_lockstep_a_command_reaches_one_control_step_whatever_the_stamps_say():
    arm = Arm(lockstep=True)
    robot = limited(arm)
    sent = [robot.act(np.array([1.0, 1.0])) for _ in range(3)]
    reach = np.array(LIMITS.speed_per_s) / RATE_HZ
    expected = [reach, reach + reach, reach + reach + reach]
    assert np.array_equal(sent, expected), "to the last bit"


def test_what_is_limited_once_is_not_changed_again():
    """Client and stand-in use the same formula, so a limited command passes the second one bit by bit."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        last, target = rng.normal(0, 1, 2), rng.normal(0, 2, 2)
        once = limit_command(LIMITS, target, last, 30.0)
        assert np.array_equal(limit_command(LIMITS, once, last, 30.0), once)


def test_after_silence_the_robot_is_brought_to_where_it_is():
    arm = Arm()
    robot = limited(arm)
    with robot.watching():
        for _ in range(10):
            arm.time_s += 0.02
            robot.act(np.array([1.0, 0.0]))
            robot.observe()
        robot._end_watch()  # from here on the test asks
        arm.time_s += 0.14
        assert not robot.check_silence()
        arm.time_s += 0.02
        assert robot.check_silence() and robot.holding
    assert np.allclose(arm.sent[-1], arm.position, atol=0.02)
    (held,) = [one for one in robot.take_interventions() if one.kind == "held"]
    assert held.count == 1 and held.detail == "no command for 150 ms"
    assert not robot.take_interventions(), "told once"


def test_commands_alone_do_not_keep_a_robot_going_whose_observations_have_stopped():
    arm = Arm()
    robot = limited(arm)
    robot.observe()
    for _ in range(9):
        arm.time_s += 0.02
        robot.act(np.array([1.0, 0.0]))
    assert robot.check_silence()
    assert robot.take_interventions()[-1].detail == "no observation for 150 ms"


def test_an_envelope_that_cannot_hold_says_so_at_the_next_command():
    arm = Arm()
    robot = SafetyEnvelope(arm, replace(declared_limits(arm.description), silence_s=0.01))
    with connected(robot), robot.watching():
        arm.position = np.full(2, np.nan)
        for _ in range(500):
            if robot._failure is not None:
                break
            robot._end.wait(0.01)
        with pytest.raises(RobotError, match=r"could not be told to hold.*not finite"):
            robot.act(np.zeros(2))
        arm.position = np.zeros(2)
        for _ in range(500):
            if robot.holding:
                break
            robot._end.wait(0.01)
        robot.act(np.zeros(2))


def test_no_collection_of_garbage_holds_up_a_robot_that_moves_by_the_clock():
    for lockstep in (False, True):
        arm = Arm(lockstep=lockstep)
        robot = SafetyEnvelope(arm, declared_limits(arm.description))
        with connected(robot):
            assert gc.get_freeze_count() == 0
            with robot.watching():
                assert (gc.get_freeze_count() > 10_000) is not lockstep
            assert gc.get_freeze_count() == 0


def test_a_stop_refuses_every_command_until_a_person_resets_it():
    arm = Arm()
    robot = limited(arm)
    robot.act(np.array([0.5, 0.5]))
    robot.stop("somebody reached into the cell", "anna")
    count = len(arm.sent)
    for _ in range(3):
        with pytest.raises(SafetyStop, match="stopped: somebody reached into the cell"):
            robot.act(np.zeros(2))
    assert len(arm.sent) == count
    robot.reset("anna", "the cell is clear")
    robot.act(np.zeros(2))
    assert [one.kind for one in robot.take_interventions()] == ["limited", "stopped"]
