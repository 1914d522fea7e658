"""Recordings with known parameters: a twin with other values replaces the robot, read by a noisy, quantized encoder.

For tests of identification: `record_known(twin, {"elbow_friction_nm": 0.3}, seed=1)` is an episode like a
real one, and identification should find 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Episode, Provenance, Schema, Signal, make_episode
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.recording import find_channels, read_recording
from twinloop.tasks import make_cell
from twinloop.twins import Twin

Array = NDArray[Any]


def record_known(
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
    top_hz: float = 3.0,
    keep_every: int = 1,
) -> Episode:
    """Record one episode of a robot that is the twin with the parameters `truth`.

    The robot is commanded at `rate_hz` around its home pose, by default with three sines per joint of up to `top_hz`;
    `commands` (T, actuators) replaces them. Readings get white noise and are quantized in steps of `quantum`. Only every
    `keep_every`-th row is logged.
    """
    rng = np.random.default_rng(seed)
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    cell = make_cell(twin)
    count = len(cell.actuators)
    home = np.array([twin.home.get(name, 0.0) for name in cell.actuators])
    actions = home + (_sines(time_s, count, rng, size, top_hz) if commands is None else commands)
    schema = _schema(cell.actuators, rate_hz / keep_every)
    still = np.tile(home, (len(time_s), 1))
    blank = make_episode(schema, time_s, {"observation.state": still, "action": actions}, task="excite")
    channels = find_channels(cell, blank)
    recording = read_recording(cell, blank, channels)
    predictor = Predictor(cell, [recording], channels, list(truth), threads=1)
    values = {name: np.array([value]) for name, value in truth.items()}
    readings = still + predictor.residuals(values, [Window(0, 0, len(time_s))])[0]
    readings = readings + noise * rng.standard_normal(readings.shape)
    if quantum:
        readings = np.round(readings / quantum) * quantum
    return make_episode(
        schema,
        time_s[::keep_every],
        {"observation.state": readings[::keep_every], "action": actions[::keep_every]},
        task="excite",
        provenance=Provenance(source="real", actor="excitation", seed=seed),
    )


def _schema(names: tuple[str, ...], rate_hz: float) -> Schema:
    """Positions and commands of every actuator, by name."""
    size = (len(names),)
    return Schema(
        (
            Signal("observation.state", size, ("rad",), "float64", tuple(f"{name}.pos" for name in names)),
            Signal("action", size, ("rad",), "float64", tuple(f"{name}.target" for name in names)),
        ),
        rate_hz,
    )


def _sines(time_s: Array, count: int, rng: np.random.Generator, size: float, top_hz: float) -> Array:
    """Smooth commands (T, count) that start at zero: three sines each."""
    commands = np.zeros((len(time_s), count))
    for column in range(count):
        for _ in range(3):
            rate, phase = rng.uniform(0.1 * top_hz, top_hz) * 2 * np.pi, rng.uniform(0, 2 * np.pi)
            commands[:, column] += size / 2 * (np.sin(rate * time_s + phase) - np.sin(phase))
    return commands
