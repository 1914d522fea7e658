"""Pick-and-place trajectories with gymnasium-robotics: FetchPickAndPlace in an AsyncVectorEnv, recorded to disk.

    python pick_and_place.py OUT_DIR [--environments 4] [--episodes 40] [--seed 1]

Runs inside the virtualenv made by install.sh. The environment draws the places of object and goal at every reset; it has
no other randomization. A scripted expert acts on the batch of observations; an episode lasts its usual 50 steps, and
is written as one .npz of observations and actions. Starting the processes is not measured. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import gymnasium as gym
import gymnasium_robotics
import mujoco
import numpy as np

ENVIRONMENT = "FetchPickAndPlace-v4"
STEPS = 50
SUBSTEPS = 20
GAIN = 10.0
ABOVE_M = 0.08


def make():
    gym.register_envs(gymnasium_robotics)
    return gym.make(ENVIRONMENT)


def cpu_seconds(processes: list[int]) -> float:
    """Processor time these processes have used."""
    ticks = 0
    for number in processes:
        after_name = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        ticks += int(after_name[11]) + int(after_name[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def expert(observation: np.ndarray, goal: np.ndarray, holding: np.ndarray) -> np.ndarray:
    """Over the object, down, close, to the goal: actions (N, 4); `holding` (N,) counts steps since closing began."""
    gripper, away = observation[:, :3], observation[:, 6:9]
    level = np.linalg.norm(away[:, :2], axis=1) < 0.01
    reached = level & (np.abs(away[:, 2]) < 0.01)
    holding[reached | (holding > 0)] += 1
    approach = away + np.where(level[:, None], 0.0, [0.0, 0.0, ABOVE_M])
    carry = (holding > 4)[:, None]
    move = np.where(carry, goal - gripper, approach)
    action = np.empty((len(observation), 4))
    action[:, :3] = np.clip(GAIN * move, -1.0, 1.0)
    action[:, 3] = np.where(holding > 0, -1.0, 1.0)
    return action


def record(out: Path, environments: int, episodes: int, seed: int) -> dict:
    vector = gym.vector.AsyncVectorEnv([make] * environments, shared_memory=True)
    try:
        vector.reset(seed=seed)
        rounds = -(-episodes // environments)
        successes = 0
        crew = [os.getpid(), *(process.pid for process in vector.processes)]
        began, cpu = time.perf_counter(), cpu_seconds(crew)
        for turn in range(rounds):
            seen, _ = vector.reset()
            holding = np.zeros(environments)
            rows = []
            for _ in range(STEPS):
                action = expert(seen["observation"], seen["desired_goal"], holding)
                after, _, _, _, info = vector.step(action.astype(np.float32))
                rows.append((seen["observation"], seen["achieved_goal"], seen["desired_goal"], action))
                seen = after
            successes += int((np.asarray(info["is_success"]) > 0).sum())
            blocks = [np.stack(column, axis=1) for column in zip(*rows, strict=True)]
            for i in range(environments):
                names = ("observation", "achieved_goal", "desired_goal", "action")
                np.savez(
                    out / f"episode-{turn * environments + i:06d}.npz",
                    **{name: block[i] for name, block in zip(names, blocks, strict=True)},
                )
        seconds, cpu = time.perf_counter() - began, cpu_seconds(crew) - cpu
    finally:
        vector.close()
    made = rounds * environments
    return {
        "environments": environments,
        "episodes": made,
        "seconds": seconds,
        "cpu_s": cpu,
        "steps": made * STEPS * SUBSTEPS,
        "robot_s": STEPS * SUBSTEPS * 0.002,
        "success": successes / made,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--environments", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    result = record(arguments.out, arguments.environments, arguments.episodes, arguments.seed)
    result["versions"] = {"gymnasium-robotics": gymnasium_robotics.__version__, "mujoco": mujoco.__version__}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
