"""A damaged, foreign or hostile dataset gives one clear error or a named skip, and is never changed by reading it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.datasets.examples import WITH_CAMERA, toy_episode
from twinloop.datasets.labels import load_labels
from twinloop.datasets.merge import merge
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.repair import repair
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import DamagedDataset, NewerFormat, NoDataset, TwinloopError
from twinloop.testing import assert_same_episode

INFO = "meta/info.json"
DATA = "data/chunk-000/file-000.parquet"
TABLE = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = "videos/observation.images.front/chunk-000/file-000.mp4"
MANIFEST = "meta/twinloop/manifest.json"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pristine") / "d"
    with make_dataset(folder, WITH_CAMERA) as writer:
        for seed in range(3):
            writer.add(toy_episode(seed, rows=5, schema=WITH_CAMERA))
    return folder


@pytest.fixture
def folder(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "d")


@pytest.fixture
def foreign(folder):
    """The same as LeRobot would have written it: without anything of ours."""
    shutil.rmtree(folder / "meta/twinloop")
    return folder


def read_everything(folder):
    for episode in open_dataset(folder):
        for frames in episode.frames.values():
            list(frames)


def every_file(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def change_info(folder, change):
    info = json.loads((folder / INFO).read_text())
    change(info)
    (folder / INFO).write_text(json.dumps(info))


def change_manifest(folder, change):
    content = json.loads((folder / MANIFEST).read_text())
    del content["checksum"]
    change(content)
    (folder / MANIFEST).write_text(json.dumps(content))


def change_table(path, change):
    pq.write_table(change(pq.read_table(path)), path)


def with_column(name, values):
    def change(table):
        return table.set_column(table.schema.get_field_index(name), name, values)

    return change


def assert_refused(folder, message, kind=DamagedDataset):
    """Reading, checking and appending all refuse in the same words, or find it, and no file changes."""
    before = every_file(folder)
    with pytest.raises(kind, match=message):
        read_everything(folder)
    assert {path: content for path, content in every_file(folder).items() if path.name != "lock"} == {
        path: content for path, content in before.items() if path.name != "lock"
    }
    if kind is DamagedDataset:
        assert not verify(folder).ok


@pytest.mark.parametrize("name", [DATA, TABLE, VIDEO])
@pytest.mark.parametrize("content", [None, b"", b"PAR1", "half"])
@pytest.mark.parametrize("ours", [True, False])
def test_a_missing_empty_or_truncated_file_is_named(folder, name, content, ours):
    if not ours:
        shutil.rmtree(folder / "meta/twinloop")
    path = folder / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content == "half" else content)
    told = "file-000" if ours or name != TABLE or content is not None else "has no meta/episodes"
    assert_refused(folder, told)


WRONG_INFO = {
    "not JSON": (b"{", "is not JSON"),
    "binary": (b"\xff\xfe\x00", "is not JSON"),
    "a list": (b"[]", "is not a JSON object; got list"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "empty": (b"", "is not JSON"),
}


@pytest.mark.parametrize("name", WRONG_INFO)
def test_an_info_file_that_is_not_one_is_named(folder, name):
    content, message = WRONG_INFO[name]
    (folder / INFO).write_bytes(content)
    assert_refused(folder, f"info.json {message}")
    with pytest.raises(DamagedDataset):
        append_to(folder)


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(info):
        for key in path:
            info = info[key]
        info[last] = value

    return change


WRONG_KEYS = {
    "no version": (lambda info: info.pop("codebase_version"), "bad 'codebase_version'; got None"),
    "no fps": (lambda info: info.pop("fps"), "bad 'fps'; got None"),
    "no features": (lambda info: info.pop("features"), "bad 'features'"),
    "features a list": (put("features", []), "bad 'features'"),
    "features empty": (put("features", {}), "declares no readable signal"),
    "features words": (put("features", {"action": "vector"}), "declares no readable signal; got action"),
    "fps zero": (put("fps", 0), "rate must be positive"),
    "fps negative": (put("fps", -30), "rate must be positive"),
    "fps a word": (put("fps", "fast"), "bad 'fps'; got 'fast'"),
    "fps infinite": (put("fps", float("inf")), "rate must be positive"),
    "fps too large": (put("fps", 10**400), "info.json"),
    "newer": (put("codebase_version", "v4.0"), "layout 'v4.0'; expected LeRobot v2.0, v2.1 or v3.0"),
    "number as version": (put("codebase_version", 3), "bad 'codebase_version'"),
}


@pytest.mark.parametrize("name", WRONG_KEYS)
def test_wrong_keys_in_info_are_named(foreign, name):
    change, message = WRONG_KEYS[name]
    change_info(foreign, change)
    assert_refused(foreign, message, NewerFormat if name == "newer" else DamagedDataset)


WRONG_FEATURES = {
    "shape missing": ({"dtype": "float32"}, ""),
    "shape a word": ({"dtype": "float32", "shape": "six"}, ""),
    "shape zero": ({"dtype": "float32", "shape": [0]}, "bad shape"),
    "shape infinite": ({"dtype": "float32", "shape": [float("inf")]}, ""),
    "dtype a list": ({"dtype": ["float32"], "shape": [6]}, ""),
    "dtype unknown": ({"dtype": "string", "shape": [1]}, "'string' is not a number or a video"),
    "null": (None, "not described as a feature"),
    "camera shape": ({"dtype": "video", "shape": [48]}, "a video that is not called"),
}


@pytest.mark.parametrize("name", WRONG_FEATURES)
def test_a_malformed_feature_is_skipped_by_name_and_the_rest_is_read(foreign, name):
    feature, reason = WRONG_FEATURES[name]
    change_info(foreign, put("features", "action", feature))
    dataset = open_dataset(foreign)
    assert reason in dataset.skipped["action"]
    assert len(list(dataset)) == 3
    assert any("'action' is skipped" in finding.what for finding in verify(foreign).findings)


@pytest.mark.parametrize(
    "feature",
    [
        {"dtype": "video", "shape": [48], "names": ["height"]},
        {"dtype": "video", "shape": [48, 64, 3], "names": [1, 2, 3]},
        {"dtype": "video", "shape": [48, 64, 4]},
        {"dtype": "video"},
        {"dtype": "image", "shape": [48, 64, 3]},
    ],
)
def test_a_malformed_camera_is_skipped_by_name_and_the_rest_is_read(foreign, feature):
    change_info(foreign, put("features", "observation.images.front", feature))
    dataset = open_dataset(foreign)
    assert "observation.images.front" in dataset.skipped
    assert len(list(dataset)) == 3


def test_foreign_columns_are_left_alone(foreign):
    change_table(foreign / DATA, lambda table: table.append_column("mood", pa.array(["good"] * 15)))
    for seed, episode in enumerate(open_dataset(foreign)):
        assert episode["action"].tobytes() == toy_episode(seed, rows=5)["action"].tobytes()
    found = verify(foreign)
    assert found.ok
    assert "mood" in found.findings[0].what


WRONG_DATA = {
    "column missing": (lambda table: table.drop_columns(["action"]), "action"),
    "empty rows": (with_column("action", pa.array([None] * 15, pa.list_(pa.float32(), 6))), "empty"),
    "empty values": (with_column("action", pa.array([[1.0, None, 1, 1, 1, 1]] * 15)), "empty values"),
    "no time": (with_column("timestamp", pa.array([None] * 15, pa.float32())), "empty values"),
    "too few numbers": (with_column("action", pa.array([[1.0] * 5] * 15)), "75 numbers in 15 rows of 6"),
    "ragged": (with_column("action", pa.array([[1.0] * 5, [1.0] * 7] * 7 + [[1.0] * 6])), "different sizes"),
    "words": (with_column("action", pa.array([["a"] * 6] * 15)), "holds string, not numbers"),
    "objects": (with_column("action", pa.array([{"x": 1.0}] * 15)), "not numbers"),
    "too large": (with_column("action", pa.array([[1e300] * 6] * 15)), "do not fit float32"),
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_rows_that_are_not_what_was_declared_are_named(foreign, name):
    change, message = WRONG_DATA[name]
    if name == "no time":
        change_table(foreign / DATA, lambda table: table.drop_columns(["time_s"]))
    change_table(foreign / DATA, change)
    with pytest.raises(DamagedDataset, match=message.replace("75", "25").replace("15 rows", "5 rows")):
        read_everything(foreign)
    if name != "no time":
        assert set(verify(foreign).broken_episodes) == {0, 1, 2}


WRONG_TABLES = {
    "column missing": lambda table: table.drop_columns(["length"]),
    "empty number": with_column("episode_index", pa.array([0, None, 2], pa.int64())),
    "words": with_column("length", pa.array(["five"] * 3)),
    "half a row": with_column("length", pa.array([5.5] * 3)),
    "no video": lambda table: table.drop_columns(["videos/observation.images.front/file_index"]),
    "tasks not texts": with_column("tasks", pa.array([1, 2, 3])),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_an_episode_table_that_is_not_one_is_named(foreign, name):
    change_table(foreign / TABLE, WRONG_TABLES[name])
    assert_refused(foreign, "meta/episodes/chunk-000/file-000.parquet cannot be read")


@pytest.mark.parametrize(
    "values",
    [[5, 5, 50], [5, 5, 2**62]],
)
def test_lengths_beyond_the_rows_are_found(foreign, values):
    change_table(foreign / TABLE, with_column("length", pa.array(values)))
    with pytest.raises(DamagedDataset, match="too short"):
        open_dataset(foreign).episode(2)
    if values[2] == 50:
        assert set(verify(foreign).broken_episodes) == {2}


@pytest.mark.parametrize("length", [0, -1])
def test_an_episode_without_rows_is_skipped_by_name(foreign, length):
    change_table(foreign / TABLE, with_column("length", pa.array([5, length, 5])))
    dataset = open_dataset(foreign)
    assert dataset.index.skipped == {1: f"its length is {length}"}
    assert [len(episode) for episode in dataset] == [5, 5]
    assert any("episode 1 is skipped" in finding.what for finding in verify(foreign).findings)


def test_a_video_of_another_size_than_declared_is_named(foreign):
    change_info(foreign, put("features", "observation.images.front", "shape", [24, 64, 3]))
    assert_refused(foreign, "frames of the wrong size")


@pytest.mark.parametrize(
    ("key", "template"),
    [
        ("data_path", "../{chunk_index}/{file_index}.parquet"),
        ("data_path", "/etc/{chunk_index}{file_index}"),
        ("video_path", "a/../../{video_key}/{chunk_index}{file_index}"),
        ("video_path", "{chunk_index}\0{file_index}"),
    ],
)
def test_a_path_that_leads_out_of_the_dataset_is_refused(foreign, key, template):
    change_info(foreign, put(key, template))
    assert_refused(foreign, "points outside the dataset")


@pytest.mark.parametrize(
    "template",
    [
        "{nothing}",
        "{0}",
        "{chunk_index",
        "{chunk_index.x}",
        "{chunk_index.__class__}",
        "{chunk_index:z}",
        "{chunk_index:9999999999d}",
        "{chunk_index:{file_index}d}",
        "{chunk_index!r:>999999999}",
        "{chunk_index}" * 100_000,
    ],
)
def test_a_path_that_cannot_be_filled_in_is_named(foreign, template):
    change_info(foreign, put("data_path", template))
    assert_refused(foreign, "invalid path template")


WRONG_MANIFESTS = {
    "newer": (put("format", 99), NewerFormat, "got format 99"),
    "path": (
        lambda m: m["files"].update({"../x": {"bytes": 1, "blake2b": ""}}),
        DamagedDataset,
        "outside the dataset; got ../x",
    ),
    "absolute": (
        lambda m: m["files"].update({"/etc/passwd": {"bytes": 1, "blake2b": ""}}),
        DamagedDataset,
        "outside the dataset",
    ),
    "episodes a word": (put("episodes", "many"), DamagedDataset, "episodes is 'many'"),
    "files a list": (put("files", []), DamagedDataset, "cannot be read"),
    "no files": (lambda m: m.pop("files"), DamagedDataset, "cannot be read"),
    "unknown key": (put("mood", "good"), DamagedDataset, "cannot be read"),
    "format a word": (put("format", "one"), DamagedDataset, "cannot be read"),
}


@pytest.mark.parametrize("name", WRONG_MANIFESTS)
def test_a_manifest_we_cannot_trust_is_named(folder, name):
    change, kind, message = WRONG_MANIFESTS[name]
    change_manifest(folder, change)
    assert_refused(folder, message, kind)
    with pytest.raises(kind):
        append_to(folder)


def test_a_dataset_of_a_newer_twinloop_is_never_repaired(folder):
    change_manifest(folder, put("format", 99))
    before = every_file(folder)
    with pytest.raises(NewerFormat):
        repair(folder)
    for path, content in before.items():
        assert path.name == "lock" or path.read_bytes() == content


def test_a_manifest_that_is_a_list_is_named(folder):
    (folder / MANIFEST).write_text("[]")
    assert_refused(folder, "manifest.json cannot be read")


def test_what_is_not_a_dataset_is_said_not_to_be_one(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path, message in (
        (tmp_path / "file", "is not a dataset"),
        (tmp_path / "folder", "is not a dataset"),
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "file/inside", "does not exist"),
    ):
        for act in (open_dataset, verify, repair, append_to):
            with pytest.raises(NoDataset, match=message):
                act(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("line", [b"{}", b"[]", b"nonsense", b'{"episode_id": 1}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_not_a_label_is_named(folder, line):
    (folder / "meta/twinloop/labels.jsonl").write_bytes(line + b"\n")
    with pytest.raises(DamagedDataset, match="line 1, is not a label"):
        load_labels(folder)
    assert_refused(folder, "line 1, is not a label")


def test_a_label_cut_short_by_a_crash_is_ignored(folder):
    (folder / "meta/twinloop/labels.jsonl").write_bytes(b'{"episode_id": "x", "fie')
    assert_same_episode(open_dataset(folder).episode(0), toy_episode(0, rows=5, schema=WITH_CAMERA))
    assert verify(folder).ok


def test_provenance_rows_that_do_not_match_the_episodes_are_named(folder):
    side = folder / "meta/twinloop/episodes/chunk-000/file-000.parquet"
    change_table(side, lambda table: table.slice(0, 2))
    assert_refused(folder, "does not match meta/episodes")


def test_stats_or_tasks_that_cannot_be_read_stop_only_the_writer(folder):
    (folder / "meta/stats.json").write_text('{"action": {"mean": [0]}}')
    read_everything(folder)
    with pytest.raises(DamagedDataset, match="lacks statistics of action"):
        append_to(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="dropping permissions takes the superuser, who is above them")
def test_a_folder_without_permission_is_one_clear_error(folder):
    """A process that gave up the superuser's rights may neither enter nor write."""
    program = """
import os, sys
from pathlib import Path
from twinloop.datasets.labels import add_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.repair import repair
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import TwinloopError
from tests.datasets.examples import STATE_ONLY
import av, pyarrow.parquet, zoneinfo
folder = Path(sys.argv[1])
attempts = [open_dataset, verify, repair, append_to, lambda p: make_dataset(p / "new", STATE_ONLY)]
attempts.append(lambda p: add_labels(p, ["x"], {"success": True}, by="kim"))
os.chdir(folder)
os.setgid(65534)
os.setuid(65534)
for attempt in attempts if sys.argv[2] == "closed" else attempts[2:]:
    try:
        attempt(Path(".") if sys.argv[2] == "open" else folder)
    except TwinloopError as error:
        assert "ermission" in str(error), error
    else:
        sys.exit(4)
if sys.argv[2] == "open":
    assert len(open_dataset(".")) == 3
    assert verify(".").ok, verify(".").findings
"""
    folder.chmod(0o755)
    for mode in ("closed", "open"):
        command = [sys.executable, "-c", program, str(folder), mode]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr


