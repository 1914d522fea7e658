"""How often a policy succeeds: exact intervals, the same scenes for all, in a twin and on a robot."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.learning.examples import TINY, Standin, point
from tests.terminal import twinloop
from twinloop.cli.evaluate import _load_scenes
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Outcome
from twinloop.errors import LearnError, NewerFormat, WrongUse
from twinloop.evaluation.result import Evaluation, Trial, compare, load_evaluation
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate, evaluate_in_turns
from twinloop.evaluation.twin import require_twin
from twinloop.generation.job import Job
from twinloop.generation.rollout import episode_schema
from twinloop.learning.train import train
from twinloop.robots import connected
from twinloop.testing.policies import ProportionalPolicy
from twinloop.twins import load_twin, save_twin


def evaluation(*outcomes, name="a"):
    return Evaluation(name, name, "here", 0, tuple(Trial(k, bool(s)) for k, s in enumerate(outcomes)))


def short(robot):
    """Trials of a second on a robot without a twin."""
    return RobotEnvironment(robot, time_limit_s=1.0)


def test_an_evaluation_is_read_back_as_it_was_saved(tmp_path):
    trials = (
        Trial(4, True, None, "place", {"mass_kg": 0.25, "texture": "wood"}, 2),
        Trial(5, False, "dropped"),
    )
    twin = {"name": "cell", "version": None, "hash": "abc"}
    saved = Evaluation("pick", "1f", "cell", 4, trials, twin=twin)
    assert load_evaluation(saved.save(tmp_path / "kept")) == saved
    path = tmp_path / "kept" / "evaluation.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(NewerFormat, match="newer Twinloop"):
        load_evaluation(tmp_path / "kept")
    path.write_text("{}")
    with pytest.raises(WrongUse, match="not a valid Evaluation"):
        load_evaluation(tmp_path / "kept")
    with pytest.raises(WrongUse, match="cannot read"):
        load_evaluation(tmp_path)


def test_pairs_are_compared_where_they_disagree():
    first, second = evaluation(1, 1, 1, 1, 1, 1, 0, 1), evaluation(1, 0, 0, 0, 0, 0, 1, 0, name="b")
    found = compare(first, second)
    assert (found.only_first, found.only_second) == (6, 1) and found.difference == pytest.approx(5 / 8)
    assert found.p_value == pytest.approx(2 * (1 + 7) / 2**7), (
        "exact McNemar: a fair coin, 6 of 7 or more extreme"
    )
    assert compare(first, first).p_value == 1.0
    with pytest.raises(WrongUse, match="cannot be paired"):
        compare(first, evaluation(1, 0))


def test_an_unjudged_trial_does_not_count_against_a_policy():
    first = Evaluation(
        "a", "a", "here", 0, tuple(Trial(k, s) for k, s in enumerate((True, None, False, None)))
    )
    assert (first.successes, len(first.judged), first.success_rate) == (1, 2, 0.5)
    assert first.interval() == evaluation(1, 0).interval()
    assert sum(first.failures.values()) == 1
    found = first.as_json()
    assert (found["episodes"], found["judged"], found["outcomes"]) == (4, 2, [True, None, False, None])
    pair = compare(first, evaluation(0, 0, 0, 0, name="b"))
    assert (pair.difference, pair.only_first, pair.only_second) == (0.5, 1, 0)
    unknown = replace(first, trials=(Trial(0, None),))
    assert unknown.as_json()["success"] is None and unknown.as_json()["interval_95"] == [0.0, 1.0]


def test_trials_on_a_robot_go_on_after_an_unjudged_one():
    class Undecided(Standin):
        def judge(self, over=False):
            return Outcome()

    robot = Undecided()
    pointer = ProportionalPolicy(robot.description.schema(), [0.5, 0.5])
    with connected(robot):
        found = evaluate(pointer, RobotEnvironment(robot, time_limit_s=0.2, until_failure=True), episodes=2)
    assert [trial.success for trial in found.trials] == [None, None]


def test_every_policy_meets_the_same_scenes_in_a_twin(panda_data, tiny_policy, short_trials, tmp_path):
    other = train(panda_data, out=tmp_path / "other", config=replace(TINY, seed=9, head="flow"))
    twin = load_twin("franka_pick_place")
    kept = tmp_path / "kept"
    first = evaluate(tiny_policy, twin, episodes=3, seed=2, out=kept)
    second = evaluate(other, twin, episodes=3, seed=2)
    assert [trial.draw for trial in first.trials] == [trial.draw for trial in second.trials]
    assert compare(first, second).difference == first.success_rate - second.success_rate
    assert sum(first.failures.values()) == 3 - first.successes == sum(first.failed_in.values())
    assert {name.split()[0] for name, _, _ in first.slices()} == {
        "object_offset_x_m",
        "object_offset_y_m",
        "object_yaw_rad",
        "target_offset_x_m",
        "target_offset_y_m",
    }
    episode = open_dataset(kept).episode(0)
    assert episode.provenance.actor == "policy"
    assert episode.provenance.actor_id == f"{tiny_policy.name}@{tiny_policy.id}"
    again = evaluate(other, twin, episodes=3, seed=2)
    assert again == second, "chance in a policy's head follows from the episode's seed"


def test_a_policy_that_learned_to_point_points(tmp_path):
    data = point(tmp_path / "data", episodes=12)
    config = replace(TINY, recipe="real-only", steps=200, validate_every=50, learning_rate=0.01)
    made = train(real=data, out=tmp_path / "pointer", config=config)
    worse = train(real=data, out=tmp_path / "worse", config=replace(config, steps=1, learning_rate=1e-9))
    robot = Standin()
    with connected(robot):
        found, other = evaluate_in_turns(
            [made, worse], short(robot), episodes=3, seed=4, out=tmp_path / "trials"
        )
    assert found.success_rate == 1.0 and found.standin and found.where == "fake-1"
    assert robot.prepared == [4, 4, 5, 5, 6, 6], "policies take turns in every scene"
    assert len(open_dataset(tmp_path / "trials" / "pointer")) == 3
    assert compare(found, other).only_second == 0
    with connected(robot):
        evaluate(made, short(robot), episodes=1, out=tmp_path / "trials/pointer")
        with pytest.raises(WrongUse, match="another robot or policy; got fake-1, pointer@"):
            evaluate(worse, short(robot), episodes=1, out=tmp_path / "trials/pointer")
    assert len(open_dataset(tmp_path / "trials" / "pointer")) == 4, "its own may be added to"


def test_a_twin_or_robot_that_does_not_fit_is_refused(tiny_policy, tmp_path):
    with pytest.raises(LearnError, match=r"does not fit twin so101_pick_place: observation.state; got 6"):
        evaluate(tiny_policy, "so101_pick_place", episodes=1)
    slow = replace(load_twin("franka_pick_place"), control_hz=25.0)
    with pytest.raises(LearnError, match=r"control rate; got 25 Hz; expected 50 Hz"):
        evaluate(tiny_policy, slow, episodes=1)
    robot = Standin()
    with connected(robot), pytest.raises(LearnError, match="8 actions"):
        evaluate(tiny_policy, robot, episodes=1)


def test_a_policy_of_another_robot_is_refused_in_a_twin_as_on_a_robot():
    twin = load_twin("so101")
    schema = episode_schema(Job(twin, "excite", "waypoints"))
    ours = ProportionalPolicy(schema, [0.0] * 6)
    require_twin(ours, Job(twin, "excite", "waypoints"))
    other = replace(ours.interface.action, elements=tuple(f"axis{k}.target" for k in range(6)))
    ours.interface = replace(ours.interface, action=other)
    with pytest.raises(LearnError, match=r"does not fit twin so101: elements of action: "):
        require_twin(ours, Job(twin, "excite", "waypoints"))


def test_a_robot_that_does_not_say_how_long_its_task_takes_is_given_a_limit(tmp_path):
    robot = Standin()
    policy = ProportionalPolicy(robot.description.schema(), [0.5, 0.5])
    with connected(robot), pytest.raises(WrongUse, match="--seconds on the command line"):
        evaluate(policy, robot, episodes=1)
    refused = twinloop("evaluate", "p", "--seconds", "3", cwd=tmp_path, code=2)
    assert "--seconds limits trials on a robot" in " ".join(refused.split())


def test_a_config_is_evaluated_in_its_own_twin(tmp_path):
    own = replace(load_twin("franka_push").with_values(object_mass_kg=0.2), name="bench")
    save_twin(own, tmp_path / "twins" / "bench")
    policy = SimpleNamespace(training_record=SimpleNamespace(twin={"name": "franka_push"}))
    config = tmp_path / "scenes.yaml"
    config.write_text("twin: twins/bench\nrandomization: {object_mass_kg: [0.1, 0.3]}\n")
    twin, randomization = _load_scenes(policy, None, config)
    assert (twin.name, randomization.names) == ("bench", ["object_mass_kg"])
    config.write_text("randomization: {object_mass_kg: [0.1, 0.3]}\n")
    assert _load_scenes(policy, None, config)[0].name == "franka_push", "without one, in the policy's"
    assert _load_scenes(policy, str(tmp_path / "twins/bench"), config)[0].name == "bench"


def test_what_cannot_end_well_is_refused_before_anybody_acts(panda_data, tmp_path):
    train(panda_data, out=tmp_path / "p", config=TINY)
    (tmp_path / "film").touch()
    policy = str(tmp_path / "p")
    for words, said in (
        ([policy, policy], "a policy is named twice"),
        ([policy, "--videos", str(tmp_path / "film")], "videos are written to a folder"),
        ([policy, "--seed", "-1"], "greater than or equal to 0"),
    ):
        refused = twinloop("evaluate", *words, cwd=tmp_path, code=2)
        assert said in " ".join(refused.split())
    with pytest.raises(WrongUse, match="a policy is a folder"):
        train(panda_data, out=tmp_path / "film", config=TINY)
