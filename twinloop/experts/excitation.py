"""Excitation signals: joint motion that makes parameters identifiable.

Four signals around the home pose, each joint within its own limits: a fraction of the way to its nearest limit, a maximum speed
and a maximum acceleration, which bounds the torque. All start and end at rest at home.

- `chirp`: a sweep from slow to fast, one joint leading the next by a random phase
- `multisine`: eight tones at once, random phases, so that every frequency is there all the time
- `prbs`: random steps between two levels, rounded to what speed and acceleration allow
- `waypoints`: smooth moves between random points
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts.motion import minimum_jerk
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading
from twinloop.imperfect.noise import draw_uniform
from twinloop.tasks import Cell

Shape = Callable[[Array, Array, Array], Array]

REACH = 0.4
"""Fraction of the way from home to the nearest joint limit, and at most this many radians."""

MAX_SPEED_RAD_S = 1.5
MAX_ACCELERATION_RAD_S2 = 12.0
SLOWEST_HZ, FASTEST_HZ = 0.1, 5.0
TONES = 8
FADE_S = 0.5
HOLDS = 64


class Excitation:
    """Plays a signal that is laid out when an episode begins; readings are ignored."""

    actor: Actor = "excitation"

    def __init__(self, setup: Setup, name: str, shape: Shape) -> None:
        cell = setup.cell
        self._name, self._shape = name, shape
        self._rows, self._last = np.arange(setup.count), setup.steps - 1
        self._time_s = np.arange(setup.steps) * cell.dt_s
        self._home, self._reach = excitation_range(cell)
        self._low, self._high = cell.control_low, cell.control_high
        self._plan = np.zeros((setup.count, setup.steps, len(cell.actuators)))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Lay the whole signal out."""
        uniform = draw_uniform(seeds, self._name, HOLDS, (len(self._home), 2)).astype(np.float64)
        fade = np.minimum(self._time_s, self._time_s[-1] - self._time_s) / FADE_S
        window = minimum_jerk(np.clip(fade, 0.0, 1.0))
        for row, environment in enumerate(ids.tolist()):
            signal = self._shape(self._time_s, self._reach, uniform[:, row]) * window[:, None]
            self._plan[environment] = np.clip(self._home + signal, self._low, self._high)

    def act(self, reading: Reading, step: Array) -> Array:
        """The next sample of every signal."""
        return self._plan[self._rows, np.minimum(step, self._last)]


def chirp(
    time_s: Array,
    reach: Array,
    uniform: Array,
    *,
    speed_rad_s: float = MAX_SPEED_RAD_S,
    acceleration_rad_s2: float = MAX_ACCELERATION_RAD_S2,
    fastest_hz: float = FASTEST_HZ,
) -> Array:
    """A logarithmic sweep, as large as speed and acceleration allow at each moment."""
    length_s = max(float(time_s[-1]), 1e-6)
    growth = np.log(fastest_hz / SLOWEST_HZ)
    rate = 2.0 * np.pi * SLOWEST_HZ * np.exp(growth * time_s / length_s)
    angle = (rate - rate[0]) * length_s / growth
    size = _allowed(reach[None], rate[:, None], speed_rad_s, acceleration_rad_s2)
    return np.asarray(size * np.sin(angle[:, None] + 2.0 * np.pi * uniform[0, :, 0]))


def multisine(time_s: Array, reach: Array, uniform: Array) -> Array:
    """Tones from slow to fast; each gets an equal part of what it may have alone."""
    total = np.zeros((len(time_s), len(reach)))
    for tone, rate in enumerate(2.0 * np.pi * np.geomspace(SLOWEST_HZ, FASTEST_HZ, TONES)):
        phase = 2.0 * np.pi * uniform[tone, :, 0]
        total += _allowed(reach, rate) / TONES * np.sin(rate * time_s[:, None] + phase)
    # Tones rarely peak together: three times the amplitude stays within the limits almost always; the rest is clipped.
    return np.clip(3.0 * total, -reach, reach)


def prbs(time_s: Array, reach: Array, uniform: Array) -> Array:
    """Steps between two levels after random holds of 0.4 to 1.6 s, each taken as fast as allowed."""
    levels = np.where(uniform[:, :, 0] < 0.5, -1.0, 1.0) * reach
    return _moves(time_s, levels, 0.4 + 1.2 * uniform[:, :, 1], hurried=True)


def waypoints(time_s: Array, reach: Array, uniform: Array) -> Array:
    """Smooth moves of 0.4 to 1.6 s between random points."""
    levels = (2.0 * uniform[:, :, 0] - 1.0) * reach
    return _moves(time_s, levels, 0.4 + 1.2 * uniform[:, :, 1], hurried=False)


def _moves(time_s: Array, levels: Array, lengths_s: Array, *, hurried: bool) -> Array:
    made = np.zeros((len(time_s), levels.shape[1]))
    for joint in range(levels.shape[1]):
        before = np.concatenate([[0.0], levels[:-1, joint]])
        step = np.abs(levels[:, joint] - before)
        # A minimum-jerk move of length d in time T peaks at speed 1.875 d / T and acceleration 5.77 d / T^2.
        needed_s = np.maximum(1.875 * step / MAX_SPEED_RAD_S, np.sqrt(5.77 * step / MAX_ACCELERATION_RAD_S2))
        whole_s = np.maximum(lengths_s[:, joint], needed_s)
        starts_s = np.concatenate([[0.0], np.cumsum(whole_s)])
        index = np.minimum(np.searchsorted(starts_s, time_s, side="right") - 1, len(levels) - 1)
        moving_s = needed_s if hurried else whole_s
        share = np.clip((time_s - starts_s[index]) / np.maximum(moving_s[index], 1e-9), 0.0, 1.0)
        made[:, joint] = before[index] + (levels[index, joint] - before[index]) * minimum_jerk(share)
    return made


def _allowed(
    reach: Array,
    rate_rad_s: Any,
    speed_rad_s: float = MAX_SPEED_RAD_S,
    acceleration_rad_s2: float = MAX_ACCELERATION_RAD_S2,
) -> Array:
    """The largest sine at this rate within reach, speed and acceleration."""
    by_speed = speed_rad_s / rate_rad_s
    by_acceleration = acceleration_rad_s2 / (rate_rad_s * rate_rad_s)
    return np.asarray(np.minimum(reach, np.minimum(by_speed, by_acceleration)))


def excitation_range(cell: Cell, share: float = REACH) -> tuple[Array, Array]:
    """Home of every actuator, and how far from it a signal may go; a gripper stays where it is."""
    home = cell.positions(home_qpos(cell))[0]
    room = np.minimum(cell.control_high - home, home - cell.control_low)
    reach = share * np.clip(room, 0.0, 1.0)
    if cell.gripper is not None:
        reach[cell.gripper] = 0.0
    return home, reach


def home_qpos(cell: Cell) -> Array:
    """The state (1, nq) in which an episode starts."""
    qpos = np.array(cell.model.qpos0)[None]
    for joint, position in cell.twin.home.items():
        qpos[:, cell.model.joint(joint).qposadr[0]] = position
    return qpos


def _register(name: str, shape: Shape) -> None:
    EXPERTS.register(name)(lambda setup: Excitation(setup, name, shape))


for _name, _shape in (("chirp", chirp), ("multisine", multisine), ("prbs", prbs), ("waypoints", waypoints)):
    _register(_name, _shape)
