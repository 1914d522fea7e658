"""An episode as a viewer shows it: where its bodies went, beside the twin's own replay of its commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import twinloop
from tests.terminal import twinloop as run
from twinloop.datasets.reader import Dataset
from twinloop.episode import Episode
from twinloop.errors import WrongUse
from twinloop.generation.motion import MOST_ROWS, compare_motion, find_episode_twin, read_motion
from twinloop.randomization.scenes import training_scenes
from twinloop.tasks import make_cell
from twinloop.twins import load_twin

TWIN = load_twin("franka_pick_place")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """One generated episode with the object and the target elsewhere."""
    out = tmp_path_factory.mktemp("motion") / "sim"
    return twinloop.generate(TWIN, training_scenes(TWIN), episodes=1, seed=1, out=out, workers=1)


@pytest.fixture(scope="module")
def episode(generated: Dataset) -> Episode:
    return generated.episode(0)


def test_the_twin_that_generated_an_episode_replays_its_motion(episode: Episode) -> None:
    pair = compare_motion(episode, TWIN)
    assert pair.replayed is not None and {"hand", "object", "left_finger"} <= set(pair.recorded.bodies)
    assert np.abs(pair.recorded.position - pair.replayed.position).max() < 1e-3
    names = [signal.name for signal in pair.signals]
    assert names == [*make_cell(TWIN).actuators, "object.x", "object.y", "object.z"]
    assert max(signal.rms_error for signal in pair.signals) < 1e-3
    assert pair.draw == {name: episode.provenance.draw[name] for name in pair.draw} and pair.draw


def test_a_twin_with_another_delay_moves_away_from_the_recording(episode: Episode) -> None:
    late = TWIN.with_values(action_delay_s=0.1)
    pair = compare_motion(episode, late)
    assert pair.replayed is not None
    apart = np.abs(pair.recorded.position - pair.replayed.position).max(axis=(0, 2))
    assert apart[pair.recorded.bodies.index("hand")] > 0.01
    start = np.abs(pair.recorded.position[0] - pair.replayed.position[0])
    assert start.max() < 2e-3, "both begin in the recorded state, the object where it was seen"


def test_the_hand_is_where_the_readings_put_it(episode: Episode) -> None:
    motion = read_motion(episode, TWIN)
    rows = np.linspace(0, len(episode) - 1, len(motion.time_s)).astype(int)
    seen = episode.signals["observation.environment_state"][rows, :3]
    where = motion.position[:, motion.bodies.index("object")]
    assert np.allclose(where, seen, atol=1e-3)
    assert motion.time_s[0] == 0.0 and len(motion.time_s) <= MOST_ROWS


def test_an_episode_without_actions_is_shown_without_a_replay(episode: Episode) -> None:
    signals = tuple(signal for signal in episode.schema.signals if signal.name != "action")
    bare = replace(
        episode,
        schema=replace(episode.schema, signals=signals),
        signals={name: rows for name, rows in episode.signals.items() if name != "action"},
    )
    pair = compare_motion(bare, TWIN)
    assert pair.replayed is None and "actions" in pair.reason and len(pair.recorded.time_s)


def test_a_twin_of_another_robot_is_refused(episode: Episode) -> None:
    with pytest.raises(WrongUse, match="does not fit twin"):
        read_motion(episode, load_twin("cart_pole"))


def test_an_episodes_twin_is_the_one_that_generated_it(generated: Dataset, episode: Episode) -> None:
    assert find_episode_twin(generated, episode).content_hash == TWIN.content_hash
    recorded = replace(episode, provenance=replace(episode.provenance, source="real", twin_hash=None))
    assert find_episode_twin(generated, recorded, TWIN) is TWIN
    with pytest.raises(WrongUse, match="no twin is named"):
        find_episode_twin(generated, recorded)


def test_the_command_writes_geometry_and_both_motions(generated: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "scene.json"
    run("twin", "scene", "--episode", f"{generated.root}#0", "--out", file, cwd=tmp_path)
    content = json.loads(file.read_text())
    assert content["geometry"]["twin"] == TWIN.name
    assert len(content["motion"]["recorded"]["time_s"]) == len(content["motion"]["replayed"]["time_s"])
