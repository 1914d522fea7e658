"""A world whose coverage is known: an arm that reaches for objects on a table, under a lamp."""

from __future__ import annotations

from dataclasses import replace as replace
from pathlib import Path

import numpy as np

from twinloop.coverage.sample import DatasetSample, Points
from twinloop.coverage.variables import make_columns, start_of
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Camera, Episode, Provenance, Schema, Signal, make_episode

SIGNALS = (
    Signal("observation.state", (2,), ("rad",), elements=("shoulder.pos", "elbow.pos")),
    Signal("observation.environment_state", (2,), ("m",), elements=("object.x", "object.y")),
    Signal("action", (2,), ("rad",), elements=("shoulder.target", "elbow.target")),
)
SCHEMA = Schema(SIGNALS, 20.0, robot_type="two_link")
SEEN = Schema(SIGNALS, 20.0, (Camera("top", 24, 32),), "two_link")
ROWS = 24


def scenes(count: int, seed: int) -> np.ndarray:
    """Object x and y, mass and light of each episode."""
    rng = np.random.default_rng(seed)
    return rng.uniform([0.4, -0.1, 0.1, 0.3], [0.6, 0.1, 0.4, 1.0], (count, 4))


def reach(scene: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The arm goes from home to the object, with a little noise, and pushes it home."""
    rng = np.random.default_rng([seed, 3])
    fraction = np.clip(np.linspace(-0.2, 1.2, ROWS), 0.0, 1.0)[:, None]
    goal = np.array([np.arctan2(scene[1], scene[0]), 2.0 - 2.0 * np.hypot(scene[0], scene[1])])
    command = fraction * goal
    state = command + rng.normal(0.0, 0.01, command.shape)
    place = np.repeat(scene[None, :2], ROWS, axis=0) + rng.normal(0.0, 1e-4, (ROWS, 2))
    return {"observation.state": state, "observation.environment_state": place, "action": command}


def episode(
    scene: np.ndarray, seed: int, *, source: str = "sim", camera: bool = False, **changes: object
) -> Episode:
    schema = SEEN if camera else SCHEMA
    frames = {}
    if camera:
        rng = np.random.default_rng([seed, 5])
        ground = np.full((ROWS, 24, 32, 3), 200.0 * scene[3])
        ground[:, 4:9, 6:14] *= 0.4
        frames = {"top": np.clip(ground + rng.normal(0, 2, ground.shape), 0, 255).astype(np.uint8)}
    values = {
        "task": "reach",
        "success": True,
        "provenance": Provenance(
            source=source,  # type: ignore[arg-type]
            twin="franka_pick_place" if source == "sim" else None,
            draw={"object_mass_kg": float(scene[2])} if source == "sim" else {},
            seed=seed,
            actor="expert",
        ),
    } | changes
    return make_episode(schema, np.arange(ROWS) / 20.0, reach(scene, seed), frames=frames, **values)


def write(path: Path, many: np.ndarray, first: int, *, source: str, camera: bool = False, fails=None) -> Path:
    """A dataset of these scenes; `fails(scene)` says which fail."""
    with make_dataset(path, SEEN if camera else SCHEMA) as writer:
        for number, scene in enumerate(many):
            failed = bool(fails and fails(scene))
            ending = {"success": not failed, "failure": "missed" if failed else None}
            writer.add(episode(scene, first + number, source=source, camera=camera, **ending))
    return path


def side(name: str, many: np.ndarray, first: int) -> DatasetSample:
    """The same as points, without a disk."""
    columns = make_columns(SIGNALS)
    rows = [reach(scene, first + number) for number, scene in enumerate(many)]
    raw = np.concatenate([np.concatenate([r[s.name] for s in SIGNALS], axis=1) for r in rows])
    owner = np.repeat(np.arange(len(many)), ROWS)
    moments = Points(columns.variables, columns.values(raw), owner, np.tile(np.arange(ROWS), len(many)))
    situations = Points(
        tuple(start_of(v) for v in columns.variables),
        moments.values[::ROWS],
        np.arange(len(many)),
        np.zeros(len(many), dtype=int),
    )
    unknown = (None,) * len(many)
    return DatasetSample(
        name,
        name,
        tuple(range(len(many))),
        (True,) * len(many),
        unknown,
        {},
        moments,
        situations,
        raw,
        columns.smallest,
    )
