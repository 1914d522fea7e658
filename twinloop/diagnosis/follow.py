"""How an arm follows its commands: delay, gains, backlash, friction and loads, read off commands, readings and efforts.

A position servo asks for effort = stiffness (command(t - delay) - position) - damping speed. Solved for the command, which
nothing disturbs, this is a linear regression for every delay: of command(t - delay) - position on speed, effort and the
direction in which the command moves (backlash in the gears). What effort it takes to move (friction) or to stand still (a load)
is a second one. Every number is per run, so that the spread between runs is known; what a servo does by its nature is the
same in the twin's runs, measured in the same way, and is taken off there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from twinloop.diagnosis.evidence import Run
from twinloop.imperfect import backlash
from twinloop.tasks import Cell

Array = NDArray[Any]

LONGEST_S = 0.6
STEP_S = 0.01
TURN_RAD_S = 0.02
"""Slower than this a joint's direction cannot be distinguished from rest."""
FEWEST_ROWS = 40
LONG_GRIP_ROWS = 10
BACKLASHES_RAD = (0.0, 0.002, 0.004, 0.007, 0.012, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1)
WORTH = 0.9
"""Backlash, or another time constant, is believed when it leaves less than this fraction of the residual without it."""
LIKELY = (0.2, 5.0)
"""Time constants outside these multiples of the twin's are a fit's escape, not a servo's."""
QUIET = 0.86
"""What the quieter pieces of evenly noisy recordings read, of the noise that is there: 0.95 for 60 rows, 0.84 for 600."""
EASES = 4
"""Rows on either side from which an acceleration is read off."""


@dataclass(frozen=True, eq=False)
class Following:
    """Per run: delay and its jitter (R,), backlash (R,); per run and joint (R, J): time constant and compliance.

    `lag_s` is damping over stiffness, `compliance` one over stiffness, `backlash_rad` (R,) the slack of the gears in radians, `square` and `right` the normal equations of what effort it takes to move (friction) and to stand
    still (a load), see `solve_effort`. `gripper_n` is the largest effort of the
    gripper, nan where it was never commanded to press.
    """

    delay_s: Array
    jitter_s: Array
    lag_s: Array
    compliance: Array
    backlash_rad: Array
    square: Array
    right: Array
    gripper_n: Array


def measure_following(cell: Cell, runs: tuple[Run, ...], usual: Following | None = None) -> Following | None:
    """What every run with effort readings tells; None when there is none.

    Noisy or short runs do not tell a delay from a time constant: unless another one explains a run much better, it is the
    one of `usual`.
    """
    lag = None if usual is None else np.median(usual.lag_s, axis=0)
    rows = [_of_run(cell, run, lag) for run in runs if run.effort is not None and len(run) >= FEWEST_ROWS]
    if not rows:
        return None
    return Following(*(np.array(column) for column in zip(*rows, strict=True)))


def _of_run(cell: Cell, run: Run, usual_lag: Array | None) -> tuple[Any, ...]:
    assert run.effort is not None
    joints = cell.arm
    law = _Law(run, joints)
    cost, delay, backlash_rad = _search(law, usual_lag)
    lag, compliance, spread = law.solve(delay, backlash_rad, usual_lag)
    if usual_lag is not None and not law.noisy:
        own_cost, own_delay, own_backlash_rad = _search(law, None)
        own = law.solve(own_delay, own_backlash_rad, None)
        likely = LIKELY[0] < float(np.median(own[0] / usual_lag)) < LIKELY[1]
        if likely and own_cost < WORTH * cost:
            delay, backlash_rad, (lag, compliance, spread) = own_delay, own_backlash_rad, own
    square, right = _takes(cell, run)
    return delay, spread, lag, compliance, backlash_rad, square, right, _grip(cell, run)


