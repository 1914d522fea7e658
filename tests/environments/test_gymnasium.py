"""A twin as Gymnasium: the same episodes as generation and evaluation, by Gymnasium's own rules."""

import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from twinloop.environments.registration import BUILT_IN
from twinloop.environments.single import TwinEnv
from twinloop.errors import UnknownName, WrongUse
from twinloop.experts import EXPERTS
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.rollout import rollout_drawn
from twinloop.randomization import draw_many, load_randomization
from twinloop.tasks import make_cell
from twinloop.twins import list_twins, load_twin, save_twin

VARIED = {
    "randomization": {
        "target_offset_x_m": [-0.1, 0.1],
        "action_delay_ms": [0, 50],
        "observation_delay_ms": [0, 50],
        "observation_drop_probability": [0, 0.3],
        "encoder_noise_rad": [0, 0.01],
        "encoder_drift_rad": [0, 0.1],
        "force_noise_n": [0, 0.5],
        "force_drift_n": [0, 2],
        "gyro_drift_rad_s": [0, 0.1],
    }
}
HIDDEN = {
    "randomization": {
        "object_position_noise_cm": [-5, 5],
        "object_pose_noise_m": [0.001, 0.01],
        "object_pose_delay_s": [0, 0.1],
        "object_pose_drop_probability": [0.2, 0.6],
    }
}


def act(space, scene, steps):
    """An action for each environment that depends on its episode and its step in it alone."""
    low, high = space.low[0], space.high[0]
    rows = []
    for seed, number, step in zip(scene["seed"], scene["number"], steps, strict=True):
        rng = np.random.default_rng([int(seed), int(number), int(step)])
        rows.append(rng.uniform(low, high).astype(np.float32))
    return np.array(rows)


def play(environment, steps=26):
    """What each episode showed, by seed and number: its observations, rewards and ends."""
    observation, info = environment.reset(seed=5)
    count = environment.num_envs
    mode = environment.metadata["autoreset_mode"]
    at, scene, over = np.zeros(count, int), info["scene"], np.zeros(count, bool)
    episodes = {}
    for row in range(count):
        episodes[scene["seed"][row], scene["number"][row]] = [
            [values[row].copy() for values in observation.values()]
        ]
    for _ in range(steps):
        fresh = over & (mode == AutoresetMode.NEXT_STEP)
        played = {name: scene[name].copy() for name in ("seed", "number")}
        observation, reward, terminated, truncated, info = environment.step(
            act(environment.action_space, scene, at)
        )
        at, over = np.where(fresh, 0, at + 1), terminated | truncated
        for row in range(count):
            seen = {name: values[row].copy() for name, values in observation.items()}
            if mode == AutoresetMode.SAME_STEP and over[row]:
                seen = info["final_obs"][row]
            where = info["scene"] if fresh[row] else played
            key = where["seed"][row], where["number"][row]
            ends = [reward[row], terminated[row], truncated[row]]
            episodes.setdefault(key, []).append([*seen.values(), *([] if fresh[row] else ends)])
        if mode == AutoresetMode.DISABLED and over.any():
            observation, again = environment.reset(options={"reset_mask": over})
            for row in np.flatnonzero(over):
                scene_of_row = again["scene"]["seed"][row], again["scene"]["number"][row]
                episodes[scene_of_row] = [[values[row].copy() for values in observation.values()]]
            info = again
        if mode != AutoresetMode.NEXT_STEP:
            for row in np.flatnonzero(over) if mode == AutoresetMode.SAME_STEP else ():
                scene_of_row = info["scene"]["seed"][row], info["scene"]["number"][row]
                episodes[scene_of_row] = [[values[row].copy() for values in observation.values()]]
            at[over] = 0
        scene = info["scene"]
    environment.close()
    return episodes


def assert_same_episodes(first, second):
    common = first.keys() & second.keys()
    assert len(common) >= 6
    for key in common:
        for one, other in zip(first[key], second[key], strict=False):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), key


def make(mode=AutoresetMode.NEXT_STEP, threads=1, twin="franka_reach", randomization=None, **more):
    return gymnasium.make_vec(
        f"twinloop/{twin}-v0",
        num_envs=3,
        autoreset_mode=mode,
        threads=threads,
        max_episode_steps=7,
        randomization=randomization or VARIED,
        **more,
    )


