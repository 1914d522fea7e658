"""A few episodes that the quality check blocks are left out and named; many are refused."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.errors import QualityError
from twinloop.identification.config import IdentifyConfig
from twinloop.identification.run import identify
from twinloop.twins import load_twin

from .worlds import record


def recorded(folder, dead):
    """Six recordings, of which these have an encoder that says the same all the time."""
    twin = load_twin("servo_pendulum")
    episodes = [record(twin, {"motor_damping_nms_rad": 0.02}, seed, seconds=2.0) for seed in range(6)]
    with make_dataset(folder, episodes[0].schema) as writer:
        for number, episode in enumerate(episodes):
            stuck = {"observation.state": np.full((len(episode), 1), 0.2)} if number in dead else {}
            writer.add(replace(episode, signals={**episode.signals, **stuck}))
    return open_dataset(folder)


def fit(dataset):
    return identify(
        load_twin("servo_pendulum"), dataset, ["motor_damping_nms_rad"], config=IdentifyConfig(threads=1)
    )


def test_one_blocked_episode_is_left_out_and_named(tmp_path):
    dataset = recorded(tmp_path / "logs", dead=[3])
    found = fit(dataset)
    assert dataset.episode(3).id not in {*found.fitted, *found.held_out}
    assert len({*found.fitted, *found.held_out}) == 5
    assert any(warning.startswith("episode 3 was left out") for warning in found.warnings)


def test_many_blocked_episodes_are_refused(tmp_path):
    with pytest.raises(QualityError, match="2 of 6 episodes are blocked by stuck"):
        fit(recorded(tmp_path / "logs", dead=[1, 3]))