def _search(law: _Law, lag: Array | None) -> tuple[float, float, float]:
    """The residual cost of the best delay and backlash, that delay, and that backlash."""
    coarse = np.arange(-0.04, LONGEST_S, 4.0 * STEP_S)
    candidates = [(backlash_rad, law.costs(coarse, backlash_rad, lag)) for backlash_rad in BACKLASHES_RAD]
    backlash_rad, cost = min(candidates, key=lambda pair: float(pair[1].min()))
    if cost.min() > WORTH * candidates[0][1].min():
        backlash_rad, cost = candidates[0]
    around = float(coarse[int(np.argmin(cost))])
    fine = around + STEP_S * np.arange(-4, 5)
    cost = law.costs(fine, backlash_rad, lag)
    best = int(np.argmin(cost))
    return float(cost[best]), float(fine[best]) + _vertex(cost, best) * STEP_S, backlash_rad


class _Law:
    """One run's regression of command minus reading on speed and effort, for each joint.

    All signals are eased alike where speed readings are noisy: a linear law also holds between moving means, and noise in
    what is regressed on would otherwise pass for delay. Easing hides how fast the servo is: a `noisy` run does not tell.
    """

    def __init__(self, run: Run, joints: Array) -> None:
        assert run.effort is not None
        self._time, self._turning = run.time_s, run.action[:, joints]
        noise = noise_of(run.velocity[:, joints])
        moves = np.std(run.velocity[:, joints], axis=0)
        self.noisy = bool(np.median(noise / np.maximum(moves, 1e-9)) > 0.05)
        self._width = 15 if self.noisy else 1
        self._position, self._speed = self._ease(run.position[:, joints]), self._ease(run.velocity[:, joints])
        self._effort = self._ease(run.effort[:, joints])
        self._late = np.arange(len(run)) > 5
        rate = np.gradient(self._turning, self._time, axis=0)
        self._rate = np.maximum(np.std(rate, axis=0), 1e-6)
        self._sent = dict(zip(BACKLASHES_RAD, self._behind(np.array(BACKLASHES_RAD)), strict=True))

    def _ease(self, rows: Array) -> Array:
        return rows if self._width == 1 else uniform_filter1d(rows, self._width, axis=0, mode="nearest")

    def _behind(self, candidates: Array) -> Array:
        """The command (candidates, T, joints) behind each backlash."""
        state = backlash.make_state(np.repeat(self._turning[:1], len(candidates), axis=0))
        gears = backlash.Backlash(candidates)
        made = []
        for row in self._turning:
            state, out = backlash.step(gears, state, np.broadcast_to(row, (len(candidates), len(row))))
            made.append(out)
        return np.array([self._ease(rows) for rows in np.stack(made, axis=1)])

    def _fit(self, delay: float, backlash_rad: float, lag: Array | None) -> tuple[Array, Array, Array]:
        """Coefficients (J, 3), what is left (J, T), and the command's rate (J, T); the time constant is fitted, or `lag`."""
        at = self._time - delay
        sent = np.stack([np.interp(at, self._time, column) for column in self._sent[backlash_rad].T], axis=1)
        keep = self._late & (at >= self._time[0])
        design = np.stack([self._speed, self._effort, np.ones_like(sent)], axis=2)[keep].swapaxes(0, 1)
        target = (sent - self._position)[keep].T
        if lag is not None:
            target = target - lag[:, None] * design[:, :, 0]
            design = design * np.array([0.0, 1.0, 1.0])
        scale = np.sqrt(np.maximum(np.mean(design**2, axis=1), 1e-18))
        design = design / scale[:, None]
        square = design.swapaxes(1, 2) @ design + 1e-6 * design.shape[1] * np.eye(3)
        solved = np.linalg.solve(square, np.einsum("jtk,jt->jk", design, target)[:, :, None])[:, :, 0]
        left = target - np.einsum("jtk,jk->jt", design, solved)
        solved = solved / scale
        if lag is not None:
            solved[:, 0] = lag
        return solved, left, np.gradient(sent, self._time, axis=0)[keep].T

    def costs(self, delays: Array, backlash_rad: float, lag: Array | None) -> Array:
        """What the law leaves at each delay, in seconds of each joint's usual speed; large jumps count little."""
        made = []
        for delay in delays:
            left = np.abs(self._fit(float(delay), backlash_rad, lag)[1]) / self._rate[:, None]
            made.append(np.mean(np.minimum(left, 4.0 * np.median(left, axis=1, keepdims=True))))
        return np.array(made)

    def solve(self, delay: float, backlash_rad: float, lag: Array | None) -> tuple[Array, Array, float]:
        """Time constant and compliance of each joint, and the spread of single delays."""
        solved, left, rate = self._fit(delay, backlash_rad, lag)
        fast = np.abs(rate) > np.quantile(np.abs(rate), 0.7, axis=1, keepdims=True)
        late = (left / np.where(rate == 0.0, np.inf, rate))[fast]
        spread = float(np.sqrt(np.mean(np.minimum(np.abs(late), 0.2) ** 2))) if len(late) else 0.0
        return solved[:, 0], solved[:, 1], spread


