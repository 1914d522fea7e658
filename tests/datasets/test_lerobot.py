"""LeRobot itself opens, windows, loads, trains on and continues what we write: run in its own environment."""

import numpy as np
import pytest

from benchmarks.peers import lerobot
from tests.datasets.examples import toy_frames
from twinloop.datasets.merge import merge
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.split import split
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Camera, Schema, Signal, make_episode

pytestmark = pytest.mark.slow

SIGNALS = (
    Signal("observation.state", (6,), ("rad",)),
    Signal("action", (4,), ("rad",)),
    Signal("observation.gripper", (1,), ("m",)),
    Signal("observation.force", (3,), ("N",), dtype="float64"),
    Signal("observation.taxels", (4, 3), ("N",)),
    Signal("next.done", (1,), ("bool",), dtype="bool"),
)
CAMERAS = (Camera("front", 96, 128), Camera("wrist", 64, 64))
TASKS = ("pick up the cube", "put the cube down", "wave")
LENGTHS = (40, 17, 2, 25, 33, 20)


@pytest.fixture(scope="module", autouse=True)
def installed():
    if reason := lerobot.install():
        pytest.skip(reason)


def rich_episode(seed, rows, schema):
    rng = np.random.default_rng(seed)
    return make_episode(
        schema,
        np.arange(rows) / schema.rate_hz + rng.uniform(0, 1e-3, rows),
        {
            "observation.state": rng.normal(size=(rows, 6)).astype(np.float32),
            "action": rng.normal(size=(rows, 4)).astype(np.float32),
            "observation.gripper": rng.uniform(size=(rows, 1)).astype(np.float32),
            "observation.force": rng.normal(size=(rows, 3)),
            "observation.taxels": rng.normal(size=(rows, 4, 3)).astype(np.float32),
            "next.done": np.arange(rows)[:, None] == rows - 1,
        },
        frames={camera.name: toy_frames(seed, rows, camera) for camera in schema.cameras},
        task=TASKS[seed % len(TASKS)],
    )


def write(path, schema, seeds):
    """Two commits, so that there are two files of everything."""
    episodes = [rich_episode(seed, LENGTHS[i % len(LENGTHS)], schema) for i, seed in enumerate(seeds)]
    with make_dataset(path, schema) as writer:
        for episode in episodes[: len(episodes) // 2]:
            writer.add(episode)
    with append_to(path) as writer:
        for episode in episodes[len(episodes) // 2 :]:
            writer.add(episode)
    return episodes


def assert_lerobot_agrees(folder, episodes, tmp_path):
    """States bit for bit, frames at the edges of episodes, delta windows, tasks, and a shuffled DataLoader."""
    arrays = {}
    for i, episode in enumerate(episodes):
        for name, values in episode.signals.items():
            arrays[f"episode_{i}/{name}"] = values[:, 0] if values.shape[1:] == (1,) else values
        arrays[f"episode_{i}/task"] = np.array(episode.task)
        rows = np.unique(np.clip([0, 1, len(episode) - 2, len(episode) - 1], 0, len(episode) - 1))
        for camera in episode.schema.cameras:
            frames = np.stack([episode.frames[camera.name][int(row)] for row in rows])
            arrays[f"episode_{i}/frames/{camera.key}"] = frames
            arrays[f"episode_{i}/frames/{camera.key}/index"] = rows
    expected = tmp_path / "expected.npz"
    np.savez(expected, **arrays)
    answer = lerobot.run("check_dataset.py", folder, expected)
    assert answer["ok"], answer["failures"]
    assert answer["lerobot"] == "0.4.4"
    for kind in ("states", "indexes", "frames", "windows", "tasks", "loader"):
        assert answer["checks"][kind] > 0, f"{kind} were not compared"


@pytest.mark.parametrize("rate_hz", [50.0, 49.9], ids=["50 Hz", "49.9 Hz"])
def test_lerobot_reads_what_we_wrote(tmp_path, rate_hz):
    schema = Schema(SIGNALS, rate_hz, CAMERAS, "toy_arm")
    episodes = write(tmp_path / "d", schema, range(6))
    assert_lerobot_agrees(tmp_path / "d", episodes, tmp_path)


def test_lerobot_reads_what_we_merged(tmp_path):
    schema = Schema(SIGNALS, 30.0, CAMERAS, "toy_arm")
    first = write(tmp_path / "a", schema, range(4))
    second = write(tmp_path / "b", schema, range(4, 8))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert_lerobot_agrees(tmp_path / "both", first + second, tmp_path)


def test_lerobot_reads_each_part_of_what_we_split(tmp_path):
    schema = Schema(SIGNALS, 30.0, CAMERAS, "toy_arm")
    by_id = {episode.id: episode for episode in write(tmp_path / "all", schema, range(12))}
    parts = split(tmp_path / "all", tmp_path / "parts", {"train": 0.75, "test": 0.25}, stratify=())
    assert sum(len(part) for part in parts.values()) == len(by_id)
    for part in parts.values():
        assert_lerobot_agrees(part.root, [by_id[episode.id] for episode in part], tmp_path)


def test_lerobot_trains_on_what_we_wrote(tmp_path):
    write(tmp_path / "d", Schema(SIGNALS, 50.0, CAMERAS, "toy_arm"), range(6))
    answer = lerobot.run("train_steps.py", tmp_path / "d", "--steps", 3)
    assert answer["ok"], answer["steps"]
    assert answer["batch"]["action"] == [4, 16, 4]
    assert answer["batch"]["observation.images.front"] == [4, 3, 96, 128]


def test_lerobot_continues_what_we_began_and_we_read_the_result(tmp_path):
    schema = Schema(SIGNALS[:2], 30.0, (), "toy_arm")
    episodes = []
    with make_dataset(tmp_path / "d", schema) as writer:
        for seed in range(3):
            full = rich_episode(seed, 20, Schema(SIGNALS, 30.0, (), "toy_arm"))
            signals = {signal.name: full[signal.name] for signal in schema.signals}
            episodes.append(make_episode(schema, full.time_s, signals, task=full.task))
            writer.add(episodes[-1])
    answer = lerobot.run("append.py", tmp_path / "d", "--episodes", 2, "--frames", 15)
    assert answer == {"episodes": 5, "frames": 3 * 20 + 2 * 15}
    ours = open_dataset(tmp_path / "d")
    for number, episode in enumerate(episodes):
        np.testing.assert_array_equal(ours.episode(number)["action"], episode["action"])
