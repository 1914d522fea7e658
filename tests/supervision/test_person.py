"""A person beside the robot: what they can do when, and what of it is kept."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.supervision.people import RealRobot, Still, answering, somebody
from twinloop.datasets.outcomes import known_outcomes
from twinloop.episode import Signal
from twinloop.errors import RobotGone, TrialsPaused, WrongUse
from twinloop.robots import SafetyEnvelope, connected, declared_limits
from twinloop.robots.record import RecordingSpec, Station
from twinloop.robots.safety.contact import ForceGuard
from twinloop.robots.safety.latch import Latch
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.series import find_void, record_attended
from twinloop.supervision.trial import Action, Announcement, describe_need, find_trial

SPEC = RecordingSpec(2, 0.5, task="point")


def run(tmp_path, decide, spec=SPEC, robot=None, controller=None, person=None):
    robot = robot or RealRobot()
    person = person or PersonSupervisor(robot, "ann", failures=("missed",), phases=("reach", "grasp"))
    with connected(robot), somebody(person, decide) as seen:
        arm = SafetyEnvelope(robot, declared_limits(robot.description))
        dataset = record_attended(Station(arm, controller or Still(), person), tmp_path / "out", spec, person)
    return dataset, seen, person


def kinds(episode):
    return {event.kind: event.detail for event in episode.events}


def test_a_trial_starts_when_the_person_starts_it_and_ends_as_they_say(tmp_path):
    dataset, seen, _ = run(tmp_path, answering("success", "missed"))
    assert known_outcomes(dataset) == [True, False]
    assert dataset.episode(1).outcome.failure == "missed"
    stages = [state.stage for state in seen if state.stage != "waiting"]
    assert stages[:3] == ["placing", "running", "judging"] and stages[-1] == "ended"
    told = kinds(dataset.episode(0))
    assert told["trial"] == "0" and told["judged"] == "by ann"


def test_phase_severity_and_note_are_kept_and_a_new_mode_is_offered_afterwards(tmp_path):
    def decide(state):
        if state.stage == "placing":
            return Action("start")
        if state.stage == "judging" and state.describing:
            return Action(
                "failure", failure="knocked over", phase="grasp", severity="major", note="the lamp too"
            )
        return Action("failure") if state.stage == "judging" else None

    dataset, _, person = run(tmp_path, decide)
    told = kinds(dataset.episode(0))
    assert (told["phase"], told["severity"], told["note"]) == ("grasp", "major", "the lamp too")
    assert dataset.episode(0).outcome.failure == "knocked over"
    assert person.state.failures == ("missed", "knocked over")


def test_an_outcome_pressed_while_the_robot_moves_ends_the_trial(tmp_path):
    robot = RealRobot()
    person = PersonSupervisor(robot, "ann")
    steps = []

    def on_act():
        steps.append(1)
        if len(steps) == 4:
            person.press(Action("success"))

    dataset, _, _ = run(tmp_path, answering(), RecordingSpec(1, 5.0), robot, Still(on_act=on_act), person)
    assert known_outcomes(dataset) == [True] and len(dataset.episode(0)) == 4


def test_a_stopped_trial_is_kept_as_void_and_made_again(tmp_path):
    robot = RealRobot()
    person = PersonSupervisor(robot, "ann")
    steps = []

    def on_act():
        steps.append(1)
        if len(steps) == 3:
            before = len(robot.fake.sent)
            person.press(Action("stop"))
            assert len(robot.fake.sent) > before, "the robot has been told to hold before press returns"

    dataset, _, _ = run(tmp_path, answering(), RecordingSpec(1, 1.0), robot, Still(on_act=on_act), person)
    assert known_outcomes(dataset) == [None, True]
    assert "stopped" in find_void(dataset.episode(0)) and find_void(dataset.episode(1)) is None
    assert [find_trial(dataset.episode(k).events) for k in (0, 1)] == [0, 0]
    assert person.state.void == 1 and person.state.done == 1


def pressing(person, kind, step):
    """A controller that presses something in one of its steps, once."""
    steps = []

    def on_act():
        steps.append(1)
        if len(steps) == step:
            person.press(Action(kind))

    return Still(on_act=on_act)


class Stopped(RealRobot):
    """A robot that feels too much contact at its tenth command."""

    def __init__(self):
        super().__init__()
        self.observe = self.feel

    def feel(self, cameras=()):
        seen = self.fake.observe(cameras)
        force = 90.0 if len(self.fake.sent) == 10 else 1.0
        return replace(seen, signals=seen.signals | {"force": np.full(3, force)})


def latched_limits(robot, folder, contact=False):
    limits = replace(declared_limits(robot.description), latch=Latch(folder, robot.description.serial))
    if not contact:
        return limits
    force = Signal("force", (3,), ("N",), elements=("x", "y", "z"))
    description = replace(robot.description, signals=(*robot.description.signals, force))
    return replace(limits, contact=ForceGuard(description, "force", 50.0))


@pytest.mark.parametrize("contact", [False, True])
def test_only_a_reset_ends_a_stop_whether_a_person_or_contact_made_it_and_it_outlives_the_process(
    tmp_path, contact
):
    def session(decide, step):
        robot = Stopped() if contact else RealRobot()
        person = PersonSupervisor(robot, "ann")
        controller = Still() if contact else pressing(person, "stop", step)
        with connected(robot), somebody(person, decide) as seen:
            arm = SafetyEnvelope(robot, latched_limits(robot, tmp_path, contact))
            try:
                return seen, record_attended(
                    Station(arm, controller, person), tmp_path / "out", RecordingSpec(2, 0.7), person
                )
            finally:
                sent.append(len(robot.fake.sent))

    sent, usual = [], answering()
    with pytest.raises(TrialsPaused):
        session(lambda state: Action("leave") if state.stage == "stopped" else usual(state), 3)
    latch = Latch(tmp_path, "fake-1")
    assert latch.stopped is not None
    with pytest.raises(TrialsPaused):
        session(lambda state: Action("leave") if state.stage == "stopped" else usual(state), 3)
    assert sent[1] == 0, "a new process moves nothing"
    seen, dataset = session(usual, 1000)
    stages = [state.stage for state in seen if state.stage != "waiting"]
    assert "stopped" in stages and stages.index("stopped") < stages.index("running")
    kinds_of_stops = [(entry.kind, entry.by) for entry in latch.entries()]
    who = "the safety envelope" if contact else "ann"
    assert kinds_of_stops[:2] == [("stop", who), ("reset", "ann")] and latch.stopped is None
    assert sum("stopped" in kinds(dataset.episode(number)) for number in dataset.numbers) >= 1


@settings(max_examples=15, deadline=None)
@given(
    stops=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=3),
    tries=st.lists(st.sampled_from(["start", "success", "redo", "skip", "resume"]), max_size=4),
)
def test_after_a_stop_no_action_but_a_reset_moves_the_robot(stops, tries):
    """Whenever stops come, before, in or after a trial, every command after them follows a reset."""
    robot = RealRobot()
    person = PersonSupervisor(robot, "ann")
    log, pressed, left = [], [0], list(stops)

    def act(action):
        stays = np.allclose(action, robot.fake.position, atol=1e-3)
        log.append("hold" if stays else "command")
        return robot.fake.act(action)

    robot.act = act

    def press(kind, **more):
        log.append(kind)
        person.press(Action(kind, **more))
        log.append(f"{kind}ped" if kind == "stop" else kind)

    def decide(state):
        if state.stage == "stopped":
            for kind in tries:
                with pytest.raises(WrongUse):
                    person.press(Action(kind))
            log.append("reset")
            return Action("reset", note="nothing is wrong")
        if left and left[0][0] == 0 and state.stage == "placing":
            left.pop(0)
            press("stop")
            return None
        if left and left[0][0] == 2 and state.stage == "judging":
            left.pop(0)
            press("stop")
            return None
        return usual(state)

    def on_act():
        pressed[0] += 1
        if left and left[0][0] == 1 and pressed[0] >= left[0][1]:
            left.pop(0)
            press("stop")

    usual = answering()
    with tempfile.TemporaryDirectory() as folder:
        limits = latched_limits(robot, Path(folder))
        with connected(robot), somebody(person, decide):
            arm = SafetyEnvelope(robot, limits)
            station = Station(arm, Still(on_act=on_act), person)
            record_attended(station, Path(folder) / "out", RecordingSpec(1, 0.5), person)
        entries = [entry.kind for entry in limits.latch.entries()]
    assert entries == ["stop", "reset"] * (len(entries) // 2) and len(entries) >= 2
    stopped = False
    for what in log:
        stopped = what == "stopped" or (stopped and what != "reset")
        assert not (stopped and what == "command"), log


def test_a_trial_that_is_done_again_and_a_robot_that_fails_are_void(tmp_path):
    dataset, _, person = run(tmp_path, answering("redo", "success", "missed"), robot=RealRobot(gone_after=25))
    void = [find_void(dataset.episode(number)) for number in dataset.numbers]
    assert sum(reason is not None for reason in void) == 2 == person.state.void
    assert any("again" in str(reason) for reason in void) and any("fault" in str(reason) for reason in void)
    assert [outcome for outcome in known_outcomes(dataset) if outcome is not None] == [True, False]


def test_a_session_that_ends_resumes_at_the_next_trial(tmp_path):
    judged = []

    def leave_after_one(state):
        if state.stage == "placing":
            return Action("leave" if judged else "start")
        if state.stage == "judging":
            judged.append(1)
            return Action("success")
        return None

    with pytest.raises(TrialsPaused, match=r"the same command resumes"):
        run(tmp_path, leave_after_one)
    dataset, seen, _ = run(tmp_path, answering("missed"))
    assert known_outcomes(dataset) == [True, False]
    first = next(state for state in seen if state.stage == "placing")
    assert (first.done, first.trial.number) == (1, 1)


def test_a_scene_that_is_skipped_has_no_episode(tmp_path):
    def decide(state):
        if state.stage == "placing":
            return Action("skip" if state.trial.scene == 0 else "start")
        return Action("success") if state.stage == "judging" else None

    dataset, _, _ = run(tmp_path, decide)
    assert [find_trial(dataset.episode(number).events) for number in dataset.numbers] == [1]


def test_a_pause_waits_and_a_note_before_the_trial_belongs_to_it(tmp_path):
    paused = []

    def decide(state):
        if state.stage == "placing" and not paused:
            paused.append(1)
            return Action("pause")
        if state.stage == "paused":
            return Action("resume") if state.message == "noted" else Action("note", note="a new cube")
        if state.stage == "placing":
            return Action("start")
        return Action("success") if state.stage == "judging" else None

    dataset, seen, _ = run(tmp_path, decide, RecordingSpec(1, 0.5))
    assert "paused" in [state.stage for state in seen]
    assert kinds(dataset.episode(0))["note"] == "a new cube"


def test_what_is_not_possible_now_is_refused():
    person = PersonSupervisor(RealRobot(), "ann")
    with pytest.raises(WrongUse, match=r"success is not possible while waiting.*available"):
        person.press(Action("success"))
    person.announce(Announcement(0, 3, 0, can_skip=False))
    assert "skip" not in person.state.allowed
    for bad in ({"failure": " "}, {"failure": "a\nb"}, {"severity": "huge"}, {"note": "x" * 2000}):
        with pytest.raises(WrongUse):
            Action("failure", **bad)
    with pytest.raises(WrongUse, match=r"who stands"):
        PersonSupervisor(RealRobot(), " ")


def test_a_robot_that_stays_lost_ends_the_session_and_says_so(tmp_path):
    robot = RealRobot(gone_after=3)

    def connect():
        if robot.fake.connects:
            raise RobotGone("no answer")
        robot.fake.connect()

    robot.connect = connect
    person = PersonSupervisor(robot, "ann")
    spec = RecordingSpec(1, 1.0, reconnects=1, reconnect_wait_s=0.0)
    with pytest.raises(RobotGone):
        run(tmp_path, answering(), spec, robot, person=person)
    assert person.state.stage == "ended" and "lost" in person.state.message


def test_the_time_that_is_left_is_said_in_words():
    assert describe_need(12, 2400.0) == "12 trials, about 40 minutes"
    assert describe_need(1, 20.0) == "1 trial, about 1 minute"
