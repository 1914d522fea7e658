"""Faults put into clean recordings: each at its documented detection limit (0), beyond it (1) and gross (2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from twinloop.episode import Episode, Event, Schema, Signal
from twinloop.quality.settings import Settings
from twinloop.quality.signals import spikes
from twinloop.quality.view import View

Inject = Callable[[Episode, int, np.random.Generator], "Faulty | None"]

STATE = "observation.state"


@dataclass(frozen=True)
class Faulty:
    """An episode with one fault in it, and the channel it is in; the settings under which it should be found."""

    episode: Episode
    channel: str | None = None
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Fault:
    """One kind of fault: the check that should find it, and what its three sizes are."""

    code: str
    sizes: tuple[str, str, str]
    inject: Inject


FAULTS: dict[str, Fault] = {}


def fault(name: str, code: str, *sizes: str) -> Callable[[Inject], Inject]:
    def enter(inject: Inject) -> Inject:
        FAULTS[name] = Fault(code, (sizes[0], sizes[1], sizes[2]), inject)
        return inject

    return enter


def rebuilt(
    episode: Episode,
    *,
    rows: np.ndarray | None = None,
    signals: Mapping[str, np.ndarray] | None = None,
    **changes,
) -> Episode:
    """A copy with some rows or signals replaced, unchecked as foreign data is."""
    values = dict(episode.signals) | dict(signals or {})
    time_s = changes.pop("time_s", episode.time_s)
    if rows is not None:
        values, time_s = {name: array[rows] for name, array in values.items()}, time_s[rows]
    return replace(episode, time_s=time_s, signals=values, **changes)


def with_channel(episode: Episode, signal: str, element: int, values: np.ndarray) -> Episode:
    array = np.array(episode[signal])
    array[:, element] = values
    return rebuilt(episode, signals={signal: array})


def liveliest(episode: Episode, signal: str = STATE, unit: str | None = None) -> tuple[int, str]:
    """The element that moves most, and its channel's name."""
    view = View(episode, Settings())
    channels = [c for c in view.channels if c.signal.name == signal and unit in (None, c.unit)]
    best = max(channels, key=lambda channel: channel.range)
    return best.element, best.name


