"""A twin with its roles resolved: which elements of the state belong to which part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import mujoco
import numpy as np

from twinloop.episode import Array, Signal
from twinloop.errors import InvalidTwin
from twinloop.tasks.sensors import Sensors, find_sensors
from twinloop.twins import Twin


@dataclass(frozen=True, eq=False)
class Cell:
    """Addresses of a twin's parts in the state of its model.

    Actuator k sits at the sum of `weights[k] * qpos[addresses[k]]`, at most two joints: a hinge or slide, or a tendon
    that couples two fingers. `arm` lists the actuators that move the tool, `gripper` is the one that opens and closes.
    Addresses are None where the twin has no such part. `sensors` are the force, torque and inertial ones.
    """

    twin: Twin
    actuators: tuple[str, ...]
    turning: Array
    qpos_addresses: Array
    dof_addresses: Array
    weights: Array
    control_low: Array
    control_high: Array
    arm: Array
    gripper: int | None
    object_qpos: int | None
    object_dof: int | None
    target_mocap: int | None
    robot_root: str | None
    sensors: tuple[Sensors, ...] = ()

    @property
    def model(self) -> mujoco.MjModel:
        """The model as written; read only."""
        return self.twin.patch.model

    @property
    def dt_s(self) -> float:
        """Time between two control steps."""
        return 1.0 / self.twin.control_hz

    def positions(self, qpos: Array) -> Array:
        """Actuator positions (N, actuators) from qpos (N, nq)."""
        return _weighted(qpos, self.qpos_addresses, self.weights)

    def velocities(self, qvel: Array) -> Array:
        """Actuator velocities (N, actuators) from qvel (N, nv)."""
        return _weighted(qvel, self.dof_addresses, self.weights)

    def actuator_signal(self, name: str, suffix: str, turning: str, sliding: str) -> Signal:
        """A signal with one element per actuator, in the unit of joints that turn or slide."""
        units = tuple(turning if turns else sliding for turns in self.turning)
        elements = tuple(f"{actuator}.{suffix}" for actuator in self.actuators)
        return Signal(name, (max(1, len(elements)),), units or ("1",), elements=elements)

    def observed_actuators(self) -> list[Signal]:
        """Positions, velocities and efforts of the actuators; none without actuators."""
        if not self.actuators:
            return []
        return [
            self.actuator_signal("observation.state", "pos", "rad", "m"),
            self.actuator_signal("observation.velocity", "vel", "rad/s", "m/s"),
            self.actuator_signal("observation.effort", "effort", "N·m", "N"),
        ]

    def observed_scene(self) -> list[Signal]:
        """The object as perceived, then the target; none without either.

        Orientation is two columns of the rotation matrix: no jumps.
        """
        elements, units = [], []
        if self.object_qpos is not None:
            elements += [f"object.{axis}" for axis in "xyz"]
            elements += [f"object.r{row}{column}" for column in "12" for row in "123"]
            units += ["m"] * 3 + ["1"] * 6
        if self.target_mocap is not None:
            elements += [f"target.{axis}" for axis in "xyz"]
            units += ["m"] * 3
        if not elements:
            return []
        signal = Signal(
            "observation.environment_state", (len(units),), tuple(units), elements=tuple(elements)
        )
        return [signal]


class _ByHash:
    """A twin that compares by content, so that equal twins share one cell."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    def __hash__(self) -> int:
        return hash(self.twin.content_hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByHash) and other.twin.content_hash == self.twin.content_hash


def make_cell(twin: Twin) -> Cell:
    """Resolve the parts of a twin; equal twins share one cell."""
    return _resolve(_ByHash(twin))


@lru_cache(maxsize=32)
def _resolve(holder: _ByHash) -> Cell:
    twin = holder.twin
    model = twin.patch.model
    rows = [_transmission(model, index) for index in range(model.nu)]
    names = tuple(model.actuator(index).name for index in range(model.nu))
    joints = np.array([row[0] for row in rows], dtype=np.int64).reshape(-1, 2)
    gripper = names.index(twin.role("gripper")) if "gripper" in twin.roles else None
    ranges = np.asarray(model.actuator_ctrlrange).reshape(-1, 2)
    limited = np.asarray(model.actuator_ctrllimited).astype(bool)
    object_joint = None
    if "object" in twin.roles:
        object_joint = int(model.body(twin.role("object")).jntadr[0])
        if object_joint < 0 or model.jnt_type[object_joint] != mujoco.mjtJoint.mjJNT_FREE:
            raise InvalidTwin(
                f"twin {twin.name!r}: the object cannot move freely", expected="a body with a freejoint"
            )
    mocap = int(model.body(twin.role("target")).mocapid[0]) if "target" in twin.roles else None
    if mocap is not None and mocap < 0:
        raise InvalidTwin(
            f"twin {twin.name!r}: the target cannot be placed",
            got=f"the body {twin.role('target')!r}",
            expected='a body of the world with mocap="true"',
        )
    return Cell(
        twin=twin,
        actuators=names,
        turning=np.array([model.jnt_type[j[0]] == mujoco.mjtJoint.mjJNT_HINGE for j, _ in rows], dtype=bool),
        qpos_addresses=np.asarray(model.jnt_qposadr)[joints],
        dof_addresses=np.asarray(model.jnt_dofadr)[joints],
        weights=np.array([row[1] for row in rows], dtype=np.float64).reshape(-1, 2),
        control_low=np.where(limited, ranges[:, 0], -np.inf),
        control_high=np.where(limited, ranges[:, 1], np.inf),
        arm=np.array([index for index in range(model.nu) if index != gripper], dtype=np.int64),
        gripper=gripper,
        object_qpos=None if object_joint is None else int(model.jnt_qposadr[object_joint]),
        object_dof=None if object_joint is None else int(model.jnt_dofadr[object_joint]),
        target_mocap=mocap,
        robot_root=_robot_root(twin),
        sensors=find_sensors(model),
    )


def _transmission(model: mujoco.MjModel, actuator: int) -> tuple[tuple[int, int], tuple[float, float]]:
    """The joints an actuator moves, and their weights."""
    first = int(model.actuator_trnid[actuator, 0])
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
        return (first, first), (1.0, 0.0)
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_TENDON:
        start, count = int(model.tendon_adr[first]), int(model.tendon_num[first])
        wraps = range(start, start + count)
        if count <= 2 and all(model.wrap_type[w] == mujoco.mjtWrap.mjWRAP_JOINT for w in wraps):
            joints = [int(model.wrap_objid[w]) for w in wraps] + [int(model.wrap_objid[start])]
            weights = [float(model.wrap_prm[w]) for w in wraps] + [0.0]
            return (joints[0], joints[1]), (weights[0], weights[1])
    raise InvalidTwin(
        f"actuator {model.actuator(actuator).name!r} does not drive a joint",
        expected="a joint, or a fixed tendon over at most two joints",
    )


def _robot_root(twin: Twin) -> str | None:
    """The body that the robot hangs from: the outermost one above the tool."""
    if "tool" not in twin.roles:
        return None
    model = twin.patch.model
    body = int(model.site(twin.role("tool")).bodyid[0])
    while model.body_parentid[body] != 0:
        body = int(model.body_parentid[body])
    return str(model.body(body).name)


def _weighted(state: Array, addresses: Array, weights: Array) -> Array:
    first: Array = state[:, addresses[:, 0]] * weights[:, 0]
    coupled = np.flatnonzero(weights[:, 1])
    if len(coupled):
        first[:, coupled] += state[:, addresses[coupled, 1]] * weights[coupled, 1]
    return first
