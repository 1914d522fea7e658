"""Pictures of episodes: the right size, varied by the draw, the same again for the same episode."""

import numpy as np
import pytest

from twinloop.engines.render import open_context
from twinloop.errors import TwinloopError
from twinloop.generate.job import Job
from twinloop.generate.rollout import rollout
from twinloop.randomize import load_randomization
from twinloop.twin import load_twin


@pytest.fixture(scope="module", autouse=True)
def _graphics():
    try:
        open_context(16, 16).free()
    except TwinloopError as error:
        pytest.skip(str(error))


def frames(varied, numbers, cameras=("front", "wrist"), steps=6):
    twin = load_twin("franka_pick_place")
    randomization = load_randomization({"twin": twin.name, "randomization": varied}) if varied else None
    job = Job(twin, twin.task, "pick_and_place", randomization, cameras=cameras, max_steps=steps)
    return [episode.frames for episode in rollout(job, 1, numbers)]


LOOK = {"texture_pool": 50, "lighting_intensity": [0.3, 1.8], "camera_jitter_deg": [-5, 5]}


def test_frames_have_the_declared_size_and_show_something():
    (pictures,) = frames(None, [0])
    assert pictures["front"].shape == pictures["wrist"].shape == (6, 128, 128, 3)
    assert pictures["front"].dtype == np.uint8
    assert pictures["front"][0].std() > 20


def test_every_episode_has_its_own_look_and_the_same_look_in_any_batch():
    several = frames(LOOK, range(3))
    (alone,) = frames(LOOK, [2])
    assert np.array_equal(alone["front"], several[2]["front"])
    difference = np.abs(several[0]["front"][0].astype(int) - several[1]["front"][0]).mean()
    assert difference > 10


def test_a_noisy_sensor_changes_every_frame_and_again_the_same_way():
    noisy = {"shot_noise": [0.05, 0.05001]}
    first, again = frames(noisy, [0], ("front",)), frames(noisy, [0], ("front",))
    (clean,) = frames(None, [0], ("front",))
    assert np.array_equal(first[0]["front"], again[0]["front"])
    error = first[0]["front"].astype(float) - clean["front"]
    assert 1.0 < error.std() < 20.0
    assert not np.array_equal(first[0]["front"][0], first[0]["front"][1])


def test_a_late_camera_shows_an_older_state():
    late, prompt = {"observation_delay_s": [0.04, 0.0400001]}, {"observation_delay_s": [0.0, 1e-9]}
    (delayed,), (now,) = frames(late, [0], ("front",)), frames(prompt, [0], ("front",))
    assert np.array_equal(delayed["front"][0], now["front"][0])
    assert np.array_equal(delayed["front"][1], delayed["front"][2])
