"""Position servos for joints of a model, with gains from the inertia and the weight that they move."""

from __future__ import annotations

from collections.abc import Collection

import mujoco
import numpy as np

from twinloop.episode import Array
from twinloop.errors import UnknownName
from twinloop.twins.declare import moving_joints

SERVO_HZ = 5.0
"""Bandwidth of servos added to a model without actuators."""
SAG_RAD = 0.01
"""Sag of such a servo under the arm's own weight."""
MOST_RAD = 0.5
"""Phase per physics step of the fastest oscillation that a servo may have. Two is the limit of stability."""
_MOVING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def add_servos(spec: mujoco.MjSpec, model: mujoco.MjModel, followers: Collection[str]) -> None:
    """Add a position servo to every joint of a model without actuators, except those that follow another joint."""
    weight = _gravity_load(model)
    for joint in spec.joints:
        if joint.type in _MOVING and joint.name not in followers:
            actuator = spec.add_actuator(
                name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
            )
            _make_servo(spec, actuator, model, weight)


def replace_by_servos(spec: mujoco.MjSpec, model: mujoco.MjModel, joints: Collection[str]) -> None:
    """Make the actuators of these joints position servos; what a motor can give at most stays the limit of the force."""
    weight = _gravity_load(model)
    driven = {a.target: a for a in spec.actuators if a.trntype == mujoco.mjtTrn.mjTRN_JOINT}
    for joint in joints:
        if joint not in driven or model.joint(joint).type[0] not in map(int, _MOVING):
            raise UnknownName("joint with an actuator", joint, driven)
        actuator = driven[joint]
        limit = _motor_limit(actuator)
        actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        actuator.dyntype = mujoco.mjtDyn.mjDYN_NONE
        actuator.forcelimited = actuator.ctrllimited = False
        _make_servo(spec, actuator, model, weight)
        if limit is not None:
            actuator.forcelimited, actuator.forcerange = True, [-limit, limit]


def _make_servo(
    spec: mujoco.MjSpec, actuator: mujoco.MjsActuator, model: mujoco.MjModel, weight: Array
) -> None:
    """5 Hz, critically damped, and stiff enough to carry the arm's weight.

    Where the other joints give way, a stiff servo moves next to no inertia and would be unstable. Real gears have a
    rotor behind them; the joint gets as much of its inertia as the physics step needs, unless the model has more.
    """
    index = model.joint(actuator.target).id
    dof = int(model.jnt_dofadr[index])
    inertia = max(float(model.dof_M0[dof]), 1e-4)
    stiffness = max(inertia * (2.0 * np.pi * SERVO_HZ) ** 2, weight[dof] / SAG_RAD)
    joint = spec.joint(actuator.target)
    rotor = max(stiffness * (spec.option.timestep / MOST_RAD) ** 2, float(joint.armature))
    inertia += rotor - float(joint.armature)
    joint.armature = rotor
    spec.option.integrator = (
        mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    )  # the others take damping by servos explicitly
    actuator.set_to_position(kp=stiffness, kv=2.0 * float(np.sqrt(stiffness * inertia)))
    if model.jnt_limited[index]:
        actuator.ctrllimited, actuator.ctrlrange = True, model.jnt_range[index]
    if model.jnt_actfrclimited[index]:
        actuator.forcelimited, actuator.forcerange = True, model.jnt_actfrcrange[index]


def _motor_limit(actuator: mujoco.MjsActuator) -> float | None:
    """The largest force or torque of an actuator on its joint; None if nothing limits it."""
    limits = []
    if actuator.forcerange[0] < actuator.forcerange[1]:
        limits.append(float(np.abs(actuator.forcerange).max()))
    is_motor = actuator.biastype == mujoco.mjtBias.mjBIAS_NONE
    if is_motor and actuator.ctrlrange[0] < actuator.ctrlrange[1]:
        limits.append(float(np.abs(actuator.ctrlrange).max() * abs(actuator.gainprm[0])))
    return min(limits) * abs(float(actuator.gear[0])) if limits else None


def _gravity_load(model: mujoco.MjModel) -> Array:
    """Largest gravity torque on each dof, over random poses inside the joint ranges."""
    data = mujoco.MjData(model)
    rng = np.random.Generator(np.random.Philox(key=0))
    joints = [model.joint(name).id for name in moving_joints(model)]
    largest = np.zeros(model.nv)
    for _ in range(64):
        for joint in joints:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-1.0, 1.0)
            data.qpos[model.jnt_qposadr[joint]] = rng.uniform(low, high)
        mujoco.mj_forward(model, data)
        largest = np.maximum(largest, np.abs(data.qfrc_bias))
    return largest
