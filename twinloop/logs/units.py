"""Units of logs, and conversion to the stored unit: stored = raw * factor + shift."""

from __future__ import annotations

import math

from twinloop.episode import UNITS
from twinloop.errors import MapError, UnknownName

_FAMILIES: dict[str, dict[str, float]] = {
    "angle": {"rad": 1.0, "deg": math.pi / 180, "turn": 2 * math.pi, "mrad": 1e-3},
    "angular velocity": {
        "rad/s": 1.0,
        "deg/s": math.pi / 180,
        "rpm": 2 * math.pi / 60,
        "turn/s": 2 * math.pi,
        "mrad/s": 1e-3,
    },
    "angular acceleration": {"rad/s²": 1.0, "deg/s²": math.pi / 180},
    "length": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "in": 0.0254},
    "velocity": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3},
    "acceleration": {"m/s²": 1.0, "cm/s²": 1e-2, "mm/s²": 1e-3, "g0": 9.80665},
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "mass": {"kg": 1.0, "g": 1e-3},
    "force": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "torque": {"N·m": 1.0, "mN·m": 1e-3, "N·cm": 1e-2, "kgf·cm": 0.0980665},
    "voltage": {"V": 1.0, "mV": 1e-3},
    "current": {"A": 1.0, "mA": 1e-3},
    "power": {"W": 1.0, "mW": 1e-3},
    "frequency": {"Hz": 1.0, "kHz": 1e3},
    "fraction": {"1": 1.0, "%": 1e-2},
    "temperature": {"K": 1.0, "°C": 1.0},
}
_SHIFT = {"°C": 273.15}

_SPELLINGS = dict(
    pair.split("=")
    for pair in (
        "Nm=N·m N.m=N·m N*m=N·m mNm=mN·m rad/s^2=rad/s² rad/s2=rad/s² m/s^2=m/s² m/s2=m/s² degC=°C C=°C "
        "degrees=deg radians=rad µs=us percent=% rev/min=rpm"
    ).split()
)
"""Other spellings of units."""

LOG_UNITS = UNITS | {unit for family in _FAMILIES.values() for unit in family}
"""Units a log may use; stored signals use `twinloop.episode.UNITS`."""


def known_unit(text: str) -> str:
    """Return the canonical name of a unit."""
    unit = _SPELLINGS.get(text, text)
    if unit not in LOG_UNITS:
        raise UnknownName("unit", text, LOG_UNITS | _SPELLINGS.keys())
    return unit


def family_of(unit: str) -> str | None:
    """Return the kind of quantity a unit measures; None if it has no conversions."""
    return next((name for name, units in _FAMILIES.items() if unit in units), None)


def stored_unit(unit: str) -> str:
    """Return the default stored unit: the SI unit, except that °C stays °C."""
    family = family_of(unit)
    if family is None or unit == "°C":
        return unit
    return next(iter(_FAMILIES[family]))


def conversion(unit: str, to: str) -> tuple[float, float]:
    """Return (factor, shift) from `unit` to `to`."""
    if unit == to:
        return 1.0, 0.0
    family = family_of(unit)
    if "unknown" in (unit, to) or family is None or family != family_of(to):
        raise MapError(
            f"{unit!r} cannot be converted to {to!r}",
            got=f"{family or 'no convertible unit'} and {family_of(to) or 'no convertible unit'}",
            available=sorted(_FAMILIES[family]) if family else None,
        )
    factor = _FAMILIES[family][unit] / _FAMILIES[family][to]
    return factor, (_SHIFT.get(unit, 0.0) - _SHIFT.get(to, 0.0))
