"""The execution horizon, chosen in a twin."""

import pytest

from twinloop.errors import WrongUse
from twinloop.evaluation import horizon
from twinloop.evaluation.horizon import Horizon, find_execution_horizon
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.policies.networks.policy import load_policy
from twinloop.twins import load_twin

pytestmark = pytest.mark.usefixtures("short_trials")


def tried_with(successes, monkeypatch):
    """Stand in for the twin: so many successes for each horizon; returns the list of executions it saw."""
    seen = []

    def evaluate(policy, where, *, episodes, seed, **_):
        seen.append(policy.execution)
        won = successes[policy.execution.n_action_steps]
        trials = tuple(Trial(number, number < won) for number in range(episodes))
        return Evaluation(policy.name, policy.id, "twin", seed, trials)

    monkeypatch.setattr(horizon, "evaluate", evaluate)
    return seen


def test_the_horizon_that_succeeds_most_often_is_kept_and_recorded(tiny_policy, monkeypatch, tmp_path):
    seen = tried_with({3: 4, 2: 1, 4: 10, 5: 8}, monkeypatch)
    chosen, horizons = find_execution_horizon(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert [execution.n_action_steps for execution in seen] == [3, 5, 2, 4], "its own first"
    assert chosen.execution.n_action_steps == 4 and horizons[3] == Horizon(4, 10, 10)
    again = load_policy(chosen.save(tmp_path / "other"))
    assert again.execution == chosen.execution and again.id == chosen.id != tiny_policy.id
    assert again.training_record.results["horizons"][0] == {
        "n_action_steps": 3,
        "successes": 4,
        "episodes": 10,
    }


@pytest.mark.parametrize("better", [4, 8])
def test_a_horizon_that_is_better_by_chance_is_not_taken(tiny_policy, monkeypatch, better):
    tried_with({3: 4, 2: better, 4: 1, 5: 3}, monkeypatch)
    chosen, horizons = find_execution_horizon(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert chosen.id == tiny_policy.id and len(horizons) == 4


def test_a_policy_that_hardly_fails_is_left_alone(tiny_policy, monkeypatch):
    tried_with({3: 6}, monkeypatch)
    chosen, horizons = find_execution_horizon(tiny_policy, load_twin("franka_pick_place"), episodes=10)
    assert chosen.id == tiny_policy.id and horizons == (Horizon(3, 6, 10),)


def test_paces_are_tried_in_a_real_twin(tiny_policy):
    calls = []
    _, horizons = find_execution_horizon(
        tiny_policy, load_twin("franka_pick_place"), episodes=5, on_progress=lambda *now: calls.append(now)
    )
    assert [p.n_action_steps for p in horizons] == [3, 5, 2, 4] and calls[-1] == (20, 20)
    assert calls == sorted(calls)


def test_more_than_a_chunk_cannot_be_carried_out(tiny_policy):
    with pytest.raises(WrongUse, match="got 7; expected 1 to 6 actions"):
        tiny_policy.with_action_steps(7)
