"""Trials with a person beside the robot, of `evaluate` and `gate`: blind, placed as asked, repeated when void, resumed."""

import json

import numpy as np
import pytest

from tests.supervision.people import answering, somebody
from twinloop.datasets.reader import open_dataset
from twinloop.errors import TrialsPaused
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate_in_turns
from twinloop.promotion.checks import Situation
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.rules import Rules
from twinloop.promotion.run import EVIDENCE, GateConfig, gate
from twinloop.robots import connected, open_robot
from twinloop.supervision.person import make_person
from twinloop.supervision.series import find_void
from twinloop.supervision.trial import Action, find_trial
from twinloop.testing.policies import ProportionalPolicy
from twinloop.twins import load_twin

ACCEPTED = Situation(accepted=("replay", "artefacts"), by="ann", reason="a test has no recordings")


@pytest.fixture(scope="module")
def cell():
    pytest.importorskip("pybullet")
    robot = open_robot("standin:ideal")
    with connected(robot):
        yield robot, load_twin("franka_pick_place")


@pytest.fixture
def two(cell):
    schema, home = cell[0].description.schema(), np.asarray(cell[0].observe().signals["observation.state"])
    return [ProportionalPolicy(schema, home, gain, name) for gain, name in ((0.2, "slow"), (0.4, "fast"))]


def told(episode, kind):
    return next(event.detail for event in episode.events if event.kind == kind)


def test_policies_are_tried_blind_and_void_trials_are_counted_apart(cell, two, tmp_path):
    robot, twin = cell
    decide = answering("redo", "missed_target", "success", "success", "success")

    def evaluated(how, scenes):
        person = make_person(robot, "ann", twin)
        place = RobotEnvironment(robot, person, 0.2)
        with somebody(person, how) as seen:
            found = evaluate_in_turns(two, place, episodes=scenes, seed=5, out=tmp_path / "out")
        return found, seen, person

    found, seen, person = evaluated(decide, 2)
    assert sum(len(one.repeated) for one in found) == 1 == person.state.void
    assert sorted(one.successes for one in found) == [1, 2] and all(len(one.judged) == 2 for one in found)
    assert not any(name in str(state) for state in seen for name in ("slow", "fast")), "nobody knows who acts"
    schedule = json.loads((tmp_path / "out.schedule.json").read_text())
    order = [two[trial["policy"]].name for trial in schedule["trials"]]
    episodes = [
        (find_trial(e.events), name, e)
        for name in ("slow", "fast")
        for e in open_dataset(tmp_path / "out" / name)
    ]
    assert {(number, name) for number, name, _ in episodes} == set(enumerate(order))
    asked = {state.trial.number: state.values for state in seen if state.stage == "placing"}
    for number, _, episode in episodes:
        placed = dict(pair.split("=") for pair in told(episode, "placed").removeprefix("measured ").split())
        assert abs(float(placed["object_offset_x_m"]) - asked[number]["object_offset_x_m"]) < 0.015
        assert (find_void(episode) is None) == (episode.success is not None)

    def leave(state):
        return Action("leave") if state.stage == "placing" else None

    with pytest.raises(TrialsPaused):
        evaluated(leave, 3)

    def skip(state):
        return Action("skip") if state.stage == "placing" else None

    more, seen, _ = evaluated(skip, 3)
    assert next(state.trial.scene for state in seen if state.stage == "placing") == 7, (
        "only the third scene is left"
    )
    assert [t.void for t in more[0].trials] == [None, None, "left out by the person beside the robot"]


def test_a_gate_goes_by_the_word_of_the_person_and_continues_where_it_stopped(cell, two, tmp_path):
    robot, twin = cell
    judged = []

    def leave_in_the_third(state):
        if state.stage == "placing":
            return Action("leave" if len(judged) == 3 else "start")
        if state.stage == "judging" and not state.describing:
            judged.append(1)
            return Action("failure", failure="never_lifted") if len(judged) == 2 else Action("success")
        return None

    def run(how, evidence):
        person = make_person(robot, "ann", twin)
        with somebody(person, how) as seen:
            try:
                gate(
                    two[0], twin, GateConfig(Rules(max_trials=2), scenes=2, time_limit_s=0.2), champion=two[1], robot=robot,
                    supervisor=person, evidence=evidence, out=tmp_path / "g", situation=ACCEPTED,
                )  # fmt: skip
            finally:
                first = next(state for state in seen if state.stage == "placing")
        return first

    with pytest.raises(TrialsPaused):
        run(leave_in_the_third, None)
    before = load_evidence(tmp_path / "g" / EVIDENCE)
    assert len(before.real) == 1
    first = run(answering("redo", "success"), before)
    assert first.done == 3 and first.trial.total == 4 and "skip" not in first.allowed
    after = load_evidence(tmp_path / "g" / EVIDENCE)
    assert after.real[0] == before.real[0] and len(after.real) == 2 and after.combinable
    assert {after.real[0].candidate, after.real[0].champion} == {True, False}
    assert (after.real[1].candidate, after.real[1].champion) == (True, True)
    recorded = [e for one in two for e in open_dataset(tmp_path / "g" / "recordings" / one.name)]
    assert len(recorded) == 5 and sum(find_void(e) is not None for e in recorded) == 1
