"""Transport delay of a fast stream: the reading is the signal as it was, x(t - delay), between samples too.

An encoder read at 50 Hz is usually the last of a thousand samples per second, so its age is not a multiple of the loop's
step. The signal is interpolated linearly between the steps of the loop, which makes the delay exact for signals that
are straight within a step. Jitter changes the age of each reading; a dropped reading repeats the one before. For
packets that are held until the next one arrives, see `delay.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect.delay import Delay, travel_time_s
from twinloop.imperfect.parameters import Array, per_environment, require_noise


@dataclass(frozen=True)
class StreamState:
    """The last K values of the signal, in slots used in turn: `values` (N, K, ...), `seen` (N, ...) the last reading."""

    values: Array
    seen: Array
    steps: int


def make_state(params: Delay, initial: Array, dt_s: float) -> StreamState:
    """A signal that has always been `initial` (N, ...), for steps of `dt_s`."""
    if not dt_s > 0:
        raise WrongUse("the time between steps must be positive", got=dt_s, expected="dt_s > 0")
    initial = np.asarray(initial, dtype=np.float64)
    slots = int(np.ceil(params.max_delay_s / dt_s)) + 2
    return StreamState(np.repeat(initial[:, None], slots, axis=1), initial.copy(), 0)


def reset(state: StreamState, which: Array, initial: Array) -> StreamState:
    """The environments `which` (N,) bool begin again as if always at `initial` (N, ...); the others go on."""
    column = np.reshape(which, (-1,) + (1,) * (state.seen.ndim - 1))
    values = np.where(column[:, None], np.asarray(initial)[:, None], state.values)
    return replace(state, values=values, seen=np.where(column, initial, state.seen))


def step(
    params: Delay,
    state: StreamState,
    value: Array,
    dt_s: float,
    jitter: Array | None = None,
    drop: Array | None = None,
) -> tuple[StreamState, Array]:
    """The signal is `value` (N, ...) now; what is read now, (N, ...).

    `jitter` (N,) is standard normal, `drop` (N,) uniform in [0, 1). `dt_s` must be the one the state was made for.
    """
    environments, slots = state.values.shape[:2]
    slot = state.steps % slots
    values = state.values.copy()
    values[:, slot] = value
    age = travel_time_s(params, environments, jitter) / dt_s
    # A delay of 3 steps may come out as 2.9999999999999996: rounding keeps whole steps exact.
    age = np.round(age, 9)
    whole = age.astype(np.int64)
    if whole.max(initial=0) + 1 >= slots:
        raise WrongUse(
            "a delay is longer than the state remembers",
            got=f"{age.max() * dt_s:g} s",
            expected=f"at most {(slots - 2) * dt_s:g} s",
            remedy="make the state with these parameters and this dt_s",
        )
    part = (age - whole).reshape((-1,) + (1,) * (state.seen.ndim - 1))
    rows = np.arange(environments)
    newer = values[rows, (slot - whole) % slots]
    older = values[rows, (slot - whole - 1) % slots]
    seen = newer + part * (older - newer)
    drop = require_noise(drop, params.drop_probability, "Delay.drop_probability")
    if drop is not None:
        lost = np.flatnonzero(drop < per_environment(params.drop_probability, environments))
        seen[lost] = state.seen[lost]
    seen.flags.writeable = False
    return StreamState(values, seen, state.steps + 1), seen
