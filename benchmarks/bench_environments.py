"""What a vector environment costs over `mujoco.batch` alone: the same scenes and commands, side by side."""

from __future__ import annotations

import os
import statistics
import time

import gymnasium
import numpy as np

from benchmarks import raw_engine
from benchmarks.report import Section, Settings, Table, Target, median_interval
from twinloop.generation.job import Job
from twinloop.randomization.scenes import training_scenes
from twinloop.tasks import make_cell, make_task
from twinloop.twins import load_twin

TWINS = ("franka_pick_place", "franka_reach")
ENVIRONMENTS, LEAST = 64, 0.8
MOVED_RAD = 0.05
"""Commands are drawn this far about where the robot starts, anew in every control step."""


def run(settings: Settings) -> Section:
    steps, rounds = (40, 2) if settings.quick else (150, 15)
    rows, targets, loads = [], [], []
    for name in TWINS:
        ours, theirs = [], []
        for number in range(rounds):
            loads.append(os.getloadavg()[0])
            commands = make_commands(name, steps, number)
            ours.append(step_environment(name, commands))
            theirs.append(step_raw(name, commands))
        ratios = [mine / raw for mine, raw in zip(ours, theirs, strict=True)]
        for what, rates in (("vector environment", ours), ("mujoco.batch alone", theirs)):
            span = f"{min(rates):,.0f}-{max(rates):,.0f}"
            rows.append((name, what, f"{statistics.median(rates):,.0f}", span))
        targets.append(
            Target(
                f"{name}: at least {LEAST} of mujoco.batch alone",
                median_interval(ratios),
                statistics.median(ratios) >= LEAST,
            )
        )
    title = f"{ENVIRONMENTS} environments, {rounds} rounds of {steps} control steps in turns, all cores"
    return Section(
        "environments",
        "Stepping twins as Gymnasium environments",
        (Table(title, ("twin", "", "control steps/s", "range"), tuple(rows)),),
        tuple(targets),
        (
            "Both step the same scenes with the same commands. Ours also reads sensors, judges and rewards each step.",
        ),
        loads=tuple(loads),
    )


def make_commands(name: str, steps: int, seed: int) -> np.ndarray:
    """Commands (steps, environments, actuators) about where the robot starts."""
    cell = make_cell(load_twin(name))
    home = make_task(cell.twin.task, cell.twin).start({}, np.zeros(1, np.int64)).ctrl[0]
    moved = np.random.default_rng(seed).uniform(-MOVED_RAD, MOVED_RAD, (steps, ENVIRONMENTS, len(home)))
    return np.clip(home + moved, cell.control_low, cell.control_high).astype(np.float32)


def step_environment(name: str, commands: np.ndarray) -> float:
    """Control steps per second of the vector environment."""
    made = gymnasium.make_vec(f"twinloop.environments:twinloop/{name}-v0", num_envs=ENVIRONMENTS, threads=0)
    made.reset(seed=0)
    began = time.perf_counter()
    for command in commands:
        made.step(command)
    seconds = time.perf_counter() - began
    made.close()
    return commands.shape[0] * ENVIRONMENTS / seconds


def step_raw(name: str, commands: np.ndarray) -> float:
    """Control steps per second of `mujoco.batch` in the same scenes."""
    twin = load_twin(name)
    job = Job(twin, twin.task, "passive", training_scenes(twin))
    padded = np.concatenate([commands, commands[-1:]])  # the last command of an episode is not simulated
    stepped = raw_engine.step(job, 0, list(padded.swapaxes(0, 1)), threads=0)
    return stepped.steps / twin.substeps / stepped.seconds
