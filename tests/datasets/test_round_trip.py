"""What is written is what is read."""

import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.testing import assert_same_episode


@pytest.mark.parametrize("schema", [STATE_ONLY, WITH_CAMERA], ids=["state", "camera"])
def test_episodes_come_back_as_they_went_in(tmp_path, schema):
    episodes = [toy_episode(seed, rows=5 + 7 * seed, schema=schema) for seed in range(6)]
    with make_dataset(tmp_path / "d", schema) as writer:
        for episode in episodes[:4]:
            writer.add(episode)
    with append_to(tmp_path / "d") as writer:
        for episode in episodes[4:]:
            writer.add(episode)
    dataset = open_dataset(tmp_path / "d")
    assert len(dataset) == 6
    assert dataset.num_frames == sum(len(e) for e in episodes)
    for got, expected in zip(dataset, episodes, strict=True):
        assert_same_episode(got, expected)
    assert_same_episode(dataset.episode(3), episodes[3])
