"""What a reality file may say: one block of effects per gap dimension, each key with unit, range and meaning.

A key that is left out leaves its effect out: an empty file is a robot that works as its data sheet says.
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


class Contact(Block):
    """How things touch."""

    friction: float | None = effect(
        None, 0.02, 2.0, "1", "sliding friction of the object; default: the twin's"
    )
    torsional_friction_m: float | None = effect(
        None, 0.0, 0.05, "m", "friction of the object turning on the spot; default: the twin's"
    )
    finger_friction_scale: float = effect(1.0, 0.1, 2.0, "1", "friction of worn or new finger pads, relative")
    table_friction_scale: float = effect(1.0, 0.1, 2.0, "1", "friction of the table top, relative")
    patch_friction_scale: float = effect(1.0, 0.1, 4.0, "1", "friction of sticky or greasy patches, relative")
    patch_size_m: float = effect(0.05, 0.01, 0.5, "m", "size of those patches; every second one differs")
    restitution: float = effect(0.0, 0.0, 0.9, "1", "share of its speed with which the object bounces")
    stiffness_n_m: float = effect(0.0, 0.0, 1e6, "N/m", "softness of the finger pads; 0 is rigid")
    damping_n_s_m: float = effect(100.0, 0.0, 1e4, "N·s/m", "damping of soft finger pads")


class Object(Block):
    """The object itself."""

    mass_scale: float = effect(1.0, 0.1, 10.0, "1", "mass relative to the twin's")
    inertia_scale: float = effect(1.0, 0.2, 5.0, "1", "inertia relative to what mass and size give")
    size_scale: float = effect(1.0, 0.7, 1.4, "1", "edges relative to the twin's")
    center_x_m: float = effect(0.0, -0.03, 0.03, "m", "centre of mass along the object's x")
    center_y_m: float = effect(0.0, -0.03, 0.03, "m", "centre of mass along the object's y")
    center_z_m: float = effect(0.0, -0.03, 0.03, "m", "centre of mass along the object's z")


class Actuation(Block):
    """Motors, gears and cables. Shares are of each actuator's greatest force."""

    stiffness_scale: float = effect(1.0, 0.1, 3.0, "1", "position gain of the servos, relative")
    damping_scale: float = effect(1.0, 0.1, 3.0, "1", "damping gain of the servos, relative")
    force_scale: float = effect(1.0, 0.1, 2.0, "1", "greatest force of the arm's servos, relative")
    gripper_force_scale: float = effect(1.0, 0.05, 2.0, "1", "greatest force of the gripper, relative")
    no_load_speed_rad_s: float = effect(
        0.0, 0.0, 20.0, "rad/s", "speed at which a motor has no torque left; 0: none"
    )
    dry_friction_share: float = effect(0.0, 0.0, 0.3, "1", "dry friction of the joints")
    stiction_share: float = effect(0.0, 0.0, 0.3, "1", "what breaking away takes beyond dry friction")
    viscous_scale: float = effect(1.0, 0.0, 5.0, "1", "viscous damping of the joints, relative")
    cold_friction_scale: float = effect(
        1.0, 1.0, 5.0, "1", "dry friction of a cold robot, relative to a warm one"
    )
    warm_up_s: float = effect(300.0, 1.0, 7200.0, "s", "working time in which the cold wears off")
    backlash_rad: float = effect(0.0, 0.0, 0.1, "rad", "play in the gears of turning joints")
    cable_torque_share: float = effect(
        0.0, 0.0, 0.3, "1", "pull of the cable harness per radian from its rest"
    )
    ripple_share: float = effect(0.0, 0.0, 0.1, "1", "torque ripple of the gears")
    ripple_per_turn: float = effect(40.0, 1.0, 400.0, "1", "teeth that a turn of the joint passes")
    link_mass_scale: float = effect(
        1.0, 0.5, 1.5, "1", "mass of the arm's links; the controller does not know"
    )


