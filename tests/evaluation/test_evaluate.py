"""How often a policy succeeds: exact intervals, the same scenes for all, in a twin and on a robot."""

from dataclasses import replace

import pytest

from tests.learning.examples import TINY, Standin, point
from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.errors import LearnError, NewerFormat, WrongUse
from twinloop.evaluation.result import Evaluation, Trial, compare, load_evaluation
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate, evaluate_in_turns
from twinloop.learning.train import train
from twinloop.robots import connected
from twinloop.twins import load_twin


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