@pytest.mark.parametrize(
    "cell",
    [
        {"twin": "franka_reach", "randomization": VARIED, "poses": ("tool", "link4")},
        {"twin": "franka_pick_place", "randomization": HIDDEN},
    ],
)
def test_an_episode_is_the_same_in_every_autoreset_mode_and_with_any_number_of_threads(cell):
    expected = play(make(**cell))
    assert_same_episodes(expected, play(make(AutoresetMode.SAME_STEP, threads=2, **cell)))
    assert_same_episodes(expected, play(make(AutoresetMode.DISABLED, threads=0, **cell)))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_environment_does_what_gymnasium_makes_of_single_ones(mode):
    def one():
        return TwinEnv("franka_reach", randomization=VARIED, max_episode_steps=7)

    ours, theirs = make(mode), SyncVectorEnv([one] * 3, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    pair = ours.reset(seed=5), theirs.reset(seed=5)
    assert data_equivalence(*pair)
    rng = np.random.default_rng(0)
    for _ in range(18):
        action = rng.uniform(ours.action_space.low, ours.action_space.high).astype(np.float32)
        mine, yours = ours.step(action), theirs.step(action)
        assert all(np.array_equal(a, b) for a, b in zip(mine[1:4], yours[1:4], strict=True))
        assert data_equivalence(mine[0], yours[0])
        assert set(mine[4]) == set(yours[4])
        for name in yours[4]:
            assert readable(mine[4][name]) == readable(yours[4][name]), name
        over = mine[2] | mine[3]
        if mode == AutoresetMode.DISABLED and over.any():
            mask = {"reset_mask": over}
            again = ours.reset(options=dict(mask)), theirs.reset(options=dict(mask))
            assert data_equivalence(again[0][0], again[1][0])
    ours.close()
    theirs.close()


def readable(info):
    """An info as text, whatever the order of its keys."""
    if isinstance(info, dict):
        return {name: readable(value) for name, value in sorted(info.items())}
    return str(info)


class Rounded:
    """The reach expert with commands of 32 bits, as an environment takes them."""

    def __init__(self, setup):
        self._inside, self.actor = EXPERTS.get("reach")(setup), "expert"
        self._low, self._high = setup.cell.control_low, setup.cell.control_high
        self.commands = []

    def restart(self, ids, reading, seeds):
        self._inside.restart(ids, reading, seeds)

    def act(self, reading, step):
        action = np.float32(self._inside.act(reading, step))
        self.commands.append(action)
        return np.clip(action.astype(np.float64), self._low, self._high)


def test_episode_n_of_an_environment_is_scene_n_of_evaluation_bit_for_bit():
    twin = load_twin("franka_reach")
    randomization = load_randomization(VARIED, twin)
    experts = []

    def make_expert(setup):
        experts.append(Rounded(setup))
        return experts[-1]

    environment = gymnasium.make("twinloop/franka_reach-v0", randomization=VARIED)
    job = Job(twin, "reach", "reach", randomization)
    for number in range(2):
        drawn = draw_many(randomization, 11, [number])
        (episode,) = rollout_drawn(job, [episode_seed(11, number)], drawn, 1, make_expert)
        observation, info = environment.reset(seed=11 if number == 0 else None)
        assert info["draw"] == dict(episode.provenance.draw)
        for step in range(len(episode)):
            for name, values in observation.items():
                assert np.array_equal(values, episode[name][step]), (number, step, name)
            if step < len(episode) - 1:
                observation, reward, terminated, _, info = environment.step(experts[number].commands[step][0])
        assert terminated == info["is_success"] == bool(reward) == episode.success is True


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("control", ["target", "delta"])
def test_gymnasiums_own_checker_passes(control):
    environment = gymnasium.make("twinloop/franka_reach-v0", control=control, reward="dense").unwrapped
    check_env(environment, skip_render_check=True)
    environment.close()


def test_every_built_in_twin_with_an_actuator_is_registered_and_others_say_why_not():
    with_actuators = [twin.name for twin in list_twins() if make_cell(twin).actuators]
    assert list(BUILT_IN) == with_actuators
    with pytest.raises(WrongUse, match="nothing to control"):
        gymnasium.make("twinloop/Twin-v0", twin="cube_toss")


def test_any_twin_will_do_by_its_folder(tmp_path):
    save_twin(replace(load_twin("servo_pendulum"), name="bench"), tmp_path / "bench")
    environment = gymnasium.make("twinloop/Twin-v0", twin=tmp_path / "bench", max_episode_steps=3)
    environment.reset(seed=0)
    ends = [environment.step(environment.action_space.sample())[3] for _ in range(3)]
    assert ends == [False, False, True]
    assert environment.unwrapped.schema.rate_hz == 200.0


def test_dense_rewards_are_never_positive_before_success_and_rise_towards_it():
    environment = gymnasium.make("twinloop/franka_reach-v0", reward="dense", control="delta")
    environment.reset(seed=0)
    toward = environment.step(np.zeros(8, np.float32))[1]
    assert -1.0 <= toward < 0.0
    for name in ("franka_pick_place", "franka_push"):
        vector = gymnasium.make_vec(f"twinloop/{name}-v0", num_envs=2, reward="dense", threads=1)
        vector.reset(seed=0)
        reward = vector.step(vector.action_space.sample())[1]
        assert (reward >= -1.0).all() and (reward < 0.0).all()
        vector.close()


def test_delta_actions_move_the_last_targets_and_stay_within_the_limits():
    environment = gymnasium.make("twinloop/franka_reach-v0", control="delta").unwrapped
    environment.reset(seed=0)
    for _ in range(150):
        _, _, _, truncated, _ = environment.step(np.ones(8, np.float32))
        if truncated:
            break
    reached = environment._episodes._target[0]
    assert np.allclose(reached, environment.settings.cell.control_high)


def test_cameras_are_part_of_the_observation_when_asked_for():
    environment = gymnasium.make_vec(
        "twinloop/franka_reach-v0", num_envs=2, cameras=("front",), render_mode="rgb_array", threads=1
    )
    observation, _ = environment.reset(seed=0)
    image = observation["observation.images.front"]
    assert image.shape == (2, 128, 128, 3) and image.dtype == np.uint8 and np.ptp(image[0]) > 50
    moved = environment.step(environment.action_space.sample())[0]["observation.images.front"]
    assert np.array_equal(environment.render()[1], moved[1])
    environment.close()


def test_observed_poses_are_where_the_joints_read_the_frame_to_be():
    environment = gymnasium.make("twinloop/franka_reach-v0", control="delta", poses=["tool"]).unwrapped
    observation, _ = environment.reset(seed=0)
    for action in (0.5,) * 20 + (0.0,) * 60:
        observation = environment.step(np.full(8, action, np.float32))[0]
    pose, signal = observation["observation.pose.tool"], environment.schema.signal("observation.pose.tool")
    truth = environment._episodes._simulation.truth  # sensors are ideal, and the arm has come to rest
    assert np.allclose(pose[:3], truth.tool_position[0], atol=1e-4)
    assert environment.observation_space.contains(observation) and signal.elements[3] == "tool.ux"
    assert np.allclose([pose[3:6] @ pose[3:6], pose[3:6] @ pose[6:9]], [1.0, 0.0], atol=1e-6)


def test_wrong_use_says_what_is_wrong():
    with pytest.raises(UnknownName, match="camera"):
        gymnasium.make("twinloop/franka_reach-v0", cameras=["side"])
    with pytest.raises(UnknownName, match="frame of twin franka_reach"):
        gymnasium.make("twinloop/franka_reach-v0", poses=["tip"])
    with pytest.raises(WrongUse, match="no dense reward"):
        gymnasium.make("twinloop/servo_pendulum-v0", reward="dense")
    vector = make(AutoresetMode.DISABLED)
    with pytest.raises(WrongUse, match="never reset"):
        vector.reset(options={"reset_mask": np.array([True, False, False])})
    vector.reset(seed=0)
    action = vector.action_space.sample()
    with pytest.raises(WrongUse, match="wrong shape"):
        vector.step(action[:2])
    action[1, 3] = np.nan
    with pytest.raises(WrongUse, match="action 3 of environment 1 is not a number"):
        vector.step(action)
    for _ in range(7):
        vector.step(vector.action_space.sample())
    with pytest.raises(gymnasium.error.ResetNeeded):
        vector.step(vector.action_space.sample())
    vector.close()


def test_twinloop_registers_its_environments_and_imports_neither_gymnasium_nor_mujoco():
    code = (
        "import sys, twinloop; assert not {'gymnasium', 'mujoco'} & set(sys.modules)\n"
        "import twinloop.environments, gymnasium; assert 'twinloop/franka_reach-v0' in gymnasium.registry\n"
        "assert 'mujoco' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    after = "import gymnasium, twinloop; assert 'twinloop/Twin-v0' in gymnasium.registry"
    subprocess.run([sys.executable, "-c", after], check=True)
