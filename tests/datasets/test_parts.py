"""Parts written on their own become one dataset, the same as if it had been written in one go."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.parts import append_part
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.stats import feature_stats
from twinloop.datasets.writer import append_to, make_dataset


def write(path, schema, seeds, **changes):
    with make_dataset(path, schema) as writer:
        for seed in seeds:
            task = "pick up the cube" if seed % 2 else "put it down"
            writer.add(toy_episode(seed, rows=20 + seed, schema=schema, task=task, **changes))
    return path


def tables(root, folder):
    return [pq.read_table(path).to_pylist() for path in sorted(root.glob(f"{folder}/*/*.parquet"))]


@pytest.mark.parametrize("schema", [STATE_ONLY, WITH_CAMERA], ids=["states", "camera"])
def test_taking_parts_gives_the_tables_that_writing_in_one_go_gives(tmp_path, schema):
    whole = open_dataset(write(tmp_path / "whole", schema, range(7)))
    parts = [
        write(tmp_path / f"part{i}", schema, seeds) for i, seeds in enumerate([(0, 1), (2, 3, 4), (5, 6)])
    ]
    with make_dataset(tmp_path / "joined", schema) as writer:
        assert [append_part(writer, part) for part in parts] == [2, 3, 2]
    joined = open_dataset(tmp_path / "joined")
    assert [e.id for e in joined] == [e.id for e in whole]
    assert tables(joined.root, "data") == tables(whole.root, "data")
    for mine, theirs in zip(*[tables(d.root, "meta/episodes")[0] for d in (joined, whole)], strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            if name.startswith("stats/"):
                np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12, err_msg=name)
            elif not name.startswith("videos/"):
                assert mine[name] == theirs[name], name
    for a, b in zip(joined, whole, strict=True):
        assert a.provenance == b.provenance and a.outcome == b.outcome and a.events == b.events
        for camera in schema.cameras:
            frames = [episode.frames[camera.name][3].astype(int) for episode in (a, b)]
            np.testing.assert_allclose(*frames, atol=16)
    side = joined.provenance_table()
    assert side.column("origin_dataset").unique().to_pylist() == [joined.id]
    assert side.column("origin_index").to_pylist() == list(range(7))


def test_what_was_not_committed_can_be_discarded(tmp_path):
    part = write(tmp_path / "part", STATE_ONLY, range(3))
    with make_dataset(tmp_path / "out", STATE_ONLY) as writer:
        append_part(writer, part)
    writer = append_to(tmp_path / "out")
    append_part(writer, part)
    writer.discard()
    assert len(open_dataset(tmp_path / "out")) == 3
    append_to(tmp_path / "out").close()


def test_statistics_of_many_features_at_once_are_those_of_each():
    rng = np.random.default_rng(0)
    features = {
        "a": rng.normal(size=(50, 3)).astype(np.float32),
        "b": rng.integers(0, 9, (50, 1)),
        "c": rng.normal(size=(50, 2, 2)),
        "d": rng.random((50, 1)) > 0.5,
    }
    together = feature_stats(features)
    for name, rows in features.items():
        alone = feature_stats({name: rows})[name]
        for key, value in alone.items():
            assert together[name][key].dtype == value.dtype
            np.testing.assert_allclose(together[name][key], value, rtol=1e-14)
