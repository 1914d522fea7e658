"""A trajectory of commands that can always still stop: within position, speed, acceleration, jerk and workspace.

Each control step the trajectory goes on to the target only if, from there, the shortest stop that the limits allow stays inside
everything. Otherwise it goes as far towards the target as that permits; stopping itself always does. So whatever is asked of it,
by induction from a robot at rest, no command leaves the limits. All limits hold for differences of the commands themselves:
speed is the difference of two commands over the control step, acceleration that of two speeds, jerk that of two accelerations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.robots.limits import limit_command
from twinloop.robots.protocol import Limits

NO_LIMIT = 1e9
"""In place of an infinite limit, so that differences stay finite."""
MAX_STOP_STEPS = 1000
"""Control steps that a stop may take; limits that need more are a mistake."""
TRIES = 17
"""Accelerations that are compared in each step, between the wanted one and that of the stop."""
TOLERANCE = 1e-9

Margins = Callable[[Array, Array], Array]
"""Of positions (S, K, A) that follow each other after the present one (A,), how far each is inside every limit: (S, K, C)."""


@dataclass(frozen=True)
class Bounds:
    """Limits of each element of the command, (A,) each, and the control step."""

    low: Array
    high: Array
    speed: Array
    acceleration: Array
    jerk: Array
    step_s: float

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            steps = np.max(
                np.where(self.speed < NO_LIMIT, self.speed, 0.0) / self.acceleration / self.step_s
                + 2.0
                * np.where(self.acceleration < NO_LIMIT, self.acceleration, 0.0)
                / self.jerk
                / self.step_s
            )
        if not steps <= 0.5 * MAX_STOP_STEPS:
            raise WrongUse(
                "the limits leave a robot hardly able to stop",
                got=f"a stop of {steps * self.step_s:.1f} s",
                expected=f"at most {0.5 * MAX_STOP_STEPS * self.step_s:.1f} s",
                remedy="a lower speed, or more acceleration and jerk",
            )


@dataclass(frozen=True)
class Motion:
    """Position, speed and acceleration of commands, (..., A) each."""

    position: Array
    velocity: Array
    acceleration: Array

    def after(self, acceleration: Array, step_s: float) -> Motion:
        """One control step later, with this acceleration."""
        velocity = self.velocity + step_s * acceleration
        return Motion(self.position + step_s * velocity, velocity, acceleration)


def brake(motion: Motion, bounds: Bounds) -> Array:
    """The next acceleration (..., A) of the shortest stop.

    Braking must be released at the jerk limit too: from an acceleration of n jerk steps, the speed still falls by n (n - 1) / 2 of
    them. The acceleration is the largest from which the release ends at rest.
    """
    unit = bounds.jerk * bounds.step_s
    speed = np.abs(motion.velocity) / (unit * bounds.step_s)
    whole = np.floor((np.sqrt(1.0 + 8.0 * speed) - 1.0) / 2.0)
    steps = (speed + 0.5 * whole * (whole + 1.0)) / (whole + 1.0)
    wanted = -np.sign(motion.velocity) * np.minimum(unit * steps, bounds.acceleration)
    return np.asarray(np.clip(wanted, motion.acceleration - unit, motion.acceleration + unit))


def stop_from(motion: Motion, bounds: Bounds) -> tuple[Array, Array]:
    """Positions and speeds (S, ..., A) of the shortest stop, `motion` itself first."""
    positions, velocities = [motion.position], [motion.velocity]
    for _ in range(MAX_STOP_STEPS):
        if max(np.abs(motion.velocity).max(), np.abs(motion.acceleration).max() * bounds.step_s) <= TOLERANCE:
            break
        motion = motion.after(brake(motion, bounds), bounds.step_s)
        positions.append(motion.position)
        velocities.append(motion.velocity)
    return np.stack(positions), np.stack(velocities)


class LimitedMotion:
    """A trajectory with limits of range and speed alone: to the target, as far as one control step reaches."""

    resting = True

    def __init__(self, limits: Limits, position: Array, rate_hz: float) -> None:
        self._limits, self._position, self._rate_hz = limits, position, rate_hz

    def rest(self) -> None:
        """It rests after every command."""

    def advance(
        self, target: Array, speed: Array | None = None, stay: bool = False
    ) -> tuple[Array, frozenset[str]]:
        """As `SafeMotion.advance`."""
        limits = self._limits
        kept = target if stay else np.clip(target, limits.low, limits.high)
        if stay:
            limits = replace(limits, low=(-np.inf,) * len(kept), high=(np.inf,) * len(kept))
        self._position = limit_command(limits, kept, self._position, self._rate_hz)
        causes = {
            "range": not np.array_equal(kept, target),
            "speed": not np.array_equal(self._position, kept),
        }
        return self._position.copy(), frozenset(name for name, active in causes.items() if active)

    def correct(self, before: Array, sent: Array) -> None:
        """The robot itself went only to `sent`, between the last command and this one."""
        self._position = np.clip(sent, np.minimum(before, self._position), np.maximum(before, self._position))


class SafeMotion:
    """The trajectory of commands, from a robot at rest at `position` (A,).

    A position outside of a limit is brought back: it never gets further outside than it is.

    Args:
        bounds: The limits of each element.
        position: Where the robot is.
        margins: Of further limits, such as a workspace; called with positions (S, K, A) and the position before them.
    """

    def __init__(self, bounds: Bounds, position: Array, margins: Margins | None = None) -> None:
        self.bounds, self._margins = bounds, margins
        self._rest_at(np.array(position, np.float64))
        self._outside = np.minimum(0.0, np.stack([position - bounds.low, bounds.high - position]))
        self._outside_further = np.zeros(0)
        if margins is not None:
            inside = margins(self.motion.position[None, None], self.motion.position)
            self._outside_further = np.minimum(0.0, inside.min(axis=(0, 1)))

    def _rest_at(self, position: Array) -> None:
        self.motion = Motion(position, np.zeros_like(position), np.zeros_like(position))
        self._target: Array | None = None

    @property
    def resting(self) -> bool:
        """The commands stand still."""
        return bool(np.abs(self.motion.velocity).max() <= TOLERANCE / self.bounds.step_s)

    def rest(self) -> None:
        """No command has followed the last one: the trajectory ended there."""
        self._rest_at(self.motion.position)

    def correct(self, before: Array, sent: Array) -> None:
        """Whatever the robot makes of a command, the trajectory goes on from the command."""

    def advance(
        self, target: Array, speed: Array | None = None, stay: bool = False
    ) -> tuple[Array, frozenset[str]]:
        """The command of the next control step.

        Args:
            target: Where to go, finite, (A,).
            speed: Lower speed limits for this step.
            stay: Whether the target is where the robot is, and may be outside of its range.

        Returns:
            The command, (A,): the target itself where the limits allow it; and which limits did not.
        """
        bounds = (
            self.bounds if speed is None else replace(self.bounds, speed=np.minimum(self.bounds.speed, speed))
        )
        position = self.motion.position
        low, high = (
            (np.minimum(bounds.low, position), np.maximum(bounds.high, position))
            if stay
            else (bounds.low, bounds.high)
        )
        kept = np.clip(target, low, high)
        drift = (kept - (kept if self._target is None else self._target)) / bounds.step_s
        wanted, causes = _follow(self.motion, kept, drift, bounds)
        if not np.array_equal(kept, target):
            causes = causes | {"range"}
        reached = not causes - {"range"}
        chosen, further = self._restrict(wanted, bounds)
        now = self.motion.after(chosen, bounds.step_s)
        if reached and not further:
            now = replace(now, position=kept.copy())
        self.motion, self._target = now, kept
        return now.position.copy(), causes | further

    def _restrict(self, wanted: Array, bounds: Bounds) -> tuple[Array, frozenset[str]]:
        """The acceleration nearest to the wanted one from which everything can still stop."""
        inside, further = self._look_ahead(wanted[None], bounds)
        if inside.all() and further.all():
            self._remember(wanted, bounds)
            return wanted, frozenset()
        causes = set()
        stop = brake(self.motion, bounds)
        fractions = np.linspace(1.0, 0.0, TRIES)[:, None]
        if not inside.all():
            tries = stop + fractions * (wanted - stop)
            inside, _ = self._look_ahead(tries, bounds, joints_only=True)
            inside[-1] = True
            wanted = np.take_along_axis(tries, np.argmax(inside, axis=0)[None], axis=0)[0]
            causes.add("range")
        tries = stop + fractions * (wanted - stop)
        inside, further = self._look_ahead(tries, bounds)
        possible = inside.all(axis=1) & further
        possible[-1] = True
        best = int(np.argmax(possible))
        if best:
            causes.add("workspace")
        self._remember(tries[best], bounds)
        return tries[best], frozenset(causes)

    def _look_ahead(self, tries: Array, bounds: Bounds, joints_only: bool = False) -> tuple[Array, Array]:
        """Whether a stop after each of the accelerations (K, A) keeps the limits of its elements (K, A), and the others (K,)."""
        now = Motion(*(np.broadcast_to(part, tries.shape) for part in _parts(self.motion)))
        positions, velocities = stop_from(now.after(tries, bounds.step_s), bounds)
        least = np.minimum(0.0, self._outside) - TOLERANCE
        inside = ((positions - bounds.low).min(axis=0) >= least[0]) & (
            (bounds.high - positions).min(axis=0) >= least[1]
        )
        inside &= (
            np.abs(velocities).max(axis=0)
            <= np.maximum(bounds.speed, np.abs(self.motion.velocity)) + TOLERANCE
        )
        if self._margins is None or joints_only:
            return inside, np.ones(len(tries), dtype=bool)
        margins = self._margins(positions, self.motion.position).min(axis=0)
        return inside, np.asarray((margins >= self._outside_further - TOLERANCE).all(axis=1))

    def _remember(self, chosen: Array, bounds: Bounds) -> None:
        """Where the stop from here ends outside: from now on nothing may go further out than that."""
        if not self._outside.any() and not self._outside_further.any():
            return
        positions, _ = stop_from(self.motion.after(chosen, bounds.step_s), bounds)
        reach = np.stack([(positions - bounds.low).min(axis=0), (bounds.high - positions).min(axis=0)])
        self._outside = np.maximum(self._outside, np.minimum(0.0, reach))
        if self._margins is not None:
            inside = self._margins(positions[:, None], self.motion.position).min(axis=(0, 1))
            self._outside_further = np.maximum(self._outside_further, np.minimum(0.0, inside))


def _parts(motion: Motion) -> tuple[Array, Array, Array]:
    return motion.position, motion.velocity, motion.acceleration


def _follow(motion: Motion, target: Array, drift: Array, bounds: Bounds) -> tuple[Array, frozenset[str]]:
    """The acceleration (A,) that leads to a target which moves at `drift`: at once where the limits allow it, else so that it
    comes to rest beside the moving target as soon as it can. Also which limits forbid the former."""
    step_s, unit = bounds.step_s, bounds.jerk * bounds.step_s
    velocity = (target - motion.position) / step_s
    exact = (velocity - motion.velocity) / step_s
    low = np.maximum(motion.acceleration - unit, -bounds.acceleration)
    high = np.minimum(motion.acceleration + unit, bounds.acceleration)
    too_fast = np.abs(velocity) > bounds.speed + TOLERANCE
    too_strong = np.abs(exact) > bounds.acceleration + TOLERANCE
    too_sudden = (exact < low - TOLERANCE) | (exact > high + TOLERANCE)
    # It must also be able to stay there: a leap onto a target that stands still would overshoot it.
    too_sudden |= np.abs(velocity - drift) > 0.5 * unit * step_s + TOLERANCE
    missed = too_fast | too_strong | too_sudden
    if not missed.any():
        return exact, frozenset()
    kinds = {
        "speed": too_fast,
        "acceleration": too_strong & ~too_fast,
        "jerk": too_sudden & ~too_fast & ~too_strong,
    }
    chosen = exact.copy()
    chosen[missed] = _approach(motion, target, drift, bounds, low, high)[missed]
    return chosen, frozenset(name for name, where in kinds.items() if where.any())


def _approach(motion: Motion, target: Array, drift: Array, bounds: Bounds, low: Array, high: Array) -> Array:
    """The acceleration (A,) after which the shortest stop, seen from the moving target, ends on it."""
    columns = np.arange(len(target))
    for _ in range(2):
        tries = low + np.linspace(0.0, 1.0, TRIES)[:, None] * (high - low)
        velocity = motion.velocity + bounds.step_s * tries
        position = motion.position + bounds.step_s * velocity - target
        ends = stop_from(Motion(position, velocity - drift, tries), bounds)[0][-1]
        after = np.clip((ends < 0.0).sum(axis=0), 1, TRIES - 1)
        low, high = tries[after - 1, columns], tries[after, columns]
        first, last = ends[after - 1, columns], ends[after, columns]
    part = np.clip(-first / np.where(last > first, last - first, 1.0), 0.0, 1.0)
    return np.asarray(low + part * (high - low))
