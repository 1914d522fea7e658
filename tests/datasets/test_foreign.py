"""Other people's datasets: a real v2.1 one with AV1 video and holes in its numbers, and v3.0 as LeRobot writes it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.datasets.lerobot_v3 import CAMERA, JOINTS, write_lerobot_v3
from twinloop.cli.data import app
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import DatasetError, WrongUse
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.propose import propose_map

REAL = Path(os.environ.get("TWINLOOP_REAL_DATA") or Path(__file__).parents[3] / "shared/real")
G1 = REAL / "g1_demos"
real_data = pytest.mark.skipif(
    not G1.is_dir(), reason=f"the real demonstrations are not in {REAL}; set TWINLOOP_REAL_DATA"
)


@real_data
def test_real_v2_demonstrations_are_read_under_their_own_numbers():
    dataset = open_dataset(G1)
    assert dataset.layout_version == "v2.1"
    assert dataset.numbers == [10, 28, 29, 30, 31]
    assert dataset.num_frames == 1333
    assert dataset.skipped == {}
    assert len(dataset.schema.signal("action").elements) == 26
    lengths = []
    for episode in dataset:
        lengths.append(len(episode))
        assert episode["observation.state"].shape == episode["action"].shape == (len(episode), 26)
        assert np.isfinite(episode["action"]).all()
        assert (np.diff(episode.time_s) > 0).all()
        assert episode.task
    assert sum(lengths) == 1333
    with pytest.raises(WrongUse, match=r"5 episodes.* 10 .* 31"):
        dataset.episode(11)


@real_data
def test_frames_of_real_demonstrations_decode_at_both_ends():
    dataset = open_dataset(G1)
    camera = dataset.schema.camera("cam_high")
    for episode in dataset:
        frames = episode.frames["cam_high"]
        assert frames.shape == (len(episode), camera.height, camera.width, 3)
        first, last = frames[0], frames[-1]
        assert first.shape == last.shape == (camera.height, camera.width, 3)
        assert first.std() > 10
        assert last.std() > 10
        assert np.abs(first.astype(int) - last).mean() > 1


@real_data
def test_real_demonstrations_verify_and_are_never_written_to():
    found = verify(G1)
    assert (found.findings, found.episodes, found.frames, found.checksums) == ((), 5, 1333, False)
    with pytest.raises(DatasetError, match="never changed in place"):
        append_to(G1)


@pytest.fixture
def foreign(tmp_path):
    """What LeRobot leaves: no manifest, no true time, a list of one row group."""
    with make_dataset(tmp_path / "d", WITH_CAMERA) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed, rows=5 + seed, schema=WITH_CAMERA))
    shutil.rmtree(tmp_path / "d/meta/twinloop")
    return tmp_path / "d"


def test_v3_data_of_others_is_read_with_what_it_says_and_nothing_more(foreign):
    dataset = open_dataset(foreign)
    assert dataset.manifest is None
    assert dataset.id == "foreign:d"
    assert dataset.numbers == [0, 1, 2]
    for seed, episode in enumerate(dataset):
        expected = toy_episode(seed, rows=5 + seed, schema=WITH_CAMERA)
        assert episode["action"].tobytes() == expected["action"].tobytes()
        assert (episode.success, episode.provenance.source, episode.events) == (None, "unknown", ())
        assert episode.frames["front"][-1].shape == (48, 64, 3)
        assert episode.id == open_dataset(foreign).episode(seed).id
    assert verify(foreign, decode=True).findings == ()


def test_a_dataset_of_others_is_never_appended_to(foreign):
    with pytest.raises(DatasetError, match="never changed in place"):
        append_to(foreign)


@pytest.fixture(scope="module")
def foreign_v2(tmp_path_factory):
    """A dataset in LeRobot's v2.1 layout: one data file per episode, tables as JSON Lines."""
    folder = tmp_path_factory.mktemp("v2")
    with make_dataset(folder / "v3", STATE_ONLY) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed, rows=5 + seed, schema=STATE_ONLY))
    root = folder / "d"
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta").mkdir()
    info = json.loads((folder / "v3/meta/info.json").read_text())
    info |= {
        "codebase_version": "v2.1",
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    table = pq.read_table(folder / "v3/data/chunk-000/file-000.parquet")
    lines = []
    for number in range(3):
        rows = table.filter(np.asarray(table.column("episode_index")) == number)
        pq.write_table(rows, root / f"data/chunk-000/episode_{number:06d}.parquet")
        lines.append({"episode_index": number, "tasks": ["push"], "length": len(rows)})
    (root / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "push"}\n')
    return root


@pytest.fixture(scope="module")
def foreign_v3(tmp_path_factory):
    return write_lerobot_v3(tmp_path_factory.mktemp("v3") / "d", images=True)


@pytest.mark.parametrize("kind", ["v2", "v3", pytest.param("real", marks=[real_data, pytest.mark.slow])])
@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "{d}"],
        ["info", "{d}"],
        ["info", "{d}", "--json"],
        ["query", "{d}", "select count(*) from frames"],
        ["verify", "{d}"],
        ["show", "{d}#{n}", "--out", "{out}/e.png"],
        ["export", "{d}", "--out", "{out}/t.parquet"],
        ["export", "{d}", "--as", "hdf5", "--out", "{out}/d.hdf5"],
        ["export", "{d}", "--as", "lerobot", "--out", "{out}/copy"],
        ["merge", "{d}", "--out", "{out}/merged"],
        ["split", "{d}", "--parts", "a=0.5,b=0.5", "--stratify", "task", "--out", "{out}/parts"],
        ["label", "{d}", "--history"],
        ["consent", "check", "{d}", "--workspace", "{out}/w"],
        ["select", "{d}", "--out", "{out}/usable"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_every_data_command_works_on_a_foreign_dataset(foreign_v2, foreign_v3, tmp_path, arguments, kind):
    root, number = {"real": (G1, 10), "v2": (foreign_v2, 1), "v3": (foreign_v3, 1)}[kind]
    (tmp_path / "w").mkdir()
    (tmp_path / "w/twinloop.yaml").write_text("{format: 1, name: w, created_at: today}")
    words = [word.format(d=root, n=number, out=tmp_path) for word in arguments]
    result = CliRunner().invoke(app, words)
    # None of their episodes has a known outcome, so none can be selected.
    assert result.exit_code == (1 if words[0] == "select" else 0), result.exception or result.output


def test_what_lerobot_writes_is_read_with_its_names_and_tasks(foreign_v3):
    dataset = open_dataset(foreign_v3)
    assert dataset.schema.signal("action").elements == tuple(JOINTS)
    assert [(len(episode), episode.task) for episode in dataset] == [(12, "pick"), (9, "place")]
    assert "`twinloop ingest` converts them" in dataset.skipped[CAMERA]


@pytest.mark.parametrize(
    "words", [["merge"], ["split", "--parts", "a=1"], ["export", "--as", "hdf5"], ["select"]]
)
def test_a_copy_says_what_it_leaves_out(foreign_v3, tmp_path, words):
    command, *more = words
    said = CliRunner().invoke(app, [command, str(foreign_v3), "--out", str(tmp_path / "out"), *more]).output
    assert f"not copied: {CAMERA}" in said


def test_selecting_says_why_nothing_is_usable_and_replaces_datasets_only(foreign_v3, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter1.txt").write_text("years of work")
    for out in (tmp_path / "thesis", foreign_v3):
        refused = CliRunner().invoke(app, ["select", str(foreign_v3), "--out", str(out)])
        assert isinstance(refused.exception, WrongUse) and "is not replaced" in str(refused.exception)
    assert (tmp_path / "thesis/chapter1.txt").exists() and open_dataset(foreign_v3).numbers == [0, 1]
    said = CliRunner().invoke(app, ["select", str(foreign_v3), "--out", str(tmp_path / "new")]).output
    assert "2 have no known outcome" in said


def test_images_in_tables_are_ingested_as_video_and_tasks_stay(foreign_v3, tmp_path):
    text = propose_map(foreign_v3)
    done = ingest(foreign_v3, tmp_path / "out", parse_map(text), accept_guesses=True)
    assert [episode.task for episode in done.dataset] == ["pick", "place"]
    for episode in done.dataset:
        levels = [frame.mean() for frame in episode.frames["top"]]
        np.testing.assert_allclose(levels, 10 * np.arange(len(episode)), atol=3)
