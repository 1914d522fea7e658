"""Demonstrators differ as the twin's human parameters say: in speed, height, hesitation and steadiness of the hand."""

import numpy as np
import pytest

from twinloop.experts.kinematics import Arm
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.tasks import make_cell
from twinloop.twins import load_twin


def demonstrations(values, name="franka_pick_place"):
    """One nominal episode and one with each value of `values`, all with the same seed."""
    twin = load_twin(name)
    drawn = {
        key: np.array([twin.parameter(key).nominal] + [v if key == k else twin.parameter(key).nominal for k, v in values])
        for key, _ in values
    }  # fmt: skip
    return list(rollout_drawn(Job(twin, twin.task, twin.task), [3] * (len(values) + 1), drawn))


def tool_path(episode, name="franka_pick_place"):
    """Where the commands put the tool, (T, 3)."""
    arm = Arm(make_cell(load_twin(name)))
    return arm.tool_pose(episode["action"].astype(float)[:, arm.actuators]).place


@pytest.mark.parametrize("name", ["franka_pick_place", "franka_push", "so101_pick_place"])
def test_slow_and_hesitant_demonstrators_take_longer_and_still_succeed(name):
    usual, slow, hesitant = demonstrations(
        [("demonstrator_speed_scale", 0.7), ("demonstrator_pause_s", 0.2)], name
    )
    assert usual.success and slow.success and hesitant.success
    assert len(slow) > 1.1 * len(usual) and len(hesitant) > len(usual) + 15


def test_a_demonstrator_who_lifts_higher_carries_higher():
    usual, high = demonstrations([("demonstrator_lift_m", 0.08)])
    middle = slice(len(usual) // 3, None)
    rise = tool_path(high)[middle, 2].max() - tool_path(usual)[middle, 2].max()
    assert high.success and rise == pytest.approx(0.08, abs=0.02)


def test_a_trembling_hand_moves_between_8_and_12_hz_by_the_amplitude_given():
    usual, shaking = demonstrations([("demonstrator_tremor_m", 0.002)])
    rows = min(len(usual), len(shaking), 100)
    shake = (tool_path(shaking)[:rows] - tool_path(usual)[:rows])[:, 1]
    spectrum = np.abs(np.fft.rfft(shake * np.hanning(rows)))
    rate_hz = np.fft.rfftfreq(rows, 0.02)[np.argmax(spectrum)]
    assert 7.5 < rate_hz < 12.5
    # The arm's own kinematics follow the hand a control step later and a little less far.
    assert 0.001 < np.sqrt(2.0) * shake.std() < 0.0025
