"""Guess units, quaternion order, clocks and roles of channels from names and values; every guess has a reason.

Pure functions of small arrays. A confidence is the expected frequency of being right, not a statistic; guesses below
`SURE` are marked CHECK in a proposed map.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.logs.joints import Joints
from twinloop.logs.units import family_of

SURE = 0.8

_ROLES = (
    ("time", r"t|time|times|timestamp|timestamps|stamp|time_?s|t_?cmd|time_?ns|time_?ms|secs?|clock|elapsed"),
    (
        "command",
        r"cmd|command|commands|action|actions|goal|target|targets|desired|des|setpoint|ref|reference",
    ),
    ("quaternion", r"quat|quaternion|orientation|quat_?wxyz|quat_?xyzw|rotation_?quat"),
    ("angular velocity", r"omega|gyro|angular_?velocity|ang_?vel"),
    ("velocity", r"vel|velocity|velocities|speed|qd|dq|qvel|dtheta|dot"),
    ("torque", r"torque|torques|tau|effort|efforts"),
    ("force", r"force|forces|wrench"),
    ("current", r"current|currents|amps?"),
    ("voltage", r"volt|volts|voltage|vin"),
    ("temperature", r"temp|temperature"),
    (
        "position",
        r"pos|position|positions|q|qpos|angle|angles|theta|state|states|j|jnt|joint|joints|pose|xyz|translation|tcp|eef?",
    ),
)


MEASURED = frozenset("actual measured meas feedback".split())
"""Words for what was measured, where others say what was commanded."""

_JOINT_ROLES = frozenset({"position", "command", "velocity", "torque", "current"})
_CARTESIAN = re.compile(r"xyz|translation|cartesian|tcp|pose|wrench|end_?effector|\bee\b|^ee_")

POSE = ("x", "y", "z", "rx", "ry", "rz")
"""Elements of a tool's pose or speed in one row of six, as robot controllers log it."""


@dataclass(frozen=True)
class Guess:
    """A value, its confidence and the reason."""

    value: str
    confidence: float
    reason: str

    @property
    def comment(self) -> str:
        """The guess as a YAML comment."""
        check = "" if self.confidence >= SURE else "; CHECK"
        return f"# confidence {self.confidence:.2f}: {self.reason}{check}"


def map_line(key: str, value: str = "", guess: Guess | None = None) -> str:
    """Return a line of a proposed map, with its guess as a comment."""
    return f"{key}: {value}".rstrip() + (f"   {guess.comment}" if guess else "")


def guess_role(name: str) -> str | None:
    """Guess the kind of quantity from a channel's name; the last meaningful word decides."""
    last = re.split(r"[/.]", name.lower())[-1]
    words = [last, *reversed(re.split(r"[_\-\s]+|(?<=[a-z])(?=\d)", last))]
    for role, pattern in _ROLES[:2]:
        if any(re.fullmatch(pattern, word) for word in words if word):
            return role
    for word in words:
        for role, pattern in _ROLES:
            if word and re.fullmatch(pattern, word):
                return role
    return None


def is_role(word: str) -> bool:
    """Return whether a word says which quantity a channel holds, or that it was measured."""
    return word.lower() in MEASURED or guess_role(word) not in (None, "time")


def is_cartesian(name: str) -> bool:
    """Return whether a channel's name says that it is about the tool and not about joints."""
    return bool(_CARTESIAN.search(name.lower()))


def is_of_joints(name: str) -> bool:
    """Return whether a channel's name allows one element per joint."""
    return guess_role(name) in _JOINT_ROLES and not is_cartesian(name)


