"""Sharing a lost success among dimensions, against games whose Shapley values are known."""

import itertools
import math

import numpy as np
import pytest

from twinloop.diagnosis.attribute import attribute

ROWS = 400


class Game:
    """Rows succeed unless something in the combination makes them fail; counts what was asked for."""

    def __init__(self, fails):
        self.fails, self.asked = fails, []

    def __call__(self, coalitions):
        self.asked += list(coalitions)
        return {c: 1.0 - np.array([self.fails(c, row) for row in range(ROWS)], float) for c in coalitions}


def shapley(dimensions, value):
    """By the definition: the mean over all orders of what each adds."""
    lost = dict.fromkeys(dimensions, 0.0)
    for order in itertools.permutations(dimensions):
        for k, d in enumerate(order):
            gain = value(frozenset(order[:k])) - value(frozenset(order[: k + 1]))
            lost[d] += gain / math.factorial(len(dimensions))
    return lost


def overlapping(c, row):
    share = row / ROWS
    return ("latency" in c and share < 0.3) or ("contact" in c and 0.2 < share < 0.4)


def together_only(c, row):
    return {"object", "contact"} <= c and row < ROWS // 2


@pytest.mark.parametrize("fails", [overlapping, together_only])
def test_few_dimensions_get_their_exact_shapley_values(fails):
    dimensions = ("latency", "contact", "object", "sensing")
    game = Game(fails)
    found = attribute(dimensions, game, 64, np.random.default_rng(0))

    def value(c):
        return float(np.mean([not fails(c, row) for row in range(ROWS)]))

    known = shapley(dimensions, value)
    assert found.exact
    assert {d: found.lost[d].mean() for d in dimensions} == pytest.approx(known, abs=1e-9)
    total = sum(found.lost[d] for d in dimensions)
    assert np.allclose(total, found.before - found.after)


def test_dimensions_that_do_nothing_cost_no_further_combinations():
    game = Game(lambda c, row: "latency" in c and row < 100)
    found = attribute(("latency", "contact", "object", "sensing"), game, 64, np.random.default_rng(0))
    assert len(set(game.asked)) == len(game.asked) <= 6
    assert found.lost["latency"].mean() == pytest.approx(0.25)
    assert found.lost["contact"].mean() == 0.0


def test_a_small_budget_is_kept_and_the_losses_still_add_up():
    names = tuple("abcdefg")

    def fails(c, row):
        return any(row % 7 == k and name in c for k, name in enumerate(names))

    game = Game(fails)
    found = attribute(names, game, 24, np.random.default_rng(1))
    assert not found.exact
    assert len(game.asked) <= 24
    total = sum(found.lost[d].mean() for d in names)
    assert total == pytest.approx(float((found.before - found.after).mean()))
    assert all(found.lost[d].mean() == pytest.approx(1 / 7, abs=0.01) for d in names)


def test_nothing_measured_is_nothing_lost():
    found = attribute((), Game(lambda c, row: False), 8, np.random.default_rng(0))
    assert found.lost == {} and (found.before - found.after).sum() == 0.0
