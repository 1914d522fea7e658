"""Slices: objects, sites and people that differ show, with the conditions from a table; and success."""

import numpy as np
import pytest

from twinloop.episode import Event, Provenance, Schema, Signal, make_episode
from twinloop.errors import UnknownName, WrongUse
from twinloop.gap.conditions import conditions_of, load_conditions, sliced
from twinloop.gap.run import measure_gap
from twinloop.gap.success import measure_success, rate

from .worlds import OPTIONS, record_arm

SCHEMA = Schema((Signal("observation.state", (1,), ("rad",)), Signal("condition.light", (1,), ("1",))), 10.0)


def outcome(success, light=1.0, site="lab", phase="approach", seed=0, **provenance):
    return make_episode(
        SCHEMA,
        [0.0, 0.1],
        {"observation.state": np.zeros((2, 1)), "condition.light": np.full((2, 1), light)},
        events=(Event(0.0, "phase", phase),),
        success=success,
        failure=None if success is not False else "slipped",
        provenance=Provenance(source="real", site=site, seed=seed, **provenance),
    )


def test_one_object_that_the_twin_gets_wrong_shows_as_an_object(tmp_path):
    """Five episodes with a worn joint, labelled as another object, among five good ones; sites are mixed."""
    data = record_arm(tmp_path / "real", {"action_delay_s": 0.02}, count=5, seconds=4.0)
    from twinloop.datasets.writer import append_to
    from twinloop.testing.known_truth import record_known
    from twinloop.twins import load_twin

    with append_to(tmp_path / "real", schema=data.schema) as writer:
        for seed in range(5):
            writer.add(
                record_known(
                    load_twin("so101"),
                    {"action_delay_s": 0.12},
                    50 + seed,
                    seconds=4.0,
                    rate_hz=50.0,
                    top_hz=0.8,
                )
            )
    table = {
        str(number): {"object": "mug" if number < 5 else "bottle", "site": "ab"[number % 2]}
        for number in range(10)
    }
    found = measure_gap(
        tmp_path / "real", "so101", only=("object", "environment"), conditions=table, options=OPTIONS
    )
    assert found.shown == ("object",)
    bottle = next(m for m in found["object"].measures if m.name == "replay error, object bottle")
    assert bottle.low > 0.0 and bottle.unit == "rad" and bottle.episodes == bottle.sim_episodes == 5
    assert found["environment"].evaluated


def test_conditions_come_from_provenance_signals_and_tables(tmp_path):
    episode = outcome(True, light=0.4, actor="operator", actor_id="p1", draw={"clutter_count": 3.0})
    known = conditions_of(episode, {"object": "mug"})
    assert known == {
        "site": "lab", "participant": "p1", "clutter_count": 3.0, "light": pytest.approx(0.4), "object": "mug",
    }  # fmt: skip
    table = tmp_path / "conditions.csv"
    table.write_text("episode,object,light\n0,mug,0.5\nabc,bottle,\n")
    assert load_conditions(table) == {"0": {"object": "mug", "light": 0.5}, "abc": {"object": "bottle"}}
    table.write_text("number,object\n0,mug\n")
    with pytest.raises(WrongUse, match="'episode'"):
        load_conditions(table)


def test_many_numbers_are_cut_in_two_and_one_value_is_no_slice():
    real = [{"light": float(k), "site": "lab"} for k in range(10)]
    found = sliced(real, [{"light": 2.0}, {}])
    assert set(found) == {"light"}
    here, there = found["light"]
    assert here.count("<= 4.5") == here.count("> 4.5") == 5 and there == ["<= 4.5", None]


def test_numbers_that_hardly_repeat_are_cut_in_two_as_well():
    here, _ = sliced([{"delay": 0.01 * k} for k in range(6)], [])["delay"]
    assert sorted(set(here)) == ["<= 0.025", "> 0.025"]
    repeated, _ = sliced([{"count": float(k % 2)} for k in range(6)], [])["count"]
    assert set(repeated) == {"0", "1"}


def test_success_has_exact_intervals_overall_and_by_slice():
    real = [outcome(k % 4 != 0, site="ab"[k % 2], seed=k) for k in range(20)]
    sim = [outcome(True, site="a", seed=100 + k) for k in range(30)]
    known = [[conditions_of(one) for one in side] for side in (real, sim)]
    found = measure_success(real, sim, *known, "sim")
    assert (found.overall.real.successes, found.overall.real.episodes) == (15, 20)
    # Clopper-Pearson of 15 of 20 and of 30 of 30, from tables.
    assert (found.overall.real.low, found.overall.real.high) == pytest.approx((0.509, 0.913), abs=1e-3)
    assert found.overall.sim.low == pytest.approx(0.8843, abs=1e-4)
    assert found.overall.difference.value == pytest.approx(0.25)
    assert found.overall.difference.low > 0.0 and found.overall.p_value < 0.05
    by_name = {(one.condition, one.slice): one for one in found.slices}
    assert by_name["site", "a"].real.value == 0.5 and by_name["site", "a"].sim.value == 1.0
    assert by_name["site", "b"].real.value == 1.0 and by_name["site", "b"].sim is None
    assert found.real_failures == {"slipped": 5} and found.real_failed_in == {"approach": 5}


def test_unknown_success_is_not_zero():
    found = measure_success([outcome(None)], [], [{}], [], "")
    assert found.overall.real is None and "label" in found.needs
    assert rate(0, 0) is None
    judged = measure_success([outcome(True)], [], [{}], [], "")
    assert judged.overall.sim is None and "--policy" in judged.needs


def test_a_dimension_that_does_not_exist_is_refused(tmp_path):
    data = record_arm(tmp_path / "real", {"action_delay_s": 0.02}, count=3, seconds=1.0)
    with pytest.raises(UnknownName, match="latency"):
        measure_gap(data, "so101", only=("latncy",))
