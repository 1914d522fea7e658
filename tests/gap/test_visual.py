"""Images: qualities that are put in come out, and the two-sample test sees a difference only where there is one."""

import numpy as np
import pytest
from scipy import ndimage

from twinloop.episode import Camera, Provenance, Schema, Signal, make_episode
from twinloop.gap.conditions import conditions_of
from twinloop.gap.evidence import GapEvidence, Options, Simulated
from twinloop.gap.visual import episode_kernel, kernel_distance, permutation_test, visual
from twinloop.measure.images import QUALITIES, describe, measure_qualities, shrink
from twinloop.twins import load_twin

SCHEMA = Schema((Signal("observation.state", (1,), ("rad",)),), 10.0, (Camera("front", 48, 64),))


def scene(rng, gain=1.0, warmth=1.0, blur=0.0, noise=0.0):
    """A smooth table with a few blocks, somewhere else in every episode, seen by a camera."""
    image = np.full((48, 64, 3), (120.0, 110.0, 100.0)) + np.linspace(0, 30, 64)[None, :, None]
    for _ in range(4):
        top, left = rng.integers(0, 36), rng.integers(0, 52)
        image[top : top + 12, left : left + 12] = rng.uniform(40, 180, 3)
    image = gain * image * np.array([warmth, 1.0, 1.0 / warmth])
    if blur:
        image = ndimage.gaussian_filter(image, (blur, blur, 0))
    return np.clip(image + noise * rng.standard_normal(image.shape), 0, 255).astype(np.uint8)


def episodes(count, seed, **camera):
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        frames = np.stack([scene(rng, **camera) for _ in range(6)])
        made.append(
            make_episode(
                SCHEMA, np.arange(6) / 10, {"observation.state": np.zeros((6, 1))}, frames={"front": frames},
                provenance=Provenance(source="real", seed=number),
            )
        )  # fmt: skip
    return made


def compare(tmp_path, real, sim):
    known = tuple(conditions_of(one) for one in sim)
    beside = Simulated("rendered", None, tuple(sim), known, generated=False)
    evidence = GapEvidence(
        load_twin("cube_toss"), real, [{}] * len(real), Options(resamples=400), tmp_path, beside
    )
    return {measure.name: measure for measure in visual(evidence)}


@pytest.mark.parametrize(
    ("camera", "name", "sign"),
    [
        ({"gain": 0.7}, "exposure, front", 1),
        ({"warmth": 1.2}, "colour, red to green, front", -1),
        ({"blur": 1.2}, "sharpness, front", 1),
        ({"noise": 6.0}, "noise, front", -1),
    ],
    ids=["dark", "warm", "blurred", "noisy"],
)
def test_a_changed_camera_shows_in_its_own_quality(tmp_path, camera, name, sign):
    found = compare(tmp_path, episodes(8, 1, **camera), episodes(8, 2))
    assert found[name].excludes_zero and np.sign(found[name].value) == sign
    assert found["feature distance, front"].p_value < 0.05
    assert found["feature distance, front"].low > 0.0


def test_the_same_camera_shows_nothing(tmp_path):
    found = compare(tmp_path, episodes(10, 3), episodes(10, 4))
    assert found["feature distance, front"].p_value > 0.05
    assert found["feature distance, front"].low <= 0.0 <= found["feature distance, front"].high


def test_the_test_is_wrong_as_rarely_as_it_says():
    wrong, distances = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        # Frames of one episode are alike: only episodes are independent.
        features = rng.standard_normal((12, 1, 8)) + 0.2 * rng.standard_normal((12, 5, 8))
        kernel = episode_kernel(features)
        distances.append(kernel_distance(kernel, 6))
        wrong += permutation_test(kernel, 6, rng) <= 0.05
    assert wrong <= 8
    assert abs(np.mean(distances)) < 3 * np.std(distances) / np.sqrt(60)


def test_sizes_of_images_do_not_matter_much():
    rng = np.random.default_rng(5)
    small = scene(rng)
    large = small.repeat(4, axis=0).repeat(4, axis=1)
    assert describe(small).shape == describe(large).shape
    assert np.abs(describe(small) - describe(large)).max() < 0.15
    assert len(measure_qualities(small)) == len(QUALITIES)
    assert shrink(large, 16).mean() == pytest.approx(large.mean(), rel=1e-6)


def test_cameras_that_only_one_side_has_are_named(tmp_path):
    bare = Schema((Signal("observation.state", (1,), ("rad",)),), 10.0)
    sim = [make_episode(bare, [0.0, 0.1], {"observation.state": np.zeros((2, 1))}) for _ in range(3)]
    beside = Simulated("bare", None, tuple(sim), ({},) * 3, generated=False)
    evidence = GapEvidence(load_twin("cube_toss"), episodes(3, 1), [{}] * 3, Options(), tmp_path, beside)
    (missing,) = visual(evidence)
    assert "front" in missing.needs
