"""Runs where Stable-Baselines3 is: PPO learns to reach, then says how often it succeeds in fresh scenes."""

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

TASK = {"environment": "twinloop/franka_reach-v0", "control": "delta", "reward": "dense"}


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
    seconds, steps = float(sys.argv[1]), int(sys.argv[2])
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
        seed=0,
        device="cpu",
    )
    model.learn(steps, callback=Deadline(seconds))
    trained_s = time.monotonic() - began
    inside = Sb3VecEnv(num_envs=100, **TASK)
    inside.seed(100_000)
    fresh = VecNormalize(inside, training=False, norm_reward=False)
    fresh.obs_rms = scaled.obs_rms
    observation: Any = fresh.reset()
    won: list[list[bool]] = [[] for _ in range(fresh.num_envs)]
    while min(len(one) for one in won) < 2:
        observation, _, done, infos = fresh.step(model.predict(observation, deterministic=True)[0])
        for row in np.flatnonzero(done):
            won[row].append(infos[row]["is_success"])
    firsts = [success for one in won for success in one[:2]]
    print(json.dumps({"seconds": trained_s, "steps": model.num_timesteps, "success": float(np.mean(firsts))}))


if __name__ == "__main__":
    main()
