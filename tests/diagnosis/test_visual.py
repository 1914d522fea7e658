"""A policy that looks: what its images show that the twin's do not is put into the twin, and costs what it costs there."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.learning.examples import TINY
from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.diagnosis.visual import measure_visual
from twinloop.experts import find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.generation.run import generate
from twinloop.learning.train import train
from twinloop.looks.measured import CAUSES
from twinloop.randomization import load_randomization
from twinloop.twins import load_twin


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """A policy that has learned next to nothing from a wrist camera; runs of it in a darker look.

    Episodes are cut short and labelled as successes, which is all that training asks of them.
    """
    folder = tmp_path_factory.mktemp("seeing")
    twin = load_twin("franka_pick_place")
    short = {"cameras": ("wrist",), "max_steps": 120, "workers": 1}
    generate(twin, out=folder / "sim", episodes=5, seed=3, **short)
    twinloop("data", "label", "sim", *range(5), "--success", "--by", "tester", cwd=folder)
    config = replace(TINY, cameras=("wrist",), image_side=16, image_features=8, chunk=30, n_action_steps=30)
    policy = train(folder / "sim", out=folder / "policy", config=config)
    varied = load_randomization(
        {"name": "darker", "randomization": {"visual": {"exposure_stops": -1.5}}}, twin
    )
    generate(twin, varied, out=folder / "darker", episodes=3, seed=8, **short)
    return policy, folder


def test_a_policy_that_sees_nothing_has_no_visual_causes():
    (found,), assets = measure_visual((), [], load_twin("franka_pick_place"), 8, 0)
    assert found.missing == ("images: this policy sees none",) and not found.differs and not assets


def test_images_of_another_size_are_not_compared():
    runs = [Recorded({"wrist": np.zeros((4, 64, 64, 3), np.uint8)})] * 2
    (found,), _ = measure_visual(("wrist",), runs, load_twin("franka_pick_place"), 8, 0)
    assert "128 x 128" in found.missing[0] and "64 x 64" in found.missing[0]


class Recorded:
    """Frames alone."""

    def __init__(self, frames):
        self.frames = frames

    def __len__(self):
        return 4


def test_a_policy_that_looks_is_diagnosed_with_the_measured_look(seeing, short_trials):
    policy, folder = seeing
    runs = [one.with_provenance(actor="policy", actor_id=None) for one in open_dataset(folder / "darker")]
    found = diagnose(policy, runs, "franka_pick_place", scenes=8, budget=16)
    parts = {one.dimension: one for one in found.measured}
    assert set(CAUSES) <= set(parts)
    exposure = next(q for q in parts["light and colour"].quantities if q.name == "exposure, wrist")
    assert exposure.differs and exposure.real == pytest.approx(-1.5, abs=0.3)
    assert "exposure_stops" in parts["light and colour"].values
    assert "light and colour" in {cost.dimension for cost in found.costs}


class CarefulExpert:
    """Acts as the scripted expert where the first image of an episode has few edges, and does not move otherwise."""

    actor = "policy"
    cameras = ("front",)

    def __init__(self, policy, setup):
        self._expert = find_expert("pick_and_place")(setup)
        self._fresh = np.ones(setup.count, dtype=bool)
        self._puzzled = np.zeros(setup.count, dtype=bool)
        self._home = np.zeros((setup.count, len(setup.cell.actuators)))

    def needs_images(self):
        return self._fresh.copy()

    def restart(self, ids, reading, seeds):
        self._fresh[ids], self._home[ids] = True, reading.position[ids]
        self._expert.restart(ids, reading, seeds)

    def act(self, reading, step):
        for row in np.flatnonzero(self._fresh):
            self._puzzled[row] = edginess(reading.frames["front"][row]) > EDGY
        self._fresh[:] = False
        return np.where(self._puzzled[:, None], self._home, self._expert.act(reading, step))


EDGY = 0.9


def edginess(frame):
    light = np.asarray(frame, float).mean(axis=2)
    return float(np.abs(np.diff(light[80:], axis=1)).mean())


def watched(twin, count, **look):
    """Runs of the careful expert in a twin with this look, as a robot's recordings."""
    rng = np.random.default_rng(4)
    drawn = {f"object_offset_{axis}_m": rng.uniform(-0.06, 0.06, count) for axis in "xy"}
    drawn |= {name: np.full(count, float(value)) for name, value in look.items()}
    job = Job(twin, twin.task, "careful@1", cameras=("front",))
    runs = rollout_drawn(
        job, list(range(count)), drawn, 2, lambda setup: CarefulExpert(None, setup), stills=[0.0] * count
    )
    return [one.with_provenance(actor="policy", actor_id=None) for one in runs]


@pytest.mark.parametrize("pattern", [pytest.param(0, marks=pytest.mark.slow), 40])
def test_another_pattern_of_the_table_is_named_and_the_same_look_is_not(monkeypatch, pattern):
    twin = load_twin("franka_pick_place")
    monkeypatch.setattr("twinloop.diagnosis.trials.PolicyExpert", CarefulExpert)
    monkeypatch.setattr("twinloop.diagnosis.run.NOMINAL_RUNS", 4)
    careful = SimpleNamespace(name="careful", id="1", interface=SimpleNamespace(cameras=twin.cameras[:1]))
    runs = watched(twin, 4, texture_index=pattern)
    assert [one.success for one in runs] == [pattern == 0] * len(runs)
    found = diagnose(careful, runs, twin, scenes=8, budget=16)
    assert [cost.dimension for cost in found.named] == (["texture and background"] if pattern else [])
    table = next(m for m in found.measured if m.dimension == "texture and background")
    assert ("surface-table.png" in table.photographs) == bool(pattern)
