"""Recordings from a twin with a known look: what was changed is found, what was not is left alone, and the twin gets the same look."""

import io

import numpy as np
import pytest
from PIL import Image

from twinloop.experts import find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout_drawn
from twinloop.looks.measure import measure_look
from twinloop.looks.measured import CAUSES, MeasuredLook, look_randomization, look_twin
from twinloop.randomization.distribution import Normal
from twinloop.twins import load_twin
from twinloop.twins.images import photographs, with_photographs

TWIN = load_twin("franka_pick_place")
RUNS = 4


def recorded(twin=TWIN, **look):
    """Runs of the expert seen by the wrist camera, with this look."""
    rng = np.random.default_rng(4)
    drawn = {f"object_offset_{axis}_m": rng.uniform(-0.05, 0.05, RUNS) for axis in "xy"}
    drawn |= {name: np.full(RUNS, float(value)) for name, value in look.items()}
    job = Job(twin, twin.task, "pick_and_place", cameras=("wrist",), max_steps=160)
    return list(rollout_drawn(job, list(range(RUNS)), drawn, 2, find_expert("pick_and_place")))


def measured(**look):
    return measure_look(recorded(**look), TWIN, ("wrist",), rows=24)


def number(look, name):
    return next(q for q in look.quantities if q.name == name)


def test_the_twins_own_frames_have_no_other_look():
    found = measured()
    assert found.causes == () and not found.missing
    assert {q.cause for q in found.quantities} == set(CAUSES)


def test_a_moved_camera_is_the_only_cause_and_its_pose_covers_the_truth():
    found = measured(camera_pitch_rad=0.08, camera_yaw_rad=-0.05)
    assert found.causes == ("camera pose",)
    assert number(found, "pitch").real.contains(0.08) and number(found, "yaw").real.contains(-0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "look", "truth"),
    [
        ("light and colour", {"exposure_stops": -1.5, "colour_saturation": 0.6}, ("exposure", -1.5, 0.25)),
        ("blur and noise", {"lens_blur_px": 1.8}, ("blur", 1.8, 0.3)),
        ("lens", {"lens_distortion": -0.14, "lens_vignetting": 0.7}, ("distortion", -0.14, 0.03)),
        ("texture and background", {"texture_index": 41}, None),
    ],
)
def test_each_look_is_found_under_its_own_cause(cause, look, truth):
    found = measured(**look)
    assert cause in found.causes and set(found.causes) <= {cause, "blur and noise", "light and colour"}
    if truth is not None:
        assert number(found, truth[0]).real.value == pytest.approx(truth[1], abs=truth[2])


@pytest.mark.slow
def test_the_real_table_is_put_on_the_twin():
    real = recorded(texture_index=41)
    found = measure_look(real, TWIN, ("wrist",), rows=24)
    again = recorded(look_twin(found, TWIN))
    plain = recorded()

    def apart(runs):
        pairs = zip(real, runs, strict=True)
        return np.mean(
            [np.abs(np.asarray(a.frames["wrist"][5], float) - b.frames["wrist"][5]).mean() for a, b in pairs]
        )

    assert apart(again) < 0.4 * apart(plain)


def test_a_photograph_on_a_surface_is_drawn_and_physics_does_not_see_it():
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[..., 2] = 200
    blue = with_photographs(TWIN, "surface", {"table": pixels})
    assert blue.content_hash != TWIN.content_hash and blue.parent == TWIN.content_hash
    first, other = recorded(TWIN)[0], recorded(blue)[0]
    assert np.array_equal(first["observation.state"], other["observation.state"])
    frame = np.asarray(other.frames["wrist"][0], float)
    middle = frame[50:80, 50:80].reshape(-1, 3).mean(axis=0)
    assert middle[2] > 100 and middle[:2].max() < 30


def test_a_cover_hides_its_part_of_every_frame():
    cover = np.zeros((128, 128, 4), np.uint8)
    cover[:, :30] = (250, 240, 20, 255)
    covered = with_photographs(TWIN, "cover", {"wrist": cover})
    frame = np.asarray(recorded(covered)[0].frames["wrist"][40], float)
    assert np.abs(frame[10:-10, 4:26].mean(axis=(0, 1)) - (250, 240, 20)).max() < 12


def test_a_measured_look_says_what_varies_and_how_widely():
    rng = np.random.default_rng(0)
    look = MeasuredLook(
        values={
            "light and colour": {"exposure_stops": rng.normal(-1.0, 0.05, 64)},
            "occlusion and clutter": {"clutter_count": np.array([1.0, 2.0, 2.0])},
        },
        assets={"texture and background": {"surface-table.png": _png(np.zeros((4, 4, 3), np.uint8))}},
    )
    found = look_randomization(look, TWIN)
    exposure = found["exposure_stops"]
    assert isinstance(exposure, Normal) and exposure.mean == pytest.approx(-1.0, abs=0.03)
    assert 0.15 < exposure.std < 0.3
    assert found["clutter_count"].support() == (1, 2)
    assert photographs(look_twin(look, TWIN), "surface")["table"].shape == (4, 4, 3)


def _png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
