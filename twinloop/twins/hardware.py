"""Parameters of real hardware outside the physics engine: delay, backlash, encoders, lens ...

Only names, nominal values and bounds are declared here; the imperfect-hardware stage reads them by name. Nominal is
ideal hardware unless a built-in twin says otherwise. A random walk is given by its standard deviation after 60 s.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from twinloop.twins.declare import to_identifier
from twinloop.twins.parameter import Dimension, Parameter


def _imperfect(
    name: str,
    nominal: float,
    high: float,
    unit: str,
    dimension: Dimension,
    description: str,
    low: float = 0.0,
) -> Parameter:
    return Parameter(name, nominal, (low, high), unit, dimension, "imperfect", description)


# fmt: off
def latency_parameters(
    action_delay_s: float = 0.0, observation_delay_s: float = 0.0
) -> tuple[Parameter, ...]:
    """Delay, jitter and lost samples, on the way to the robot and back.

    Bounds reach 1 s because a real Franka cell was measured at 0.53 s.
    """
    words = {"action": ("command", action_delay_s), "observation": ("reading", observation_delay_s)}
    parameters: list[Parameter] = []
    for side, (what, delay_s) in words.items():
        parameters += [
            _imperfect(f"{side}_delay_s", delay_s, 1.0, "s", "latency", f"mean delay of a {what}"),
            _imperfect(f"{side}_jitter_s", 0.0, 0.2, "s", "latency", f"standard deviation of a {what}'s delay"),
            _imperfect(f"{side}_drop_probability", 0.0, 0.9, "1", "latency", f"fraction of {what}s that are lost"),
        ]
    return tuple(parameters)


def encoder_parameters(joints: Sequence[str], encoder_quantum_rad: float = 0.0) -> tuple[Parameter, ...]:
    """What gears and encoders do: per joint where joints differ, else for all."""
    parameters = [
        _imperfect("encoder_quantum_rad", encoder_quantum_rad, 0.05, "rad", "sensing", "encoder step"),
        _imperfect("encoder_noise_rad", 0.0, 0.05, "rad", "sensing", "standard deviation of a position reading"),
        _imperfect("encoder_drift_rad", 0.0, 0.1, "rad", "sensing", "random walk of a position reading in 60 s"),
        _imperfect("velocity_noise_rad_s", 0.0, 1.0, "rad/s", "sensing", "standard deviation of a speed reading"),
        _imperfect("stiction_scale", 0.0, 5.0, "1", "actuation", "static over sliding friction, minus one"),
    ]
    for joint in joints:
        name = to_identifier(joint)
        parameters += [
            _imperfect(f"{name}_encoder_bias_rad", 0.0, 0.35, "rad", "sensing", f"offset of {joint}'s reading", -0.35),
            _imperfect(f"{name}_backlash_rad", 0.0, 0.1, "rad", "actuation", f"backlash of {joint}'s gear"),
        ]
    return tuple(parameters)


def load_parameters(joints: Sequence[str]) -> tuple[Parameter, ...]:
    """A steady torque that each position servo works against: a cable, a spring, weight that nothing compensates.

    The torque is `load + slope * position`; what the servo has to give is positive.
    """
    parameters: list[Parameter] = []
    for joint in joints:
        load, slope = load_names(joint)
        parameters += [
            _imperfect(load, 0.0, 100.0, "N·m", "actuation", f"steady load on {joint} at zero", -100.0),
            _imperfect(slope, 0.0, 100.0, "N·m/rad", "actuation", f"its growth with {joint}'s angle", -100.0),
        ]
    return tuple(parameters)


def load_names(joint: str) -> tuple[str, str]:
    """Names of the parameters of a joint's steady load: the load at zero, and its slope."""
    return f"{to_identifier(joint)}_load_nm", f"{to_identifier(joint)}_load_slope_nm_rad"


def gear_parameters(joints: Sequence[str]) -> tuple[Parameter, ...]:
    """Friction of geared joints beyond Coulomb and viscous: stiction, its fall with speed, and what the load adds.

    The torques of the motor and of all that hangs on the joint press the gear's teeth together from either side; a fraction of
    each becomes friction while the joint moves, and a further fraction near rest. See `twinloop.imperfect.friction`.
    The name `servo` instead of a joint's is for all driven joints at once; for a sliding joint read N for N·m.
    """
    parameters: list[Parameter] = []
    for joint in joints:
        name = joint.lower()
        parameters += [
            _imperfect(f"{name}_stiction_extra_nm", 0.0, 2.0, "N·m", "actuation", f"breakaway torque of {joint} beyond Coulomb friction"),
            _imperfect(f"{name}_stribeck_speed_rad_s", 0.05, 10.0, "rad/s", "actuation", f"Stribeck speed of {joint}: stiction has fallen to 1/e", 0.001),
        ]
        for side, text in (("drive", "motor torque"), ("external", "other torques")):
            parameters += [
                _imperfect(f"{name}_{side}_load_friction", 0.0, 0.9, "1", "actuation", f"fraction of {joint}'s {text} lost in its gear"),
                _imperfect(f"{name}_{side}_load_stiction", 0.0, 0.9, "1", "actuation", f"further fraction of {joint}'s {text} lost at rest"),
            ]
        growth = f"growth of the lost fraction of {joint}'s motor torque with the torque"
        parameters.append(_imperfect(f"{name}_drive_load_growth_per_nm", 0.0, 5.0, "1/(N·m)", "actuation", growth))
    return tuple(parameters)


