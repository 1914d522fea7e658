"""Explained, unknown and named: from what the twin predicts and what the robot did."""

import numpy as np
import pytest

from twinloop.diagnosis.attribute import Attribution
from twinloop.diagnosis.weigh import TUNED_ON, weigh

ROWS = 64


def predicted(**shares):
    """Every dimension takes its own share of rows that succeed without it."""
    before = np.ones(ROWS)
    lost, outcomes, first = {}, {frozenset(): before}, 0
    after = before.copy()
    for name, share in shares.items():
        hit = np.zeros(ROWS)
        hit[first : first + round(share * ROWS)] = 1.0
        first += round(share * ROWS)
        lost[name], outcomes[frozenset({name})] = hit, before - hit
        after = after - hit
    outcomes[frozenset(shares)] = after
    return Attribution(tuple(shares), lost, outcomes, True)


def weighed(shared, won, count=40):
    return weigh(shared, won, count, np.random.default_rng(0))


def test_a_drop_that_the_twin_predicts_is_explained_and_the_larger_cause_comes_first():
    found = weighed(predicted(sensing=0.125, latency=0.5), won=15)
    assert [cost.dimension for cost in found.costs] == ["latency", "sensing"]
    assert found.costs[0].named and found.costs[0].lost.value == pytest.approx(0.5, abs=0.06)
    assert found.unknown.low < 0.05 < found.explained.low
    assert found.explained.value + found.unknown.value == pytest.approx(found.drop.value)


def test_a_drop_that_nothing_predicts_is_unknown():
    found = weighed(predicted(latency=0.0), won=10)
    assert not any(cost.named for cost in found.costs)
    assert found.explained.high == 0.0 and found.unknown.value == pytest.approx(found.drop.value)


def test_without_a_real_drop_nothing_is_named_whatever_the_twin_predicts():
    found = weighed(predicted(latency=0.6), won=40)
    assert not any(cost.named for cost in found.costs)
    assert found.explained.low == 0.0


def test_what_the_twin_predicts_beyond_the_real_drop_explains_nothing_more():
    found = weighed(predicted(latency=1.0), won=30)
    assert found.explained.value == pytest.approx(found.drop.value, abs=0.02)
    assert found.costs[0].lost.value == pytest.approx(found.explained.value, abs=0.02)


def test_few_runs_say_less_than_many():
    few, many = (weighed(predicted(latency=0.5), won=n // 2, count=n).costs[0].lost for n in (6, 60))
    assert few.high - few.low > 1.2 * (many.high - many.low)


def test_the_interval_of_the_explained_drop_covers_the_true_drop():
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(120):
        true = rng.uniform(0.2, 0.9)
        off = np.clip(true + rng.normal(0.0, 0.05), 0.0, 1.0)
        found = weigh(predicted(latency=off), int(rng.binomial(24, 1.0 - true)), 24, rng)
        covered.append(found.explained.low <= true <= found.explained.high)
    assert np.mean(covered) >= 0.9


def test_cases_that_set_a_constant_are_no_evidence_for_it():
    from benchmarks.bench_diagnose import FIRST, FULL, NONE_FROM, choose_cases

    assert {10_000, 10_001} <= TUNED_ON
    for first in (0, FIRST):
        gaps, nones = choose_cases(first, FULL)
        assert len(gaps) == FULL.gaps and len(nones) == FULL.none
        assert not TUNED_ON & {*gaps, *nones} and max(gaps) < NONE_FROM <= min(nones)
    assert min(gaps) > 100 and min(nones) > NONE_FROM + 100


def test_a_dimension_that_helps_costs_nothing_and_costs_and_unknown_add_up_to_the_drop():
    shared = predicted(actuation=0.75, latency=0.0)
    gained = shared.lost["actuation"].copy()
    gained[4:] = 0.0  # four rows that fail by actuation succeed again with latency
    lost = {**shared.lost, "latency": -gained}
    outcomes = shared.outcomes | {frozenset(shared.dimensions): shared.after + gained}
    for won in (2, 15, 38):
        found = weighed(Attribution(shared.dimensions, lost, outcomes, True), won)
        costs = {cost.dimension: cost.lost for cost in found.costs}
        assert (costs["latency"].value, costs["latency"].low) == (0.0, 0.0) and costs["latency"].high < 0.02
        total = sum(cost.value for cost in costs.values()) + found.unknown.value
        assert total == pytest.approx(found.drop.value)
        assert all(cost.low <= cost.value <= cost.high <= 1.0 for cost in costs.values())
