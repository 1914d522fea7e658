"""Pick-and-place trajectories with robosuite: a Panda and one can into its bin, in several processes, recorded to disk.

    python pick_and_place.py OUT_DIR [--processes 2] [--episodes 4] [--seed 1]

Runs inside the virtualenv made by install.sh. Every process has one PickPlaceCan environment without cameras, soft resets
(the faster kind), robosuite's own DomainRandomizationWrapper for the dynamics, once per episode, and its default
controller. A scripted expert acts; an episode ends in success or after 250 steps, and is written as one .npz of
observations and actions, which is faster than robosuite's DataCollectionWrapper (that one writes and compiles the model
again for every episode). Starting, and the first episode with its compilation, are not measured. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

import numpy as np

LONGEST = 250
CONTROL_HZ = 20
GAIN = 10.0
OPEN, CLOSE = -1.0, 1.0


def make(seed: int):
    import robosuite
    from robosuite.wrappers import DomainRandomizationWrapper

    environment = robosuite.make(
        "PickPlaceCan",
        robots="Panda",
        has_renderer=False,
        has_offscreen_renderer=False,
        use_camera_obs=False,
        hard_reset=False,
        ignore_done=True,
        control_freq=CONTROL_HZ,
    )
    return DomainRandomizationWrapper(
        environment,
        seed=seed,
        randomize_color=False,
        randomize_camera=False,
        randomize_lighting=False,
        randomize_dynamics=True,
        randomize_every_n_steps=0,
    )


class Expert:
    """Over the can, down, close, up, over its bin, down, open."""

    def __init__(self, bin_place: np.ndarray) -> None:
        self._bin = bin_place
        self._phase, self._waited = 0, 0

    def act(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        hand, can = seen["robot0_eef_pos"], seen["Can_pos"]
        goals = (
            (can + np.array([0.0, 0.0, 0.1]), OPEN, 0.02),
            (can, OPEN, 0.012),
            (can, CLOSE, None),
            (np.array([*hand[:2], 1.12]), CLOSE, 0.03),
            (np.array([*self._bin[:2], 1.12]), CLOSE, 0.03),
            (np.array([*self._bin[:2], 0.95]), CLOSE, 0.03),
            (hand, OPEN, np.inf),
        )
        goal, grip, near = goals[self._phase]
        self._waited += 1
        there = self._waited >= 8 if near is None else np.linalg.norm(goal - hand) < near
        if there and self._phase < len(goals) - 1:
            self._phase, self._waited = self._phase + 1, 0
        action = np.zeros(7)
        action[:3] = np.clip(GAIN * (goal - hand), -1.0, 1.0)
        action[6] = grip
        return action


def episode(environment, path: Path) -> tuple[int, bool]:
    """Record one; how many control steps it took and whether the can is in its bin."""
    seen = environment.reset()
    expert = Expert(environment.target_bin_placements[environment.object_to_id["can"]])
    rows, success = [], False
    while len(rows) < LONGEST and not success:
        action = expert.act(seen)
        rows.append((seen["robot0_proprio-state"], seen["object-state"], action))
        seen, reward, _, _ = environment.step(action)
        success = reward > 0.0
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    names = ("proprioception", "object", "action")
    np.savez(path, **dict(zip(names, columns, strict=True)), success=success)
    return len(rows), bool(success)


def work(number: int, out: Path, episodes: int, seed: int, barrier, results) -> None:
    np.random.seed(seed + number)  # noqa: NPY002  robosuite places objects with NumPy's global state
    try:
        environment = make(seed + number)
        episode(environment, out / f"warm-up-{number}.npz")
        barrier.wait()
        began, cpu = time.perf_counter(), time.process_time()
        made = [episode(environment, out / f"episode-{number}-{i:05d}.npz") for i in range(episodes)]
    except Exception:  # noqa: BLE001  whatever it is, the parent must not wait for it
        results.put(traceback.format_exc())
    else:
        results.put((time.perf_counter() - began, time.process_time() - cpu, made))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=4, help="for each process")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(arguments.processes), context.Queue()
    crew = [
        context.Process(
            target=work,
            args=(i, arguments.out, arguments.episodes, arguments.seed, barrier, results),
            daemon=True,
        )
        for i in range(arguments.processes)
    ]
    for process in crew:
        process.start()
    said = []
    for _ in crew:
        said.append(results.get())
        if isinstance(said[-1], str):
            sys.exit(said[-1])
    for process in crew:
        process.join()
    made = [one for _, _, of_one in said for one in of_one]
    control_steps = sum(steps for steps, _ in made)
    substeps = round(1.0 / CONTROL_HZ / 0.002)
    result = {
        "environments": arguments.processes,
        "episodes": len(made),
        "seconds": max(seconds for seconds, _, _ in said),
        "cpu_s": sum(cpu for _, cpu, _ in said),
        "steps": control_steps * substeps,
        "robot_s": control_steps / CONTROL_HZ / len(made),
        "success": float(np.mean([success for _, success in made])),
        "versions": {"robosuite": version("robosuite"), "mujoco": version("mujoco")},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
