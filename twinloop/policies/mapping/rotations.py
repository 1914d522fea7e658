"""Layouts of rotations: the numbers that a policy uses, and rotation matrices (n, 3, 3), both ways."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation as Turn

from twinloop.episode import Array
from twinloop.errors import PolicyGone
from twinloop.policies.mapping.interface_map import Rotation

SIZES: dict[Rotation, int] = {
    "quaternion_wxyz": 4,
    "quaternion_xyzw": 4,
    "rotation_vector": 3,
    "matrix_6d": 6,
    "euler_xyz": 3,
    "euler_zyx": 3,
    "matrix": 9,
}
"""How many numbers each layout has."""

SMALLEST = 1e-6
"""A quaternion or column shorter than this has no direction."""


def rotation_to_numbers(matrices: Array, layout: Rotation) -> Array:
    """Write rotations as a policy wants them.

    Args:
        matrices: Rotation matrices (n, 3, 3).
        layout: How they are written; angles in rad.

    Returns:
        Numbers (n, size); of the two quaternions of a rotation the one with positive w.
    """
    if layout == "matrix":
        return matrices.reshape(-1, 9)
    if layout == "matrix_6d":
        return np.concatenate([matrices[:, :, 0], matrices[:, :, 1]], axis=1)
    turn = Turn.from_matrix(matrices)
    if layout == "rotation_vector":
        return np.asarray(turn.as_rotvec())
    if layout == "quaternion_wxyz":
        return np.asarray(turn.as_quat(canonical=True, scalar_first=True))
    if layout == "quaternion_xyzw":
        return np.asarray(turn.as_quat(canonical=True))
    return np.asarray(turn.as_euler(layout.removeprefix("euler_")))


def rotation_from_numbers(numbers: Array, layout: Rotation) -> Array:
    """Read rotations as a policy gives them; quaternions and matrices need not be exactly normal.

    Args:
        numbers: Numbers (n, size).
        layout: What they mean; angles in rad.

    Returns:
        Rotation matrices (n, 3, 3).

    Raises:
        PolicyGone: A quaternion or column is zero.
    """
    numbers = np.asarray(numbers, np.float64)
    if layout.startswith("matrix"):
        return _orthonormal(numbers, layout)
    if layout.startswith("quaternion"):
        _require_length(numbers, layout)
        return np.asarray(Turn.from_quat(numbers, scalar_first=layout == "quaternion_wxyz").as_matrix())
    if layout == "rotation_vector":
        return np.asarray(Turn.from_rotvec(numbers).as_matrix())
    return np.asarray(Turn.from_euler(layout.removeprefix("euler_"), numbers).as_matrix())


def _orthonormal(numbers: Array, layout: Rotation) -> Array:
    """Matrices from their first two columns, by Gram and Schmidt (Zhou et al. 2019)."""
    if layout == "matrix":
        columns = numbers.reshape(-1, 3, 3)
        first, second = columns[:, :, 0], columns[:, :, 1]
    else:
        first, second = numbers[:, :3], numbers[:, 3:]
    _require_length(first, layout)
    x = first / np.linalg.norm(first, axis=1, keepdims=True)
    rest = second - (x * second).sum(axis=1, keepdims=True) * x
    _require_length(rest, layout)
    y = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    return np.stack([x, y, np.cross(x, y)], axis=2)


def _require_length(vectors: Array, layout: Rotation) -> None:
    if (np.linalg.norm(vectors, axis=1) < SMALLEST).any():
        raise PolicyGone(
            "the policy gave a rotation without a direction",
            got=f"zeros where a {layout} should be",
            remedy="check `rotation` and the order of the parts in the map",
        )