class Latency(Block):
    """How late commands and readings are."""

    action_delay_s: float = effect(0.0, 0.0, 1.0, "s", "mean delay of a command")
    action_jitter_s: float = effect(0.0, 0.0, 0.2, "s", "standard deviation of a command's delay")
    action_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "share of commands that never arrive")
    observation_delay_s: float = effect(0.0, 0.0, 1.0, "s", "mean delay of a reading")
    observation_jitter_s: float = effect(0.0, 0.0, 0.2, "s", "standard deviation of a reading's delay")
    observation_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "share of readings that repeat the last")
    pose_delay_s: float = effect(0.0, 0.0, 1.0, "s", "further delay of the perceived object pose")
    camera_delay_s: float = effect(0.0, 0.0, 1.0, "s", "delay of an image")
    outage_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "how often the network loses everything for a while")
    outage_s: float = effect(0.1, 0.02, 2.0, "s", "how long that lasts")


class Sensing(Block):
    """How wrong readings are."""

    encoder_noise_rad: float = effect(0.0, 0.0, 0.05, "rad", "standard deviation of a position reading")
    encoder_quantum_rad: float = effect(0.0, 0.0, 0.05, "rad", "encoder step")
    encoder_bias_rad: float = effect(
        0.0, 0.0, 0.3, "rad", "calibration error of turning joints: standard deviation over the joints"
    )
    encoder_drift_rad: float = effect(0.0, 0.0, 0.1, "rad", "random walk of a position reading in 60 s")
    velocity_noise_rad_s: float = effect(0.0, 0.0, 1.0, "rad/s", "standard deviation of a speed reading")
    velocity_filter_s: float = effect(0.0, 0.0, 0.5, "s", "time constant of the filter on speed readings")
    effort_noise_share: float = effect(
        0.0, 0.0, 0.5, "1", "noise of effort readings, share of the force limit"
    )
    effort_bias_share: float = effect(
        0.0, -0.5, 0.5, "1", "offset of effort readings, share of the force limit"
    )
    pose_noise_m: float = effect(0.0, 0.0, 0.05, "m", "standard deviation of the perceived object's place")
    pose_noise_rad: float = effect(0.0, 0.0, 0.5, "rad", "standard deviation of the perceived object's turn")
    pose_bias_x_m: float = effect(0.0, -0.05, 0.05, "m", "constant error of the perceived place along x")
    pose_bias_y_m: float = effect(0.0, -0.05, 0.05, "m", "constant error of the perceived place along y")
    pose_bias_z_m: float = effect(0.0, -0.05, 0.05, "m", "constant error of the perceived place along z")
    pose_scale_error: float = effect(
        0.0, -0.1, 0.1, "1", "error of the tracker's scale, about the robot's base"
    )
    pose_drop_probability: float = effect(0.0, 0.0, 0.9, "1", "share of perceived poses that repeat the last")
    occlusion_m: float = effect(
        0.0, 0.0, 0.3, "m", "the object is not seen while the tool is nearer than this"
    )


class Visual(Block):
    """What the cameras show."""

    light_intensity: float = effect(1.0, 0.1, 3.0, "1", "brightness of the lights")
    light_azimuth_rad: float = effect(0.0, -3.15, 3.15, "rad", "turn of the lights about the vertical")
    light_temperature_k: float = effect(5000.0, 2500.0, 12000.0, "K", "colour of the lights")
    texture_index: int = effect(37, 0, 9999, "1", "which texture covers table and floor")
    camera_yaw_rad: float = effect(0.0, -0.5, 0.5, "rad", "turn of each camera, left and right")
    camera_pitch_rad: float = effect(0.0, -0.5, 0.5, "rad", "turn of each camera, up and down")
    camera_roll_rad: float = effect(0.0, -0.5, 0.5, "rad", "turn of each camera about its axis")
    camera_x_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera to its right")
    camera_y_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera upwards")
    camera_z_m: float = effect(0.0, -0.2, 0.2, "m", "shift of each camera backwards")
    exposure_stops: float = effect(0.0, -4.0, 4.0, "1", "over- or under-exposure, powers of two")
    saturation: float = effect(1.0, 0.0, 2.0, "1", "strength of colours; 0 is grey")
    full_well_electrons: float = effect(
        20000.0, 100.0, 1e6, "1", "electrons at full scale; few of them make a noisy image"
    )
    read_noise_electrons: float = effect(5.0, 0.0, 100.0, "1", "noise of reading the sensor")
    blur_px: float = effect(0.0, 0.0, 10.0, "px", "standard deviation of defocus")
    distortion: float = effect(0.0, -0.5, 0.5, "1", "radial term k1 of the lens; negative is barrel")
    vignetting: float = effect(0.0, 0.0, 1.0, "1", "light lost in the corners")
    flare: float = effect(0.0, 0.0, 1.0, "1", "strength of the veil around a bright spot")


