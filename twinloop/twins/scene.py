"""The initial state of episodes: joints at home, object, target and distractors placed; batched and pure.

Parameters of stage `scene` are read here. Clutter is laid out from the whole number `clutter_layout`, which is drawn
and recorded like any other parameter, so that a layout is reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.twins.parameter import Parameter, Target
from twinloop.twins.twin import Twin

CLEARANCE_M = 0.14
"""Distance a distractor keeps from object and target: the gripper is 20 cm wide and must fit."""


OCCLUDER = "occluder"
"""The bottle that occludes the object: visual only."""


@dataclass(frozen=True)
class InitialState:
    """What to write into n simulations: qpos (n, nq), ctrl (n, nu), mocap_pos (n, nmocap, 3)."""

    qpos: Array
    ctrl: Array
    mocap_pos: Array


def target_parameters(*, in_the_air: bool = False) -> tuple[Parameter, ...]:
    """The place of the target, on the table or in the air."""
    axes = "xyz" if in_the_air else "xy"
    return tuple(
        _scene(f"target_offset_{axis}_m", 0.0, -0.2, 0.2, "m", f"target, along {axis} from its nominal place")
        for axis in axes
    )


def scene_parameters(distractors: int, *, occluder: bool = False) -> tuple[Parameter, ...]:
    """Poses of object and target, disturbances, occlusion and clutter."""
    parameters: tuple[Parameter, ...] = (
        _scene("object_offset_x_m", 0.0, -0.2, 0.2, "m", "object's start, along x from its nominal place"),
        _scene("object_offset_y_m", 0.0, -0.2, 0.2, "m", "object's start, along y from its nominal place"),
        _scene("object_yaw_rad", 0.0, -math.pi, math.pi, "rad", "object's start, turn about the vertical"),
        *target_parameters(),
        _scene("push_force_n", 0.0, 0.0, 50.0, "N", "force of one push on the object"),
        _scene("push_time_s", 1.0, 0.0, 60.0, "s", "time of the push"),
        _scene(
            "push_direction_rad", 0.0, -math.pi, math.pi, "rad", "direction of the push about the vertical"
        ),
        _scene("vibration_m", 0.0, 0.0, 0.005, "m", "amplitude of the table's vibration"),
        _scene("vibration_hz", 10.0, 0.5, 60.0, "Hz", "frequency of the table's vibration"),
        *(
            Parameter(
                f"wind_{axis}_m_s2",
                0.0,
                (-50.0, 50.0),
                "m/s²",
                "environment",
                description=f"steady acceleration of everything along {axis}, as by wind",
                targets=(Target("opt.gravity", (), (index,), "add"),),
            )
            for index, axis in enumerate("xy")
        ),
    )
    if occluder:
        text = "fraction of the object's height that a bottle occludes from the first camera"
        parameters = (*parameters, _scene("occlusion", 0.0, 0.0, 1.0, "1", text))
    if not distractors:
        return parameters
    return (
        *parameters,
        _scene("clutter_count", 0, 0, distractors, "1", "distractors on the table", whole=True),
        _scene("clutter_layout", 0, 0, 9999, "1", "which layout of the distractors", whole=True),
    )


def _scene(
    name: str, nominal: float, low: float, high: float, unit: str, text: str, whole: bool = False
) -> Parameter:
    return Parameter(name, nominal, (low, high), unit, "environment", "scene", text, whole=whole)


def initial_state(twin: Twin, values: Mapping[str, Any], count: int) -> InitialState:
    """Compute the initial state of `count` episodes.

    Args:
        twin: the cell.
        values: parameter name to a number, or an array (count,); others are nominal.
        count: number of episodes.

    Returns:
        qpos (count, nq), ctrl (count, nu) and mocap_pos (count, nmocap, 3).
    """
    model = twin.patch.model
    number = _numbers(twin, values, count)
    qpos = np.tile(np.asarray(model.qpos0), (count, 1))
    for joint, position in twin.home.items():
        qpos[:, model.joint(joint).qposadr[0]] = position
    height_m = number("table_height_m")
    mocap = np.tile(_mocap_start(model), (count, 1, 1))
    occupied = []
    if "target" in twin.roles:
        body = model.body(twin.role("target"))
        place = _place(body.pos, number, "target", height_m, 1.0)
        if body.mocapid[0] >= 0:
            mocap[:, body.mocapid[0]] = place
        occupied.append(place)
    if "object" in twin.roles:
        body = model.body(twin.role("object"))
        place = _place(body.pos, number, "object", height_m, _size_ratio(twin, number))
        yaw = number("object_yaw_rad")
        start = int(model.jnt_qposadr[body.jntadr[0]])
        qpos[:, start : start + 3] = place
        qpos[:, start + 3 : start + 7] = _turned(np.asarray(body.quat), yaw)
        occupied.append(place)
        if twin.has("occlusion"):
            bottle = model.body(OCCLUDER)
            hidden = number("occlusion")
            shown = _occluding(twin, place, height_m, hidden)
            mocap[:, bottle.mocapid[0]] = np.where(hidden[:, None] > 0.0, shown, bottle.pos)
    if twin.distractors:
        _place_distractors(twin, qpos, occupied, number("clutter_count"), number("clutter_layout"))
    return InitialState(qpos, _controls(model, qpos), mocap)


def _numbers(twin: Twin, values: Mapping[str, Any], count: int) -> Any:
    def number(name: str) -> Array:
        fallback = twin.parameter(name).nominal if twin.has(name) else 0.0
        return np.broadcast_to(np.asarray(values.get(name, fallback), np.float64), (count,))

    return number


def _place(pos: Array, number: Any, what: str, height_m: Array, size_ratio: float | Array) -> Array:
    x = pos[0] + number(f"{what}_offset_x_m")
    y = pos[1] + number(f"{what}_offset_y_m")
    z = height_m + pos[2] * size_ratio + number(f"{what}_offset_z_m")
    return np.stack([x, y, z], axis=-1)


def _occluding(twin: Twin, place: Array, height_m: Array, hidden: Array) -> Array:
    """Where the bottle stands, (n, 3): its top on the line from the camera to the edge of what is hidden."""
    model = twin.patch.model
    bottle = model.body(OCCLUDER)
    half_m = float(model.geom_size[int(bottle.geomadr[0]), 1])
    edge = place.copy()
    edge[:, 2] = height_m + hidden * 2.0 * (place[:, 2] - height_m)
    towards = np.asarray(model.camera(twin.cameras[0].name).pos) - edge
    share = (height_m + 2.0 * half_m - edge[:, 2]) / towards[:, 2]
    spot = edge + share[:, None] * towards
    spot[:, 2] = height_m + half_m
    return np.asarray(spot)


def _size_ratio(twin: Twin, number: Any) -> float | Array:
    """Object size over the size the MJCF was drawn with: a larger object's centre starts higher."""
    if not twin.has("object_size_m"):
        return 1.0
    reference = twin.parameter("object_size_m").targets[0].reference
    return np.asarray(number("object_size_m") / reference)


