"""The default randomization: every gap dimension, in the ranges of a careful lab.

A rule is found by the parameter's name and gives the range around nominal, so that the same rules serve built-in twins
and users' own. Where a scale for all joints exists (`servo_stiffness_scale`), single joints are left alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from twinloop.randomization.distribution import (
    Categorical,
    Constant,
    Distribution,
    LogUniform,
    Mixture,
    Uniform,
    WholeNumbers,
)
from twinloop.randomization.randomization import Randomization, make_randomization
from twinloop.twins import Parameter, Twin

Rule = Callable[[Parameter], Distribution | None]

NAME = "default"


def default_randomization(twin: Twin, name: str = NAME) -> Randomization:
    """Make the randomization that usually suits a twin, built-in or your own.

    Args:
        twin: The twin whose parameters vary.
        name: Name of the randomization.

    Returns:
        A distribution of every parameter that usually varies, around its nominal value and within its bounds, in the
        parameter's unit.
    """
    special = FOR_ROBOT.get(twin.robot, {})
    varied: dict[str, Distribution] = {}
    for parameter in twin.parameters:
        rule = _rule(special, parameter.name) or _rule(RULES, parameter.name)
        distribution = rule(parameter) if rule else None
        if distribution is not None:
            varied[parameter.name] = distribution
    return make_randomization(twin, varied, name=name)


def _rule(rules: dict[str, Rule], name: str) -> Rule | None:
    return next((rule for pattern, rule in rules.items() if re.fullmatch(pattern, name)), None)


def _from_to(below: float, above: float) -> Rule:
    """From `below` under nominal to `above` over it, in the parameter's unit."""
    return lambda p: _within(p, float(p.nominal) - below, float(p.nominal) + above)


def _around(reach: float) -> Rule:
    return _from_to(reach, reach)


def _scaled(low: float, high: float) -> Rule:
    """Multiples of the nominal value; a parameter that is nominally zero stays so."""
    return lambda p: _within(p, low * float(p.nominal), high * float(p.nominal))


def _orders(low: float, high: float) -> Rule:
    return lambda p: LogUniform(low * float(p.nominal), high * float(p.nominal))


def _fraction_of_bound(fraction: float) -> Rule:
    """A fraction of the way to the bounds."""
    return lambda p: _within(p, *(float(p.nominal) + fraction * (b - float(p.nominal)) for b in p.bounds))


def _scaled_or_fraction(low: float, high: float, fraction: float) -> Rule:
    return lambda p: (_scaled(low, high) if p.nominal else _fraction_of_bound(fraction))(p)


def _count_to(most: int) -> Rule:
    return lambda p: WholeNumbers(int(p.bounds[0]), min(most, int(p.bounds[1])))


def _sometimes(probability: float, most: float) -> Rule:
    """Nominal, but with this probability anything up to `most` beyond."""

    def rule(p: Parameter) -> Distribution:
        nominal = float(p.nominal)
        return Mixture(
            (Constant(nominal), Uniform(nominal, nominal + most)), (1.0 - probability, probability)
        )

    return rule


def _any_choice(p: Parameter) -> Distribution:
    return Categorical(p.choices)


def _within(p: Parameter, low: float, high: float) -> Distribution | None:
    low, high = (min(max(float(f"{edge:.6g}"), p.bounds[0]), p.bounds[1]) for edge in (low, high))
    return Uniform(low, high) if low < high else None