def sensor_parameters(model: mujoco.MjModel) -> tuple[Parameter, ...]:
    """Errors of the force, torque and inertial sensors that a model has."""
    kinds = {mujoco.mjtSensor(int(kind)) for kind in model.sensor_type}
    force, torque = mujoco.mjtSensor.mjSENS_FORCE in kinds, mujoco.mjtSensor.mjSENS_TORQUE in kinds
    parameters: list[Parameter] = []
    if force:
        parameters += _warming("force", "n", "N", noise=5.0, offset=20.0)
    if torque:
        parameters += _warming("torque", "nm", "N·m", noise=0.5, offset=2.0)
    if force or torque:
        parameters += [
            _imperfect("force_warm_up_s", 600.0, 7200.0, "s", "sensing", "time constant of warming up", 1.0),
            _imperfect("force_age_s", 0.0, 36000.0, "s", "sensing", "time since the sensor was zeroed, cold"),
        ]
    if mujoco.mjtSensor.mjSENS_GYRO in kinds:
        parameters += [
            _imperfect("gyro_noise_rad_s", 0.0, 0.5, "rad/s", "sensing", "standard deviation of a rate reading"),
            _imperfect("gyro_bias_rad_s", 0.0, 0.2, "rad/s", "sensing", "offset of a rate reading", -0.2),
            _imperfect("gyro_drift_rad_s", 0.0, 0.2, "rad/s", "sensing", "random walk of the rate offset in 60 s"),
        ]
    if mujoco.mjtSensor.mjSENS_ACCELEROMETER in kinds:
        parameters += [
            _imperfect("accelerometer_noise_m_s2", 0.0, 2.0, "m/s²", "sensing", "standard deviation of a reading"),
            _imperfect("accelerometer_bias_m_s2", 0.0, 1.0, "m/s²", "sensing", "offset of a reading", -1.0),
        ]
    return tuple(parameters)


def _warming(kind: str, suffix: str, unit: str, noise: float, offset: float) -> list[Parameter]:
    """One half of a force-torque sensor, whose offset moves as it warms up; each axis alike."""
    what = f"of a {kind} reading"
    return [
        _imperfect(f"{kind}_noise_{suffix}", 0.0, noise, unit, "sensing", f"standard deviation {what}"),
        _imperfect(f"{kind}_bias_{suffix}", 0.0, offset, unit, "sensing", f"offset {what}", -offset),
        _imperfect(f"{kind}_drift_{suffix}", 0.0, offset, unit, "sensing", f"offset {what} gained once warm", -offset),
    ]


def object_pose_parameters() -> tuple[Parameter, ...]:
    """How wrong the perceived pose of the object is."""
    return (
        _imperfect("object_pose_noise_m", 0.0, 0.05, "m", "sensing", "standard deviation of a perceived position"),
        _imperfect("object_pose_noise_rad", 0.0, 0.5, "rad", "sensing", "standard deviation of a perceived angle"),
        _imperfect("object_pose_bias_x_m", 0.0, 0.05, "m", "sensing", "constant error of perceived x", -0.05),
        _imperfect("object_pose_bias_y_m", 0.0, 0.05, "m", "sensing", "constant error of perceived y", -0.05),
        _imperfect("object_pose_bias_z_m", 0.0, 0.05, "m", "sensing", "constant error of perceived z", -0.05),
        _imperfect("object_pose_scale_error", 0.0, 0.05, "1", "sensing", "scale error of perceived positions", -0.05),
        _imperfect("object_pose_delay_s", 0.0, 0.5, "s", "latency", "additional delay of a pose"),
        _imperfect("object_pose_hidden_m", 0.0, 0.3, "m", "sensing", "the object is occluded when the tool is nearer than this"),
        _imperfect("object_pose_drop_probability", 0.0, 0.9, "1", "sensing", "fraction of frames without a pose"),
        *(_imperfect(f"table_tilt_{axis}_rad", 0.0, 0.2, "rad", "environment", f"slope of the table about {axis}, as the perceived object shows it", -0.2)
          for axis in "xy"),
    )


def lens_parameters(*, moving: bool = True) -> tuple[Parameter, ...]:
    """What a camera does to the light that reaches it; one that never moves has no motion blur."""
    shutter = (
        _imperfect("motion_blur_s", 0.0, 0.1, "s", "visual", "time the shutter of a moving camera is open"),
        _imperfect("rolling_shutter_s", 0.0, 0.1, "s", "visual", "time from first to last row, when moving"),
    )
    return (
        *(shutter if moving else ()),
        _imperfect("lens_distortion", 0.0, 0.5, "1", "visual", "radial term k1 (k2 is its square); negative is barrel", -0.5),
        _imperfect("lens_vignetting", 0.0, 1.0, "1", "visual", "light lost in the corners"),
        _imperfect("lens_flare", 0.0, 1.0, "1", "visual", "strength of the veil around bright spots"),
        _imperfect("lens_blur_px", 0.0, 10.0, "px", "visual", "standard deviation of defocus"),
        _imperfect("exposure_stops", 0.0, 4.0, "1", "visual", "over- or under-exposure, powers of two", -4.0),
        _imperfect("white_balance_red_stops", 0.0, 3.0, "1", "visual", "red over green, powers of two", -3.0),
        _imperfect("white_balance_blue_stops", 0.0, 3.0, "1", "visual", "blue over green, powers of two", -3.0),
        _imperfect("colour_saturation", 1.0, 2.0, "1", "visual", "saturation of colours; 0 is grey"),
        _imperfect("shot_noise", 0.0, 1.0, "1", "visual", "noise at full brightness, fraction of full scale"),
        _imperfect("read_noise", 0.0, 1.0, "1", "visual", "noise in the dark, fraction of full scale"),
    )
# fmt: on
