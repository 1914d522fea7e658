"""The scene as an episode's tracker perceived it: positions, and orientations as the first two columns of a rotation matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from twinloop.episode import Array, Episode

PERCEIVED = "observation.environment_state"
POSE = tuple(f"object.{part}" for part in ("x", "y", "z", "r11", "r21", "r31", "r12", "r22", "r32"))
"""Elements of the object's pose: its position, then two columns of its rotation matrix."""
TARGET = ("target.x", "target.y", "target.z")
"""Elements of the target's position."""


def read_perceived(episode: Episode, names: Sequence[str]) -> Array | None:
    """These elements of the perceived scene, (T, len(names)); None if one is not recorded."""
    if PERCEIVED not in episode.signals:
        return None
    elements = episode.schema.signal(PERCEIVED).elements
    if not set(names) <= set(elements):
        return None
    columns = [elements.index(name) for name in names]
    return np.asarray(episode.signals[PERCEIVED], np.float64)[:, columns]


def read_object_poses(episode: Episode) -> tuple[Array, Array | None] | None:
    """Where the object was seen: positions (T, 3) and orientations (T, 4), w first, if recorded; None without positions."""
    if "observation.position" not in episode.signals:
        seen = read_perceived(episode, POSE)
        return None if seen is None else (seen[:, :3], quaternions_of(seen[:, 3:]))
    position = np.asarray(episode.signals["observation.position"], np.float64)
    if "observation.orientation" not in episode.signals:
        return position, None
    turn = np.asarray(episode.signals["observation.orientation"], np.float64)
    return position, turn / np.maximum(np.linalg.norm(turn, axis=1, keepdims=True), 1e-9)


def quaternions_of(columns: Array) -> Array:
    """Orientations (T, 4), w first, from the first two columns of rotation matrices (T, 6)."""
    first = columns[:, :3] / np.maximum(np.linalg.norm(columns[:, :3], axis=1, keepdims=True), 1e-9)
    second = columns[:, 3:] - np.sum(columns[:, 3:] * first, axis=1, keepdims=True) * first
    second = second / np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-9)
    matrices = np.stack([first, second, np.cross(first, second)], axis=2)
    found = Rotation.from_matrix(matrices).as_quat(scalar_first=True)
    return np.asarray(found * np.where(found[:, :1] < 0.0, -1.0, 1.0))
