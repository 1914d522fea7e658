"""Regions removed from simulation are found, named and linked to failures; nothing is found where nothing is missing."""

from dataclasses import replace

import numpy as np
import pytest

from tests.coverage import worlds
from twinloop.coverage.result import load_coverage
from twinloop.coverage.run import compare_samples, measure_coverage
from twinloop.coverage.sample import DatasetSample, Points
from twinloop.coverage.variables import Variable
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.errors import WrongUse

CASES = {
    "beyond an edge": lambda s: s[:, 0] > 0.55,
    "a corner": lambda s: (s[:, 0] < 0.48) & (s[:, 1] > 0.0),
    "a band": lambda s: np.abs(s[:, 1] - 0.02) < 0.025,
    "a patch": lambda s: (np.abs(s[:, 0] - 0.5) < 0.04) & (np.abs(s[:, 1]) < 0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_a_removed_region_is_found(name):
    real, sim = worlds.scenes(120, 1), worlds.scenes(600, 2)
    truth = CASES[name](real)
    kept = sim[~CASES[name](sim)]
    result = compare_samples(worlds.side("real", real, 0), worlds.side("sim", kept, 1000))
    found = np.isin(np.arange(120), [n for region in result.regions for n in region.episodes])
    assert (found & truth).sum() >= 0.9 * truth.sum(), [r.name for r in result.regions]
    assert (found & truth).sum() >= 0.9 * found.sum(), [r.name for r in result.regions]


def test_a_region_is_named_in_the_words_of_the_data():
    real, sim = worlds.scenes(120, 1), worlds.scenes(300, 2)
    result = compare_samples(worlds.side("real", real, 0), worlds.side("sim", sim[sim[:, 0] < 0.55], 1000))
    [region] = result.regions
    [condition] = region.as_json()["conditions"]
    assert condition["variable"] == "object.x at the start" and condition["high"] is None
    assert condition["low"] == pytest.approx(0.55, abs=0.005)
    assert region.name == f"object.x at the start above {condition['low']:.3g} m"
    assert condition["seen"][0] > condition["low"] and region.sim_episodes == 0


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_found_where_nothing_is_missing(seed):
    real = worlds.side("real", worlds.scenes(80, 10 + seed), 0)
    result = compare_samples(real, worlds.side("sim", worlds.scenes(200, 20 + seed), 1000), seed=seed)
    assert result.outside <= 0.05
    assert np.mean(result.map.score > 1.0) <= 0.05


@pytest.mark.parametrize("seed", range(4))
def test_a_robot_that_always_works_at_one_spot_is_covered(seed):
    spot = worlds.scenes(30, seed)
    spot[:, :2] = np.random.default_rng(seed).normal([0.47, 0.03], 0.006, (30, 2))
    sim = worlds.side("sim", worlds.scenes(300, 30 + seed), 1000)
    assert compare_samples(worlds.side("real", spot, 0), sim, seed=seed).outside <= 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_place_that_never_moves_is_not_blamed_for_what_lies_elsewhere(seed):
    rng = np.random.default_rng(seed)
    real = worlds.scenes(40, seed)
    real[:, 0], real[:, 1] = 0.5 + rng.normal(0.0, 1e-6, 40), rng.normal(0.0, 0.2, 40)
    result = compare_samples(
        worlds.side("real", real, 0), worlds.side("sim", worlds.scenes(300, 60 + seed), 1000)
    )
    blamed = {c["variable"] for region in result.regions for c in region.as_json()["conditions"]}
    assert blamed and all("object.y" in name for name in blamed), blamed


def test_moments_are_looked_at_too():
    """Simulation that stops half way lacks what follows, though every episode begins alike."""
    real, sim = worlds.side("real", worlds.scenes(80, 1), 0), worlds.side("sim", worlds.scenes(200, 2), 1000)
    early = sim.moments.frame < 12
    moments = Points(
        sim.moments.variables, sim.moments.values[early], sim.moments.episode[early], sim.moments.frame[early]
    )
    result = compare_samples(real, replace(sim, moments=moments, raw=sim.raw[early]))
    assert result.regions and all(region.level == "moment" for region in result.regions)
    late = result.map.real.moments.frame >= 12
    assert np.mean(late[result.map.outside]) > 0.9
    assert np.mean(result.map.outside[result.map.real.moments.frame >= 18]) > 0.7


def test_failures_and_queries_follow_regions(tmp_path):
    def far(scene):
        return scene[0] > 0.54

    real, sim = worlds.scenes(60, 1), worlds.scenes(150, 2)
    worlds.write(tmp_path / "real", real, 0, source="real", fails=far)
    worlds.write(tmp_path / "sim", sim[sim[:, 0] < 0.54], 1000, source="sim")
    result = measure_coverage(tmp_path / "real", tmp_path / "sim")
    [region] = result.regions
    assert region.outcomes.worse and region.outcomes.failed_inside == (real[:, 0] > 0.54).sum()
    assert region.outcomes.reasons == {"missed": region.outcomes.failed_inside}
    asked = query([open_dataset(tmp_path / "real")], region.query).to_pylist()
    assert {row["episode_index"] for row in asked} == set(region.episodes)
    assert result.as_json()["regions"][0]["outcomes"]["worse"] is True
    assert measure_coverage(tmp_path / "real", tmp_path / "sim").as_json() == result.as_json()


def test_what_no_two_variables_show_is_found_by_likeness():
    """Simulation is a hollow ball, some real episodes lie at its middle: every two coordinates look covered."""

    def hollow(name, count, inner, seed):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(count, 3))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        values[:inner] *= 0.1
        variables = tuple(Variable(axis, "1", "frames", axis) for axis in ("roll", "pitch", "yaw"))
        episodes = np.arange(count)
        points = Points(variables, values, episodes, np.zeros(count, dtype=int))
        still = Points((), np.zeros((count, 0)), episodes, np.zeros(count, dtype=int))
        ended, unknown = (True,) * count, (None,) * count
        return DatasetSample(
            name, name, tuple(range(count)), ended, unknown, {}, points, still, values, np.zeros(3)
        )

    result = compare_samples(hollow("real", 100, 20, 1), hollow("sim", 600, 0, 2))
    [region] = result.regions
    assert region.name.startswith("unlike anything simulated")
    assert set(range(20)) <= set(region.episodes) and len(region.episodes) <= 22
    assert compare_samples(hollow("real", 100, 0, 3), hollow("sim", 600, 0, 4)).outside <= 0.05


def test_a_image_unlike_any_simulated_one_is_found(tmp_path):
    """A violet cloth lies on the table, in every third episode."""
    scenes = worlds.scenes(30, 1)
    with worlds.make_dataset(tmp_path / "real", worlds.SEEN) as writer:
        for n, scene in enumerate(scenes):
            made = worlds.episode(scene, n, source="real", camera=True)
            if n % 3 == 0:
                frames = made.frames["top"].copy()
                frames[:, 12:22, 18:30, 1] = 0
                made = worlds.replace(made, frames={"top": frames})
            writer.add(made)
    worlds.write(tmp_path / "sim", worlds.scenes(60, 2), 1000, source="sim", camera=True)
    result = measure_coverage(tmp_path / "real", tmp_path / "sim", points=600)
    found = {n for region in result.regions for n in region.episodes}
    strange = set(range(0, 30, 3))
    assert len(found & strange) >= 9 and len(found - strange) <= 2, [r.name for r in result.regions]


def test_a_dark_room_is_seen_by_the_camera(tmp_path):
    real, sim = worlds.scenes(40, 1), worlds.scenes(80, 2)
    worlds.write(tmp_path / "real", real, 0, source="real", camera=True)
    worlds.write(tmp_path / "sim", sim[sim[:, 3] > 0.55], 1000, source="sim", camera=True)
    result = measure_coverage(tmp_path / "real", tmp_path / "sim", points=400)
    names = [region.name for region in result.regions]
    assert any(name.startswith(("top light at the start below", "top light below")) for name in names), names
    dark = {n for n in range(40) if real[n, 3] < 0.55}
    found = {n for region in result.regions for n in region.episodes}
    assert len(found & dark) >= 0.9 * len(dark) and len(found & dark) >= 0.9 * len(found)
    listed = query([open_dataset(tmp_path / "real")], result.regions[0].query).to_pylist()
    assert {row["episode_index"] for row in listed} == set(result.regions[0].episodes)


def test_words_that_simulation_does_not_know_are_regions(tmp_path):
    scenes = worlds.scenes(30, 1)
    with worlds.make_dataset(tmp_path / "real", worlds.SCHEMA) as writer:
        for n, scene in enumerate(scenes):
            task = "reach" if n % 3 else "reach with the left hand"
            writer.add(worlds.episode(scene, n, source="real", task=task))
    worlds.write(tmp_path / "sim", worlds.scenes(60, 2), 1000, source="sim")
    [region] = measure_coverage(tmp_path / "real", tmp_path / "sim").regions
    assert region.name == "task is 'reach with the left hand'" and len(region.episodes) == 10


def test_tasks_that_are_named_apart_are_reported_and_are_no_region(tmp_path):
    with worlds.make_dataset(tmp_path / "real", worlds.SCHEMA) as writer:
        for n, scene in enumerate(worlds.scenes(30, 1)):
            writer.add(worlds.episode(scene, n, source="real", task="Reach for it, please."))
    worlds.write(tmp_path / "sim", worlds.scenes(60, 2), 1000, source="sim")
    result = measure_coverage(tmp_path / "real", tmp_path / "sim")
    assert result.regions == ()
    assert any("no value in common ('Reach for it, please.', 'reach')" in line for line in result.missing)


def test_a_variable_that_simulation_holds_still_counts_only_beyond_what_matters():
    real, sim = worlds.scenes(60, 1), worlds.scenes(150, 2)
    sim[:, 1] = 0.0
    real[:, 1] = np.random.default_rng(3).uniform(-0.002, 0.002, 60)
    assert compare_samples(worlds.side("real", real, 0), worlds.side("sim", sim, 1000)).outside <= 0.05
    real[:15, 1] = 0.03
    [region] = compare_samples(worlds.side("real", real, 0), worlds.side("sim", sim, 1000)).regions
    assert set(region.episodes) == set(range(15)) and region.level == "situation"


def test_units_may_be_said_once_or_for_every_element(tmp_path):
    from twinloop.coverage.sample import sample_datasets
    from twinloop.datasets.writer import make_dataset
    from twinloop.episode import Schema, Signal, make_episode

    for name, units in (("once", ("rad",)), ("each", ("rad", "rad")), ("wrong", ("deg",))):
        schema = Schema((Signal("observation.state", (2,), units),), 20.0)
        with make_dataset(tmp_path / name, schema) as writer:
            writer.add(make_episode(schema, np.arange(30) / 20.0, {"observation.state": np.ones((30, 2))}))
    once, each, wrong = (open_dataset(tmp_path / name) for name in ("once", "each", "wrong"))
    assert len(sample_datasets(once, each)[0]) == 1
    with pytest.raises(WrongUse, match="other units"):
        sample_datasets(once, wrong)


def test_what_cannot_be_compared_is_refused(tmp_path):
    worlds.write(tmp_path / "real", worlds.scenes(5, 1), 0, source="real")
    worlds.write(tmp_path / "few", worlds.scenes(5, 2), 0, source="sim")
    with pytest.raises(WrongUse, match="too few simulated episodes"):
        measure_coverage(tmp_path / "real", tmp_path / "few")
    with pytest.raises(WrongUse, match="are swapped"):
        measure_coverage(tmp_path / "few", tmp_path / "real")
    with pytest.raises(WrongUse, match=r"no signal of .* is called 'effort'"):
        measure_coverage(tmp_path / "real", tmp_path / "few", signals=["effort"])
    from tests.datasets.examples import toy_episode
    from twinloop.datasets.writer import make_dataset

    with make_dataset(tmp_path / "other", toy_episode(0).schema) as writer:
        writer.add(toy_episode(0))
    with pytest.raises(WrongUse, match="no signal of the same size"):
        measure_coverage(tmp_path / "real", tmp_path / "other")


def beyond(real, fails):
    """Simulation shows objects below 0.5 m; real episodes fail where `fails` says."""
    sim = worlds.scenes(600, 2)
    mine = replace(worlds.side("real", real, 0), success=tuple(not f for f in fails))
    return compare_samples(mine, worlds.side("sim", sim[sim[:, 0] < 0.5], 1000))


def test_the_part_of_a_region_in_which_episodes_fail_is_named():
    real = worlds.scenes(80, 1)
    [region] = beyond(real, real[:, 0] > 0.55).regions
    [condition] = region.worst.as_json()["conditions"]
    assert condition["low"] == pytest.approx(0.55, abs=0.01) and condition["high"] is None
    ended = region.worst.outcomes
    assert ended.failed_inside == ended.known_inside > 5 and ended.failed_elsewhere == 0
    assert set(region.worst.episodes) < set(region.episodes)
    assert region.as_json()["worst"]["name"] == region.worst.name


def test_what_else_decides_within_a_region_becomes_a_further_condition():
    real = worlds.scenes(120, 3)
    [region] = beyond(real, (real[:, 0] > 0.5) & (real[:, 1] < 0.0)).regions
    assert [c["variable"] for c in region.worst.as_json()["conditions"]] == [
        "object.x at the start",
        "object.y at the start",
    ]


def test_the_part_is_named_in_settable_coordinates():
    real = worlds.scenes(120, 3)
    far = np.hypot(real[:, 0], real[:, 1])
    [region] = beyond(real, (real[:, 0] > 0.5) & (far > np.median(far[real[:, 0] > 0.5]))).regions
    assert "object.distance" not in region.worst.name and "object.x" in region.worst.name


@pytest.mark.parametrize("seed", range(6))
def test_failures_that_come_by_chance_narrow_no_region(seed):
    real = worlds.scenes(80, 30 + seed)
    result = beyond(real, np.random.default_rng(seed).random(80) < 0.4)
    assert all(region.worst is None for region in result.regions)


def test_a_coverage_that_was_saved_is_the_same_without_its_map(tmp_path):
    real = worlds.scenes(60, 0)
    real[:20, 0] += 0.3
    found = compare_samples(worlds.side("real", real, 0), worlds.side("sim", worlds.scenes(300, 1), 1000))
    assert found.regions and found.map is not None
    found.save(tmp_path)
    again = load_coverage(tmp_path)
    assert again == found and again.map is None and again.as_json() == found.as_json()
    (tmp_path / "coverage.json").write_text("{}")
    with pytest.raises(WrongUse, match="not a valid Coverage"):
        load_coverage(tmp_path)


def test_an_offset_of_every_episode_is_named_and_not_called_outside():
    real = worlds.scenes(80, 0)
    real[:, 0] += 0.3
    found = compare_samples(worlds.side("real", real, 0), worlds.side("sim", worlds.scenes(300, 1), 1000))
    assert any(region.offset for region in found.regions)
    assert found.outside < 0.2
