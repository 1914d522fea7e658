"""MMRV and Pearson: worked examples, the published values, files of every shape, and what is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from twinloop.errors import WrongUse
from twinloop.gap.ranking import Rated, load_ratings, mean_maximum_rank_violation, rank_policies

REAL = Path(os.environ.get("TWINLOOP_REAL_DATA", "/nowhere")) / "sim_vs_real_success/simpler_real_vs_sim.json"


def rated(**rates):
    return {"task": {name: Rated(rate) for name, rate in rates.items()}}


def test_a_right_order_violates_nothing_and_a_swap_costs_the_real_difference():
    assert mean_maximum_rank_violation(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.2, 0.3])) == 0.0
    # b and c are swapped: both violate by 0.4, a by nothing.
    swapped = mean_maximum_rank_violation(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.3, 0.2]))
    assert swapped == pytest.approx((0.0 + 0.4 + 0.4) / 3)


@pytest.mark.skipif(not REAL.exists(), reason="needs the real recordings: set TWINLOOP_REAL_DATA")
def test_published_success_rates_give_the_known_values():
    real = load_ratings(f"{REAL}:real_success")
    sim = load_ratings(f"{REAL}:simpler_sim_success_visual_matching")
    found = rank_policies(real, sim, resamples=200)
    known = json.loads(REAL.read_text())["recomputed_per_task"]
    assert {one.task for one in found.tasks} == set(known)
    for one in found.tasks:
        assert len(one.policies) == known[one.task]["n_policies"]
        assert one.mmrv == pytest.approx(known[one.task]["mmrv"], abs=6e-5)
        assert one.pearson == pytest.approx(known[one.task]["pearson"], abs=6e-5)
        # The published means come from rates of more digits than the file holds.
        assert one.mean_absolute_gap == pytest.approx(known[one.task]["mean_abs_gap"], abs=1e-3)
    assert found.pairs == 42
    assert found.pearson == pytest.approx(0.907, abs=5e-4)
    assert found.pearson_interval[0] < 0.907 < found.pearson_interval[1]


def test_known_trials_widen_the_interval_and_few_policies_have_none():
    rates = {f"p{k}": k / 8 for k in range(1, 8)}
    exact = {"t": {name: Rated(rate) for name, rate in rates.items()}}
    tried = {"t": {name: Rated(rate, 10) for name, rate in rates.items()}}
    without, with_trials = (rank_policies(one, one, resamples=400, seed=3).tasks[0] for one in (exact, tried))
    assert without.mmrv_interval == (0.0, 0.0) and with_trials.mmrv_interval[1] > 0.05
    assert with_trials.pearson_interval[0] < without.pearson_interval[0] + 1e-12
    few = rank_policies(rated(a=0.2, b=0.4, c=0.9), rated(a=0.1, b=0.5, c=0.8), resamples=50).tasks[0]
    assert few.mmrv_interval is None and few.pearson_interval is None and few.pearson > 0.9


def test_policies_that_all_do_alike_have_no_correlation():
    found = rank_policies(rated(a=0.5, b=0.5), rated(a=0.1, b=0.9)).tasks[0]
    assert found.pearson is None and found.mmrv == 0.0


def test_files_of_every_shape_are_read(tmp_path):
    plain = tmp_path / "plain.json"
    plain.write_text('{"a": 0.5, "b": 1}')
    assert load_ratings(plain)["all"]["b"] == Rated(1.0)
    assert load_ratings(plain, trials=20)["all"]["b"] == Rated(1.0, 20)
    evaluated = tmp_path / "evaluated.json"
    evaluated.write_text('{"evaluations": [{"policy": "a", "success": 0.25, "episodes": 8}]}')
    assert load_ratings(evaluated)["all"]["a"] == Rated(0.25, 8)
    table = tmp_path / "table.csv"
    table.write_text("task,policy,success,episodes\npick,a,0.5,10\npick,b,0.7,\n")
    assert load_ratings(table) == {"pick": {"a": Rated(0.5, 10), "b": Rated(0.7)}}


def test_what_cannot_be_ranked_is_refused(tmp_path):
    with pytest.raises(WrongUse, match="no task has success rates of two policies"):
        rank_policies(rated(a=0.5, b=0.2), rated(c=0.5, d=0.2))
    broken = tmp_path / "broken.json"
    broken.write_text('{"a": 1.5}')
    with pytest.raises(WrongUse, match="0 to 1"):
        load_ratings(broken)
    with pytest.raises(WrongUse, match="available: a"):
        load_ratings(f"{broken}:b")
    broken.write_text("oops")
    with pytest.raises(WrongUse, match="neither JSON"):
        load_ratings(broken)
    table = tmp_path / "table.csv"
    table.write_text("policy,rate\na,0.5\n")
    with pytest.raises(WrongUse, match="policy, success"):
        load_ratings(table)
