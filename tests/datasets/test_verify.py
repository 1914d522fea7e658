"""`verify` names every broken file and episode; `repair` keeps what is intact and says what is lost."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.labels import add_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.repair import repair
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import DamagedDataset, DatasetError
from twinloop.testing import assert_same_episode

DATA = "data/chunk-000/file-{:03d}.parquet"
TABLE = "meta/episodes/chunk-000/file-{:03d}.parquet"
SIDE = "meta/twinloop/episodes/chunk-000/file-{:03d}.parquet"
VIDEO = "videos/observation.images.front/chunk-000/file-{:03d}.mp4"


def episode(seed):
    return toy_episode(seed, rows=4 + seed, schema=WITH_CAMERA, task=f"task {seed % 2}")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """Six episodes with frames, two in each of three commits."""
    folder = tmp_path_factory.mktemp("pristine") / "d"
    with make_dataset(folder, WITH_CAMERA) as writer:
        for seed in range(6):
            writer.add(episode(seed))
            if seed % 2:
                writer.commit()
    return folder


@pytest.fixture
def folder(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "d")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


def assert_kept(folder, seeds):
    dataset = open_dataset(folder)
    assert len(dataset) == len(seeds)
    for got, seed in zip(dataset, seeds, strict=True):
        assert_same_episode(got, episode(seed))


def test_a_dataset_without_fault_has_no_findings_and_repair_leaves_it_alone(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}
    found = verify(folder, decode=True)
    assert (found.ok, found.findings, found.episodes, found.frames) == (True, (), 6, 39)
    assert found.checksums
    assert found.files == 3 * 4 + 3
    result = repair(folder)
    assert (result.done, result.lost, result.original) == ((), (), None)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_progress_ends_at_the_total_it_announced(folder):
    calls = []
    verify(folder, on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize("harm", [truncate, flip_a_bit, empty, remove])
@pytest.mark.parametrize("name", [DATA, TABLE, SIDE, VIDEO])
def test_a_broken_file_is_named_and_only_its_episodes_are_lost(folder, tmp_path, name, harm):
    broken = name.format(1)
    harm(folder / broken)
    found = verify(folder)
    assert not found.ok
    assert broken in found.broken_files
    assert set(found.broken_episodes) == {2, 3}
    result = repair(folder)
    assert [lost.number for lost in result.lost] == [2, 3]
    assert all(broken in lost.why for lost in result.lost)
    if name in (DATA, VIDEO):
        assert [lost.id for lost in result.lost] == [episode(2).id, episode(3).id]
        assert [lost.rows for lost in result.lost] == [6, 7]
    assert result.verification.findings == ()
    assert_kept(folder, [0, 1, 4, 5])
    assert result.original == tmp_path / "d.damaged"
    assert set(verify(result.original).broken_episodes) == {2, 3}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "d.damaged"]
    with append_to(folder) as writer:
        writer.add(episode(6))
    assert_kept(folder, [0, 1, 4, 5, 6])


@pytest.mark.parametrize("harm", [truncate, flip_a_bit, empty, remove])
@pytest.mark.parametrize(
    "name",
    ["meta/info.json", "meta/tasks.parquet", "meta/stats.json", "meta/twinloop/manifest.json"],
)
def test_what_follows_from_the_rest_is_rebuilt_without_loss(folder, tmp_path, name, harm):
    before = json.loads((folder / "meta/info.json").read_text())
    stats = json.loads((folder / "meta/stats.json").read_text())
    identity = open_dataset(folder).id
    harm(folder / name)
    assert name in verify(folder).broken_files
    result = repair(folder)
    assert any(name in line for line in result.done), result.done
    assert (result.lost, result.original) == ((), None)
    assert result.verification.findings == ()
    assert_kept(folder, range(6))
    assert open_dataset(folder).id == identity
    assert json.loads((folder / "meta/info.json").read_text()) == before
    after = json.loads((folder / "meta/stats.json").read_text())
    assert after["action"]["mean"] == pytest.approx(stats["action"]["mean"])
    with append_to(folder) as writer:
        writer.add(episode(6))
    assert_kept(folder, range(7))
    assert verify(folder).findings == ()


def test_a_stray_file_that_lerobot_would_read_is_found_and_set_aside(folder):
    stray = folder / "data/.tmp"
    stray.mkdir()
    shutil.copy(folder / DATA.format(0), stray / "x.parquet")
    assert verify(folder).broken_files == ("data/.tmp/x.parquet",)
    result = repair(folder)
    assert result.verification.findings == ()
    assert (folder / "meta/twinloop/set-aside/data/.tmp/x.parquet").is_file()
    assert_kept(folder, range(6))


def test_a_label_that_cannot_be_read_costs_only_itself(folder):
    add_labels(folder, [episode(1).id], {"success": False}, by="kim")
    labels = folder / "meta/twinloop/labels.jsonl"
    labels.write_bytes(labels.read_bytes() + b"not a label\n")
    assert verify(folder).broken_files == ("meta/twinloop/labels.jsonl",)
    assert repair(folder).verification.ok
    assert open_dataset(folder).episode(1).success is False


def test_a_label_of_an_absent_episode_is_a_warning(folder):
    add_labels(folder, ["nobody"], {"success": False}, by="kim")
    found = verify(folder)
    assert found.ok
    assert [finding.severity for finding in found.findings] == ["warning"]


def test_labels_survive_a_repair_that_gives_up_episodes(folder):
    add_labels(folder, [episode(5).id], {"failure": "dropped"}, by="kim")
    remove(folder / DATA.format(1))
    repair(folder)
    assert open_dataset(folder).episode(3).outcome.failure == "dropped"


def test_a_journal_that_cannot_be_read_is_set_aside_and_committed_episodes_stay(folder):
    (folder / "meta/twinloop/journal.json").write_text("{")
    assert not verify(folder).ok
    with pytest.raises(DamagedDataset, match="journal"):
        append_to(folder)
    assert repair(folder).verification.findings == ()
    assert_kept(folder, range(6))


def test_a_journal_that_points_outside_the_dataset_moves_nothing(folder, tmp_path):
    (folder / "meta/twinloop/staging").mkdir()
    (folder / "meta/twinloop/staging/x").write_text("x")
    journal = {"moves": [["meta/twinloop/staging/x", "../outside"]]}
    (folder / "meta/twinloop/journal.json").write_text(json.dumps(journal))
    with pytest.raises(DamagedDataset, match="outside the dataset"):
        append_to(folder)
    repair(folder)
    assert not (tmp_path / "outside").exists()


def test_rows_that_contradict_the_episode_tables_are_found_without_checksums(folder):
    shutil.rmtree(folder / "meta/twinloop")
    path = folder / DATA.format(1)
    table = pq.read_table(path)
    column = table.schema.get_field_index("episode_index")
    pq.write_table(table.set_column(column, "episode_index", pa.array([2] * 5 + [9] * 8)), path)
    found = verify(folder)
    assert not found.checksums
    assert found.broken_files == (DATA.format(1),)
    assert set(found.broken_episodes) == {2, 3}


def test_a_foreign_dataset_is_checked_and_never_changed(folder):
    shutil.rmtree(folder / "meta/twinloop")
    assert verify(folder).ok
    truncate(folder / VIDEO.format(2))
    remove(folder / DATA.format(0))
    found = verify(folder)
    assert set(found.broken_files) == {VIDEO.format(2), DATA.format(0)}
    assert set(found.broken_episodes) == {0, 1, 4, 5}
    with pytest.raises(DatasetError, match="never changed in place"):
        repair(folder)


def test_a_foreign_video_that_is_too_short_names_the_episodes_it_fails(folder):
    shutil.rmtree(folder / "meta/twinloop")
    shutil.copy(folder / VIDEO.format(0), folder / VIDEO.format(2))
    found = verify(folder)
    assert found.broken_files == (VIDEO.format(2),)
    assert set(found.broken_episodes) == {5}


def test_wrong_totals_in_foreign_metadata_are_a_warning(folder):
    shutil.rmtree(folder / "meta/twinloop")
    info = json.loads((folder / "meta/info.json").read_text())
    (folder / "meta/info.json").write_text(json.dumps(info | {"total_frames": 7}))
    found = verify(folder)
    assert found.ok
    assert "total_frames is 7, the tables say 39" in found.findings[0].what


def test_when_no_episode_is_intact_nothing_is_changed(folder, tmp_path):
    for number in range(3):
        truncate(folder / DATA.format(number))
    with pytest.raises(DamagedDataset, match=r"no episode of .* is intact"):
        repair(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_dataset_being_written_verifies_as_it_was_last_committed(tmp_path):
    with make_dataset(tmp_path / "d", STATE_ONLY) as writer:
        writer.add(toy_episode(0))
        writer.commit()
        writer.add(toy_episode(1))
        found = verify(tmp_path / "d")
        assert (found.findings, found.episodes) == ((), 1)
