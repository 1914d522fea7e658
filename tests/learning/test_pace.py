"""How much of a chunk is carried out, found in a twin."""

import pytest

from twinloop.errors import WrongUse
from twinloop.learning import pace
from twinloop.learning.evaluate import Evaluation, Trial
from twinloop.learning.pace import Pace, find_pace
from twinloop.learning.policy import load_policy
from twinloop.twins import load_twin


def tried_with(successes, monkeypatch):
    """Stand in for the twin: so many successes for each pace; says which policies it saw."""
    seen = []

    def evaluate(policy, twin, *, episodes, seed, **_):
        seen.append(policy.execution)
        won = successes[policy.execution.n_action_steps]
        trials = tuple(Trial(number, number < won) for number in range(episodes))
        return Evaluation(policy.name, policy.id, "twin", seed, trials)

    monkeypatch.setattr(pace, "evaluate_in_twin", evaluate)
    return seen


def test_the_pace_that_succeeds_most_often_is_kept_and_told(tiny_policy, monkeypatch, tmp_path):
    seen = tried_with({3: 4, 2: 1, 4: 10, 5: 8}, monkeypatch)
    chosen, paces = find_pace(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert [execution.n_action_steps for execution in seen] == [3, 5, 2, 4], "its own first"
    assert chosen.execution.n_action_steps == 4 and paces[3] == Pace(4, 10, 10)
    again = load_policy(chosen.save(tmp_path / "paced"))
    assert again.execution == chosen.execution and again.id == chosen.id != tiny_policy.id
    assert again.training_record.results["paces"][0] == {"n_action_steps": 3, "successes": 4, "episodes": 10}


@pytest.mark.parametrize("better", [4, 8])
def test_a_pace_that_is_better_by_chance_is_not_taken(tiny_policy, monkeypatch, better):
    tried_with({3: 4, 2: better, 4: 1, 5: 3}, monkeypatch)
    chosen, paces = find_pace(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert chosen.id == tiny_policy.id and len(paces) == 4


def test_a_policy_that_hardly_fails_is_left_alone(tiny_policy, monkeypatch):
    tried_with({3: 6}, monkeypatch)
    chosen, paces = find_pace(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert chosen.id == tiny_policy.id and paces == (Pace(3, 6, 10),)


def test_paces_are_tried_in_a_real_twin(tiny_policy):
    told = []
    _, paces = find_pace(
        tiny_policy, load_twin("franka_pick_place"), episodes=5, progress=lambda *now: told.append(now)
    )
    assert [p.n_action_steps for p in paces] == [3, 5, 2, 4] and told[-1] == (20, 20)
    assert told == sorted(told)


def test_more_than_a_chunk_cannot_be_carried_out(tiny_policy):
    with pytest.raises(WrongUse, match="got 7; expected 1 to 6 actions"):
        tiny_policy.at_pace(7)
