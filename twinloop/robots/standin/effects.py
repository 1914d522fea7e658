"""Keys of a reality file: one block of effects per gap dimension, each key with unit, range and meaning.

A missing key means no effect: an empty file is a robot that meets its data sheet.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def effect(default: Any, low: float, high: float, unit: str, text: str) -> Any:
    """One key of a block."""
    return Field(default, ge=low, le=high, description=text, json_schema_extra={"unit": unit})


class Block(BaseModel):
    """Effects of one dimension."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


# fmt: off
class Contact(Block):
    """Friction and stiffness of contacts."""

    friction: float | None = effect(None, 0.02, 2.0, "1", "sliding friction coefficient of the object; default: the twin's")
    torsional_friction_m: float | None = effect(None, 0.0, 0.05, "m", "torsional friction of the object; default: the twin's")
    finger_friction_scale: float = effect(1.0, 0.1, 2.0, "1", "friction of the finger pads, relative to the twin's")
    table_friction_scale: float = effect(1.0, 0.1, 2.0, "1", "friction of the table top, relative to the twin's")
    patch_friction_scale: float = effect(1.0, 0.1, 4.0, "1", "friction of sticky or greasy patches, relative to the rest of the table")
    patch_size_m: float = effect(0.05, 0.01, 0.5, "m", "edge of a patch; patches alternate like a chess board")
    restitution: float = effect(0.0, 0.0, 0.9, "1", "coefficient of restitution of the object")
    stiffness_n_m: float = effect(0.0, 0.0, 1e6, "N/m", "contact stiffness of the finger pads; 0 is rigid")
    damping_n_s_m: float = effect(100.0, 0.0, 1e4, "N·s/m", "contact damping of soft finger pads")


class Object(Block):
    """The object itself."""

    mass_scale: float = effect(1.0, 0.1, 10.0, "1", "mass relative to the twin's")
    inertia_scale: float = effect(1.0, 0.2, 5.0, "1", "inertia relative to that of the scaled mass and size")
    size_scale: float = effect(1.0, 0.7, 1.4, "1", "edge length relative to the twin's")
    center_x_m: float = effect(0.0, -0.03, 0.03, "m", "offset of the centre of mass along the object's x axis")
    center_y_m: float = effect(0.0, -0.03, 0.03, "m", "offset of the centre of mass along the object's y axis")
    center_z_m: float = effect(0.0, -0.03, 0.03, "m", "offset of the centre of mass along the object's z axis")


class Actuation(Block):
    """Motors, gears and cables. Keys that end in `_share` are fractions of each actuator's force limit."""

    stiffness_scale: float = effect(1.0, 0.1, 3.0, "1", "position gain of the servos, relative to the twin's")
    damping_scale: float = effect(1.0, 0.1, 3.0, "1", "damping gain of the servos, relative to the twin's")
    force_scale: float = effect(1.0, 0.1, 2.0, "1", "force limit of the arm's servos, relative to the twin's")
    gripper_force_scale: float = effect(1.0, 0.05, 2.0, "1", "force limit of the gripper, relative to the twin's")
    no_load_speed_rad_s: float = effect(0.0, 0.0, 20.0, "rad/s", "no-load speed of the motors; 0: no torque-speed limit")
    dry_friction_share: float = effect(0.0, 0.0, 0.3, "1", "Coulomb friction of the joints, fraction of the force limit")
    stiction_share: float = effect(0.0, 0.0, 0.3, "1", "stiction beyond Coulomb friction, fraction of the force limit")
    viscous_scale: float = effect(1.0, 0.0, 5.0, "1", "viscous friction of the joints, relative to the twin's")
    cold_friction_scale: float = effect(1.0, 1.0, 5.0, "1", "Coulomb friction of a cold robot, relative to a warm one")
    warm_up_s: float = effect(300.0, 1.0, 7200.0, "s", "time constant of warming up")
    backlash_rad: float = effect(0.0, 0.0, 0.1, "rad", "backlash of revolute joints")
    cable_torque_share: float = effect(0.0, 0.0, 0.3, "1", "torque of the cable harness per radian from its rest angle, fraction of the force limit")
    ripple_share: float = effect(0.0, 0.0, 0.1, "1", "torque ripple of the gears, fraction of the force limit")
    ripple_per_turn: float = effect(40.0, 1.0, 400.0, "1", "ripple periods per turn of the joint")
    link_mass_scale: float = effect(1.0, 0.5, 1.5, "1", "mass of the arm's links relative to the controller's model")