V2_EPISODES = {
    "not JSON": "{",
    "a list": "[]",
    "no length": '{"episode_index": 0, "tasks": ["x"]}',
    "length a word": '{"episode_index": 0, "tasks": ["x"], "length": "five"}',
    "length infinite": '{"episode_index": 0, "tasks": ["x"], "length": Infinity}',
    "number too large": '{"episode_index": 1e300, "tasks": ["x"], "length": 5}',
    "tasks a number": '{"episode_index": 0, "tasks": 5, "length": 5}',
}


def as_v2(foreign, lines):
    change_info(foreign, put("codebase_version", "v2.1"))
    change_info(
        foreign, put("data_path", "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet")
    )
    change_info(
        foreign,
        put("video_path", "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"),
    )
    (foreign / "meta/episodes.jsonl").write_text(lines)


@pytest.mark.parametrize("name", V2_EPISODES)
def test_a_v2_episode_list_that_is_not_one_is_named(foreign, name):
    as_v2(foreign, V2_EPISODES[name] + "\n")
    assert_refused(foreign, r"episodes\.jsonl cannot be read")


def test_a_v2_list_without_chunk_size_or_with_escaping_videos_is_refused(foreign):
    as_v2(foreign, '{"episode_index": 0, "tasks": ["x"], "length": 5}\n')
    change_info(foreign, put("video_path", "../{video_key}"))
    assert_refused(foreign, "outside the dataset")


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_anywhere_never_ends_in_another_kind_of_error(folder, seed):
    rng = np.random.default_rng(seed)
    if seed % 2:
        shutil.rmtree(folder / "meta/twinloop")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    path = files[rng.integers(len(files))]
    content = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 20)):
        content[rng.integers(len(content))] = rng.integers(256)
    path.write_bytes(content[: rng.integers(len(content))] if rng.random() < 0.3 else content)
    for act in (
        read_everything,
        lambda folder: verify(folder, decode=True),
        lambda folder: query([folder], "select count(*) from frames"),
        lambda folder: merge([folder], folder.with_name("merged"), skip_unusable=True),
        repair,
        read_everything,
    ):
        with contextlib.suppress(TwinloopError):
            act(folder)
