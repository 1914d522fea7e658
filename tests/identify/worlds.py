"""Recordings with known truth: made by the twin itself, with the imperfections the test asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Episode, Provenance, Schema, Signal, make_episode
from twinloop.identify.predict import Predictor, Window
from twinloop.identify.recording import find_channels, read_recording
from twinloop.tasks import make_cell
from twinloop.twin import Twin

Array = NDArray[Any]


def schema_of(twin: Twin, rate_hz: float) -> Schema:
    """Positions and commands of every actuator, by name."""
    names = make_cell(twin).actuators
    return Schema(
        (
            Signal("observation.state", (len(names),), ("rad",), "float64", tuple(f"{n}.pos" for n in names)),
            Signal("action", (len(names),), ("rad",), "float64", tuple(f"{n}.target" for n in names)),
        ),
        rate_hz,
    )


def commands_like(
    time_s: Array, count: int, rng: np.random.Generator, size: float = 0.4, top_hz: float = 3.0
) -> Array:
    """Smooth commands (T, count) that start at zero: three sines each."""
    made = np.zeros((len(time_s), count))
    for column in range(count):
        for _ in range(3):
            rate, phase = rng.uniform(0.3, top_hz) * 2 * np.pi, rng.uniform(0, 2 * np.pi)
            made[:, column] += size / 2 * (np.sin(rate * time_s + phase) - np.sin(phase))
    return made


def record(
    twin: Twin,
    truth: Mapping[str, float],
    seed: int,
    *,
    seconds: float = 4.0,
    rate_hz: float = 200.0,
    noise: float = 5e-4,
    quantum: float = 0.0,
    commands: Array | None = None,
    size: float = 0.4,
) -> Episode:
    """One episode of a robot that is the twin with `truth` for its parameters, seen through a noisy encoder."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    cell = make_cell(twin)
    actions = commands_like(time_s, len(cell.actuators), rng, size) if commands is None else commands
    still = np.tile([twin.home.get(name, 0.0) for name in cell.actuators], (len(time_s), 1))
    schema = schema_of(twin, rate_hz)
    blank = make_episode(
        schema, time_s, {"observation.state": still, "action": actions + still}, task="excite"
    )
    channels = find_channels(cell, blank)
    recording = read_recording(cell, blank, channels)
    predictor = Predictor(cell, [recording], channels, list(truth), threads=1)
    moved = predictor.residuals({k: np.array([v]) for k, v in truth.items()}, [Window(0, 0, len(time_s))])[0]
    readings = still + moved + noise * rng.standard_normal(moved.shape)
    if quantum:
        readings = np.round(readings / quantum) * quantum
    return make_episode(
        schema,
        time_s,
        {"observation.state": readings, "action": actions + still},
        task="excite",
        provenance=Provenance(source="real", actor="excitation", seed=seed),
    )