def guess_angle(values: Array, joints: Joints | None = None) -> Guess:
    """Guess radians or degrees from the range; with a twin, from its joint ranges (slides in m or mm)."""
    reach = np.nanmax(np.abs(values), axis=0) if len(values) else np.zeros(1)
    largest = float(np.max(reach, initial=0.0))
    if joints is not None and len(joints) == len(reach) and np.isfinite(joints.ranges).any():
        return _by_ranges(reach, joints)
    if largest > 4 * np.pi:
        return Guess("deg", 0.85, f"values reach {largest:.3g}, two turns in radians are 12.6")
    if largest > 2 * np.pi * 1.05:
        return Guess(
            "deg", 0.6, f"values reach {largest:.3g}: more than a turn in radians, a small angle in degrees"
        )
    if largest < 0.3:
        return Guess("rad", 0.5, f"values reach only {largest:.3g}, which fits radians and degrees")
    return Guess("rad", 0.85, f"values reach {largest:.3g}, less than a turn in radians")


def _by_ranges(reach: Array, joints: Joints) -> Guess:
    limits = np.max(np.abs(np.asarray(joints.ranges, float)), axis=1) * 1.1 + 0.05
    hinges = np.array([unit == "rad" for unit in joints.units])
    inside = [bool(np.all((reach / factor)[hinges] <= limits[hinges])) for factor in (1.0, 180 / np.pi)]
    slides = ""
    if (~hinges).any():
        slides = "m" if np.all(reach[~hinges] <= limits[~hinges]) else "mm"
    used = float(np.max((reach / limits)[hinges], initial=0.0))
    if inside[0]:
        # Degrees would fit too, but only as a very small motion.
        why = f"all joints stay inside the twin's ranges and use {used:.0%} of one"
        angle = Guess("rad", 0.85 if used > 0.05 else 0.6, why)
    elif inside[1]:
        angle = Guess("deg", 0.95, f"in radians a joint would be {used:.1f} times beyond the twin's range")
    else:
        angle = Guess("rad", 0.3, "neither radians nor degrees fit the twin's joint ranges")
    units = [angle.value if hinge else slides for hinge in hinges]
    value = units[0] if len(set(units)) == 1 else f"[{', '.join(units)}]"
    return Guess(value, angle.confidence, angle.reason)


def guess_named_unit(values: Array, unit: str) -> Guess:
    """Accept the unit in a name, unless the values contradict it."""
    largest = float(np.nanmax(np.abs(values))) if values.size else 0.0
    limits = {"rad": 4 * np.pi, "m": 20.0, "rad/s": 60.0}
    if unit in limits and largest > limits[unit]:
        return Guess(unit, 0.4, f"from its name, but values reach {largest:.3g}")
    return Guess(unit, 0.97, "from its name")


def guess_length(values: Array) -> Guess:
    """Guess metres or millimetres from the range: a robot cell is between 5 cm and 10 m."""
    largest = float(np.nanmax(np.abs(values))) if values.size else 0.0
    if largest > 20:
        return Guess("mm", 0.85, f"values reach {largest:.3g}, too far for metres")
    if largest < 0.005:
        return Guess("m", 0.5, f"values reach only {largest:.3g}")
    return Guess("m", 0.8, f"values reach {largest:.3g}, the size of a robot cell in metres")