def _turned(quat: Array, yaw: Array) -> Array:
    """Turn `quat` about the world's vertical, (n, 4)."""
    w, z = np.cos(yaw / 2.0), np.sin(yaw / 2.0)
    a, b, c, d = quat
    return np.stack([w * a - z * d, w * b - z * c, w * c + z * b, w * d + z * a], axis=-1)


def _mocap_start(model: mujoco.MjModel) -> Array:
    bodies = [int(b) for b in np.argsort(model.body_mocapid) if model.body_mocapid[b] >= 0]
    return np.asarray(model.body_pos)[bodies].reshape(-1, 3)


def _controls(model: mujoco.MjModel, qpos: Array) -> Array:
    """Position commands that hold `qpos`: each servo's target is its joint's position, or its tendon's length."""
    ctrl = np.zeros((len(qpos), model.nu))
    for index in range(model.nu):
        start = int(model.actuator_trnid[index, 0])
        if model.actuator_trntype[index] == mujoco.mjtTrn.mjTRN_JOINT:
            ctrl[:, index] = qpos[:, model.jnt_qposadr[start]]
        elif model.actuator_trntype[index] == mujoco.mjtTrn.mjTRN_TENDON:
            first = int(model.tendon_adr[start])
            for wrap in range(first, first + int(model.tendon_num[start])):
                if model.wrap_type[wrap] == mujoco.mjtWrap.mjWRAP_JOINT:
                    ctrl[:, index] += (
                        model.wrap_prm[wrap] * qpos[:, model.jnt_qposadr[model.wrap_objid[wrap]]]
                    )
        if model.actuator_gainprm[index, 0] + model.actuator_biasprm[index, 1] != 0.0:
            ctrl[:, index] = 0.0
    return ctrl


def _place_distractors(twin: Twin, qpos: Array, occupied: list[Array], counts: Array, layouts: Array) -> None:
    model = twin.patch.model
    joints = [
        [model.joint(f"{name}_{axis}").qposadr[0] for axis in ("x", "y", "turn")] for name in twin.distractors
    ]
    parked = np.array([model.body(name).pos[:2] for name in twin.distractors])
    for row in np.flatnonzero(counts > 0):
        rng = np.random.Generator(np.random.Philox(key=int(layouts[row])))
        taken = [place[row, :2] for place in occupied]
        for index in range(int(counts[row])):
            spot = _free_spot(rng, taken)
            taken.append(spot)
            x, y, turn = joints[index]
            qpos[row, x], qpos[row, y] = spot - parked[index]
            qpos[row, turn] = rng.uniform(-math.pi, math.pi)


def _free_spot(rng: np.random.Generator, taken: list[Array]) -> Array:
    """A point of the work area that is clear of `taken`; the clearest of 50 when none is."""
    spots = rng.uniform((0.32, -0.32), (0.72, 0.32), (50, 2))
    clearance = np.min([np.linalg.norm(spots - other, axis=1) for other in taken], axis=0)
    clear = np.flatnonzero(clearance >= CLEARANCE_M)
    return np.asarray(spots[clear[0] if len(clear) else int(np.argmax(clearance))])