@fault("dropped samples", "dropped", "1 row", "1 %", "10 %")
def drop_rows(episode, size, rng):
    inner = len(episode) - 2
    count = (1, max(1, inner // 100), inner // 10)[size]
    gone = 1 + rng.choice(inner, count, replace=False)
    return Faulty(rebuilt(episode, rows=np.setdiff1d(np.arange(len(episode)), gone)))


@fault("gap", "gap", "0.3 s", "1 s", "3 s")
def leave_gap(episode, size, rng):
    length_s = (0.3, 1.0, 3.0)[size]
    if episode.duration_s < 3 * length_s:
        return None
    start_s = episode.time_s[0] + rng.uniform(0.2, 0.6) * episode.duration_s
    rows = (episode.time_s < start_s) | (episode.time_s > start_s + length_s)
    return Faulty(rebuilt(episode, rows=np.flatnonzero(rows)))


@fault("wrapped angle", "wrap", "1 wrap", "2 wraps", "at every second row")
def wrap_angle(episode, size, rng):
    element, name = liveliest(episode, unit="rad") if _has_angles(episode) else (0, "")
    if not name:
        return None
    values = np.array(episode[STATE][:, element], np.float64)
    if size == 2:  # at rest on the cut, where noise decides the side
        values = (
            np.pi - 0.01 + 0.002 * np.arange(len(values)) / len(values) + 0.02 * (np.arange(len(values)) % 2)
        )
    else:
        values += np.linspace(0, 2 * np.pi * (1 + size), len(values)) + np.pi - values[0] - 0.5
        values = np.maximum.accumulate(values)
    return Faulty(with_channel(episode, STATE, element, (values + np.pi) % (2 * np.pi) - np.pi), name)


@fault("jitter", "jitter", "σ = 0.1 periods", "0.2", "0.3")
def scatter_times(episode, size, rng):
    period_s = float(np.median(np.diff(episode.time_s)))
    shift = np.clip(rng.normal(0, (0.1, 0.2, 0.3)[size], len(episode)), -0.45, 0.45)
    return Faulty(rebuilt(episode, time_s=episode.time_s + shift * period_s))


@fault("time runs backwards", "time_order", "1 row", "3 rows", "10 rows")
def turn_time_back(episode, size, rng):
    time_s = np.array(episode.time_s)
    for row in 1 + rng.choice(len(time_s) - 2, (1, 3, 10)[size], replace=False):
        time_s[row] = time_s[row - 1]
    return Faulty(rebuilt(episode, time_s=time_s))


@fault("duplicated samples", "duplicated", "5 %", "15 %", "50 %")
def repeat_rows(episode, size, rng):
    if not _in_motion(episode):
        return None
    rows = np.arange(len(episode))
    again = 1 + rng.choice(len(rows) - 1, int((0.05, 0.15, 0.5)[size] * len(rows)), replace=False)
    rows[again] = again - 1
    rows = np.minimum.accumulate(rows[::-1])[::-1]
    measured = {name: array[rows] for name, array in episode.signals.items() if name != "action"}
    return Faulty(rebuilt(episode, signals=measured))


@fault("declared rate wrong", "rate_mismatch", "5 %", "20 %", "x 2")
def declare_rate(episode, size, rng):
    schema = replace(episode.schema, rate_hz=episode.schema.rate_hz * (1.05, 1.2, 2.0)[size])
    return Faulty(replace(episode, schema=schema))


@fault("rate too low", "low_rate", "25 Hz", "10 Hz", "5 Hz")
def thin_out(episode, size, rng):
    every = round(1 / np.median(np.diff(episode.time_s)) / (25, 10, 5)[size])
    settings = Settings(purpose="identify")
    return Faulty(rebuilt(episode, rows=np.arange(0, len(episode), max(every, 2))), None, settings)


@fault("clock drift", "clock_drift", "1 period", "3 periods", "10 periods")
def let_clock_drift(episode, size, rng):
    period_s = float(np.median(np.diff(episode.time_s)))
    rate = (1, 3, 10)[size] * period_s / episode.duration_s * rng.choice([-1, 1])
    clock = episode.time_s + 3.0 + rate * (episode.time_s - episode.time_s[0])
    clock = clock + rng.normal(0, 0.1 * period_s, len(clock))
    return Faulty(with_clock(episode, clock), "clock.camera")


def with_clock(episode: Episode, clock: np.ndarray) -> Episode:
    """The episode with a second stream's own time stamps."""
    signals = (*episode.schema.signals, Signal("clock.camera", (1,), ("s",), "float64"))
    schema = Schema(signals, episode.schema.rate_hz, episode.schema.cameras, episode.schema.robot_type)
    return rebuilt(episode, signals={"clock.camera": clock[:, None]}, schema=schema)


@fault("not a number", "not_a_number", "1 row", "1 %", "10 %")
def make_holes(episode, size, rng):
    element, name = liveliest(episode)
    values = np.array(episode[STATE][:, element])
    count = (1, max(1, len(values) // 100), len(values) // 10)[size]
    values[rng.choice(len(values), count, replace=False)] = np.nan
    return Faulty(with_channel(episode, STATE, element, values), name)


@fault("dead channel", "stuck", "last value kept", "zero", "wild constant")
def kill_channel(episode, size, rng):
    element, name = liveliest(episode)
    values = np.full(len(episode), (episode[STATE][0, element], 0.0, 7.0)[size])
    return (
        Faulty(with_channel(episode, STATE, element, values), name)
        if View(episode, Settings()).pairs
        else None
    )


@fault("stuck channel", "stuck", "travel of 5 usual errors", "7", "10")
def freeze_channel(episode, size, rng):
    view = View(episode, Settings())
    element, name = liveliest(episode)
    following = view.following.get(name)
    pair = next((p for p in view.pairs if p.response.name == name), None)
    if following is None or pair is None:
        return None
    sent = np.interp(view.time_s - following.delay.value, view.time_s, pair.command.values)
    usual = np.percentile(np.abs(pair.response.values - sent - following.offset), 95)
    travel = max((5, 7, 10)[size] * usual, 0.15 * pair.command.range, 25 * pair.response.step)
    shortest = int(0.6 / view.period_s) + 1
    for first in rng.permutation(len(sent) - shortest - 1)[:400]:
        away = np.abs(sent[first:] - pair.response.values[first] + following.offset) >= travel
        if away.any() and np.argmax(away) < 6 / view.period_s:
            stop = first + max(int(np.argmax(away)) + 1, shortest)
            values = np.array(pair.response.values)
            values[first:stop] = values[first]
            return Faulty(with_channel(episode, STATE, element, values), name)
    return None


@fault("clipped reading", "clipped", "5 % of rows", "10 %", "30 %")
def clip_reading(episode, size, rng):
    return _clip(episode, STATE, (5, 10, 30)[size])


@fault("saturated command", "saturated", "15 % of rows", "25 %", "40 %")
def clip_command(episode, size, rng):
    return _clip(episode, "action", (15, 25, 40)[size])


def _clip(episode: Episode, signal: str, percent: float) -> Faulty | None:
    """Only motions that cross the limit at speed, several times, are within what is promised."""
    if signal not in episode.signals:
        return None
    element, name = liveliest(episode, signal)
    values = np.array(episode[signal][:, element], np.float64)
    limit = np.percentile(values, 100 - percent)
    crossing = np.flatnonzero((values[2:-3] <= limit) & (values[3:-2] > limit)) + 2
    channel = View(episode, Settings()).channel(name)
    change = np.abs(np.diff(values))
    fast = max(4 * channel.step, 0.2 * float(np.percentile(change[change > 0], 90)))
    above = values > limit
    if len(crossing) < 3 or not channel.moves or limit == 0:
        return None
    if np.median(change[crossing - 1]) < fast or above.sum() / len(crossing) < 6:
        return None
    view = View(episode, Settings())
    pair = view.pair_of(view.channel(name))
    if pair is not None:
        # The overshoot after a step can be cut off without leaving a trace; what follows a moving command cannot.
        lag_rows = round(view.following[name].delay.value / view.period_s) if name in view.following else 0
        sent = np.roll(pair.command.values, lag_rows)
        if np.median([np.ptp(sent[row : row + 6]) for row in crossing]) < 10 * channel.step:
            return None
    return Faulty(with_channel(episode, signal, element, np.minimum(values, limit)), name)


@fault("spikes", "spike", "1 sample, 1.5 x threshold", "1 % of rows, 3 x", "2 % of rows, 10 x")
def add_spikes(episode, size, rng):
    element, name = liveliest(episode)
    channel = View(episode, Settings()).channel(name)
    _, threshold = spikes(channel, Settings().spike_scales)
    values = np.array(channel.values)
    places = np.arange(5, len(values) - 5, 5)
    height = (1.5, 3.0, 10.0)[size] * threshold
    calm = places[np.abs(values[places + 1] - values[places - 1]) < 0.2 * height]
    count = max(1, (1, len(values) // 100, len(values) // 50)[size])
    if len(calm) < count:
        return None
    rows = rng.choice(calm, count, replace=False)
    values[rows] += rng.choice([-1, 1], count) * height
    return Faulty(with_channel(episode, STATE, element, values), name)


@fault("coarse resolution", "quantization", "24 steps", "12", "6")
def coarsen(episode, size, rng):
    element, name = liveliest(episode)
    channel = View(episode, Settings()).channel(name)
    step = channel.range / (24, 12, 6)[size]
    if channel.step > 0.1 * step:
        return None
    return Faulty(with_channel(episode, STATE, element, np.rint(channel.values / step) * step), name)


@fault("degrees called radians", "wrong_unit", "one joint", "the state", "state and command")
def use_degrees(episode, size, rng):
    unit = episode.schema.signal(STATE).units
    if "rad" not in unit or not View(episode, Settings()).following:
        return None
    element, _ = liveliest(episode, unit="rad")
    factor = np.ones(episode[STATE].shape[1])
    joints = np.array([u == "rad" for u in (unit if len(unit) > 1 else unit * len(factor))])
    factor[joints] = np.degrees(1)
    if size == 0:
        return Faulty(with_channel(episode, STATE, element, np.degrees(episode[STATE][:, element])))
    changed = {STATE: episode[STATE] * factor}
    if size == 2:
        changed["action"] = episode["action"] * factor
    return Faulty(rebuilt(episode, signals=changed))


@fault("lag", "lag", "+ 0.25 s", "+ 0.4 s", "+ 0.7 s")
def delay_state(episode, size, rng):
    extra_s = (0.25, 0.4, 0.7)[size]
    view = View(episode, Settings())
    delays = {n: found.delay for n, found in view.following.items()}
    sharp = {n: d for n, d in delays.items() if d.standard_deviation < 0.01 and d.value + extra_s < 1}
    if not sharp:
        return None
    name = min(sharp, key=lambda n: sharp[n].standard_deviation)
    return Faulty(delayed(episode, extra_s), name)


def delayed(episode: Episode, extra_s: float) -> Episode:
    """What is measured comes later."""
    late = {
        name: np.stack(
            [np.interp(episode.time_s - extra_s, episode.time_s, column) for column in array.T], axis=1
        )
        for name, array in episode.signals.items()
        if name != "action"
    }
    return rebuilt(episode, signals=late)


@fault("offset", "offset", "0.15 rad", "0.3 rad", "0.5 rad")
def shift_state(episode, size, rng):
    view = View(episode, Settings())
    units = {pair.response.name: pair.response for pair in view.pairs if pair.response.unit == "rad"}
    good = {n: g for n, g in view.following.items() if n in units and 0.7 < g.gain < 1.4 and g.scatter < 0.05}
    if not good:
        return None
    name = max(good, key=lambda n: units[n].range)
    sign = 1.0 if good[name].offset >= 0 else -1.0
    values = units[name].values + sign * (0.15, 0.3, 0.5)[size]
    return Faulty(with_channel(episode, STATE, units[name].element, values), name)


@fault("success contradicts the end", "success_contradiction", "event", "event", "predicate")
def contradict(episode, size, rng):
    end_s = float(episode.time_s[-1])
    if size == 2:
        settings = Settings(success_of=lambda _: False)
        return Faulty(replace(episode, outcome=replace(episode.outcome, success=True)), None, settings)
    kinds = ("dropped", "success")
    outcome = replace(episode.outcome, success=size == 0)
    return Faulty(replace(episode, events=(Event(end_s, kinds[size]),), outcome=outcome))


@fault("artefact events", "artefact", "penetration", "tunnelling", "diverged")
def add_artefact(episode, size, rng):
    kind = ("penetration", "tunnelling", "diverged")[size]
    return Faulty(replace(episode, events=(Event(float(episode.time_s[0]), kind, "cube table"),)))


@fault("frozen camera", "frozen_camera", "0.6 s", "1.5 s", "4 s")
def freeze_camera(episode, size, rng):
    if not episode.frames:
        return None
    name = next(iter(episode.frames))
    frames = np.array(episode.frames[name])
    rows = round((0.6, 1.5, 4.0)[size] * episode.schema.rate_hz)
    first = _moving_stretch(episode, rows, rng)
    if first is None:
        return None
    frames[first : first + rows] = frames[first]
    return Faulty(replace(episode, frames={name: frames}), f"observation.images.{name}")


@fault("dead camera", "dead_camera", "1 frame", "10 %", "all")
def blacken_camera(episode, size, rng):
    if not episode.frames:
        return None
    name = next(iter(episode.frames))
    frames = np.array(episode.frames[name])
    rows = (1, max(1, len(frames) // 10), len(frames))[size]
    first = int(rng.integers(len(frames) - rows + 1))
    frames[first : first + rows] = 1
    return Faulty(replace(episode, frames={name: frames}), f"observation.images.{name}")


def _moving_stretch(episode: Episode, rows: int, rng: np.random.Generator) -> int | None:
    """A stretch in which some channel travels a twentieth of its range."""
    state = np.asarray(episode[STATE], np.float64)
    spread = np.maximum(np.ptp(state, axis=0), 1e-9)
    for first in rng.permutation(max(len(state) - rows, 0)):
        if (np.ptp(state[first : first + rows], axis=0) > 0.1 * spread).any():
            return int(first)
    return None


def _in_motion(episode: Episode) -> bool:
    from twinloop.quality.timing import repeated_rows

    return bool(repeated_rows(View(episode, Settings()))[1].mean() > 0.2)


def _has_angles(episode: Episode) -> bool:
    return any(c.unit == "rad" for c in View(episode, Settings()).channels if c.signal.name == STATE)