def guess_rate_unit(
    velocity: Array, position: Array | None, time_s: Array | None, position_unit: str
) -> Guess:
    """Guess the unit of a velocity from its slope against the derivative of the position."""
    if position is not None and time_s is not None and position.shape == velocity.shape and len(time_s) > 10:
        derivative = np.gradient(position.astype(float), time_s, axis=0)
        power = float(np.sum(derivative**2))
        both = float(np.sum(derivative * velocity))
        norm = np.sqrt(power * float(np.sum(velocity.astype(float) ** 2)))
        if power > 0 and norm > 0 and both / norm > 0.5:
            slope = float(np.sum(velocity.astype(float) ** 2)) / both
            per_s = {"rad": "rad/s", "deg": "deg/s", "m": "m/s", "mm": "mm/s"}.get(position_unit, "unknown")
            if 0.6 < slope < 1.6:
                return Guess(per_s, 0.9, f"it is the derivative of the position (slope {slope:.2f})")
            if position_unit == "rad" and 35 < slope < 90:
                return Guess("deg/s", 0.9, f"it is {slope:.0f} times the derivative of the position in rad")
            if position_unit == "deg" and 1 / 90 < slope < 1 / 35:
                return Guess("rad/s", 0.9, f"it is {slope:.3f} times the derivative of the position in deg")
            return Guess("unknown", 0.3, f"it is {slope:.3g} times the derivative of the position")
    largest = float(np.nanmax(np.abs(velocity))) if velocity.size else 0.0
    if position_unit in ("m", "mm"):
        return Guess(
            f"{position_unit}/s", 0.6, f"the position is in {position_unit}, and no clock confirms it"
        )
    if largest > 60:
        return Guess("deg/s", 0.6, f"values reach {largest:.3g}, fast for rad/s")
    return Guess("rad/s", 0.6, f"values reach {largest:.3g}, and no position confirms it")


def guess_quaternion(
    name: str, elements: Sequence[str], values: Array, omega: Array | None, time_s: Array | None
) -> tuple[Guess, Guess]:
    """Guess (order, frame of the angular velocity) from names, or by integrating the angular velocity."""
    frame = Guess("unknown", 0.3, "no angular velocity to compare with")
    best = _integrate(values, omega, time_s)
    if best is not None:
        order, frame_name, error, second = best
        confidence = 0.95 if error < 0.5 * second else 0.5
        frame = Guess(
            frame_name,
            confidence,
            f"integrating it predicts the next rotation to {error:.3f} deg, otherwise {second:.3f}",
        )
    letters = "".join(element[-1:].lower() for element in elements)
    if letters in ("wxyz", "xyzw"):
        return Guess(letters, 0.99, "from its element names"), frame
    for order in ("wxyz", "xyzw"):
        if order in name.lower():
            return Guess(order, 0.97, "from its name"), frame
    if best is not None:
        return Guess(best[0], frame.confidence, frame.reason), frame
    first, last = (float(np.mean(np.abs(values[:, i]))) for i in (0, 3))
    order = "wxyz" if first >= last else "xyzw"
    return Guess(order, 0.55, f"mean size of the first element {first:.2f}, of the last {last:.2f}"), frame


def is_quaternion(values: Array) -> bool:
    """Return whether rows are four numbers of unit norm."""
    if values.ndim != 2 or values.shape[1] != 4 or len(values) == 0 or values.dtype.kind != "f":
        return False
    return bool(np.all(np.abs(np.linalg.norm(values, axis=1) - 1) < 0.02)) and bool(np.ptp(values) > 1e-6)


