"""Errors of a tracker that are put in and found again."""

import numpy as np
import pytest

from twinloop.measure.tracker import (
    Track,
    measure_dropouts,
    measure_frozen,
    measure_hidden_distance,
    measure_tracker_delay,
)

TIME_S = np.arange(0.0, 6.0, 0.02)
CARRYING = (TIME_S > 2.0) & (TIME_S < 5.0)


def track(delay_s=0.0, dropped=0.0, hidden=False, seed=0):
    """A tool that picks an object up after 2 s, carries it along an arc and leaves it after 5 s."""
    rng = np.random.default_rng(seed)
    way = np.clip(TIME_S - 2.0, 0.0, 3.0)
    place_at = np.stack([0.1 * way, 0.15 * np.sin(way), 0.1 * way], axis=1)
    apart = np.maximum(np.maximum(2.0 - TIME_S, TIME_S - 5.0), 0.0)
    tool = place_at + 0.2 * apart[:, None] * np.array([0.0, 0.0, 1.0])
    place = np.stack([np.interp(TIME_S - delay_s, TIME_S, column) for column in place_at.T], axis=1)
    place = place + 1e-4 * rng.standard_normal(place.shape)
    behind = np.linalg.norm(place_at - tool, axis=1) < 0.08
    for row in range(1, len(place)):
        if rng.random() < dropped or (hidden and behind[row]):
            place[row] = place[row - 1]
    return Track(TIME_S, place, tool, CARRYING)


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.3])
def test_the_delay_of_a_tracker_is_found_to_a_control_step(delay_s):
    assert measure_tracker_delay(track(delay_s)) == pytest.approx(delay_s, abs=0.021)


@pytest.mark.parametrize("dropped", [0.0, 0.1, 0.4])
def test_the_fraction_of_repeated_poses_is_found(dropped):
    found = [measure_dropouts(track(dropped=dropped, seed=seed), CARRYING) for seed in range(20)]
    assert np.mean(found) == pytest.approx(dropped, abs=0.03)


def test_an_object_behind_the_hand_is_hidden_and_one_that_drops_out_at_times_is_not():
    assert measure_frozen(track(hidden=True)) == 1.0
    assert measure_hidden_distance(track(hidden=True)) == pytest.approx(0.08, abs=0.01)
    assert measure_hidden_distance(track(dropped=0.2)) is None


def test_an_object_that_is_never_carried_says_nothing_about_delay():
    still = track()
    nothing = np.zeros(len(TIME_S), dtype=bool)
    assert measure_tracker_delay(Track(TIME_S, still.place, still.tool, nothing)) is None
    assert measure_dropouts(still, nothing) is None
