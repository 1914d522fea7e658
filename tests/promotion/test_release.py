"""Stages of a release: stop rules that may be looked at any time, a shadow that never acts, a canary's fraction of the episodes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.learning.examples import TINY, Standin, point
from twinloop.datasets.reader import open_dataset
from twinloop.errors import GateError, UnknownName
from twinloop.learning.train import train
from twinloop.policies.act import PolicyController
from twinloop.promotion.registry import PolicyRegistry
from twinloop.promotion.release import (
    RULES,
    ShadowController,
    StopRule,
    is_canary,
    judge_stage,
    load_shadow,
    read_outcomes,
    save_shadow,
)
from twinloop.robots import connected
from twinloop.robots.record import RecordingSpec, record


@pytest.mark.parametrize("stage", RULES)
def test_each_stage_stops_what_is_too_bad_and_lets_on_what_is_good(stage):
    assert judge_stage(stage, []).step == "go on"
    assert judge_stage(stage, [False] * 20).step == "stop"
    good = judge_stage(stage, [True] * 40)
    assert good.step == ("go on" if stage == "full" else "advance"), (
        "after full there is nothing to advance to"
    )
    assert judge_stage(stage, [True, False, True]).step == "go on"
    with pytest.raises(UnknownName):
        judge_stage("half", [])


def test_a_policy_at_the_bar_is_rarely_stopped_however_often_one_looks():
    rng = np.random.default_rng(0)
    rule = StopRule(0.8, alpha=0.05)
    stopped = [
        judge_stage("canary", (rng.random(80) < 0.8).tolist(), rule).step == "stop" for _ in range(100)
    ]
    assert np.mean(stopped) <= 0.05


def test_a_canary_acts_in_its_fraction_and_always_in_the_same_episodes():
    chosen = [is_canary(k, 0.1, "pick-v2") for k in range(5000)]
    assert abs(np.mean(chosen) - 0.1) < 0.015
    assert chosen == [is_canary(k, 0.1, "pick-v2") for k in range(5000)]
    assert chosen != [is_canary(k, 0.1, "pick-v3") for k in range(5000)]


def test_a_shadow_watches_and_never_acts(tmp_path):
    data = point(tmp_path / "data", episodes=8)
    config = replace(TINY, recipe="real-only", steps=150, learning_rate=0.01, validate_every=50)
    champion = train(real=data, out=tmp_path / "champion", config=config)
    alike = train(real=data, out=tmp_path / "alike", config=replace(config, seed=3))
    robot, alone = Standin(), Standin()
    plan = RecordingSpec(episodes=2, time_limit_s=1.0)
    with connected(robot), connected(alone):
        acting = PolicyController(champion, robot.description)
        both = ShadowController(acting, PolicyController(alike, robot.description), robot.description)
        record(robot, both, tmp_path / "both", plan, supervisor=robot)
        record(
            alone, PolicyController(champion, alone.description), tmp_path / "alone", plan, supervisor=alone
        )
    assert np.array_equal(robot.sent, alone.sent), "what the robot was sent is the champion's alone"
    lines = both.finish()
    assert len(lines) == 2 and all(line.good and line.away < 0.1 for line in lines)
    save_shadow(lines, tmp_path / "both.shadow.jsonl")
    assert load_shadow(tmp_path / "both.shadow.jsonl", alike.id) == [True, True]
    assert load_shadow(tmp_path / "both.shadow.jsonl", champion.id) == []
    assert read_outcomes(open_dataset(tmp_path / "both"), champion.id) == [True, True]
    with pytest.raises(GateError, match="is not a record of a shadow"):
        load_shadow(tmp_path / "gone.jsonl", alike.id)


def test_a_shadow_that_would_break_limits_or_go_elsewhere_is_told(tmp_path):
    class Fixed:
        actor, cameras = "policy", ()

        def __init__(self, value, name):
            self.value, self.actor_id = value, name

        def restart(self, observation, seed):
            """Nothing to forget."""

        def act(self, observation):
            return np.full(2, self.value)

    robot = Standin()
    for value, good in ((0.0, True), (0.9, False), (1.5, False), (float("nan"), False)):
        with connected(robot):
            both = ShadowController(Fixed(0.0, "a@1"), Fixed(value, "b@2"), robot.description)
            record(
                robot,
                both,
                tmp_path / f"d{value}",
                RecordingSpec(episodes=1, time_limit_s=0.2),
                supervisor=robot,
            )
        assert [line.good for line in both.finish()] == [good]


@pytest.mark.filterwarnings("ignore")
def test_a_stage_is_judged_and_stopped_from_the_command_line(twinloop, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
    monkeypatch.chdir(tmp_path)
    data = point(tmp_path / "data")
    config = replace(TINY, recipe="real-only", steps=1)
    made = [train(real=data, out=tmp_path / f"p{k}", config=replace(config, seed=k)) for k in range(2)]
    registry = PolicyRegistry(tmp_path)
    registry.promote(made[0], None, by="ann", override="first")
    registry.promote(made[1], None, by="ann", override="try it", stage="canary", fraction=0.5)
    robot = Standin()
    with connected(robot):
        controller = PolicyController(made[1], robot.description)
        record(
            robot,
            controller,
            tmp_path / "used",
            RecordingSpec(episodes=6, time_limit_s=0.2),
            supervisor=robot,
        )
    for least in (0, 1, 2, "nan"):
        code, _, err = twinloop(
            "registry", "release", "used", "--stage", "canary", "--min-success-rate", least
        )
        assert code == 2 and "must lie between 0 and 1" in err
    code, out, err = twinloop("registry", "release", "used", "--stage", "canary", "--json")
    found = json.loads(out)
    assert code == 1 and found["step"] == "stop" and found["episodes"] == 6 and found["good"] == 0, err
    assert registry.policy("challenger").id == made[1].id, "judged, not yet carried out"
    code, out, _ = twinloop("registry", "release", "used", "--stage", "canary", "--apply", "--by", "eve")
    assert code == 1 and "withdraw version 2 from canary" in out
    assert registry.state().aliases["challenger"] is None and registry.entries()[-1].by == "eve"
    code, _, err = twinloop("registry", "release", "used", "--stage", "canary")
    assert code == 1 and "there is no challenger" in err
