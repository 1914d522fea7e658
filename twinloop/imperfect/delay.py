"""Transport delay of packets: late, jittered, sometimes lost; what arrived last is held.

Each value sent arrives `delay_s` plus jitter later, or never. A receiver sees the newest *sent* value that has arrived
(a packet overtaken by a newer one is stale and ignored) and holds it. That is what command channels and camera drivers
do. Delays are exact to the time between two receptions: call `step` at the rate of the loop, or `send` once per control
step and `receive` / `advance` at every physics step. For readings of a stream that is sampled much faster than the loop,
where x(t - delay) matters between samples, see `stream.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect.parameters import Array, Value, check_field, per_environment, require_noise

JITTER_LIMIT = 4.0
"""Jitter is cut at this many standard deviations, so that the memory a delay needs is bounded."""

SAME_TIME_S = 1e-9
"""Less than this is no time at all."""


@dataclass(frozen=True)
class Delay:
    """`jitter_s` is a standard deviation around `delay_s`; no packet arrives before it was sent."""

    delay_s: Value = 0.0
    jitter_s: Value = 0.0
    drop_probability: Value = 0.0

    def __post_init__(self) -> None:
        check_field(self, "delay_s", at_least=0.0)
        check_field(self, "jitter_s", at_least=0.0)
        check_field(self, "drop_probability", at_least=0.0, at_most=1.0)

    @property
    def max_delay_s(self) -> float:
        """The longest any packet of any environment can take."""
        return float(np.max(np.asarray(self.delay_s) + JITTER_LIMIT * np.asarray(self.jitter_s)))


@dataclass(frozen=True)
class DelayState:
    """Packets under way, in K slots used in turn, and what the receiver holds.

    `values` (N, K, ...), `remaining_s` (N, K) until arrival (infinite: empty or lost), `held` (N, ...), `sent` how many
    packets there have been.
    """

    values: Array
    remaining_s: Array
    held: Array
    sent: int


def make_state(params: Delay, initial: Array, dt_s: float) -> DelayState:
    """Nothing under way and `initial` (N, ...) held, for packets sent every `dt_s` or more rarely."""
    if not dt_s > 0:
        raise WrongUse("the time between packets must be positive", got=dt_s, expected="dt_s > 0")
    initial = np.asarray(initial, dtype=np.float64)
    environments = len(initial)
    slots = int(np.ceil(params.max_delay_s / dt_s)) + 2
    return DelayState(
        values=np.zeros((environments, slots, *initial.shape[1:])),
        remaining_s=np.full((environments, slots), np.inf),
        held=initial.copy(),
        sent=0,
    )


def reset(state: DelayState, which: Array, initial: Array) -> DelayState:
    """The environments `which` (N,) bool begin again with `initial` (N, ...) held; the others go on."""
    column = np.reshape(which, (-1,) + (1,) * (state.held.ndim - 1))
    return replace(
        state,
        remaining_s=np.where(np.asarray(which)[:, None], np.inf, state.remaining_s),
        held=np.where(column, initial, state.held),
    )


def step(
    params: Delay,
    state: DelayState,
    value: Array,
    dt_s: float,
    jitter: Array | None = None,
    drop: Array | None = None,
) -> tuple[DelayState, Array]:
    """Send `value` (N, ...) now, see what the receiver holds now, and let `dt_s` pass."""
    state = send(params, state, value, jitter, drop)
    state, held = receive(state)
    return advance(state, dt_s), held


def send(
    params: Delay, state: DelayState, value: Array, jitter: Array | None = None, drop: Array | None = None
) -> DelayState:
    """Put `value` on its way. `jitter` (N,) is standard normal, `drop` (N,) uniform in [0, 1)."""
    environments, slots = state.remaining_s.shape
    slot = state.sent % slots
    overtaken = state.remaining_s[:, slot]
    if np.any(np.isfinite(overtaken) & (overtaken > SAME_TIME_S)):
        raise WrongUse(
            "more packets are under way than the state has room for",
            got=f"{slots} packets",
            expected="no more than one packet per dt_s given to make_state",
            remedy="make the state with the shortest time between two packets and the longest delay",
        )
    remaining_s = state.remaining_s.copy()
    remaining_s[:, slot] = travel_time_s(params, environments, jitter)
    drop = require_noise(drop, params.drop_probability, "Delay.drop_probability")
    if drop is not None:
        lost = drop < per_environment(params.drop_probability, environments)
        remaining_s[lost, slot] = np.inf
    values = state.values.copy()
    values[:, slot] = value
    return replace(state, values=values, remaining_s=remaining_s, sent=state.sent + 1)


def receive(state: DelayState) -> tuple[DelayState, Array]:
    """What each receiver holds now: (N, ...)."""
    slots = state.remaining_s.shape[1]
    # Slot k was last used by the largest packet number below `sent` that leaves k modulo the number of slots.
    numbers = state.sent - 1 - (state.sent - 1 - np.arange(slots)) % slots
    newest = np.where(state.remaining_s <= SAME_TIME_S, numbers, -1).max(axis=1)
    # Slots are reused in the order of sending, so no packet older than the held one can outlast it here.
    held = state.held.copy()
    rows = np.flatnonzero(newest >= 0)
    held[rows] = state.values[rows, newest[rows] % slots]
    held.flags.writeable = False
    return replace(state, held=held), held


def advance(state: DelayState, dt_s: float) -> DelayState:
    """Let time pass."""
    return replace(state, remaining_s=state.remaining_s - dt_s)


def travel_time_s(params: Delay, environments: int, jitter: Array | None) -> Array:
    """How long a packet takes in each environment (N,), given its standard normal `jitter`."""
    delay_s = per_environment(params.delay_s, environments)
    jitter = require_noise(jitter, params.jitter_s, "Delay.jitter_s")
    if jitter is None:
        return delay_s
    spread_s = per_environment(params.jitter_s, environments)
    travel_s: Array = delay_s + spread_s * np.clip(jitter, -JITTER_LIMIT, JITTER_LIMIT)
    return np.maximum(travel_s, 0.0, out=travel_s)
