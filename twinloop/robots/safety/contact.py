"""Contact as a robot feels it: a force sensor, or joint torques beyond what the twin expects in this pose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from twinloop.episode import Array, Signal
from twinloop.errors import RobotError
from twinloop.experts.kinematics import Arm
from twinloop.robots.protocol import Description, Observation
from twinloop.tasks import Cell

GAIN_HZ = 15.0
"""Of the momentum observer, 1/s: torque from outside shows with a time constant of 67 ms."""
MAX_GAP_S = 0.2
"""Time between two observations after which the observer begins anew."""
CREEP = 0.05
"""Speed below which friction is not yet all there, rad/s or m/s."""
DAMPING = 0.1
"""Of the least squares that turn joint torques into a force at the tool, m: near a singular pose torques say little about it."""


class ForceGuard:
    """Finds too much force in a force sensor's signal; its elements are x, y and z of one sensor after the other."""

    def __init__(self, description: Description, signal: str, force_n: float) -> None:
        self._signal, self._force_n = signal, force_n
        declared = _require_signal(description, signal)
        if declared.size % 3:
            raise RobotError(f"{signal} is no force", got=f"{declared.size} elements", expected="x, y and z")

    def restart(self) -> None:
        """Nothing to forget."""

    def find(self, observation: Observation) -> str | None:
        """What was too much, or None."""
        values = np.asarray(observation.signals[self._signal], np.float64).reshape(-1, 3)
        force_n = float(np.linalg.norm(values, axis=1).max())
        if not np.isfinite(force_n) or force_n > self._force_n:
            return f"force {force_n:.0f} N in {self._signal}, limit {self._force_n:g} N"
        return None


class TorqueGuard:
    """Finds torque from outside, which neither gravity nor motion explains: joint by joint, and as a force at the tool.

    A momentum observer (De Luca and Mattone, ICRA 2003) integrates what the twin expects of the measured torques and compares it with
    the momentum of the joints as they move, so that no acceleration has to be measured. Friction and damping are the twin's.

    Args:
        description: The robot.
        signal: Its joint torques, as many as its action has elements.
        cell: The twin, as identified, which says what to expect.
        joints: By actuator of the twin, the element of the command that moves it.
        scale: What a unit of each element is in rad or m, (A,).
        torque_nm: Limits by actuator.
        force_n: Limit of the force at the tool; infinite without one.
    """

    def __init__(
        self,
        description: Description,
        signal: str,
        cell: Cell,
        joints: Sequence[int],
        scale: Array,
        torque_nm: Mapping[str, float],
        force_n: float,
    ) -> None:
        if _require_signal(description, signal).size != description.action.size:
            raise RobotError(f"{signal} does not have one torque for each joint")
        self._signal, self._position_signal, self._cell = signal, description.position_signal, cell
        self._columns, self._scale, self._force_n = np.asarray(joints), scale, force_n
        model = cell.twin.make_model()
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self._model, self._data = model, mujoco.MjData(model)
        self._direct = np.flatnonzero((cell.weights[:, 1] == 0.0) & (self._columns >= 0))
        self._dofs = cell.dof_addresses[self._direct, 0]
        self._arm = Arm(cell) if "tool" in cell.twin.roles else None
        self._limits = np.full(len(cell.actuators), np.inf)
        for name, limit in torque_nm.items():
            if name not in cell.actuators:
                raise RobotError(
                    f"twin {cell.twin.name!r} has no such joint", got=name, available=cell.actuators
                )
            self._limits[cell.actuators.index(name)] = limit
        self.restart()

    def restart(self) -> None:
        """Forget what was seen: the robot may be anywhere."""
        self._before: tuple[float, Array, Array] | None = None
        self._sum = np.zeros(len(self._direct))
        self.beyond = np.zeros(len(self._cell.actuators))

    def find(self, observation: Observation) -> str | None:
        """What was too much, or None."""
        torque = np.asarray(observation.signals[self._signal], np.float64)[self._columns[self._direct]]
        joints = self._positions(observation)
        if not (np.isfinite(torque).all() and np.isfinite(joints).all()):
            return f"{self._signal} or {self._position_signal} is not finite"
        self._update(observation.time_s, joints, torque)
        over = np.abs(self.beyond) - self._limits
        worst = int(np.argmax(over))
        if over[worst] > 0.0:
            name, limit = self._cell.actuators[worst], self._limits[worst]
            return f"torque on {name} from outside: {self.beyond[worst]:+.1f} N·m, limit {limit:g} N·m"
        if self._arm is None or not np.isfinite(self._force_n):
            return None
        across = self._arm.tool_jacobian(joints[self._arm.actuators][None])[1][0, :3]
        square = across @ across.T + DAMPING**2 * np.eye(3)
        force_n = float(np.linalg.norm(np.linalg.solve(square, across @ self.beyond[self._arm.actuators])))
        return (
            f"force {force_n:.0f} N at the tool, limit {self._force_n:g} N"
            if force_n > self._force_n
            else None
        )

    def _positions(self, observation: Observation) -> Array:
        reading = np.asarray(observation.signals[self._position_signal], np.float64)
        return np.asarray((reading * self._scale)[self._columns])

    def _update(self, time_s: float, joints: Array, torque: Array) -> None:
        """One step of the observer: `beyond` (actuators,) is the torque from outside, filtered."""
        before = self._before
        if before is None or time_s <= before[0]:
            self._before = self._before or (time_s, joints, np.zeros(0))
            return
        passed_s = time_s - before[0]
        velocity = (joints - before[1])[self._direct] / passed_s
        inertia, expected = self._look(joints, velocity)
        momentum = inertia @ velocity
        if len(before[2]) == 0 or passed_s > MAX_GAP_S:
            self._sum = momentum - self.beyond[self._direct] / GAIN_HZ
            self._before = (time_s, joints, inertia.ravel())
            return
        turned = (inertia - before[2].reshape(inertia.shape)) @ velocity
        self._sum = self._sum + passed_s * (torque - expected + self.beyond[self._direct]) + turned
        self.beyond[self._direct] = GAIN_HZ * (momentum - self._sum) / (1.0 + GAIN_HZ * passed_s)
        self._before = (time_s, joints, inertia.ravel())

    def _look(self, joints: Array, velocity: Array) -> tuple[Array, Array]:
        """Inertia (D, D) of the joints, and the torques (D,) that gravity, speed, damping and friction ask for."""
        model, data, dofs = self._model, self._data, self._dofs
        data.qpos[:], data.qvel[:] = model.qpos0, 0.0
        data.qpos[self._cell.qpos_addresses[self._direct, 0]] = joints[self._direct]
        data.qvel[dofs] = velocity
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        friction = model.dof_frictionloss[dofs] * np.tanh(velocity / CREEP)
        expected = data.qfrc_bias[dofs] - data.qfrc_passive[dofs] + friction
        return full[np.ix_(dofs, dofs)], expected


def _require_signal(description: Description, name: str) -> Signal:
    for signal in description.signals:
        if signal.name == name:
            return signal
    raise RobotError(
        "the robot does not report the signal of the contact limit",
        got=name,
        available=[signal.name for signal in description.signals],
        remedy="name one that it reports, or override `contact` with who decided that and why",
    )
