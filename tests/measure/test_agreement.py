"""Check, gap, diagnose, identify and monitor report the same delay for the same recordings."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tests.gap.worlds import OPTIONS, write
from twinloop.diagnosis.arm import follow_both, measure_latency
from twinloop.diagnosis.evidence import read_evidence
from twinloop.gap.run import measure_gap
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.run import identify
from twinloop.monitoring.features import episode_features
from twinloop.monitoring.shifts import find_shifts
from twinloop.quality.settings import Settings
from twinloop.quality.view import View
from twinloop.stats.bootstrap import paired
from twinloop.stats.interval import Interval
from twinloop.twins import load_twin

TWIN = load_twin("so101")
USUAL_S, REAL_S = float(TWIN.parameter("action_delay_s").nominal), 0.09
ADDED_S = REAL_S - USUAL_S
EPISODES = 4


def recorded(delay_s):
    """The same excitations of an SO-101 whose commands are late by `delay_s`."""
    drawn = {"action_delay_s": np.full(EPISODES, delay_s)}
    return list(rollout_drawn(Job(TWIN, "excite", "multisine"), list(range(EPISODES)), drawn))


@pytest.fixture(scope="module")
def episodes():
    """Usual and late recordings of the same motions."""
    return recorded(USUAL_S), recorded(REAL_S)


def check_delay(usual, late):
    def delays(side):
        found = [View(episode, Settings()).following for episode in side]
        return np.array([np.median([one.delay.value for one in each.values()]) for each in found])

    return paired(delays(usual), delays(late), seed=0)


def gap_delay(late, folder):
    found = measure_gap(write(folder, late), "so101", only=("latency",), options=OPTIONS)
    (measure,) = (m for m in found["latency"].headlines if m.name == "command to response")
    return Interval(-1e-3 * measure.value, -1e-3 * measure.high, -1e-3 * measure.low)


def diagnosed_delay(usual, late):
    real, sim = read_evidence(TWIN, late), read_evidence(TWIN, usual)
    rng = np.random.default_rng(0)
    found = measure_latency(real, sim, follow_both(real, sim), 200, rng)
    (delay,) = (quantity for quantity in found.quantities if quantity.name == "loop delay")
    return Interval(delay.real - delay.twin, delay.low - delay.twin, delay.high - delay.twin)


def identified_delay(late):
    found = identify(
        TWIN, late, ["action_delay_s"], config=IdentifyConfig(seconds=10.0, threads=1, allow_simulated=True)
    )
    estimate = found["action_delay_s"]
    return Interval(*(number - USUAL_S for number in (estimate.value, estimate.low, estimate.high)))


def monitored_delay(usual, late):
    rows = [[episode_features(episode, {}) for episode in side] for side in (usual * 6, late * 4)]
    shifts = [shift for shift in find_shifts(*rows) if shift.feature.startswith("actuator.delay.")]
    moved = np.array([shift.after - shift.before for shift in shifts])
    return Interval(float(np.median(moved)), float(moved.min()), float(moved.max()))


def test_five_commands_report_the_same_delay(episodes, tmp_path):
    usual, late = episodes
    found = {
        "check": check_delay(usual, late),
        "gap": gap_delay(late, tmp_path / "late"),
        "diagnose": diagnosed_delay(usual, late),
        "identify": identified_delay(late),
        "monitor": monitored_delay(usual, late),
    }
    # Physics runs in steps of 2 ms, and so do delays.
    wide = {
        n: replace(d, low=d.low - TWIN.physics_dt_s, high=d.high + TWIN.physics_dt_s)
        for n, d in found.items()
    }
    assert [name for name, delay in wide.items() if not delay.contains(ADDED_S)] == [], found
    assert [pair for pair in combinations(wide, 2) if not wide[pair[0]].overlaps(wide[pair[1]])] == [], found
    assert max(delay.half_width for delay in found.values()) < 1.0 / TWIN.control_hz