class Latency(Block):
    """Delays, jitter and losses of commands and readings."""

    action_delay_s: float = effect(0.0, 0.0, 1.0, "s", "mean delay of a command")
    action_jitter_s: float = effect(0.0, 0.0, 0.2, "s", "standard deviation of a command's delay")
    action_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "probability that a command is lost")
    observation_delay_s: float = effect(0.0, 0.0, 1.0, "s", "mean delay of a reading")
    observation_jitter_s: float = effect(0.0, 0.0, 0.2, "s", "standard deviation of a reading's delay")
    observation_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "probability that a reading repeats the previous one")
    pose_delay_s: float = effect(0.0, 0.0, 1.0, "s", "additional delay of the perceived object pose")
    camera_delay_s: float = effect(0.0, 0.0, 1.0, "s", "delay of an image")
    outage_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "rate of network outages")
    outage_s: float = effect(0.1, 0.02, 2.0, "s", "duration of an outage")


class Sensing(Block):
    """Errors of readings."""

    encoder_noise_rad: float = effect(0.0, 0.0, 0.05, "rad", "standard deviation of a position reading")
    encoder_quantum_rad: float = effect(0.0, 0.0, 0.05, "rad", "encoder resolution")
    encoder_bias_rad: float = effect(0.0, 0.0, 0.3, "rad", "calibration error of revolute joints: standard deviation over the joints")
    encoder_drift_rad: float = effect(0.0, 0.0, 0.1, "rad", "random walk of a position reading in 60 s")
    velocity_noise_rad_s: float = effect(0.0, 0.0, 1.0, "rad/s", "standard deviation of a velocity reading")
    velocity_filter_s: float = effect(0.0, 0.0, 0.5, "s", "time constant of the low-pass filter on velocity readings")
    effort_noise_share: float = effect(0.0, 0.0, 0.5, "1", "standard deviation of effort readings, fraction of the force limit")
    effort_bias_share: float = effect(0.0, -0.5, 0.5, "1", "bias of effort readings, fraction of the force limit")
    pose_noise_m: float = effect(0.0, 0.0, 0.05, "m", "standard deviation of the perceived object position")
    pose_noise_rad: float = effect(0.0, 0.0, 0.5, "rad", "standard deviation of the perceived object yaw")
    pose_bias_x_m: float = effect(0.0, -0.05, 0.05, "m", "bias of the perceived object position along x")
    pose_bias_y_m: float = effect(0.0, -0.05, 0.05, "m", "bias of the perceived object position along y")
    pose_bias_z_m: float = effect(0.0, -0.05, 0.05, "m", "bias of the perceived object position along z")
    pose_scale_error: float = effect(0.0, -0.1, 0.1, "1", "scale error of the tracker, about the robot's base")
    pose_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "probability that a perceived pose repeats the previous one")
    occlusion_m: float = effect(0.0, 0.0, 0.3, "m", "the object is occluded while the tool is closer than this")


class Visual(Block):
    """Lights, textures and cameras."""

    light_intensity: float = effect(1.0, 0.1, 3.0, "1", "brightness of the lights, relative to the default")
    light_azimuth_rad: float = effect(0.0, -3.15, 3.15, "rad", "rotation of the lights about the vertical")
    light_temperature_k: float = effect(5000.0, 2500.0, 12000.0, "K", "colour temperature of the lights")
    texture_index: int = effect(37, 0, 9999, "1", "index of the texture on table and floor")
    camera_yaw_rad: float = effect(0.0, -0.5, 0.5, "rad", "yaw error of each camera")
    camera_pitch_rad: float = effect(0.0, -0.5, 0.5, "rad", "pitch error of each camera")
    camera_roll_rad: float = effect(0.0, -0.5, 0.5, "rad", "roll error of each camera")
    camera_x_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera to its right")
    camera_y_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera upwards")
    camera_z_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera backwards")
    exposure_stops: float = effect(0.0, -4.0, 4.0, "1", "exposure error in stops (powers of two)")
    saturation: float = effect(1.0, 0.0, 2.0, "1", "colour saturation; 0 is grey")
    full_well_electrons: float = effect(20000.0, 100.0, 1e6, "1", "full-well capacity of a pixel; fewer electrons give a noisier image")
    read_noise_electrons: float = effect(5.0, 0.0, 100.0, "1", "read noise of the sensor, electrons")
    blur_px: float = effect(0.0, 0.0, 10.0, "px", "standard deviation of defocus blur")
    distortion: float = effect(0.0, -0.5, 0.5, "1", "radial distortion k1 of the lens; negative is barrel")
    vignetting: float = effect(0.0, 0.0, 1.0, "1", "fraction of light lost in the corners")
    flare: float = effect(0.0, 0.0, 1.0, "1", "strength of lens flare around a bright spot")
    covered_fraction: float = effect(0.0, 0.0, 0.6, "1", "fraction of each image, from its left, that something in front of the camera hides")


