"""Engines beside MuJoCo: they keep to the door, give the same dataset, and refuse by name what they cannot do."""

import sys

import numpy as np
import pytest

from twinloop.engines import cannot_vary, make_engine
from twinloop.errors import InvalidRandomization, InvalidTwin, MissingExtra, UnknownName, WrongUse
from twinloop.generation.open_loop import replay_actions
from twinloop.generation.replay import replay
from twinloop.generation.run import generate, load_for_engines, make_job
from twinloop.randomization import (
    default_randomization,
    load_generate_config,
    load_randomization,
    make_randomization,
)
from twinloop.tasks import make_cell
from twinloop.testing.engines import check_engine
from twinloop.twins import Twin, load_twin

PACKAGES = {"bullet": "pybullet", "physx": "sapien"}


@pytest.fixture(params=PACKAGES)
def engine(request):
    pytest.importorskip(PACKAGES[request.param])
    return request.param


@pytest.mark.parametrize("name", ["franka_pick_place", "so101_pick_place"])
def test_it_keeps_to_the_door(engine, name):
    check_engine(engine, load_twin(name))


def test_a_dataset_of_it_has_the_same_signals_and_draws_and_replays_bit_for_bit(engine, tmp_path):
    twin = load_twin("so101_pick_place")
    varied = make_randomization(twin, {"object_mass_kg": (0.01, 0.05), "action_delay_s": (0.0, 0.04)})
    made = {
        name: generate(
            twin, varied, out=tmp_path / name, episodes=3, seed=5, max_steps=25, engine=name, workers=1
        )
        for name in ("mujoco", engine)
    }
    ours, theirs = ([one.episode(k) for k in range(3)] for one in made.values())
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.schema == other.schema
        assert mine.provenance.draw == other.provenance.draw
        assert other.provenance.engine == engine and other.provenance.engine_version
        assert np.array_equal(mine["observation.state"][0], other["observation.state"][0])
        assert not np.array_equal(mine["observation.state"], other["observation.state"])
    assert replay(made[engine], 1).same


def test_what_it_cannot_vary_is_refused_by_name(engine):
    twin = load_twin("franka_pick_place")
    refused = cannot_vary(engine, twin, default_randomization(twin).names)
    assert "contact_time_s" in refused
    varied = make_randomization(twin, {"contact_time_s": (0.01, 0.02), "object_mass_kg": (0.1, 0.2)})
    with pytest.raises(WrongUse, match=f"{engine} cannot vary contact_time_s") as error:
        make_job(twin, varied, engine=engine)
    assert "object_mass_kg" not in str(error.value)


def test_an_engine_that_is_not_installed_says_how_to_get_it(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[engine], None)
    with pytest.raises(MissingExtra, match=rf"pip install 'twinloop\[{engine}\]'"):
        make_job(load_twin("so101_pick_place"), engine=engine)


def test_a_shape_that_it_cannot_load_is_named(engine):
    text = """<mujoco><asset><hfield name="hills" nrow="2" ncol="2" size="1 1 1 0.1" elevation="0 1 1 0"/></asset>
      <worldbody><geom name="hills" type="hfield" hfield="hills"/></worldbody></mujoco>"""
    cell = make_cell(Twin("hills", text))
    with pytest.raises(InvalidTwin, match="'hills'"):
        make_engine(engine, cell, 1).roll(
            np.array([0]), {}, (np.zeros((1, 0)), np.zeros((1, 0))), np.zeros((1, 1, 0))
        )


def test_engine_and_time_step_are_drawn_for_each_episode_and_kept_in_order(tmp_path):
    for package in PACKAGES.values():
        pytest.importorskip(package)
    config = {
        "twin": "so101_pick_place",
        "randomization": {
            "engine": ["mujoco", "bullet", "physx"],
            "numerics": {"timestep_s": [0.001, 0.002]},
            "object_mass_kg": [0.01, 0.05],
        },
    }
    twin = load_twin("so101_pick_place")
    varied = load_randomization(config)
    made = generate(twin, varied, out=tmp_path / "mixed", episodes=8, seed=3, max_steps=8, workers=1)
    alone = generate(
        twin, make_randomization(twin, {"object_mass_kg": (0.01, 0.05)}), out=tmp_path / "alone",
        episodes=8, seed=3, max_steps=8, workers=1,
    )  # fmt: skip
    origins = [made.episode(k).provenance for k in range(8)]
    assert {origin.engine for origin in origins} == {"mujoco", "bullet", "physx"}
    assert all(origin.engine == origin.draw["engine"] for origin in origins)
    assert {origin.draw["timestep_s"] for origin in origins} == {0.001, 0.002}
    assert {origin.twin_hash for origin in origins} == {twin.content_hash}
    masses = [alone.episode(k).provenance.draw["object_mass_kg"] for k in range(8)]
    assert [origin.draw["object_mass_kg"] for origin in origins] == masses, "other draws do not move"
    assert all(replay(made, k).same for k in range(8))


def test_a_time_step_that_does_not_fit_the_control_rate_is_refused():
    twin = load_twin("so101_pick_place")
    with pytest.raises(InvalidRandomization, match="whole number of physics steps"):
        make_randomization(twin, {"timestep_s": [0.001, 0.003]})
    with pytest.raises(InvalidRandomization, match="not a choice"):
        make_randomization(twin, {"engine": {"uniform": [0, 1]}})
    varied = make_randomization(twin, {"engine": ["mujoco", "bulet"]})
    with pytest.raises(UnknownName, match="did you mean 'bullet'"):
        make_job(twin, varied)


def test_what_one_of_several_engines_cannot_vary_is_refused():
    twin = load_twin("franka_pick_place")
    varied = make_randomization(
        twin, {"engine": ["mujoco", "physx"], "object_torsional_friction_m": (0.004, 0.006)}
    )
    pytest.importorskip("sapien")
    with pytest.raises(WrongUse, match="physx cannot vary object_torsional_friction_m"):
        make_job(twin, varied)


def test_the_default_randomization_varies_what_the_engine_can(engine):
    twin = load_twin("franka_pick_place")
    config = load_generate_config({"twin": twin.name, "randomization": "default"})
    names = set(load_for_engines(config, twin, engine).names)
    assert "contact_time_s" not in names and "object_mass_kg" in names
    assert names == set(default_randomization(twin).names) - set(
        cannot_vary(engine, twin, default_randomization(twin).names)
    )
    named = load_generate_config(
        {"twin": twin.name, "randomization": {"from": "default", "contact_time_s": [0.01, 0.012]}}
    )
    with pytest.raises(WrongUse, match="contact_time_s"):
        make_job(twin, load_for_engines(named, twin, engine), engine=engine)


def test_recorded_actions_are_replayed_open_loop_in_it(engine, tmp_path):
    twin = load_twin("so101_pick_place")
    made = generate(twin, out=tmp_path / "sim", episodes=1, seed=2, max_steps=40, workers=1)
    found = {name: replay_actions(made.episode(0), twin, engine=name) for name in ("mujoco", engine)}
    assert found[engine].replayed.provenance.engine == engine
    errors = {
        name: next(one for one in result.errors if one.signal == "observation.state").root_mean_square
        for name, result in found.items()
    }
    assert errors[engine] == pytest.approx(errors["mujoco"], abs=2e-3), "the same arm"
    assert errors[engine] != errors["mujoco"], "in another engine"
