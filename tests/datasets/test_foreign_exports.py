"""Exports for GR00T and Isaac Lab, read back by our readers of foreign data."""

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

import twinloop as tl
from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.terminal import run_command as twinloop_command
from twinloop.datasets.export import export
from twinloop.episode import Schema, Signal
from twinloop.errors import DatasetError

MAPS = Path(__file__).parents[2] / "docs/maps"


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "arm"
    with tl.make_dataset(folder, WITH_CAMERA) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed, 20 + 3 * seed, WITH_CAMERA, task=["lift", "push"][seed % 2]))
    return tl.open_dataset(folder)


def test_groot_reads_named_parts_of_one_state_and_one_video_per_episode(arm, tmp_path):
    out = export(arm.root, tmp_path / "groot", "groot")
    modality = json.loads((out / "meta/modality.json").read_text())
    assert modality["state"] == {"state": {"start": 0, "end": 6}, "force": {"start": 6, "end": 9}}
    assert modality["action"] == {"action": {"start": 0, "end": 6}}
    assert modality["video"] == {"front": {"original_key": "observation.images.front"}}
    assert modality["annotation"]["human.task_description"]["original_key"] == "task_index"
    assert json.loads((out / "meta/info.json").read_text())["codebase_version"] == "v2.1"
    tasks = [json.loads(line)["task"] for line in (out / "meta/tasks.jsonl").read_text().splitlines()]
    for number in range(3):
        episode = arm.episode(number)
        table = pq.read_table(out / f"data/chunk-000/episode_{number:06d}.parquet")
        state = np.array(table.column("observation.state").to_pylist(), np.float32)
        for name, part in modality["state"].items():
            wanted = episode.signals[f"observation.{name}"]
            np.testing.assert_allclose(state[:, part["start"] : part["end"]], wanted, rtol=1e-6)
        assert {tasks[i] for i in table.column("task_index").to_pylist()} == {episode.task}
        assert table.column("next.done").to_pylist() == [False] * (len(episode) - 1) + [True]
    again = tl.open_dataset(out)
    assert again.layout_version == "v2.1" and len(again) == 3
    for number in range(3):
        ours, theirs = arm.episode(number), again.episode(number)
        np.testing.assert_array_equal(theirs.signals["action"], ours.signals["action"])
        np.testing.assert_array_equal(np.asarray(theirs.frames["front"]), np.asarray(ours.frames["front"]))


def test_what_only_a_simulation_knows_is_left_out_and_no_action_is_refused(tmp_path):
    truth = Schema((*STATE_ONLY.signals, Signal("observation.simulation.object", (3,), ("m",))), 50.0)
    plain = toy_episode(0)
    signals = {**plain.signals, "observation.simulation.object": np.zeros((30, 3), np.float32)}
    with tl.make_dataset(tmp_path / "sim", truth) as writer:
        writer.add(tl.make_episode(truth, plain.time_s, signals))
    out = export(tmp_path / "sim", tmp_path / "groot", "groot")
    assert set(json.loads((out / "meta/modality.json").read_text())["state"]) == {"state", "force"}
    passive = Schema(tuple(s for s in STATE_ONLY.signals if s.name != "action"), 50.0)
    with tl.make_dataset(tmp_path / "passive", passive) as writer:
        writer.add(
            tl.make_episode(passive, plain.time_s, {s.name: plain.signals[s.name] for s in passive.signals})
        )
    with pytest.raises(DatasetError, match="a state and an action"):
        export(tmp_path / "passive", tmp_path / "no", "groot")
    assert not (tmp_path / "no").exists()


def test_isaac_lab_finds_joint_states_and_its_files_are_ingested(arm, tmp_path):
    out = export(arm.root, tmp_path / "arm.hdf5", "isaaclab")
    with h5py.File(out) as file:
        data = file["data"]
        assert json.loads(data.attrs["env_args"]) == {"env_name": "toy_arm", "type": 2}
        assert sorted(data) == ["demo_0", "demo_1", "demo_2"] and data.attrs["total"] == arm.num_frames
        demo, episode = data["demo_1"], arm.episode(1)
        assert (
            demo.attrs["num_samples"] == len(episode)
            and bool(demo.attrs["success"]) is True
            and demo.attrs["seed"] == 1
        )
        states = demo["states/articulation/robot/joint_position"][()]
        np.testing.assert_array_equal(states, episode.signals["observation.state"])
        np.testing.assert_array_equal(demo["initial_state/articulation/robot/joint_position"][()], states[:1])
    code, _, err = twinloop_command(
        "ingest", out, "--map", MAPS / "isaaclab.yaml", "--out", tmp_path / "back"
    )
    assert code == 0, err
    back = tl.open_dataset(tmp_path / "back")
    assert len(back) == 3
    for number in range(3):
        for name in ("observation.state", "action"):
            np.testing.assert_array_equal(
                back.episode(number).signals[name], arm.episode(number).signals[name]
            )
