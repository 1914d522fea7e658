"""Runs where rsl_rl is: its own runner trains for a few iterations."""

import json

import torch
from rsl_rl.runners import OnPolicyRunner

from twinloop.environments.rsl_rl import RslRlVecEnv

NETWORK = {"class_name": "MLPModel", "hidden_dims": [64], "activation": "elu"}
SETTINGS = {
    "num_steps_per_env": 16,
    "save_interval": 100,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NETWORK, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.5}},
    "critic": NETWORK,
    "algorithm": {
        "class_name": "PPO",
        "num_learning_epochs": 2,
        "num_mini_batches": 2,
        "learning_rate": 1e-3,
        "schedule": "fixed",
        "gamma": 0.95,
        "lam": 0.9,
        "entropy_coef": 0.0,
        "desired_kl": 0.01,
        "max_grad_norm": 1.0,
        "value_loss_coef": 1.0,
        "use_clipped_value_loss": True,
        "clip_param": 0.2,
    },
}


def main() -> None:
    torch.manual_seed(0)
    arguments = {"control": "delta", "reward": "dense", "cameras": ("front",), "max_episode_steps": 10}
    environment = RslRlVecEnv("twinloop/franka_reach-v0", num_envs=4, threads=1, **arguments)
    groups = {name: list(values.shape) for name, values in environment.get_observations().items()}
    time_outs = [environment.step(torch.zeros(4, 8))[3]["time_outs"].sum().item() for _ in range(10)]
    plain = RslRlVecEnv("twinloop/franka_reach-v0", num_envs=16, threads=1, control="delta", reward="dense")
    runner = OnPolicyRunner(plain, SETTINGS, log_dir=None, device="cpu")
    before = [values.clone() for values in runner.alg.actor.parameters()]
    runner.learn(2)
    changed = any(not torch.equal(a, b) for a, b in zip(before, runner.alg.actor.parameters(), strict=True))
    print(json.dumps({"groups": groups, "time_outs": time_outs, "changed": changed}))


if __name__ == "__main__":
    main()
