"""Replay the actions of a recorded episode in a twin, open loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinloop.engines import DEFAULT_ENGINE, Engine, make_engine, require_engine
from twinloop.engines.hardware import Hardware
from twinloop.episode import Array, Episode, Provenance, make_episode
from twinloop.errors import GenerationError, WrongUse
from twinloop.generation.perceived import TARGET, read_object_poses, read_perceived
from twinloop.generation.replay import SignalError, signal_errors
from twinloop.generation.signals import make_schema, row_parts, split_row
from twinloop.tasks import Cell, Start, make_cell
from twinloop.tasks.joint_names import actuator_rows, find_joint_names
from twinloop.tasks.place import start_at_rest
from twinloop.twins import Twin


@dataclass(frozen=True)
class OpenLoop:
    """Open-loop replay of recorded actions in a twin, and its error (twin - recording)."""

    original: Episode
    replayed: Episode
    errors: tuple[SignalError, ...]


def replay_actions(
    episode: Episode,
    twin: Twin,
    values: Mapping[str, float | str] | None = None,
    *,
    threads: int = 1,
    engine: str = DEFAULT_ENGINE,
) -> OpenLoop:
    """Send the recorded actions of an episode to a twin and compare what it does.

    The twin starts in the recorded state, the object and the target where they were seen. Where the rates differ, actions are held and signals interpolated.

    Args:
        episode: The recording, real or simulated.
        twin: The twin.
        values: Values of the twin's parameters to use instead of the nominal ones, each in its parameter's unit.
        threads: Simulation threads.
        engine: The physics engine.

    Returns:
        The recording, the replayed episode, and the error of each signal (twin - recording) in the signal's unit.

    Raises:
        WrongUse: The recording's joints or actions do not fit the twin.
        GenerationError: The recording has no actions.
    """
    cell = make_cell(twin)
    times = np.arange(int(np.floor(episode.duration_s * twin.control_hz + 1e-9)) + 1) / twin.control_hz
    recording = _resampled(episode, times)
    declared = {signal.name: signal for signal in episode.schema.signals}
    rest = start_at_rest(cell, {}, 1)
    actions = states = None
    if "action" in declared:
        actions = actuator_rows(cell, declared["action"], recording["action"], rest.ctrl[0])
    if "observation.state" in declared:
        state = declared["observation.state"]
        states = actuator_rows(cell, state, recording[state.name], cell.positions(rest.qpos)[0])
    if actions is None:
        raise WrongUse(
            f"the actions do not fit twin {twin.name!r}",
            got=f"{declared['action'].size}: {', '.join(declared['action'].elements) or 'without names'}"
            if "action" in declared
            else "no signal called 'action'",
            expected=f"{len(cell.actuators)}: {', '.join(cell.actuators)}",
            remedy="name the elements of the action as the twin names its actuators",
        )
    drawn = {
        name: np.array([value]) for name, value in twin.values(values or {}).items() if name in (values or {})
    }
    require_engine(engine, twin, drawn)
    made = make_engine(engine, cell, 1, threads, tuple(drawn))
    rows = _simulate(made, actions, _start(cell, episode, states, actions[0], drawn), drawn)
    schema = make_schema(cell, ())
    again = make_episode(
        schema,
        times[: len(rows)],
        split_row(schema, rows.astype(np.float32)),
        task=episode.task,
        provenance=_provenance(episode, made, values or {}),
    )
    compared = replace(
        episode, time_s=times, signals={name: rows[: len(times)] for name, rows in recording.items()}
    )
    return OpenLoop(episode, again, signal_errors(compared, _as_recorded(cell, episode, again), len(again)))


def _resampled(episode: Episode, times: Array) -> dict[str, Array]:
    """Signals at `times`, counted from the episode's start: numbers interpolated, commands and the rest held."""
    since = episode.time_s - episode.time_s[0]
    held = np.clip(np.searchsorted(since, times + 1e-9, side="right") - 1, 0, len(since) - 1)
    resampled = {}
    for signal in episode.schema.signals:
        rows = episode.signals[signal.name]
        if signal.name == "action" or not signal.dtype.startswith("float"):
            resampled[signal.name] = np.asarray(rows[held])
            continue
        flat = rows.reshape(len(rows), -1)
        columns = [np.interp(times, since, flat[:, k]) for k in range(flat.shape[1])]
        resampled[signal.name] = np.stack(columns, axis=1).reshape(len(times), *signal.shape)
    return resampled


