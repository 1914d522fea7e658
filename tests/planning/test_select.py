"""Regions drawn on a coverage map: which episodes they hold, how they are described, and what is refused."""

import json

import numpy as np
import pytest

from tests.coverage import worlds
from twinloop.coverage.map_file import FILE, load_coverage_map, save_coverage
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.errors import DamagedDataset, UnknownName, WrongUse
from twinloop.planning.select import in_polygon, select_region

FAR = [(0.54, -1.0), (1.0, -1.0), (1.0, 1.0), (0.54, 1.0)]
"""Around objects that lie far away, across object x and up object y."""
AXES = {"across": "object.x at the start", "up": "object.y at the start", "level": "situation"}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Real episodes that fail where objects are far, simulated ones only where they are near; and the map on disk."""
    folder = tmp_path_factory.mktemp("map")
    real, sim = worlds.scenes(40, 1), worlds.scenes(80, 2)
    worlds.write(folder / "real", real, 0, source="real", fails=lambda s: s[0] > 0.54)
    worlds.write(folder / "sim", sim[sim[:, 0] < 0.54], 1000, source="sim")
    opened = open_dataset(folder / "real"), open_dataset(folder / "sim")
    result = measure_coverage(*opened, points=600)
    save_coverage(result, folder / "coverage", opened)
    return folder, real, result


def test_a_map_comes_back_from_disk_as_it_was(shelf):
    folder, _, result = shelf
    kept = load_coverage_map(folder / "coverage")
    assert kept.real.numbers == result.map.real.numbers and kept.sim.success == result.map.sim.success
    assert kept.real.conditions == result.map.real.conditions
    np.testing.assert_array_equal(kept.real.moments.values, result.map.real.moments.values)
    np.testing.assert_array_equal(kept.inside, result.map.inside)
    np.testing.assert_allclose(kept.sim_places, result.map.sim_places, rtol=1e-6)


def test_an_outline_selects_the_episodes_in_it_and_says_how_they_ended(shelf):
    folder, real, _ = shelf
    chosen = select_region(folder / "coverage", FAR, **AXES)
    far = tuple(np.flatnonzero(real[:, 0] > 0.54).tolist())
    assert chosen.episodes == far and chosen.failed == len(far)
    assert chosen.sim_episodes == 0 and chosen.twin == "franka_pick_place"
    assert (chosen.outcomes.failed_elsewhere, chosen.outcomes.known_elsewhere) == (0, 40 - len(far))
    assert "object.x at the start between" in chosen.name
    dataset = open_dataset(folder / "real")
    for asked in (chosen.query, chosen.listed):
        assert set(query([dataset], asked).column("episode_index").to_pylist()) >= set(far)
    assert query([dataset], chosen.listed).num_rows == len(far)


def test_moments_on_the_way_are_described_by_how_their_episodes_begin(shelf):
    points = shelf[2].map
    far = points.real.moments.episode == int(np.argmax(worlds.scenes(40, 1)[:, 0]))
    low, high = points.real_places[far].min(axis=0) - 1e-6, points.real_places[far].max(axis=0) + 1e-6
    outline = [tuple(low), (high[0], low[1]), tuple(high), (low[0], high[1])]
    chosen = select_region(points, outline)
    assert int(np.argmax(worlds.scenes(40, 1)[:, 0])) in chosen.episodes
    assert all(one.variable.endswith("at the start") for one in chosen.conditions)


def test_a_polygon_need_not_be_convex():
    corners = np.array([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]], dtype=float)
    x, y = np.array([0.5, 2.0, 3.5, 2.0, 5.0]), np.array([2.0, 0.5, 2.0, 3.0, 1.0])
    assert in_polygon(x, y, corners).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("outline", "axes", "message"),
    [
        ([(0, 0), (1, 1)], AXES, "this is no outline"),
        ([(0, 0), (1, 1), (float("nan"), 0)], AXES, "not finite"),
        ([(5, 5), (6, 5), (6, 6)], AXES, "no real episode lies inside"),
        (FAR, AXES | {"up": "map 2"}, "no axis of the situations is called 'map 2'"),
    ],
)
def test_what_is_no_region_is_refused(shelf, outline, axes, message):
    with pytest.raises((WrongUse, UnknownName), match=message):
        select_region(shelf[0] / "coverage", outline, **axes)


def test_a_map_that_was_changed_is_refused_in_words(shelf, tmp_path):
    content = (shelf[0] / "coverage" / FILE).read_bytes()
    for damaged in (b"", b"PK nothing", content[: len(content) // 2]):
        (tmp_path / FILE).write_bytes(damaged)
        with pytest.raises(DamagedDataset, match="not the map of a coverage"):
            load_coverage_map(tmp_path)
    arrays = dict(np.load(shelf[0] / "coverage" / FILE))
    words = json.loads(arrays["words"].tobytes())
    for name, value in (
        ("score", arrays["score"][:-1]),
        ("real_moments_episode", arrays["real_moments_episode"] + 1000),
        ("words", np.frombuffer(json.dumps(words | {"format": 9}).encode(), np.uint8)),
        ("inside", np.array([{}], dtype=object)),
    ):
        np.savez(tmp_path / FILE, **(arrays | {name: value}))
        with pytest.raises(DamagedDataset):
            load_coverage_map(tmp_path)
    with pytest.raises(WrongUse, match="does not exist"):
        load_coverage_map(tmp_path / "nowhere")
