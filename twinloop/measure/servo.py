"""Delay, time constant and backlash of an arm of position servos, from commands, readings and efforts.

A position servo asks for effort = stiffness (command(t - delay) - position) - damping speed. Solved for the command, which
nothing disturbs, this is a linear regression for every delay and backlash: of command(t - delay) - position on speed and
effort. Unlike `twinloop.measure.delay`, it separates transport from what the servo takes to follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from twinloop.episode import Array
from twinloop.imperfect.backlash import Backlash, drive
from twinloop.measure.noise import noise_of
from twinloop.measure.trace import Trace

EARLIEST_S, LATEST_S, STEP_S = -0.04, 0.6, 0.01
BACKLASHES_RAD = (0.0, 0.002, 0.004, 0.007, 0.012, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1)
LESS_LEFT = 0.9
"""Backlash, or another time constant, is believed when it leaves less than this fraction of what is left without."""
LIKELY = (0.2, 5.0)
"""Time constants outside these multiples of the usual ones are a fit's escape, not a servo's."""
NOISY = 0.05
"""Speeds whose noise exceeds this fraction of their variation are eased before the regression."""
EASED_ROWS = 15


@dataclass(frozen=True, eq=False)
class Servo:
    """How the servos of one arm follow: `delay_s`, its `jitter_s` and `backlash` (rad), shared by all joints; `time_constant_s`
    (J,) of each joint, which is damping over stiffness.
    """

    delay_s: float
    jitter_s: float
    time_constant_s: Array
    backlash: float


def measure_servo(joints: Sequence[Trace], usual_s: Array | None = None) -> Servo:
    """The delay, backlash and time constants with which an arm's servos follow their commands.

    Args:
        joints: the arm's joints on one time axis, each with `command`, `velocity` and `effort`.
        usual_s: time constants (J,) to assume unless others explain the recording much better; noisy or short recordings do
            not separate a delay from a time constant.

    Returns:
        What the recording says; its uncertainty is the spread between recordings.
    """
    law = _ServoLaw(joints)
    cost, delay_s, backlash = _search(law, usual_s)
    time_constant_s, jitter_s = law.solve(delay_s, backlash, usual_s)
    if usual_s is not None and not law.noisy:
        own_cost, own_delay_s, own_backlash = _search(law, None)
        own = law.solve(own_delay_s, own_backlash, None)
        likely = LIKELY[0] < float(np.median(own[0] / usual_s)) < LIKELY[1]
        if likely and own_cost < LESS_LEFT * cost:
            delay_s, backlash, (time_constant_s, jitter_s) = own_delay_s, own_backlash, own
    return Servo(delay_s, jitter_s, time_constant_s, backlash)


def _search(law: _ServoLaw, usual_s: Array | None) -> tuple[float, float, float]:
    """What the best delay and backlash leave, that delay, and that backlash."""
    coarse = np.arange(EARLIEST_S, LATEST_S, 4.0 * STEP_S)
    tried = [(backlash, law.costs(coarse, backlash, usual_s)) for backlash in BACKLASHES_RAD]
    backlash, cost = min(tried, key=lambda pair: float(pair[1].min()))
    if cost.min() > LESS_LEFT * tried[0][1].min():
        backlash, cost = tried[0]
    fine = float(coarse[int(np.argmin(cost))]) + STEP_S * np.arange(-4, 5)
    cost = law.costs(fine, backlash, usual_s)
    best = int(np.argmin(cost))
    return float(cost[best]), float(fine[best]) + _vertex(cost, best) * STEP_S, backlash


class _ServoLaw:
    """One recording's regression of command minus reading on speed and effort, for each joint.

    All signals are eased alike where speed readings are noisy: a linear law also holds between moving means, and noise in
    what is regressed on would otherwise pass for delay. Easing hides how fast the servo is: a `noisy` recording does not say.
    """

    def __init__(self, joints: Sequence[Trace]) -> None:
        self._time = joints[0].time_s
        commands = np.stack([joint.command for joint in joints if joint.command is not None], axis=1)
        position, speed = (
            np.stack(rows, axis=1) for rows in zip(*((j.values, j.speed) for j in joints), strict=True)
        )
        effort = np.stack([joint.effort for joint in joints if joint.effort is not None], axis=1)
        noise = noise_of(speed, quiet=True)
        self.noisy = bool(np.median(noise / np.maximum(np.std(speed, axis=0), 1e-9)) > NOISY)
        self._position, self._speed, self._effort = (self._ease(rows) for rows in (position, speed, effort))
        self._late = np.arange(len(commands)) > 5
        self._rate = np.maximum(np.std(np.gradient(commands, self._time, axis=0), axis=0), 1e-6)
        driven = drive(
            Backlash(np.array(BACKLASHES_RAD)), np.repeat(commands[:, None], len(BACKLASHES_RAD), axis=1)
        )
        self._sent = {b: self._ease(driven[:, place]) for place, b in enumerate(BACKLASHES_RAD)}  # fmt: skip

    def _ease(self, rows: Array) -> Array:
        return uniform_filter1d(rows, EASED_ROWS, axis=0, mode="nearest") if self.noisy else rows

    def costs(self, delays_s: Array, backlash: float, usual_s: Array | None) -> Array:
        """What the law leaves at each delay, in seconds of each joint's usual speed; large jumps count little."""
        made = []
        for delay_s in delays_s:
            left = np.abs(self._fit(float(delay_s), backlash, usual_s)[1]) / self._rate[:, None]
            made.append(np.mean(np.minimum(left, 4.0 * np.median(left, axis=1, keepdims=True))))
        return np.array(made)

    def solve(self, delay_s: float, backlash: float, usual_s: Array | None) -> tuple[Array, float]:
        """Time constant of each joint, and the spread of single delays."""
        solved, left, rate = self._fit(delay_s, backlash, usual_s)
        fast = np.abs(rate) > np.quantile(np.abs(rate), 0.7, axis=1, keepdims=True)
        late = (left / np.where(rate == 0.0, np.inf, rate))[fast]
        jitter_s = float(np.sqrt(np.mean(np.minimum(np.abs(late), 0.2) ** 2))) if len(late) else 0.0
        return solved[:, 0], jitter_s

    def _fit(self, delay_s: float, backlash: float, usual_s: Array | None) -> tuple[Array, Array, Array]:
        """Coefficients (J, 3), what is left (J, T) and the command's rate (J, T); the time constant is fitted, or `usual_s`."""
        at = self._time - delay_s
        sent = np.stack([np.interp(at, self._time, column) for column in self._sent[backlash].T], axis=1)
        keep = self._late & (at >= self._time[0])
        design = np.stack([self._speed, self._effort, np.ones_like(sent)], axis=2)[keep].swapaxes(0, 1)
        target = (sent - self._position)[keep].T
        if usual_s is not None:
            target = target - usual_s[:, None] * design[:, :, 0]
            design = design * np.array([0.0, 1.0, 1.0])
        scale = np.sqrt(np.maximum(np.mean(design**2, axis=1), 1e-18))
        design = design / scale[:, None]
        square = design.swapaxes(1, 2) @ design + 1e-6 * design.shape[1] * np.eye(3)
        solved = np.linalg.solve(square, np.einsum("jtk,jt->jk", design, target)[:, :, None])[:, :, 0]
        left = target - np.einsum("jtk,jk->jt", design, solved)
        solved = solved / scale
        if usual_s is not None:
            solved[:, 0] = usual_s
        return solved, left, np.gradient(sent, self._time, axis=0)[keep].T


def _vertex(cost: Array, best: int) -> float:
    """Where between grid points a parabola through the three costs around the best one is lowest."""
    if not 0 < best < len(cost) - 1:
        return 0.0
    before, here, after = cost[best - 1 : best + 2]
    curve = before - 2.0 * here + after
    return float(np.clip(0.5 * (before - after) / curve, -0.5, 0.5)) if curve > 0.0 else 0.0