def _as_recorded(cell: Cell, episode: Episode, again: Episode) -> dict[str, Array]:
    """The replayed signals; those with one element per actuator have the elements and the order of the recording."""
    count, known = len(cell.actuators), find_joint_names(cell)
    signals = dict(again.signals)
    for signal in episode.schema.signals:
        places = known.match(signal.elements, signal.size)
        columns = [place for place in places if place is not None and place < count]
        if (
            signal.name in signals
            and signals[signal.name].shape[1:] == (count,)
            and len(columns) == len(places)
        ):
            signals[signal.name] = signals[signal.name][:, columns]
    return signals


def _start(
    cell: Cell, episode: Episode, states: Array | None, action: Array, drawn: Mapping[str, Any]
) -> Start:
    """The recorded state: what was not recorded is at rest."""
    start = start_at_rest(cell, drawn, 1)
    if states is not None:
        qpos = set_actuator_positions(cell, start.qpos, states[:1])
        start = replace(start, qpos=qpos, ctrl=action[None].astype(np.float64))
    seen, at = read_object_poses(episode), cell.object_qpos
    if seen is not None and at is not None:
        qpos = start.qpos.copy()
        qpos[:, at : at + 3] = seen[0][0]
        if seen[1] is not None:
            qpos[:, at + 3 : at + 7] = seen[1][0]
        start = replace(start, qpos=qpos)
    target = read_perceived(episode, TARGET)
    if target is not None and cell.target_mocap is not None:
        mocap_pos = start.mocap_pos.copy()
        mocap_pos[:, cell.target_mocap] = target[0]
        start = replace(start, mocap_pos=mocap_pos)
    return start


def _simulate(engine: Engine, actions: Array, start: Start, drawn: Mapping[str, Any]) -> Array:
    """The rows of one environment that gets these actions, up to where the simulation diverges, if it does."""
    cell = engine.cell
    one, seeds = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    hardware = Hardware(cell, 1, len(actions), drawn)
    engine.load(one, drawn, start)
    hardware.restart(one, drawn, seeds, engine.truth(), start.ctrl)
    rows = []
    for step, action in enumerate(actions.astype(np.float64)):
        truth = engine.truth()
        reading = hardware.sense(truth, np.array([step]))
        rows.append(np.concatenate(row_parts(cell, truth, reading, action[None]), axis=1)[0])
        if engine.step(one, hardware.command(action[None], np.array([step]))) is not None:
            break
    if not rows:
        raise GenerationError("the recording has no actions to replay")
    return np.stack(rows)


def set_actuator_positions(cell: Cell, qpos: Array, positions: Array) -> Array:
    """qpos (T, nq) with every actuator at its position (T, actuators); one that moves two joints moves them alike."""
    moved = qpos.copy()
    for index in range(positions.shape[1]):
        weights, addresses = cell.weights[index], cell.qpos_addresses[index]
        for weight, address in zip(weights, addresses, strict=True):
            if weight:
                moved[:, address] = positions[:, index] * weight / float(weights @ weights)
    return moved


def _provenance(episode: Episode, engine: Engine, values: Mapping[str, float | str]) -> Provenance:
    twin = engine.cell.twin
    return Provenance(
        source="sim",
        engine=engine.name,
        engine_version=engine.version,
        twin=twin.name,
        twin_version=twin.version,
        twin_hash=twin.content_hash,
        draw={name: value if isinstance(value, str) else float(value) for name, value in values.items()},
        actor=episode.provenance.actor,
        actor_id="recorded actions",
        parents=(episode.id,),
    )
