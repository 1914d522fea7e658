"""The arithmetic behind a plan, against simulation and tables."""

import numpy as np
import pytest
from scipy import stats

from twinloop.coverage.result import Outcomes
from twinloop.coverage.rule import Range, Word
from twinloop.errors import UnknownName, WrongUse
from twinloop.planning.costs import Costs, costs_text, load_costs
from twinloop.planning.power import (
    UNKNOWN,
    gain_in_dimension,
    gain_in_region,
    people_to_record,
    readings_for_noise,
    runs_to_identify,
    trials_to_detect,
)
from twinloop.planning.settings import make_settings


@pytest.mark.parametrize(("before", "after"), [(0.4, 0.7), (0.1, 0.4), (0.6, 0.9)])
def test_as_many_trials_as_planned_have_the_power_that_was_asked_for(before, after):
    count = trials_to_detect(before, after)
    rng = np.random.default_rng(0)
    first, second = rng.binomial(count, before, 4000), rng.binomial(count, after, 4000)
    effect = 2 * np.arcsin(np.sqrt(second / count)) - 2 * np.arcsin(np.sqrt(first / count))
    seen = effect * np.sqrt(count / 2.0) > stats.norm.ppf(0.95)
    assert 0.76 <= seen.mean() <= 0.86


def test_more_trials_for_a_smaller_rise_and_no_end_of_them_for_none():
    assert trials_to_detect(0.5, 0.6) > trials_to_detect(0.5, 0.7) > trials_to_detect(0.5, 0.9)
    assert trials_to_detect(0.5, 0.5) == trials_to_detect(0.5, 0.4) == 400


def test_a_kind_of_person_is_met_as_often_as_promised():
    people = people_to_record(0.2)
    assert people == 14 and 1.0 - 0.8**people >= 0.95 > 1.0 - 0.8 ** (people - 1)


def test_a_deviation_is_known_as_well_as_promised():
    count = readings_for_noise(0.1)
    spread = np.random.default_rng(1).normal(size=(3000, count)).std(axis=1, ddof=1)
    assert np.mean(np.abs(spread - 1.0) < 0.1) == pytest.approx(0.95, abs=0.015)


def test_runs_grow_with_the_square_of_what_is_missing():
    assert runs_to_identify(0.3) == 4 and runs_to_identify(0.6) == 16 and runs_to_identify(0.1) == 3
    assert runs_to_identify(50.0) == 20


def test_a_gain_covers_what_comes_when_its_assumptions_hold():
    """Worlds drawn as the plan assumes: the interval must hold the truth as often as it says."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(300):
        loss, recovers = rng.uniform(5, 30), rng.uniform(0.4, 0.9)
        seen = rng.normal(loss, 3.0)
        gain = gain_in_dimension(seen, seen - 5.88, seen + 5.88, (0.4, 0.9), 0)
        held += gain.low <= loss * recovers <= gain.high
    assert held / 300 == pytest.approx(0.95, abs=0.04)


def test_a_region_that_fails_more_often_is_worth_more_and_one_without_outcomes_is_not_guessed():
    def gain(*counts):
        return gain_in_region(0.3, 30, Outcomes(*counts, None, {}), (0.4, 0.9), 0)

    bad, fair = gain(27, 30, 10, 70), gain(5, 30, 10, 70)
    assert bad.points > 4 * fair.points and bad.low > 0.0
    assert bad.high < 100 * 0.45 and fair.low < 0.5
    assert gain(0, 0, 0, 0) is UNKNOWN


def test_settings_fill_a_region_evenly():
    ranges = (Range("object.x", "m", low=0.6, high=0.72), Range("light", high=0.4, seen=(0.1, 0.39)))
    settings, how = make_settings(ranges, Costs(), 0)
    assert len(settings) == 4 * 4 and "4 x 4 cells" in how
    x, light = (np.array([s[name] for s in settings]) for name in ("object.x, m", "light"))
    assert x.min() >= 0.6 and x.max() <= 0.72 and light.min() >= 0.1 and light.max() <= 0.4
    cells = {(int((a - 0.6) / 0.03), int((b - 0.1) / 0.075)) for a, b in zip(x, light, strict=True)}
    assert len(cells) >= 12, "a Sobol sequence leaves few cells of the grid empty"
    words, _ = make_settings((Word("task", "left hand"),), Costs(), 0)
    assert all(setting == {"task": "left hand"} for setting in words)


def test_costs_are_read_checked_and_printed(tmp_path):
    path = tmp_path / "costs.yaml"
    path.write_text(costs_text())
    assert load_costs(path) == Costs()
    path.write_text("demonstration: 4\nrecovers: [0.2, 0.3]\n")
    assert load_costs(path).demonstration == 4.0 and load_costs(path).recovers == (0.2, 0.3)
    for text, message in (
        ("demonstrations: 4", "did you mean 'demonstration'"),
        ("trial: -1", "trial"),
        ("recovers: [0.9, 0.1]", "recovers"),
        ("- 3", "no cost file"),
        ("a: [", "not YAML"),
    ):
        path.write_text(text)
        with pytest.raises((WrongUse, UnknownName), match=message):
            load_costs(path)
    with pytest.raises(WrongUse, match="cannot read"):
        load_costs(tmp_path / "none.yaml")
