"""Images with a known look: what was done to them is found, and given to the twin's."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

from tests.learning.examples import TINY
from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.look import Look, find_look, measure_visual, with_look
from twinloop.diagnosis.run import diagnose
from twinloop.experts import find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.generation.run import generate
from twinloop.learning.train import train
from twinloop.measure.images import QUALITIES, measure_qualities
from twinloop.randomization import load_randomization
from twinloop.twins import load_twin


def scenes(count, seed):
    """Smooth coloured images (count, 64, 64, 3) with a bright square somewhere."""
    rng = np.random.default_rng(seed)
    made = ndimage.gaussian_filter(rng.uniform(0, 255, (count, 64, 64, 3)), (0, 6, 6, 0))
    made = 60.0 + 120.0 * (made - made.min()) / np.ptp(made)
    for image, (top, left) in zip(made, rng.integers(5, 45, (count, 2)), strict=True):
        image[top : top + 12, left : left + 12] = (220, 90, 40)
    return np.rint(made).astype(np.uint8)


def test_a_darker_redder_softer_noisier_camera_is_found():
    corner = np.zeros((64, 64, 3))
    corner[:20, 40:] = (50.0, 40.0, 30.0)
    truth = Look(np.diag([0.6, 0.45, 0.35]), ndimage.gaussian_filter(corner, (4, 4, 0)), 1.2, 4.0)
    rng = np.random.default_rng(0)
    found = find_look(truth.of(scenes(40, 1), rng), scenes(40, 2), rng)
    real, again = (
        np.mean([measure_qualities(frame) for frame in look.of(scenes(40, 3), rng)], axis=0)
        for look in (truth, found)
    )
    apart = dict(zip(QUALITIES, np.abs(real - again), strict=True))
    for name in ("sharpness", "noise", "exposure", "colour, red to green", "colour, blue to green"):
        assert apart[name] < 2.0 * QUALITIES[name][1], apart
    assert np.median(found.offset[5:15, 50:]) - np.median(found.offset[40:]) == pytest.approx(40.0, abs=8.0)
    assert found.noise == pytest.approx(4.0, abs=1.0) and 0.7 <= found.blur_px <= 2.0


def test_only_the_marked_images_of_cameras_that_differ_change():
    dark = Look(0.5 * np.eye(3), np.full(3, -0.25), 0.0, 0.0)
    frames = {"front": scenes(3, 1), "wrist": scenes(3, 2)}
    rng = np.random.default_rng(0)
    made = with_look(frames, {"wrist": dark}, np.array([True, False, True]), rng)
    assert made["front"] is frames["front"] and np.array_equal(made["wrist"][1], frames["wrist"][1])
    assert np.array_equal(made["wrist"][[0, 2]], frames["wrist"][[0, 2]] // 2)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    """A policy that has learned next to nothing from a wrist camera; runs of it in its own look, and a darker one.

    Episodes are cut short and labelled as successes, which is all that training asks of them.
    """
    folder = tmp_path_factory.mktemp("seeing")
    twin = load_twin("franka_pick_place")
    short = {"cameras": ("wrist",), "max_steps": 120, "workers": 1}
    generate(twin, out=folder / "sim", episodes=5, seed=3, **short)
    twinloop("data", "label", "sim", *range(5), "--success", "--by", "tester", cwd=folder)
    config = replace(TINY, cameras=("wrist",), image_side=16, image_features=8, chunk=30, n_action_steps=30)
    policy = train(folder / "sim", out=folder / "policy", config=config)
    for name, stops in (("alike", 0.0), ("darker", -1.5)):
        look = {"visual": {"exposure_stops": stops}}
        varied = load_randomization({"name": name, "randomization": look}, twin)
        generate(twin, varied, out=folder / name, episodes=3, seed=8, **short)
    return policy, folder


def test_images_like_the_twins_show_no_difference_and_none_are_said_to_be_missing(seeing):
    _, folder = seeing
    alike, sim = list(open_dataset(folder / "alike")), list(open_dataset(folder / "sim"))
    found, looks = measure_visual(("wrist",), alike, sim, 32, np.random.default_rng(0))
    assert not found.differs and not looks and len(found.quantities) == len(QUALITIES) + 1
    blind, _ = measure_visual((), alike, sim, 32, np.random.default_rng(0))
    assert blind.missing == ("images: this policy sees none",)
    unseen, _ = measure_visual(("front",), alike, sim, 32, np.random.default_rng(0))
    assert "images of front: need runs recorded with it" in unseen.missing[0]


def test_images_of_another_size_are_not_compared():
    real, sim = (
        [SimpleNamespace(time_s=np.arange(4.0), frames={"wrist": np.zeros((4, side, side, 3), np.uint8)})] * 2
        for side in (64, 32)
    )
    found, looks = measure_visual(("wrist",), real, sim, 8, np.random.default_rng(0))
    assert not looks and "64 x 64 and 32 x 32" in found.missing[0]


def test_a_policy_that_looks_is_diagnosed_with_the_recorded_look(seeing, short_trials):
    policy, folder = seeing
    runs = [one.with_provenance(actor="policy", actor_id=None) for one in open_dataset(folder / "darker")]
    found = diagnose(policy, runs, "franka_pick_place", scenes=8, budget=16)
    visual = next(m for m in found.measured if m.dimension == "visual")
    exposure = next(q for q in visual.quantities if q.name == "exposure, wrist")
    assert exposure.differs and exposure.real < 0.7 * exposure.twin
    assert visual.looks == ("wrist",) and "visual" in {cost.dimension for cost in found.costs}


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
    for module in ("trials", "look"):
        monkeypatch.setattr(f"twinloop.diagnosis.{module}.PolicyExpert", CarefulExpert)
    monkeypatch.setattr("twinloop.diagnosis.run.NOMINAL_RUNS", 4)
    monkeypatch.setattr("twinloop.diagnosis.look.BEGINS_S", 0.5)
    careful = SimpleNamespace(name="careful", id="1", interface=SimpleNamespace(cameras=twin.cameras[:1]))
    runs = watched(twin, 4, texture_index=pattern)
    assert [one.success for one in runs] == [pattern == 0] * len(runs)
    found = diagnose(careful, runs, twin, scenes=8, budget=16)
    visual = next(m for m in found.measured if m.dimension == "visual")
    likeness = next(q for q in visual.quantities if q.name == "likeness of the background, front")
    assert likeness.differs == bool(pattern) == ("texture_index" in visual.values)
    assert [cost.dimension for cost in found.named] == (["visual"] if pattern else [])
