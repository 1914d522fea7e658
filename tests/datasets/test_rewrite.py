"""Merging and splitting keep every episode what it was, and say where it came from."""

from dataclasses import replace

import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.labels import add_labels
from twinloop.datasets.merge import merge
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.split import split
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Outcome
from twinloop.errors import DamagedDataset, DatasetError, InvalidEpisode, WrongUse
from twinloop.testing import assert_same_episode


def write(path, seeds, schema=WITH_CAMERA, **changes):
    episodes = [toy_episode(seed, rows=6 + seed % 5, schema=schema, **changes) for seed in seeds]
    with make_dataset(path, schema) as writer:
        for episode in episodes:
            writer.add(episode)
    return episodes


def test_a_merge_holds_every_episode_of_every_source_and_can_be_appended_to(tmp_path):
    first, second = write(tmp_path / "a", range(4)), write(tmp_path / "b", range(4, 9))
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m").dataset
    for got, expected in zip(merged, first + second, strict=True):
        assert_same_episode(got, expected)
    more = toy_episode(50, schema=WITH_CAMERA)
    with append_to(tmp_path / "m") as writer:
        writer.add(more)
    assert_same_episode(open_dataset(tmp_path / "m").episode(9), more)


def test_an_episode_is_traced_to_its_origin_through_merge_and_split(tmp_path):
    write(tmp_path / "a", range(5), STATE_ONLY)
    write(tmp_path / "b", range(5, 10), STATE_ONLY)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    split(tmp_path / "m", tmp_path / "s", {"train": 0.6, "test": 0.4}, seed=3)
    origins = {
        (row["origin_dataset"], row["origin_index"]): row["seed"]
        for part in ("train", "test")
        for row in open_dataset(tmp_path / "s" / part).provenance_table().to_pylist()
    }
    a, b = open_dataset(tmp_path / "a").id, open_dataset(tmp_path / "b").id
    assert origins == {(a, i): i for i in range(5)} | {(b, i): i + 5 for i in range(5)}


def test_a_split_cuts_video_so_that_no_part_holds_the_other_parts_frames(tmp_path):
    episodes = write(tmp_path / "a", range(9))
    parts = split(tmp_path / "a", tmp_path / "s", {"train": 0.5, "test": 0.5}, stratify=())
    frames = 0
    for part in parts.values():
        for got in part:
            assert_same_episode(got, episodes[got.provenance.seed])
            frames += len(got)
    assert frames == sum(len(e) for e in episodes)
    sizes = [file.stat().st_size for file in (tmp_path / "s").rglob("*.mp4")]
    whole = next((tmp_path / "a").rglob("*.mp4")).stat().st_size
    assert all(size < 0.8 * whole for size in sizes)


def test_a_split_keeps_descendants_of_one_parent_together_and_the_mix_alike(tmp_path):
    parents = [toy_episode(seed) for seed in range(20)]
    children = [
        toy_episode(
            100 + seed, provenance=replace(toy_episode(seed).provenance, parents=(parents[seed % 20].id,))
        )
        for seed in range(60)
    ]
    with make_dataset(tmp_path / "a", STATE_ONLY) as writer:
        for episode in parents + children:
            writer.add(episode)
    parts = split(
        tmp_path / "a", tmp_path / "s", {"train": 0.8, "val": 0.1, "test": 0.1}, stratify=("success",)
    )
    assert {name: len(part) for name, part in parts.items()} == {"train": 64, "val": 8, "test": 8}
    home = {}
    for name, part in parts.items():
        for episode in part:
            for identity in (episode.id, *episode.provenance.parents):
                assert home.setdefault(identity, name) == name


def test_the_same_seed_gives_the_same_split_and_another_seed_another(tmp_path):
    write(tmp_path / "a", range(30), STATE_ONLY)

    def train_ids(out, seed):
        parts = split(tmp_path / "a", tmp_path / out, {"train": 0.5, "test": 0.5}, seed=seed)
        return [episode.id for episode in parts["train"]]

    assert train_ids("s1", 1) == train_ids("s2", 1)
    assert train_ids("s3", 2) != train_ids("s4", 1)


def test_labels_go_with_their_episodes(tmp_path):
    episodes = write(tmp_path / "a", range(3), STATE_ONLY)
    add_labels(tmp_path / "a", [episodes[1].id], {"failure": "dropped"}, by="ann")
    merged = merge([tmp_path / "a"], tmp_path / "m").dataset
    assert [episode.outcome for episode in merged] == [
        Outcome(False, "slipped"),
        Outcome(False, "dropped"),
        Outcome(True, None),
    ]
    assert (tmp_path / "m/meta/twinloop/labels.jsonl").read_text().count("ann") == 1


def test_repeats_and_other_schemas_are_refused_and_nothing_is_left_behind(tmp_path):
    write(tmp_path / "a", range(3), STATE_ONLY)
    write(tmp_path / "b", range(2, 5), STATE_ONLY)
    write(tmp_path / "c", range(2), WITH_CAMERA)
    with pytest.raises(InvalidEpisode, match="same as"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    with pytest.raises(DatasetError, match=r"observation\.images\.front not expected"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "m")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m", skip_unusable=True)
    assert len(merged.dataset) == 5
    assert list(merged.skipped) == [(str(tmp_path / "b"), 0)]


def test_impossible_splits_are_refused(tmp_path):
    write(tmp_path / "a", range(2), STATE_ONLY)
    with pytest.raises(WrongUse, match="add up to 1"):
        split(tmp_path / "a", tmp_path / "s", {"train": 0.5, "test": 0.4})
    with pytest.raises(DatasetError, match="would be empty"):
        split(tmp_path / "a", tmp_path / "s", {"train": 0.98, "val": 0.01, "test": 0.01})
    with pytest.raises(WrongUse, match="cannot stratify by 'colour'"):
        split(tmp_path / "a", tmp_path / "s", {"train": 0.5, "test": 0.5}, stratify=["colour"])
    assert not (tmp_path / "s").exists()


def test_merge_leaves_out_episodes_whose_video_cannot_be_read(tmp_path):
    for name, seeds in (("a", (0, 1)), ("b", (2, 3))):
        with make_dataset(tmp_path / name, WITH_CAMERA) as writer:
            for seed in seeds:
                writer.add(toy_episode(seed, schema=WITH_CAMERA))
                writer.commit()
    video = sorted((tmp_path / "a/videos").rglob("*.mp4"))[0]
    video.write_bytes(video.read_bytes()[: video.stat().st_size // 3])
    with pytest.raises(DamagedDataset):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    done = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m", skip_unusable=True)
    assert len(done.dataset) == 3
    ((where, reason),) = done.skipped.items()
    assert where == (str(tmp_path / "a"), 0) and "cannot be read as video" in reason
    assert verify(tmp_path / "m", decode=True).ok
