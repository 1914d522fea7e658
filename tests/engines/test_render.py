"""Images of episodes: the right size, varied by the draw, the same again for the same episode."""

import numpy as np
import pytest

from twinloop.engines.render import open_context
from twinloop.errors import TwinloopError
from twinloop.experts import find_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout, rollout_drawn
from twinloop.randomization import draw_many, load_randomization
from twinloop.twins import load_twin


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
    (images,) = frames(None, [0])
    assert images["front"].shape == images["wrist"].shape == (6, 128, 128, 3)
    assert images["front"].dtype == np.uint8
    assert images["front"][0].std() > 20


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


class Watcher:
    """Looks every other step, and keeps what it saw."""

    actor = "expert"
    cameras = ("wrist",)

    def __init__(self, setup):
        self._act = find_expert("pick_and_place")(setup)
        self._step, self.count, self.seen = -1, setup.count, []

    def needs_images(self):
        return np.full(self.count, self._step % 2 == 1) & (np.arange(self.count) == 0)

    def restart(self, ids, reading, seeds):
        self._act.restart(ids, reading, seeds)

    def act(self, reading, step):
        self._step += 1
        if reading.frames["wrist"][0].any():
            self.seen.append((int(step[0]), reading.frames["wrist"][0].copy()))
        assert not reading.frames["wrist"][1].any(), "nobody looked there"
        return self._act.act(reading, step)


@pytest.mark.parametrize("late_s", [0.0, 0.04])
def test_whoever_looks_while_acting_sees_what_is_recorded(late_s):
    twin = load_twin("franka_pick_place")
    look = LOOK | {
        "shot_noise": [0.02, 0.04],
        "motion_blur_s": [0.005, 0.01],
        "rolling_shutter_s": [0.005, 0.01],
        "observation_delay_s": [late_s, late_s + 1e-9],
    }
    varied = load_randomization({"twin": twin.name, "randomization": look})
    job = Job(twin, twin.task, "pick_and_place", varied, cameras=("wrist",), max_steps=9)
    made = []

    def make(setup):
        made.append(Watcher(setup))
        return made[0]

    episodes = list(rollout_drawn(job, [4, 5], draw_many(varied, 1, [0, 1]), make_expert=make))
    (watcher,) = made
    assert [step for step, _ in watcher.seen] == [0, 2, 4, 6, 8]
    for step, image in watcher.seen[2:]:
        assert np.array_equal(image, episodes[0].frames["wrist"][step])
    assert episodes[0].frames["wrist"][3].std() > 5
