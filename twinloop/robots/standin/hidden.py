"""The hidden model: the twin's with a reality's object, links, table and surfaces."""

from __future__ import annotations

import math
from collections.abc import Mapping

import mujoco
import numpy as np

from twinloop.engines.world import Surface, World, body_friction, usual_friction_root
from twinloop.episode import Array
from twinloop.robots.standin.effects import Contact, Environment, Object
from twinloop.robots.standin.reality import Reality
from twinloop.tasks import Cell
from twinloop.twins import Twin

PLACED = frozenset(f"{what}_offset_{axis}_m" for what in ("object", "target") for axis in "xy") | {
    "object_yaw_rad"
}
"""What a person places."""
PLACING_ERROR_M, PLACING_ERROR_RAD = 0.003, 0.05
"""Standard deviations of how well a person places what a ghost image shows; assumed, not measured on people."""


def make_hidden_model(cell: Cell, reality: Reality) -> mujoco.MjModel:
    """The twin's model with this reality's masses, sizes and slopes."""
    twin = cell.twin
    model = twin.make_model()
    if "object" in twin.roles:
        _change_object(model, int(model.body(twin.role("object")).id), reality.object)
    if "table" in twin.roles:
        _change_table(model, int(model.body(twin.role("table")).id), reality.environment)
    for body in arm_bodies(cell, model):
        model.body_mass[body] *= reality.actuation.link_mass_scale
        model.body_inertia[body] *= reality.actuation.link_mass_scale
    return model


def arm_bodies(cell: Cell, model: mujoco.MjModel) -> list[int]:
    """Bodies moved by actuators, directly or because they hang from one that is."""
    driven = {int(model.dof_bodyid[dof]) for dof in cell.dof_addresses.ravel()}
    moved: list[int] = []
    for body in range(1, model.nbody):  # parents come before their children
        if body in driven or int(model.body_parentid[body]) in moved:
            moved.append(body)
    return moved


def set_surfaces(world: World, cell: Cell, contact: Contact) -> None:
    """Write frictions so that each pair of bodies has the friction MuJoCo would give it.

    The engines multiply the frictions of two bodies; see `twinloop.engines.world.twin_surfaces`. Restitution is treated the same way.
    """
    model, twin = world.model, cell.twin
    touching = [body for body in range(model.nbody) if body_friction(model, body) is not None]
    target = int(model.body(twin.role("object")).id) if "object" in twin.roles else -1
    table = int(model.body(twin.role("table")).id) if "table" in twin.roles else -1
    others = [body for body in touching if body != target]
    root = usual_friction_root(model, target)
    bounce = math.sqrt(contact.restitution)
    arm = set(arm_bodies(cell, model))
    for body in others:
        scale = contact.finger_friction_scale if body in arm else 1.0
        scale = contact.table_friction_scale if body == table else scale
        soft = body in arm and contact.stiffness_n_m > 0.0
        surface = Surface(
            friction=root * scale,
            restitution=bounce,
            stiffness_n_m=contact.stiffness_n_m if soft else None,
            damping_n_s_m=contact.damping_n_s_m if soft else None,
        )
        world.set_surface([body], surface)
    own = body_friction(model, target) if target in touching else None
    if own is not None:
        friction = own[0] if contact.friction is None else contact.friction
        torsional = own[1] if contact.torsional_friction_m is None else contact.torsional_friction_m
        world.set_surface([target], Surface(friction / root, torsional, bounce))


def table_surface(cell: Cell, contact: Contact, model: mujoco.MjModel, place: Array) -> Surface:
    """The table top where the object lies: patches of `patch_size_m` like a chess board."""
    body = int(model.body(cell.twin.role("table")).id)
    own = body_friction(model, body)
    root = math.sqrt(max(own[0] if own else 1.0, 1e-6))
    odd = sum(math.floor(float(x) / contact.patch_size_m) for x in place[:2]) % 2
    return Surface(root * contact.table_friction_scale * (contact.patch_friction_scale if odd else 1.0))