class Environment(Block):
    """Table, air and disturbances."""

    table_height_m: float = effect(0.0, -0.05, 0.05, "m", "height of the table top relative to the twin's")
    table_tilt_rad: float = effect(0.0, 0.0, 0.15, "rad", "slope of the table")
    table_tilt_direction_rad: float = effect(0.0, -3.15, 3.15, "rad", "downhill direction, about the vertical")
    object_scatter_m: float = effect(0.05, 0.0, 0.2, "m", "largest distance of the object from its nominal position")
    object_turn_rad: float = effect(0.5, 0.0, 3.15, "rad", "largest rotation of the object from its nominal yaw")
    target_scatter_m: float = effect(0.0, 0.0, 0.2, "m", "largest distance of the target from its nominal position")
    clutter_count: int = effect(0, 0, 3, "1", "number of distractors on the table")
    wind_force_n: float = effect(0.0, 0.0, 2.0, "N", "mean wind force on the object")
    wind_direction_rad: float = effect(0.0, -3.15, 3.15, "rad", "wind direction, about the vertical")
    gust_share: float = effect(0.5, 0.0, 1.0, "1", "fraction of the wind that comes in gusts")
    push_force_n: float = effect(0.0, 0.0, 20.0, "N", "force of random pushes on the object, each 0.1 s long")
    push_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "rate of random pushes")
    vibration_m: float = effect(0.0, 0.0, 0.005, "m", "amplitude of the table's vibration")
    vibration_hz: float = effect(10.0, 0.5, 60.0, "Hz", "frequency of the table's vibration")


class Human(Block):
    """The person who places objects, demonstrates, judges outcomes and bumps into the arm."""

    reaction_s: float = effect(0.2, 0.0, 1.0, "s", "reaction time between seeing and moving")
    speed_scale: float = effect(1.0, 0.3, 2.0, "1", "speed of a demonstration, relative to the scripted expert")
    tremor_m: float = effect(0.0, 0.0, 0.01, "m", "amplitude of the hand's tremor")
    tremor_hz: float = effect(9.0, 3.0, 15.0, "Hz", "frequency of the tremor")
    aim_error_m: float = effect(0.0, 0.0, 0.03, "m", "standard deviation of the person's aim")
    overshoot: float = effect(0.0, 0.0, 0.5, "1", "overshoot of a movement, fraction of its length")
    pause_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "rate of pauses")
    pause_s: float = effect(0.4, 0.05, 3.0, "s", "duration of a pause")
    wrong_judgement_probability: float = effect(0.0, 0.0, 0.5, "1", "probability that an outcome is judged wrongly")
    bump_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "rate at which a person bumps into the arm")
    bump_force_n: float = effect(0.0, 0.0, 60.0, "N", "force of a bump, 0.1 s long")
# fmt: on


BLOCKS: dict[str, type[Block]] = {
    "contact": Contact,
    "object": Object,
    "actuation": Actuation,
    "latency": Latency,
    "sensing": Sensing,
    "visual": Visual,
    "environment": Environment,
    "human": Human,
}


def list_effects() -> list[dict[str, Any]]:
    """Every key that a reality file may hold: block, key, unit, range, default and meaning."""
    columns = ("block", "key", "unit", "low", "high", "default", "meaning")
    rows: list[tuple[Any, ...]] = []
    for block, kind in BLOCKS.items():
        for key, part in kind.model_fields.items():
            extra: Any = part.json_schema_extra
            rows.append((block, key, extra["unit"], *bounds(part), part.default, part.description))
    change = "change of any key above per episode, clipped to its range"
    rows.append(("drift", "BLOCK.KEY", "the key's", None, None, None, change))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def bounds(part: Any) -> tuple[float, float]:
    """The range of one key."""
    low = next(rule.ge for rule in part.metadata if hasattr(rule, "ge"))
    high = next(rule.le for rule in part.metadata if hasattr(rule, "le"))
    return float(low), float(high)