RULES: dict[str, Rule] = {
    # gears; before contact, whose friction has a like ending
    r"\w+_(drive|external)_load_(friction|stiction)": _from_to(0.0, 0.05),
    r"\w+_drive_load_growth_per_nm": _fraction_of_bound(0.01),
    r"\w+_stiction_extra_nm": _fraction_of_bound(0.005),
    r"\w+_stribeck_speed_rad_s": _scaled(0.5, 2.0),
    # contact
    r"\w+_torsional_friction_m": _scaled(0.5, 1.5),
    r"object_face_\w+_friction_scale": _around(0.2),
    r"\w+_friction": _scaled(0.6, 1.4),
    r"contact_time_s": _scaled(0.8, 1.5),
    r"contact_damping_ratio": _scaled(0.8, 1.2),
    r"contact_impedance": _from_to(0.05, 0.03),
    r"contact_width_m": _scaled(0.5, 2.0),
    # object
    r"load_(mass_kg|distance_m)": _scaled(0.9, 1.1),
    r"\w+_mass_kg": _orders(0.5, 2.0),
    r"object_inertia_scale": _around(0.2),
    r"object_size_m": _scaled(0.9, 1.1),
    r"object_center_[xyz]_m": _fraction_of_bound(0.15),
    # actuation
    r"\w+_friction_nm?": _scaled_or_fraction(0.5, 2.0, 0.01),
    r"(?!\w+_servo_)\w+_damping_(nms_rad|ns_m)": _scaled_or_fraction(0.7, 1.3, 0.01),
    r"\w+_armature_(kgm2|kg)": _scaled_or_fraction(0.7, 1.3, 0.01),
    r"\w+_back_emf_nms_rad": _scaled_or_fraction(0.8, 1.2, 0.01),
    r"joint_friction_scale": _scaled(0.5, 2.0),
    r"joint_(damping|armature)_scale": _around(0.3),
    r"servo_(stiffness|damping)_scale": _around(0.2),
    r"force_limit_scale": _from_to(0.2, 0.1),
    r"\w+_gain_scale|torque_scale": _around(0.1),
    r"firmware_gain": _scaled(0.9, 1.1),
    r"supply_v": _scaled(0.95, 1.05),
    r"gravity_compensation": _from_to(0.05, 0.02),
    r"stiction_scale": _from_to(0.0, 0.5),
    r"\w+_backlash_rad": _from_to(0.0, 0.003),
    # latency
    r"(action|observation)_delay_s": _from_to(0.03, 0.04),
    r"(action|observation)_jitter_s": _from_to(0.0, 0.005),
    r"(action|observation)_drop_probability": _from_to(0.0, 0.02),
    # sensing
    r"encoder_quantum_rad": _scaled_or_fraction(0.9, 1.1, 0.01),
    r"encoder_noise_rad": _from_to(0.0, 0.001),
    r"encoder_drift_rad": _from_to(0.0, 0.002),
    r"velocity_noise_rad_s": _from_to(0.0, 0.02),
    r"\w+_encoder_bias_rad": _around(0.005),
    r"force_noise_n": _from_to(0.0, 0.3),
    r"force_bias_n": _around(1.0),
    r"force_drift_n": _around(3.0),
    r"torque_noise_nm": _from_to(0.0, 0.02),
    r"torque_bias_nm": _around(0.05),
    r"torque_drift_nm": _around(0.2),
    r"force_warm_up_s": _scaled(0.5, 1.5),
    r"force_age_s": _from_to(0.0, 3600.0),
    r"gyro_noise_rad_s": _from_to(0.0, 0.01),
    r"gyro_(bias|drift)_rad_s": _around(0.005),
    r"accelerometer_noise_m_s2": _from_to(0.0, 0.05),
    r"accelerometer_bias_m_s2": _around(0.1),
    r"object_pose_noise_m": _from_to(0.0, 0.002),
    r"object_pose_noise_rad": _from_to(0.0, 0.02),
    r"object_pose_bias_[xy]_m": _around(0.003),
    r"object_pose_delay_s": _from_to(0.0, 0.02),
    r"object_pose_drop_probability": _from_to(0.0, 0.1),
    # environment
    r"(object|target)_offset_[xyz]_m": _around(0.05),
    r"(object_yaw|push_direction)_rad": _around(math.pi),
    r"push_force_n": _from_to(0.0, 0.5),
    r"push_time_s": _from_to(1.0, 3.0),
    r"vibration_m": _from_to(0.0, 0.0001),
    r"vibration_hz": _from_to(5.0, 10.0),
    r"table_height_m": _around(0.01),
    r"clutter_count": _count_to(9),
    r"clutter_layout": _count_to(9999),
    r"occlusion": _sometimes(0.25, 0.7),
    r"gravity_m_s2": _around(0.03),
    # human
    r"demonstrator_speed_scale": _around(0.2),
    r"demonstrator_lift_m": _from_to(0.01, 0.04),
    r"demonstrator_pause_s": _from_to(0.0, 0.2),
    r"demonstrator_tremor_m": _from_to(0.0, 0.001),
    r"throw_(speed|spin)_scale": _around(0.5),
    r"throw_height_m": _from_to(0.0, 0.1),
    # visual
    r"light_intensity": _from_to(0.5, 0.6),
    r"light_azimuth_rad": _around(1.0),
    r"light_tilt_rad": _around(0.3),
    r"light_temperature_k": _from_to(3000.0, 2500.0),
    r"light_count": _count_to(9),
    r"camera_(yaw|pitch|roll)_rad": _around(0.05),
    r"camera_[xyz]_m": _around(0.02),
    r"camera_field_of_view_rad": _around(0.05),
    r"texture_index": _count_to(199),
    r"object_colour": _any_choice,
    r"lens_distortion": _around(0.1),
    r"lens_vignetting": _from_to(0.0, 0.5),
    r"lens_flare": _from_to(0.0, 0.2),
    r"lens_blur_px": _from_to(0.0, 0.8),
    r"exposure_stops": _around(0.5),
    r"white_balance_(red|blue)_stops": _around(0.2),
    r"colour_saturation": _around(0.3),
    r"motion_blur_s": _from_to(0.0, 0.01),
    r"rolling_shutter_s": _from_to(0.0, 0.02),
    r"shot_noise": _from_to(0.0, 0.03),
    r"read_noise": _from_to(0.0, 0.01),
}
"""By parameter name, the first that fits."""

FOR_ROBOT: dict[str, dict[str, Rule]] = {
    # Reaches 20 cm less far than a Panda, lifts no higher than 6 cm over its outer places, and its servos are weak.
    "so101": {
        r"object_offset_[xy]_m": _around(0.03),
        r"target_offset_[xy]_m": _around(0.02),
        r"demonstrator_lift_m": _around(0.01),
        r"push_force_n": _from_to(0.0, 0.1),
        r"servo_stiffness_scale|force_limit_scale": _around(0.1),
    },
}
"""What differs for a robot."""
