"""Conformance check for physics engines; the built-in engine passes it too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.engines import Engine, EngineOptions, make_engine
from twinloop.tasks import Cell, Start, make_cell, make_task
from twinloop.twins import Twin

Array = NDArray[Any]

COUNT = 3
IDS = np.arange(COUNT)
STEPS = 5
FAST = 1e12
"""A velocity, in rad/s or m/s, at which every simulation diverges."""
CLOSE = 1e-6
"""Closed and open loop may start their solvers differently; states agree to this, in radians and metres."""


def check_engine(name: str, twin: Twin, *, render: bool = False) -> None:
    """Check that the engine called `name` behaves as `Engine` promises, in this twin.

    Args:
        name: A registered engine.
        twin: A twin with actuators and a task.
        render: Check images too; needs offscreen rendering.

    Raises:
        AssertionError: It does not; the message names the requirement.
    """
    cell = make_cell(twin)
    start = make_task(twin.task, twin).start({}, IDS)
    engine = _load(name, cell, start)
    assert engine.name == name and engine.version, "an engine knows its name and version"
    _check_state(engine, start)
    _check_determinism(name, cell, start)
    _check_parameters(name, cell, start)
    _check_divergence(name, cell, start)
    _check_open_loop(name, cell, start)
    if render and twin.cameras:
        _check_images(engine, start)


def _load(name: str, cell: Cell, start: Start, *, threads: int = 1, varying: tuple[str, ...] = ()) -> Engine:
    engine = make_engine(name, cell, COUNT, threads, varying)
    engine.load(IDS, {}, start)
    return engine


def _commands(start: Start) -> Array:
    """A command for each control step and environment, (steps, count, 1, nu), all different."""
    ramp = 0.01 * np.arange(1, STEPS + 1)[:, None, None] * (1.0 + IDS)[:, None]
    return np.asarray((start.ctrl + ramp)[:, :, None])


def _run(engine: Engine, commands: Array, ids: Array = IDS) -> Array:
    for command in commands:
        assert engine.step(ids, command[ids]) is None, "an ordinary motion does not diverge"
    return engine.qpos.copy()


def _check_state(engine: Engine, start: Start) -> None:
    model = engine.cell.model
    for part, width in (("qpos", model.nq), ("qvel", model.nv), ("ctrl", model.nu)):
        values = np.asarray(getattr(engine, part))
        assert values.shape == (COUNT, width), f"{part}: got shape {values.shape}"
        assert np.array_equal(values, getattr(start, part)), f"{part} is what was loaded"
    before = engine.truth()
    kept = before.position.copy()
    _run(engine, _commands(start))
    assert np.array_equal(before.position, kept), "truth gives copies"
    truth = engine.truth()
    assert truth.time_s.shape == (COUNT,) and (truth.time_s > before.time_s).all(), "time goes on"
    assert truth.position.shape == (COUNT, len(engine.cell.actuators)), "a position for each actuator"
    for pair in (truth.robot_object, truth.object_table, truth.robot_table):
        assert pair.touching.shape == pair.force_n.shape == pair.depth_m.shape == (COUNT,), "contacts"
        assert (pair.force_n >= 0.0).all() and (pair.depth_m >= 0.0).all(), "forces and depths"
    one = IDS[1:2]
    engine.set_state(one, start.qpos[one], start.qvel[one], start.ctrl[one])
    assert np.array_equal(engine.qpos[one], start.qpos[one]), "set_state sets one environment"
    assert not np.array_equal(engine.qpos[:1], start.qpos[:1]), "and leaves the others"


def _check_determinism(name: str, cell: Cell, start: Start) -> None:
    commands = _commands(start)
    engine = _load(name, cell, start)
    expected = _run(engine, commands)
    assert np.array_equal(_run(_load(name, cell, start, threads=2), commands), expected), (
        "results do not depend on the number of threads"
    )
    engine.load(IDS, {}, start)
    assert np.array_equal(_run(engine, commands), expected), "nor on what ran in the environment before"
    alone = _run(_load(name, cell, start), commands, IDS[1:2])
    assert np.array_equal(alone[1], expected[1]), "nor on the other environments"
    each = np.repeat(commands, cell.twin.substeps, axis=2)
    assert np.array_equal(_run(_load(name, cell, start), each), expected), (
        "a held command equals the same command in every physics step"
    )


def _check_parameters(name: str, cell: Cell, start: Start) -> None:
    """Parameters apply to the environments where they are set, and a new episode without them is nominal."""
    varying = next(
        p.name for p in cell.twin.parameters if p.name in cell.twin.patch.names("model") and p.nominal
    )
    nominal = float(cell.twin.parameter(varying).nominal)
    commands = _commands(start)
    engine = _load(name, cell, start, varying=(varying,))
    expected = _run(engine, commands)
    engine.load(IDS, {varying: nominal * np.array([1.0, 1.05, 0.95])}, start)
    assert np.array_equal(_run(engine, commands)[0], expected[0]), "the nominal value changes nothing"
    engine.load(IDS, {}, start)
    assert np.array_equal(_run(engine, commands), expected), "values are forgotten when an episode begins"


def _check_divergence(name: str, cell: Cell, start: Start) -> None:
    commands = _commands(start)
    expected = _run(_load(name, cell, start), commands[:1])
    engine = _load(name, cell, start)
    speeds = start.qvel[1:2].copy()
    speeds[0, -1] = FAST
    engine.set_state(IDS[1:2], start.qpos[1:2], speeds, start.ctrl[1:2])
    diverged = engine.step(IDS, commands[0])
    assert diverged is not None and diverged.ids.tolist() == [1], "what diverges is reported"
    assert diverged.qvel[0, -1] == FAST, "with the state before the step"
    assert np.isfinite(engine.qpos).all(), "and nothing that is not finite stays"
    assert np.array_equal(engine.qpos[[0, 2]], expected[[0, 2]]), "the others go on"


def _check_open_loop(name: str, cell: Cell, start: Start) -> None:
    substeps = cell.twin.substeps
    commands = _commands(start)
    controls = np.repeat(commands[:, :, 0].transpose(1, 0, 2), substeps, axis=1)
    state = (start.qpos, start.qvel)
    engine = make_engine(name, cell, COUNT, options=EngineOptions(contacts=False))
    rolled = engine.roll(IDS, {}, state, controls, effort=True)
    assert rolled.qpos.shape == (COUNT, STEPS * substeps, cell.model.nq), f"qpos: got {rolled.qpos.shape}"
    assert rolled.qvel.shape == (COUNT, STEPS * substeps, cell.model.nv), f"qvel: got {rolled.qvel.shape}"
    assert rolled.effort is not None and rolled.effort.shape == (*rolled.qpos.shape[:2], cell.model.nu)
    assert rolled.diverged.shape == (COUNT,) and not rolled.diverged.any(), "an ordinary motion"
    closed = _run(_load(name, cell, start), commands)
    assert np.allclose(rolled.qpos[:, -1], closed, atol=CLOSE), "open and closed loop are the same physics"
    threaded = make_engine(name, cell, COUNT, 2, options=EngineOptions(contacts=False))
    again = threaded.roll(IDS, {}, state, controls)
    assert again.effort is None and np.array_equal(again.qpos, rolled.qpos), "at any number of threads"
    speeds = start.qvel.copy()
    speeds[1, -1] = FAST
    broken = engine.roll(IDS, {}, (start.qpos, speeds), controls)
    assert broken.diverged.tolist() == [False, True, False], "what diverges is reported"
    assert np.array_equal(broken.qpos[[0, 2]], rolled.qpos[[0, 2]]), "the others are unchanged"


def _check_images(engine: Engine, start: Start) -> None:
    camera = engine.cell.twin.cameras[0]
    renderer = engine.make_renderer((camera.name,))
    try:
        states, mocap = np.repeat(start.qpos[:1], 2, axis=0), np.asarray(engine.mocap[0])
        frames = renderer.paint({}, 0, states, mocap)[camera.name]
        newest = renderer.paint_newest({}, 0, states, mocap)[camera.name]
    finally:
        renderer.close()
    assert frames.shape == (2, camera.height, camera.width, 3) and frames.dtype == np.uint8, "images"
    assert np.array_equal(frames[-1], newest), "the newest image is the last one"