def guess_clock_unit(stamps: Array, named: str | None = None) -> Guess:
    """Guess s, ms, us or ns from the name, from the date the stamps would mean, or from the period."""
    if named is not None and family_of(named) == "time":
        return Guess(named, 0.97, "from its name")
    first, period = float(stamps[0]), float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
    for unit, size in (("ns", 1e18), ("us", 1e15), ("ms", 1e12), ("s", 1e9)):
        if 0.9 * size < first < 3 * size:
            return Guess(unit, 0.97, f"as {unit} since 1970 it is a plausible date")
    if 2e-4 < period < 0.6:
        return Guess("s", 0.9, f"the period is {period:.4g}, so {1 / period:.4g} Hz in seconds")
    for unit, factor in (("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if 2e-4 < period / factor < 0.6:
            return Guess(unit, 0.7, f"the period is {period:.4g}, so {factor / period:.4g} Hz in {unit}")
    return Guess("s", 0.3, f"the period is {period:.4g}, unusual in any unit")


def guess_leader(a: Array, b: Array) -> int | None:
    """Guess which of two similar signals leads: 1 for `a`, -1 for `b`, None if undecided."""
    rows = min(len(a), len(b), 4000)
    x, y = (np.nan_to_num(v[:rows].reshape(rows, -1).astype(float)) for v in (a, b))
    if rows < 50 or x.shape != y.shape:
        return None
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    limit = min(rows // 4, 100)
    inner = x[limit:-limit]
    scores = {}
    for lag in range(-limit, limit + 1):
        shifted = y[limit + lag : rows - limit + lag]
        norm = float(np.linalg.norm(inner) * np.linalg.norm(shifted))
        scores[lag] = float(np.sum(inner * shifted)) / norm if norm > 0 else 0.0
    best = max(scores, key=lambda lag: scores[lag])
    if scores[best] < 0.5 or best == 0:
        return None
    return 1 if best > 0 else -1


def list_missing(names: Sequence[str], most: int = 3) -> str:
    """Return the end of a reason: which joints are missing, the first few by name."""
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f", without {', '.join(names[:most])}{more}"


def match_joints(names: Sequence[str], joints: Joints | None) -> tuple[list[int], Joints, Guess] | None:
    """Match a log's element names to the twin's joints: (columns in the twin's order, those joints, reason).

    The log may have more elements than the twin has joints, or lack some joints; at least two must match.
    """
    if joints is None or not names:
        return None
    found = joints.known.match(names, len(names))
    numbers = sorted(number for number in found if number is not None)
    if len(numbers) < min(2, len(joints)):
        return None
    order = [found.index(number) for number in numbers]
    moved = "in the twin's order" if order == list(range(len(order))) else "reordered to the twin's order"
    missing = [joints.names[i] for i in range(len(joints)) if i not in numbers]
    lacks = list_missing(missing)
    confidence = 0.8 if missing else 0.95
    return (
        order,
        joints.select(numbers),
        Guess("", confidence, f"joint names match the twin's, {moved}{lacks}"),
    )


def _integrate(
    values: Array, omega: Array | None, time_s: Array | None
) -> tuple[str, str, float, float] | None:
    """Return the convention (order, frame) that best predicts the rotation, its error and the second best error."""
    if omega is None or time_s is None or omega.shape != (len(values), 3) or len(values) < 10:
        return None
    period = np.diff(time_s)[:, None]
    usable = (period[:, 0] > 0) & (period[:, 0] < 0.2)
    angle = np.linalg.norm(omega[:-1], axis=1, keepdims=True) * period
    axis = omega[:-1] / np.maximum(np.linalg.norm(omega[:-1], axis=1, keepdims=True), 1e-12)
    step = np.hstack([np.cos(angle / 2), np.sin(angle / 2) * axis])
    errors: dict[tuple[str, str], float] = {}
    for order, columns in (("wxyz", [0, 1, 2, 3]), ("xyzw", [3, 0, 1, 2])):
        rotation = values[:, columns].astype(float)
        for frame in ("body", "world"):
            ahead = (
                multiply_quaternions(rotation[:-1], step)
                if frame == "body"
                else multiply_quaternions(step, rotation[:-1])
            )
            cosine = np.clip(np.abs(np.sum(ahead * rotation[1:], axis=1)), 0, 1)[usable]
            errors[order, frame] = (
                float(np.degrees(2 * np.mean(np.arccos(cosine)))) if len(cosine) else np.inf
            )
    ranked = sorted(errors, key=lambda key: errors[key])
    if not np.isfinite(errors[ranked[0]]) or float(np.mean(angle)) < 1e-4:
        return None
    return (*ranked[0], errors[ranked[0]], errors[ranked[1]])


def multiply_quaternions(a: Array, b: Array) -> Array:
    """Return the Hamilton product of quaternions (n, 4), w first."""
    w, v, x, u = a[:, :1], a[:, 1:], b[:, :1], b[:, 1:]
    real = w * x - np.sum(v * u, axis=1, keepdims=True)
    return np.asarray(np.hstack([real, w * u + x * v + np.cross(v, u)]))
