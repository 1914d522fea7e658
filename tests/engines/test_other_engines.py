"""Engines beside MuJoCo: they keep to the door, give the same dataset, and refuse by name what they cannot do."""

import sys

import numpy as np
import pytest

from twinloop.engines import cannot_vary, make_engine
from twinloop.errors import InvalidTwin, MissingExtra, WrongUse
from twinloop.generation.replay import replay
from twinloop.generation.run import generate, make_job
from twinloop.randomization import default_randomization, make_randomization
from twinloop.tasks import make_cell
from twinloop.testing.engines import check_engine
from twinloop.twins import Twin, load_twin

PACKAGES = {"bullet": "pybullet"}


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
