"""Physics that every engine must get right, against answers on paper or in double precision.

Each requirement is measured through the engine door, in small models made for it; only positions of bodies and gravity torques are
asked of the engine itself (`ShowsMechanics`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from twinloop.engines import ENGINES, EngineOptions, make_engine
from twinloop.engines.protocol import ShowsMechanics
from twinloop.episode import Array
from twinloop.tasks import Cell, Start, make_cell, make_task
from twinloop.twins import Twin, load_twin, with_time_step

GRAVITY_M_S2 = 9.81
ONE = np.arange(1)
ARITHMETIC = {False: 1e-6, True: 1e-5}
"""Limits of relative errors: for engines that compute with 64 bits, and for those with 32."""


@dataclass(frozen=True)
class Requirement:
    """One requirement: what was measured, the limit that it must keep to, and its unit. `at_least` limits from below."""

    name: str
    measured: float
    limit: float
    unit: str
    about: str
    at_least: bool = False

    @property
    def ok(self) -> bool:
        """Whether the engine keeps to it."""
        return bool(self.measured >= self.limit if self.at_least else self.measured <= self.limit)


_ARM = """<mujoco model="odd_arm"><option timestep="0.001"/><compiler angle="radian"/><worldbody>
  <body pos="0.1 0.2 0.3" euler="0.3 -0.4 0.5"><inertial mass="1" pos="0 0 0.1" diaginertia="0.01 0.02 0.03"/>
    <body pos="0 0.1 0.2" euler="1 0.2 0"><joint name="turn" axis="0.6 0 0.8" pos="0.02 -0.03 0.05" range="-2 2" ref="0.3"/>
      <joint name="slide" type="slide" axis="0 1 0" range="-0.2 0.2"/>
      <inertial mass="0.7" pos="0.01 0.02 0.03" quat="0.9 0.1 0.3 0.2" diaginertia="0.004 0.005 0.006"/>
      <body pos="0.3 0 0" euler="0 1.5707963267948966 0"><joint name="wrist" axis="1 0 0" range="-1 1"/>
        <inertial mass="0.2" pos="0.01 0 0.02" diaginertia="0.001 0.001 0.001"/></body></body></body>
  </worldbody><actuator><position joint="turn" kp="50"/><position joint="slide" kp="50"/><position joint="wrist" kp="50"/></actuator>
  </mujoco>"""
_FALL = """<mujoco model="fall"><option timestep="{dt}"/><worldbody><body pos="0 0 10"><freejoint/>
  <geom type="sphere" size="0.05" mass="0.3"/></body></worldbody></mujoco>"""
_BLOCK = """<mujoco model="block"><option timestep="{dt}" cone="elliptic" impratio="10"/><worldbody>
  <geom type="plane" size="5 5 0.1" friction="{mu} 0 0"/>
  <body pos="0 0 0.05"><freejoint/><geom type="box" size="0.1 0.1 0.05" mass="1" friction="{mu} 0 0"/></body></worldbody></mujoco>"""
_BALL = """<mujoco model="ball"><option timestep="{dt}"/><worldbody><geom type="plane" size="5 5 0.1"/>
  <body pos="0 0 0.55"><freejoint/><geom type="sphere" size="0.05" mass="0.3" solref="0.01 1"/></body></worldbody></mujoco>"""
_SWING = """<mujoco model="swing"><option timestep="{dt}" integrator="RK4"/><compiler angle="radian"/><worldbody>
  <body pos="0 0 1"><joint name="upper" axis="0 1 0"/><inertial mass="0.5" pos="0 0 -0.15" diaginertia="0.004 0.004 0.0002"/>
    <body pos="0 0 -0.3"><joint name="lower" axis="0 1 0"/><inertial mass="0.3" pos="0 0 -0.15" diaginertia="0.002 0.002 0.0001"/>
    </body></body></worldbody></mujoco>"""


def measure_engine(name: str) -> tuple[Requirement, ...]:
    """Measure every requirement of an engine.

    Args:
        name: A registered engine.

    Returns:
        The requirements, each with what was measured.

    Raises:
        UnknownName: No engine has this name.
        MissingExtra: It is not installed.
    """
    return tuple(requirement for measure in MEASURES.values() for requirement in measure(name))


def _roll(name: str, twin: Twin, qpos: Array, qvel: Array, steps: int) -> tuple[Array, Array]:
    """States after each step of a model without actuators: (steps, nq) and (steps, nv)."""
    engine = make_engine(name, make_cell(twin), 1, options=EngineOptions(contacts=False))
    rolled = engine.roll(ONE, {}, (qpos[None], qvel[None]), np.zeros((1, steps, 0)))
    assert not rolled.diverged.any(), "an ordinary motion does not diverge"
    return rolled.qpos[0], rolled.qvel[0]


def mechanics(name: str) -> Iterator[Requirement]:
    """Bodies and gravity torques of two arms in odd poses, against MuJoCo in double precision."""
    far, torque, largest = 0.0, 0.0, 0.0
    for twin in (Twin("odd_arm", _ARM, control_hz=50.0), load_twin("franka_pick_place")):
        cell = make_cell(twin)
        engine, data = make_engine(name, cell, 1), mujoco.MjData(cell.model)
        assert isinstance(engine, ShowsMechanics), "an engine shows its mechanics"
        rng = np.random.default_rng(3)
        start = _pose(cell, rng)
        engine.load(ONE, {}, start)
        exact = twin.make_model()
        data.qpos[:] = start.qpos[0]
        mujoco.mj_forward(exact, data)
        for body, place in engine.mass_centres(0).items():
            far = max(far, float(np.abs(place - data.xipos[body]).max()))
        driven = set(cell.dof_addresses.ravel().tolist())
        for dof, found in engine.gravity_torques(0).items():
            if dof in driven:
                torque = max(torque, abs(found - float(data.qfrc_bias[dof])))
                largest = max(largest, abs(float(data.qfrc_bias[dof])))
    limit = ARITHMETIC[getattr(ENGINES.get(name), "single_precision", False)]
    yield Requirement("forward kinematics", far, 1e-6, "m", "largest error of a body's centre of mass")
    yield Requirement(
        "gravity torques", torque / largest, limit, "1", "largest error, as a fraction of the largest torque"
    )


def _pose(cell: Cell, rng: np.random.Generator) -> Start:
    model = cell.model
    qpos = np.array(model.qpos0)
    for dof in sorted(set(cell.dof_addresses.ravel().tolist())):
        joint = int(model.dof_jntid[dof])
        low, high = model.jnt_range[joint]
        qpos[model.jnt_qposadr[joint]] = rng.uniform(0.8 * low + 0.2 * high, 0.2 * low + 0.8 * high)
    mocap = np.array(mujoco.MjData(model).mocap_pos)[None]
    return Start(qpos[None], np.zeros((1, model.nv)), np.zeros((1, model.nu)), mocap)


def free_fall(name: str) -> Iterator[Requirement]:
    """A ball falls for half a second; an integrator of first order may be off by g t dt / 2."""
    dt_s, steps = 0.002, 250
    time_s = dt_s * steps
    twin = Twin("fall", _FALL.format(dt=dt_s), control_hz=50.0)
    qpos, qvel = _roll(name, twin, np.array(twin.patch.model.qpos0), np.zeros(6), steps)
    fallen = 10.0 - qpos[-1, 2]
    exact = 0.5 * GRAVITY_M_S2 * time_s**2
    yield Requirement(
        "free fall, way",
        abs(fallen - exact),
        1.02 * 0.5 * GRAVITY_M_S2 * time_s * dt_s,
        "m",
        "error after 0.5 s",
    )
    yield Requirement(
        "free fall, speed", abs(-qvel[-1, 2] - GRAVITY_M_S2 * time_s), 1e-4, "m/s", "error after 0.5 s"
    )


def sliding(name: str) -> Iterator[Requirement]:
    """A block slides to a stop: v^2 / (2 mu g)."""
    for mu in (0.2, 0.6):
        dt_s = 0.002
        twin = Twin("block", _BLOCK.format(dt=dt_s, mu=mu), control_hz=50.0)
        speed = np.zeros(6)
        speed[0] = 1.0
        qpos, _ = _roll(name, twin, np.array(twin.patch.model.qpos0), speed, 400)
        exact = 1.0 / (2.0 * mu * GRAVITY_M_S2)
        yield Requirement(
            f"sliding block, friction {mu:g}",
            abs(qpos[-1, 0] - exact) / exact,
            0.03,
            "1",
            "relative error of its way",
        )
        creep = abs(float(qpos[-1, 0] - qpos[-100, 0])) / (99 * dt_s)
        yield Requirement(f"block at rest, friction {mu:g}", creep, 1e-3, "m/s", "creep after it has stopped")


def bounce(name: str) -> Iterator[Requirement]:
    """A ball falls half a metre onto a floor; twins know no restitution, so that it must stay there."""
    twin = Twin("ball", _BALL.format(dt=0.001), control_hz=50.0)
    qpos, _ = _roll(name, twin, np.array(twin.patch.model.qpos0), np.zeros(6), 1500)
    height = qpos[:, 2] - 0.05
    landed = int(np.argmax(height < 1e-3))
    yield Requirement(
        "bounce", max(float(height[landed + 20 :].max()), 0.0) / 0.5, 0.05, "1", "rebound over the drop"
    )
    yield Requirement("at rest on the floor", abs(float(height[-1])), 1e-3, "m", "distance from touching")


def energy(name: str) -> Iterator[Requirement]:
    """A double pendulum without friction swings for three seconds."""
    twin = Twin("swing", _SWING.format(dt=0.0005), control_hz=50.0)
    model = twin.make_model()
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    start = np.array([1.2, 0.4])
    qpos, qvel = _roll(name, twin, start, np.zeros(2), 6000)
    data = mujoco.MjData(model)

    def total(q: Array, v: Array) -> float:
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model, data)
        return float(data.energy.sum())

    first, lowest = total(start, np.zeros(2)), total(np.zeros(2), np.zeros(2))
    drift = [abs(total(q, v) - first) / (first - lowest) for q, v in zip(qpos[::50], qvel[::50], strict=True)]
    yield Requirement("energy", max(drift), 0.05, "1", "largest change, as a fraction of the swing's energy")


def grasp(name: str) -> Iterator[Requirement]:
    """A gripper closed on a cube in the air: with much friction it holds, with little the cube slips out."""
    for friction, word in ((0.8, "that must hold"), (0.05, "that must slip")):
        twin = load_twin("franka_pick_place").with_values(object_friction=friction, object_mass_kg=0.5)
        cell = make_cell(twin)
        start = _held(cell)
        engine = make_engine(name, cell, 1)
        engine.load(ONE, {}, start)
        for _ in range(40):
            engine.step(ONE, start.ctrl[:, None])
        assert cell.object_qpos is not None
        sunk = float(start.qpos[0, cell.object_qpos + 2] - engine.qpos[0, cell.object_qpos + 2])
        yield Requirement(
            f"grasp {word}",
            sunk,
            0.005 if friction > 0.5 else 0.05,
            "m",
            "way that the cube sinks in 0.8 s",
            at_least=friction < 0.5,
        )


def _held(cell: Cell) -> Start:
    """The cube between the fingers at home, and the gripper told to close."""
    task = make_task(cell.twin.task, cell.twin)
    start = task.start({}, np.zeros(1, np.int64))
    model, data = cell.twin.make_model(), mujoco.MjData(cell.model)
    qpos, ctrl = start.qpos.copy(), start.ctrl.copy()
    gripper, at = cell.gripper, cell.object_qpos
    assert gripper is not None and at is not None
    for address in set(cell.qpos_addresses[gripper].tolist()):
        qpos[0, address] = 0.02
    data.qpos[:] = qpos[0]
    mujoco.mj_forward(model, data)
    site = model.site(cell.twin.role("tool")).id
    qpos[0, at : at + 3] = data.site_xpos[site]
    mujoco.mju_mat2Quat(qpos[0, at + 3 : at + 7], data.site_xmat[site])
    ctrl[0, gripper] = 0.0
    return replace(start, qpos=qpos, ctrl=ctrl)


def convergence(name: str) -> Iterator[Requirement]:
    """An arm follows a command at three time steps; the error against a finer one must shrink with the step."""
    twin = load_twin("franka_pick_place")
    ways = {}
    for dt_s in (0.004, 0.002, 0.001, 0.0005):
        cell = make_cell(with_time_step(twin, dt_s))
        start = make_task(twin.task, cell.twin).start({}, np.zeros(1, np.int64))
        steps = round(0.5 / dt_s)
        ramp = np.minimum(np.arange(1, steps + 1) * dt_s / 0.3, 1.0)[:, None]
        move = 0.3 * np.isin(np.arange(cell.model.nu), cell.arm[:4])
        engine = make_engine(name, cell, 1, options=EngineOptions(contacts=False))
        rolled = engine.roll(ONE, {}, (start.qpos, start.qvel), (start.ctrl + ramp * move)[None])
        each = round(0.004 / dt_s)
        ways[dt_s] = cell.positions(rolled.qpos[0, each - 1 :: each])
    errors = {dt_s: float(np.sqrt(np.mean((way - ways[0.0005]) ** 2))) for dt_s, way in ways.items()}
    yield Requirement(
        "time-step convergence",
        errors[0.001] / max(errors[0.004], 1e-12),
        0.5,
        "1",
        "error at 1 ms over error at 4 ms, both against 0.5 ms",
    )
    yield Requirement(
        "error at 2 ms", errors[0.002], 2e-3, "rad", "root mean square over the motion, against 0.5 ms"
    )


MEASURES: dict[str, Callable[[str], Iterator[Requirement]]] = {
    "mechanics": mechanics,
    "free_fall": free_fall,
    "sliding": sliding,
    "bounce": bounce,
    "energy": energy,
    "grasp": grasp,
    "convergence": convergence,
}
"""Every measurement by its name."""
