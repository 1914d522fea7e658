"""A small clean arm whose joints follow their commands a little late."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Camera, Episode, Provenance, Schema, Signal, make_episode

JOINTS = ("shoulder", "elbow", "wrist")
ARM = Schema(
    (
        Signal("action", (3,), ("rad",), "float64", JOINTS),
        Signal("observation.state", (3,), ("rad",), "float64", JOINTS),
    ),
    rate_hz=50.0,
    robot_type="toy_arm",
)
SEEING_ARM = Schema(ARM.signals, 50.0, (Camera("front", 32, 32),), "toy_arm")
LAG_S = 0.083


def arm_episode(seed: int = 0, rows: int = 600, schema: Schema = ARM, **changes: object) -> Episode:
    """Sums of sines, a lag of 83 ms, an encoder of 4096 steps a turn and noise of half a step."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(rows) / 50 + rng.normal(0, 0.0004, rows)
    tones_hz, phases = rng.uniform(0.1, 0.9, (3, 3)), rng.uniform(0, 6, (3, 3))

    def command(at_s: np.ndarray) -> np.ndarray:
        return 0.25 * np.sin(2 * np.pi * tones_hz[:, :, None] * at_s + phases[:, :, None]).sum(axis=1).T

    step = 2 * np.pi / 4096
    state = command(time_s - LAG_S) + rng.normal(0, 0.5 * step, (rows, 3))
    frames = {camera.name: _frames(state, camera, rng) for camera in schema.cameras}
    values = {"provenance": Provenance(source="real", actor="expert", seed=seed), "frames": frames} | changes
    return make_episode(
        schema,
        time_s,
        {"action": command(time_s), "observation.state": np.rint(state / step) * step},
        **values,
    )


def _frames(state: np.ndarray, camera: Camera, rng: np.random.Generator) -> np.ndarray:
    """A noisy grey ground with a bright patch that moves as the shoulder does."""
    frames = rng.integers(90, 99, (len(state), camera.height, camera.width, 3), dtype=np.uint8)
    for row, shoulder in enumerate(state[:, 0]):
        left = int(np.clip(12 + 10 * shoulder, 0, camera.width - 8))
        frames[row, 8:16, left : left + 8] = 220
    return frames
