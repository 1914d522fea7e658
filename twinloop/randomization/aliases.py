"""Aliases and units of configuration keys, and the parameters they stand for."""

from __future__ import annotations

import math

from twinloop.errors import InvalidRandomization, UnknownName
from twinloop.twins import Twin

UNIT_SUFFIXES = {
    "_mm": ("_m", 1e-3),
    "_cm": ("_m", 1e-2),
    "_deg": ("_rad", math.pi / 180.0),
    "_ms": ("_s", 1e-3),
    "_us": ("_s", 1e-6),
    "_g": ("_kg", 1e-3),
}
"""Other ways to write a unit: suffix, the suffix of the parameter, and what to multiply by."""

OWN_SUFFIXES = ("_m", "_rad", "_s", "_kg", "_n", "_nm", "_hz", "_k", "_px", "_v")

ALIASES: dict[str, tuple[str, ...]] = {
    "friction_coefficient": ("object_friction",),
    "lighting_intensity": ("light_intensity",),
    "lighting_temperature_k": ("light_temperature_k",),
    "lighting_count": ("light_count",),
    "camera_jitter_rad": ("camera_yaw_rad", "camera_pitch_rad", "camera_roll_rad"),
    "camera_position_noise_m": ("camera_x_m", "camera_y_m", "camera_z_m"),
    "object_position_noise_m": ("object_offset_x_m", "object_offset_y_m"),
    "target_position_noise_m": ("target_offset_x_m", "target_offset_y_m"),
    "object_center_of_mass_m": ("object_center_x_m", "object_center_y_m", "object_center_z_m"),
    "texture_pool": ("texture_index",),
    "clutter": ("clutter_count",),
}

GROUPS = {
    "joint_friction_nm": "_friction_nm",
    "joint_damping_nms_rad": "_damping_nms_rad",
    "joint_armature_kgm2": "_armature_kgm2",
    "encoder_bias_rad": "_encoder_bias_rad",
    "backlash_rad": "_backlash_rad",
    "object_face_friction_scale": "_friction_scale",
}
"""Names that stand for every parameter with an ending: one independent draw for each joint, or face."""


def resolve(key: str, twin: Twin) -> tuple[tuple[str, ...], float]:
    """The parameters a key stands for, and the factor from the key's unit to theirs."""
    if names := _named(key, twin):
        return names, 1.0
    for suffix, (own, factor) in UNIT_SUFFIXES.items():
        if key.endswith(suffix) and (names := _named(key.removesuffix(suffix) + own, twin)):
            return names, factor
    _refuse_wrong_unit(key, twin)
    raise UnknownName(f"parameter of twin {twin.name}", key, known_keys(twin))


def known_keys(twin: Twin) -> list[str]:
    """Every key a config for this twin may use, in its parameters' own units."""
    friendly = [key for key in (*ALIASES, *GROUPS) if _named(key, twin)]
    return sorted({*(parameter.name for parameter in twin.parameters), *friendly})


def _named(key: str, twin: Twin) -> tuple[str, ...]:
    if twin.has(key):
        return (key,)
    if key in ALIASES:
        return tuple(name for name in ALIASES[key] if twin.has(name))
    if key in GROUPS:
        ending = GROUPS[key]
        return tuple(
            p.name
            for p in twin.parameters
            if p.name.endswith(ending) and not p.name.endswith(f"_servo{ending}")
        )
    return ()


def _refuse_wrong_unit(key: str, twin: Twin) -> None:
    """Say so when only the unit at the end of the key is wrong."""
    stem = next((key.removesuffix(s) for s in (*UNIT_SUFFIXES, *OWN_SUFFIXES) if key.endswith(s)), key)
    for suffix in OWN_SUFFIXES:
        if _named(stem + suffix, twin):
            others = [stem + other for other, (own, _) in UNIT_SUFFIXES.items() if own == suffix]
            raise InvalidRandomization(
                f"{key!r} has the wrong unit",
                expected=" or ".join([stem + suffix, *others]),
                remedy=f"did you mean {stem + suffix!r}?",
            )