class Environment(Block):
    """Table, air and disturbances."""

    table_height_m: float = effect(0.0, -0.05, 0.05, "m", "table top above where the twin has it")
    table_tilt_rad: float = effect(0.0, 0.0, 0.15, "rad", "slope of the table")
    table_tilt_direction_rad: float = effect(0.0, -3.15, 3.15, "rad", "which way is down, about the vertical")
    object_scatter_m: float = effect(0.05, 0.0, 0.2, "m", "the object is put this far from its nominal place")
    object_turn_rad: float = effect(0.5, 0.0, 3.15, "rad", "the object is turned by at most this")
    target_scatter_m: float = effect(0.0, 0.0, 0.2, "m", "the target is put this far from its nominal place")
    clutter_count: int = effect(0, 0, 3, "1", "distractors on the table")
    wind_force_n: float = effect(0.0, 0.0, 2.0, "N", "force of a fan's air on the object")
    wind_direction_rad: float = effect(0.0, -3.15, 3.15, "rad", "where the air blows, about the vertical")
    gust_share: float = effect(0.5, 0.0, 1.0, "1", "share of the wind that comes and goes")
    push_force_n: float = effect(0.0, 0.0, 20.0, "N", "somebody knocks the object with this force for 0.1 s")
    push_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "how often that happens")
    vibration_m: float = effect(0.0, 0.0, 0.005, "m", "amplitude of the table's vibration")
    vibration_hz: float = effect(10.0, 0.5, 60.0, "Hz", "frequency of the table's vibration")


class Human(Block):
    """The person who places things, demonstrates, judges and stands in the way."""

    reaction_s: float = effect(0.2, 0.0, 1.0, "s", "delay between seeing and moving")
    speed_scale: float = effect(
        1.0, 0.3, 2.0, "1", "speed of a demonstration, relative to the scripted expert"
    )
    tremor_m: float = effect(0.0, 0.0, 0.01, "m", "amplitude of the hand's tremor")
    tremor_hz: float = effect(9.0, 3.0, 15.0, "Hz", "frequency of the tremor")
    aim_error_m: float = effect(0.0, 0.0, 0.03, "m", "standard deviation of where the person aims")
    overshoot: float = effect(0.0, 0.0, 0.5, "1", "share by which a movement goes too far before it settles")
    pause_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "how often the person stops to look")
    pause_s: float = effect(0.4, 0.05, 3.0, "s", "how long that takes")
    wrong_judgement_probability: float = effect(0.0, 0.0, 0.5, "1", "share of outcomes judged wrongly")
    bump_rate_hz: float = effect(0.0, 0.0, 2.0, "Hz", "how often a person bumps into the arm")
    bump_force_n: float = effect(0.0, 0.0, 60.0, "N", "force of such a bump, for 0.1 s")


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
    rows = []
    for block, kind in BLOCKS.items():
        for key, part in kind.model_fields.items():
            low, high = bounds(part)
            extra: Any = part.json_schema_extra or {}
            rows.append(
                {
                    "block": block,
                    "key": key,
                    "unit": extra["unit"],
                    "low": low,
                    "high": high,
                    "default": part.default,
                    "meaning": part.description,
                }
            )
    rows.append(
        {
            "block": "drift",
            "key": "BLOCK.KEY",
            "unit": "the key's",
            "low": None,
            "high": None,
            "default": None,
            "meaning": "how much any of the keys above changes from one episode to the next, within its range",
        }
    )
    return rows


def bounds(part: Any) -> tuple[float, float]:
    """The range of one key."""
    low = next(rule.ge for rule in part.metadata if hasattr(rule, "ge"))
    high = next(rule.le for rule in part.metadata if hasattr(rule, "le"))
    return float(low), float(high)
