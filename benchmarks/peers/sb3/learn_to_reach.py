"""Runs where Stable-Baselines3 is: PPO learns to reach, then says how often it succeeds in fresh scenes.

learn_to_reach.py SECONDS STEPS SEED
"""

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecNormalize

from twinloop.environments.sb3 import Sb3VecEnv

TASK = {"environment": "twinloop/franka_reach-v0", "poses": ["tool"], "control": "delta", "reward": "dense"}
FRESH, FRESH_SEED = 200, 100_000
"""Scenes that the policy is judged in: the first of each of so many environments, none of which it was trained in."""


class Deadline(BaseCallback):
    """Stops after so many seconds, or when the last hundred episodes succeeded at a rate of 0.99."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.until = time.monotonic() + seconds

    def _on_step(self) -> bool:
        recent = self.model.ep_success_buffer
        good = len(recent) == 100 and np.mean(recent) >= 0.99
        if self.n_calls % 256 == 0:
            print(self.num_timesteps, np.mean(recent or [0]), flush=True)
        return time.monotonic() < self.until and not good


def main() -> None:
    seconds, steps, seed = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    began = time.monotonic()
    scaled = VecNormalize(Sb3VecEnv(num_envs=64, **TASK), gamma=0.95)
    model = PPO(
        "MlpPolicy",
        scaled,
        n_steps=64,
        batch_size=1024,
        n_epochs=5,
        learning_rate=1e-3,
        gamma=0.95,
        gae_lambda=0.9,
        policy_kwargs={"net_arch": [128, 128], "log_std_init": -0.5},
        seed=seed,
        device="cpu",
    )
    model.learn(steps, callback=Deadline(seconds))
    learned = {"seed": seed, "seconds": time.monotonic() - began, "steps": model.num_timesteps}
    print(json.dumps(learned | {"successes": count_successes(model, scaled), "scenes": FRESH}))


def count_successes(model: PPO, scaled: VecNormalize) -> int:
    """Successes in fresh scenes, with observations scaled as in training and without exploration."""
    inside = Sb3VecEnv(num_envs=FRESH, **TASK)
    inside.seed(FRESH_SEED)
    fresh = VecNormalize(inside, training=False, norm_reward=False)
    fresh.obs_rms = scaled.obs_rms
    observation: Any = fresh.reset()
    won: dict[int, bool] = {}
    while len(won) < FRESH:
        observation, _, done, infos = fresh.step(model.predict(observation, deterministic=True)[0])
        for row in np.flatnonzero(done).tolist():
            won.setdefault(row, infos[row]["is_success"])
    return sum(won.values())


if __name__ == "__main__":
    main()
