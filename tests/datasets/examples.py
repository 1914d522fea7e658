"""Small seeded episodes for the tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from twinloop.episode import Camera, Episode, Event, Provenance, Schema, Signal, make_episode

STATE_ONLY = Schema(
    (
        Signal("observation.state", (6,), ("rad",), elements=tuple(f"joint_{i}" for i in range(6))),
        Signal("action", (6,), ("rad",)),
        Signal("observation.force", (3,), ("N",), dtype="float64"),
    ),
    rate_hz=50.0,
    robot_type="toy_arm",
)

WITH_CAMERA = Schema(STATE_ONLY.signals, 50.0, (Camera("front", 48, 64),), "toy_arm")


def toy_episode(seed: int, rows: int = 30, schema: Schema = STATE_ONLY, **changes: object) -> Episode:
    """A smooth random motion; frames show a square whose place and colour tell the episode and the row."""
    rng = np.random.default_rng(seed)
    state = np.cumsum(rng.normal(0, 0.01, (rows, 6)), axis=0)
    values = {
        "provenance": Provenance(
            source="sim",
            engine="toy",
            engine_version="1",
            twin="toy_arm",
            twin_version="3",
            randomization="wide",
            draw={
                "mass_kg": float(np.random.default_rng((seed, 1)).uniform(0.1, 0.4)),
                "texture": f"wood_{seed % 3}",
            },
            seed=seed,
            actor="expert",
            site="lab",
            recorded_at=datetime(2026, 1, 1 + seed % 28, tzinfo=UTC),
        ),
        "events": (Event(0.1, "contact", "finger cube"),),
        "success": seed % 3 != 0,
        "failure": "slipped" if seed % 3 == 0 else None,
        "task": "pick up the cube",
    } | changes
    return make_episode(
        schema,
        np.arange(rows) * 0.02 + rng.uniform(0, 0.002, rows),
        {
            "observation.state": state.astype(np.float32),
            "action": np.roll(state, -1, axis=0).astype(np.float32),
            "observation.force": rng.normal(size=(rows, 3)),
        },
        frames={camera.name: toy_frames(seed, rows, camera) for camera in schema.cameras},
        **values,
    )


def toy_frames(seed: int, rows: int, camera: Camera) -> np.ndarray:
    """Plain ground with a moving square: easy to encode, and each episode looks unlike its neighbours."""
    ground = np.array([(60 * seed) % 256, (97 * seed + 40) % 256, (31 * seed + 90) % 256], np.uint8)
    frames = np.broadcast_to(ground, (rows, camera.height, camera.width, 3)).copy()
    for row in range(rows):
        left = (row * 2) % (camera.width - 12)
        frames[row, 8:20, left : left + 12] = 255 - ground
    return frames
