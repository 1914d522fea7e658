"""Physical limits of what was identified: a value beyond them absorbs an error of the model."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.twins import Twin


def find_impossible(twin: Twin) -> list[str]:
    """What the object of a calibrated twin cannot be: more inert than a hollow box around its shape."""
    if "object" not in twin.roles:
        return []
    model = twin.make_model()
    body = int(model.body(twin.role("object")).id)
    edges = bounding_edges_m(model, body)
    if edges is None:
        return []
    largest = float(np.max(model.body_inertia[body]))
    possible = float(model.body_mass[body] * hollow_gyration_m2(edges).max())
    if largest <= possible:
        return []
    return [
        f"the object's inertia, {largest:.3g} kg m², is more than a hollow box of its size and mass has ({possible:.3g}): "
        "it absorbs an error of the model"
    ]


def bounding_edges_m(model: mujoco.MjModel, body: int) -> Array | None:
    """Edges (3,) of the box around the shapes of a body, along its own axes; None for a body without a shape."""
    first = int(model.body_geomadr[body])
    corners = []
    for geom in range(first, first + int(model.body_geomnum[body])):
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        center, half = np.split(np.asarray(model.geom_aabb[geom]), 2)
        for signs in itertools.product((-1.0, 1.0), repeat=3):
            corners.append(model.geom_pos[geom] + turn.reshape(3, 3) @ (center + np.array(signs) * half))
    return np.ptp(corners, axis=0) if corners else None


def hollow_gyration_m2(edges: Array) -> Array:
    """Moments of inertia over mass, (3,), about the axes of a box with these edges (3,) whose mass is all in its surface."""
    areas = edges.prod() / edges  # of one of the two faces across each axis
    squares = edges**2 * (areas / 2.0 + (areas.sum() - areas) / 6.0) / (2.0 * areas.sum())
    return np.asarray(squares.sum() - squares)
