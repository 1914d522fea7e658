"""What differs between engines is a measure of the dimension `numerics`."""

from types import SimpleNamespace

import pytest

from twinloop.gap.numerics import _engines


def evidence(*engines):
    episodes = [
        SimpleNamespace(provenance=SimpleNamespace(engine=engine), success=success)
        for engine, outcomes in engines
        for success in outcomes
    ]
    return SimpleNamespace(sim=SimpleNamespace(episodes=episodes, name="mixed"), seed=lambda *words: 1)


def test_success_is_compared_between_engines():
    [found] = _engines(evidence(("bullet", [True] * 5 + [False] * 15), ("mujoco", [True] * 18 + [False] * 2)))
    assert (found.dimension, found.name) == ("numerics", "success, bullet minus mujoco")
    assert found.value == pytest.approx(0.25 - 0.9) and found.low < found.value < found.high < 0.0


def test_one_engine_or_a_few_episodes_of_another_say_nothing():
    assert list(_engines(evidence(("mujoco", [True] * 20)))) == []
    assert list(_engines(evidence(("mujoco", [True] * 20), ("physx", [False] * 4)))) == []