def table_rise_m(environment: Environment, place: Array, pivot: Array) -> float:
    """How much higher a tilted table is at `place` than at its middle."""
    away = float(
        (place[0] - pivot[0]) * math.cos(environment.table_tilt_direction_rad)
        + (place[1] - pivot[1]) * math.sin(environment.table_tilt_direction_rad)
    )
    return -away * math.tan(environment.table_tilt_rad)


def table_pivot(cell: Cell, model: mujoco.MjModel) -> Array:
    """The middle of the table top: where it is tilted about."""
    body = model.body(cell.twin.role("table"))
    geom = int(body.geomadr[0])
    return np.asarray(body.pos) + (np.asarray(model.geom_pos[geom]) * [1.0, 1.0, 0.0] if geom >= 0 else 0.0)


def _change_object(model: mujoco.MjModel, body: int, effects: Object) -> None:
    model.body_mass[body] *= effects.mass_scale
    model.body_inertia[body] *= effects.mass_scale * effects.inertia_scale * effects.size_scale**2
    model.body_ipos[body] += (effects.center_x_m, effects.center_y_m, effects.center_z_m)
    first = int(model.body_geomadr[body])
    geoms = slice(first, first + int(model.body_geomnum[body]))
    model.geom_size[geoms] *= effects.size_scale
    model.geom_pos[geoms] *= effects.size_scale


def _change_table(model: mujoco.MjModel, body: int, environment: Environment) -> None:
    first = int(model.body_geomadr[body])
    middle = np.asarray(model.geom_pos[first]) * [1.0, 1.0, 0.0] if first >= 0 else np.zeros(3)
    direction = environment.table_tilt_direction_rad
    turn, turned, place = np.empty(4), np.empty(4), np.empty(3)
    axis = np.array([-math.sin(direction), math.cos(direction), 0.0])
    mujoco.mju_axisAngle2Quat(turn, axis, environment.table_tilt_rad)
    # Turned about the middle of its top, so that height and tilt are two things.
    mujoco.mju_mulQuat(turned, turn, np.asarray(model.body_quat[body]))
    mujoco.mju_rotVecQuat(place, middle, turned)
    model.body_quat[body] = turned
    model.body_pos[body] += middle - place + [0.0, 0.0, environment.table_height_m]


def placed_values(twin: Twin, asked: Mapping[str, float], rng: np.random.Generator) -> dict[str, float]:
    """Where a person puts things who is asked for `asked`: a few millimetres off, within what the twin allows."""
    values: dict[str, float] = {}
    for name in sorted(set(asked) & PLACED):
        if twin.has(name):
            spread = PLACING_ERROR_M if name.endswith("_m") else PLACING_ERROR_RAD
            low, high = twin.parameter(name).bounds
            values[name] = float(np.clip(asked[name] + rng.normal(0.0, spread), low, high))
    return values


def start_values(twin: Twin, environment: Environment, rng: np.random.Generator) -> dict[str, float]:
    """Start positions that a person gives object and target before an episode: within a disc, with a random yaw."""
    values: dict[str, float] = {}
    for what, reach in (("object", environment.object_scatter_m), ("target", environment.target_scatter_m)):
        radius, angle = reach * math.sqrt(rng.random()), rng.uniform(-math.pi, math.pi)
        values[f"{what}_offset_x_m"] = radius * math.cos(angle)
        values[f"{what}_offset_y_m"] = radius * math.sin(angle)
    values["object_yaw_rad"] = float(rng.uniform(-1.0, 1.0)) * environment.object_turn_rad
    values["clutter_count"] = float(min(environment.clutter_count, len(twin.distractors)))
    values["clutter_layout"] = float(rng.integers(10_000))
    return {name: value for name, value in values.items() if twin.has(name)}
