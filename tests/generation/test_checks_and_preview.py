"""Before and after a run: what it would look like, and whether its time step was small enough."""

import numpy as np
import pytest

import twinloop as tl
from tests.generation.fakes import fake_work
from twinloop.datasets.video import video_extent
from twinloop.errors import WrongUse
from twinloop.generation.convergence import check_time_step
from twinloop.generation.preview import write_preview
from twinloop.generation.rollout import rollout
from twinloop.generation.run import generate, make_job, run
from twinloop.twins import with_time_step

WIDE = {
    "randomization": {
        "visual": {"light_intensity": [0.3, 1.8], "shot_noise": [0.01, 0.04], "motion_blur_s": [0.004, 0.01]},
        "latency": {"observation_delay_s": [0.02, 0.06]},
    }
}


def test_a_preview_is_a_sheet_and_a_video(tmp_path):
    from matplotlib import image

    sheet, video = write_preview(fake_work(cameras=True), tmp_path / "look.png")
    pixels = image.imread(sheet)
    assert pixels.shape[0] >= 3 * 16 and pixels.shape[1] >= 4 * 24
    assert np.std(pixels[..., :3]) > 0.1
    assert video_extent(video, 1).packets > 10
    with pytest.raises(WrongUse, match="needs a camera"):
        write_preview(fake_work(), tmp_path / "none.png")


@pytest.mark.parametrize("name", ["franka_pick_place", "servo_pendulum", "cube_toss"])
def test_a_twin_with_another_time_step_is_another_twin(name):
    twin = tl.load_twin(name)
    finer = with_time_step(twin, twin.physics_dt_s / 2)
    assert finer.physics_dt_s == twin.physics_dt_s / 2 and finer.substeps == 2 * twin.substeps
    assert finer.content_hash != twin.content_hash and finer.parent == twin.content_hash


def test_half_the_time_step_is_compared_with_the_whole_one(tmp_path):
    job = make_job(tl.load_twin("franka_pick_place"), max_steps=120)
    dataset = generate(job, episodes=4, seed=0, out=tmp_path / "sim", workers=1)
    found = check_time_step(dataset, count=2)
    assert found.physics_dt_s == job.twin.physics_dt_s and found.episodes == (0, 3)
    errors = {error.signal: error for error in found.errors}
    assert 0.0 < errors["observation.state"].root_mean_square < 0.01
    assert len(found.object_end_m) == 2 and max(found.object_end_m) < 0.02


def test_episodes_of_another_engine_cannot_be_refined(tmp_path):
    with pytest.raises(WrongUse, match="no episode of a known engine"):
        check_time_step(run(fake_work(), 4, tmp_path / "fake", workers=1))


def test_a_still_is_the_image_that_a_whole_film_has_there():
    twin = tl.load_twin("franka_pick_place")
    job = make_job(twin, tl.load_randomization(WIDE, twin), cameras=("wrist",), max_steps=12)
    whole, still = (list(rollout(job, 3, range(2), stills=stills)) for stills in (None, (0.5, 1.0)))
    for one, other, row in zip(whole, still, (6, 11), strict=True):
        assert len(one) == len(other) == 12
        np.testing.assert_array_equal(one["observation.state"], other["observation.state"])
        for shown in other.frames["wrist"]:
            np.testing.assert_array_equal(shown, one.frames["wrist"][row])
        assert not np.array_equal(one.frames["wrist"][0], one.frames["wrist"][row])