def noise_of(rows: Array) -> Array:
    """Standard deviation of white noise on smooth columns (T, n): third differences, robustly.

    A sensor is always noisy, an arm shakes at times: of pieces of half a second the quieter ones count.
    """
    third = np.abs(np.diff(rows, n=3, axis=0))
    pieces = np.array_split(third, max(1, len(third) // 25))
    quiet = np.quantile([np.median(piece, axis=0) for piece in pieces], 0.25, axis=0)
    return np.asarray(1.4826 * quiet / np.sqrt(20.0) / QUIET)


def _takes(cell: Cell, run: Run) -> tuple[Array, Array]:
    """Normal equations (J, 5, 5) and (J, 5) of effort on direction, speed, acceleration, a constant and the position."""
    assert run.effort is not None
    joints = cell.arm
    speed = run.velocity[:, joints]
    ahead = np.minimum(np.arange(len(run)) + EASES, len(run) - 1)
    back = np.maximum(np.arange(len(run)) - EASES, 0)
    gains = (speed[ahead] - speed[back]) / (run.time_s[ahead] - run.time_s[back])[:, None]
    free = ~run.holding & (np.arange(len(run)) > EASES)
    parts = [np.tanh(speed / TURN_RAD_S), speed, gains, np.ones_like(speed), run.position[:, joints]]
    design = np.stack(parts, axis=2)[free].swapaxes(0, 1)
    square = design.swapaxes(1, 2) @ design
    return square, np.einsum("jtk,jt->jk", design, run.effort[free][:, joints].T)


def solve_effort(following: Following, picks: Array) -> Array:
    """Friction, viscosity, inertia, load and its slope of each joint (J, 5), over the runs `picks`."""
    square, right = following.square[picks].sum(axis=0), following.right[picks].sum(axis=0)
    scale = np.sqrt(np.maximum(np.einsum("jii->ji", square), 1e-12))
    normal = square / (scale[:, :, None] * scale[:, None, :]) + 1e-4 * np.eye(5)
    return np.asarray(np.linalg.solve(normal, (right / scale)[:, :, None])[:, :, 0] / scale)


def _grip(cell: Cell, run: Run) -> float:
    """The gripper's largest effort where it was commanded to press with its full force; nan where it never was."""
    if cell.gripper is None or run.effort is None:
        return float("nan")
    stiffness = float(cell.model.actuator_gainprm[cell.gripper, 0])
    limit = float(np.abs(cell.model.actuator_forcerange[cell.gripper]).max())
    wanted = stiffness * np.abs(run.action[:, cell.gripper] - run.position[:, cell.gripper])
    pressing = wanted > limit
    if pressing.sum() < LONG_GRIP_ROWS or limit <= 0.0:
        return float("nan")
    return float(np.quantile(np.abs(run.effort[pressing, cell.gripper]), 0.9))


def _vertex(cost: Array, best: int) -> float:
    """Where between grid points a parabola through the three costs around the best one is lowest."""
    if not 0 < best < len(cost) - 1:
        return 0.0
    before, here, after = cost[best - 1 : best + 2]
    curve = before - 2.0 * here + after
    return float(np.clip(0.5 * (before - after) / curve, -0.5, 0.5)) if curve > 0.0 else 0.0
