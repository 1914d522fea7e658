"""Conformance checks for tasks and experts; the built-in ones pass them too."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.engines import DEFAULT_ENGINE, make_engine
from twinloop.engines.hardware import Hardware
from twinloop.experts import EXPERTS, Setup
from twinloop.tasks import Touch, Truth, make_cell, make_task
from twinloop.twins import Twin

Array = NDArray[Any]

SEEDS = np.array([3, 1, 4, 15, 9])


def check_task(name: str, twin: Twin) -> None:
    """Check that the task called `name` implements `Task` in this twin; raises AssertionError if not."""
    cell, task = make_cell(twin), make_task(name, twin)
    model = cell.model
    assert task.text.endswith("."), "the text is a sentence"
    assert task.time_limit_s > 0 and task.phases and task.failures, "phases, failures and a time limit"
    start = task.start({}, SEEDS)
    for part, width in (("qpos", model.nq), ("qvel", model.nv), ("ctrl", model.nu)):
        shape = getattr(start, part).shape
        assert shape == (len(SEEDS), width), f"start.{part}: got {shape}, expected {(len(SEEDS), width)}"
    again = task.start({}, SEEDS[::-1])
    assert np.array_equal(again.qpos[::-1], start.qpos), (
        "the start of an episode depends on its own seed only"
    )
    engine = make_engine(DEFAULT_ENGINE, cell, len(SEEDS))
    engine.load(np.arange(len(SEEDS)), {}, start)
    memory = np.zeros((len(SEEDS), task.memory))
    for _ in range(3):
        truth = engine.truth()
        kept = memory.copy()
        judged = task.judge(truth, memory)
        assert np.array_equal(memory, kept), "judge must not modify its argument `memory`"
        _check_judgement(judged, task, len(SEEDS))
        alone = task.judge(_one_row(truth, 2), memory[2:3])
        assert alone.phase[0] == judged.phase[2], "a judgement depends on its own environment only"
        assert np.array_equal(alone.memory[0], judged.memory[2]), "memory depends on its own environment only"
        memory = judged.memory
        engine.step(np.arange(len(SEEDS)), start.ctrl[:, None])


def check_expert(name: str, twin: Twin, task_name: str | None = None, steps: int = 25) -> None:
    """Check that the expert called `name` implements `Expert` in this twin; raises AssertionError if not."""
    cell, task = make_cell(twin), make_task(task_name or twin.task, twin)
    ids = np.arange(len(SEEDS))
    together = _commands(name, cell, task, ids, steps)
    low, high = cell.control_low - 1e-9, cell.control_high + 1e-9
    assert together.shape == (steps, len(SEEDS), len(cell.actuators)), f"commands: got shape {together.shape}"
    assert np.isfinite(together).all(), "commands are finite"
    assert ((together >= low) & (together <= high)).all(), "commands stay within the actuators' ranges"
    alone = _commands(name, cell, task, ids[2:3], steps)
    assert np.array_equal(alone[:, 0], together[:, 2]), (
        "an expert's commands depend on their own environment only"
    )


def _commands(name: str, cell: Any, task: Any, rows: Array, steps: int) -> Array:
    seeds, count = SEEDS[rows], len(rows)
    ids = np.arange(count)
    engine, hardware = make_engine(DEFAULT_ENGINE, cell, count), Hardware(cell, count, steps, {})
    expert = EXPERTS.get(name)(Setup(cell, count, steps, noise=1.0))
    start = task.start({}, seeds)
    engine.load(ids, {}, start)
    hardware.restart(ids, {}, seeds, engine.truth(), start.ctrl)
    expert.restart(ids, hardware.first_reading(engine.truth()), seeds)
    commands = []
    for step in range(steps):
        now = np.full(count, step)
        action = expert.act(hardware.sense(engine.truth(), now), now)
        commands.append(action.copy())
        engine.step(ids, hardware.command(action, now))
    return np.array(commands)


def _check_judgement(judged: Any, task: Any, count: int) -> None:
    for part in ("phase", "success", "failed", "reason"):
        assert getattr(judged, part).shape == (count,), f"{part}: one per environment"
    assert judged.memory.shape == (count, task.memory), f"memory: got {judged.memory.shape}"
    assert judged.phase.min() >= 0 and judged.phase.max() < len(task.phases), "phase is one of the task's"
    assert judged.reason.min() >= 0 and judged.reason.max() < len(task.failures), (
        "reason is one of the task's"
    )
    assert judged.success.dtype == bool and judged.failed.dtype == bool, "success and failed are bool"


def _one_row(truth: Truth, row: int) -> Truth:
    values: dict[str, Any] = {}
    for part in fields(truth):
        value = getattr(truth, part.name)
        if isinstance(value, Touch):
            values[part.name] = Touch(
                value.touching[row : row + 1], value.force_n[row : row + 1], value.depth_m[row : row + 1]
            )
        else:
            values[part.name] = None if value is None else value[row : row + 1]
    return Truth(**values)
