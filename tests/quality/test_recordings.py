"""On real recordings: clean ones pass, faults put into them are found, lag agrees with a fine grid.

The full table is measured by benchmarks/bench_quality.py; this is a part that runs in seconds.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.quality import recordings
from tests.quality.faults import FAULTS
from twinloop.quality.check import check_episode
from twinloop.quality.settings import Settings
from twinloop.quality.view import View

pytestmark = pytest.mark.skipif(
    not recordings.present(), reason=f"no real recordings in {recordings.REAL}; set TWINLOOP_REAL_DATA"
)

MOTIONS = ("large_amplitude", "prbs_excitation", "reaching_points", "workspace_sweep")


@pytest.fixture(scope="module")
def few():
    """A few recordings of every kind, the first 40 s of each."""
    episodes = [recordings.so101_motion(name) for name in MOTIONS]
    for source in (recordings.quanser, recordings.servo_pendulum, recordings.double_pendulum):
        episodes += [episode for _, episode in list(source())[::9]]
    episodes += [episode for _, episode in recordings.cube_tosses(4)]
    return [
        replace(e, time_s=e.time_s[:2000], signals={n: v[:2000] for n, v in e.signals.items()})
        for e in episodes
    ]


def test_clean_recordings_are_not_blocked():
    blocked = []
    for source in (recordings.quanser, recordings.servo_pendulum, recordings.double_pendulum):
        blocked += [any(f.severity == "blocking" for f in check_episode(e)) for _, e in source()]
    blocked += [
        any(f.severity == "blocking" for f in check_episode(recordings.so101_motion(name)))
        for name in MOTIONS
    ]
    assert np.mean(blocked) <= 0.05


@pytest.mark.parametrize("kind", sorted(kind for kind in FAULTS if "camera" not in kind))
def test_faults_at_the_detection_limit_are_found_in_real_recordings(few, kind):
    fault = FAULTS[kind]
    found = []
    for number, episode in enumerate(few):
        faulty = fault.inject(episode, 0, np.random.default_rng(number))
        if faulty is None:
            continue
        settings = replace(faulty.settings, checks=(fault.code,))
        found.append(
            any(faulty.channel in (None, f.channel) for f in check_episode(faulty.episode, settings))
        )
    assert len(found) >= 3
    assert found.count(False) <= max(1, 0.05 * len(found))


def test_two_motions_of_a_real_arm_give_the_same_delays():
    """Slow motions leave them open, sudden ones do not; correlation alone gives 71 and 133 ms for one joint."""
    views = [View(recordings.so101_motion(name), Settings()) for name in MOTIONS[:2]]
    joints = [pair.response.name for pair in views[0].pairs if "Jaw" not in pair.response.name]
    assert len(joints) >= 5
    for joint in joints:
        slow, sudden = (view.following[joint].delay for view in views)
        assert slow.overlaps(sudden)
        assert sudden.standard_deviation < 0.015


def test_the_delay_of_a_sudden_motion_agrees_with_cross_correlation_on_a_fine_grid():
    episode = recordings.so101_motion(MOTIONS[1])
    view = View(episode, Settings())
    for pair in view.pairs:
        expected = lag_on_a_fine_grid(episode.time_s, pair.command.values, pair.response.values)
        assert view.following[pair.response.name].delay.value == pytest.approx(expected, abs=0.01)


def lag_on_a_fine_grid(time_s, command, response):
    """The lag with the highest correlation among all of 0, 1, 2 ... 1000 ms, by brute force."""
    scores = []
    for lag_s in np.arange(0, 1.0, 0.001):
        inside = time_s - lag_s >= time_s[0]
        sent = np.interp(time_s[inside] - lag_s, time_s, command)
        scores.append(np.corrcoef(sent, response[inside])[0, 1])
    return 0.001 * int(np.argmax(scores))
