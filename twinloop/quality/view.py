"""A view of an episode for the checks: scalar channels, true period, command-response pairs; computed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twinloop.episode import Array, Episode, Signal
from twinloop.errors import UnknownName, WrongUse
from twinloop.measure.delay import Following, correlation_peak, measure_following
from twinloop.measure.images import FrameLevels, measure_levels
from twinloop.measure.noise import noise_of
from twinloop.measure.quantization import resolution_of
from twinloop.measure.trace import Trace
from twinloop.quality.finding import Finding, Severity
from twinloop.quality.settings import Settings
from twinloop.tasks.joint_names import bare_name

FEWEST_MOVING = 10
"""Rows in which a command has to move before a check speaks of how it is followed."""
TURNS = {"rad": 2 * np.pi, "deg": 360.0, "turn": 1.0}
"""One turn, in each unit of angles."""
WRAP_JUMP = 0.75
"""Fraction of a turn in one row from which a jump is a wrap; a joint that really moves so far is sampled too slowly."""
WRAP_EXCESS = 0.02
"""An angle logged within one turn covers at most this fraction more, by noise."""
CLOCK_PREFIX = "clock."
TRUTH_PREFIX = "simulation."
"""A signal called `clock.<stream>` in seconds holds that stream's own time stamp of every row."""


@dataclass(frozen=True, eq=False)
class Channel:
    """One scalar over time, such as `observation.state[elbow]`, (T,) float64; NaN is replaced by the value before."""

    name: str
    signal: Signal
    element: int
    unit: str
    raw: Array

    @cached_property
    def finite(self) -> Array:
        """Which rows are finite."""
        return np.isfinite(self.raw)

    @cached_property
    def values(self) -> Array:
        """The rows, with NaN replaced by the last finite value before it, or the first after it."""
        if self.finite.all():
            return self.raw
        if not self.finite.any():
            return np.zeros(len(self.raw))
        last = np.maximum.accumulate(np.where(self.finite, np.arange(len(self.raw)), -1))
        last[last < 0] = int(np.argmax(self.finite))
        return np.asarray(self.raw[last])

    @property
    def turn(self) -> float:
        """One turn in the channel's unit; 0 if it is no angle."""
        return TURNS.get(self.unit, 0.0)

    @cached_property
    def wraps(self) -> Array:
        """Rows at which an angle logged within one turn jumps from one end of it to the other."""
        values, turn = self.values, self.turn
        if not turn or len(values) < 2 or np.ptp(values) > (1 + WRAP_EXCESS) * turn:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.abs(np.diff(values)) > WRAP_JUMP * turn) + 1

    @cached_property
    def continuous(self) -> Array:
        """The values, unwrapped if they wrap around."""
        return np.unwrap(self.values, period=self.turn) if len(self.wraps) else self.values

    def with_unit(self, value: float, digits: int = 4, sign: str = "") -> str:
        """Format a value with its unit, if it has one."""
        number = f"{value:{sign}.{digits}g}"
        return number if self.unit in ("1", "unknown", "") else f"{number} {self.unit}"

    @property
    def is_command(self) -> bool:
        """Whether it is a command, not a measurement."""
        return self.signal.name == "action" or self.signal.name.startswith("action.")

    @cached_property
    def range(self) -> float:
        """Difference between the 99.5th and the 0.5th percentile."""
        low, high = np.percentile(self.values, [0.5, 99.5])
        return float(high - low)

    @cached_property
    def step(self) -> float:
        """The resolution it was recorded with, 0 when it looks continuous."""
        return resolution_of(self.values)

    @cached_property
    def noise(self) -> float:
        """Standard deviation of what changes from row to row without direction."""
        return float(np.nan_to_num(noise_of(self.values[:, None])[0]))

    @cached_property
    def moves(self) -> bool:
        """Whether it moves beyond its resolution and noise."""
        floor = 1e-9 + 1e-6 * float(np.abs(self.values).max(initial=0.0))
        return self.range > max(20 * self.step, 8 * self.noise, floor)


@dataclass(frozen=True)
class Pair:
    """A command channel and the channel that responds to it."""

    command: Channel
    response: Channel


class View:
    """One episode with everything the checks share, computed on first access."""

    def __init__(self, episode: Episode, settings: Settings) -> None:
        self.episode = episode
        self.settings = settings
        self.time_s = np.asarray(episode.time_s, np.float64)
        self._images: dict[str, FrameLevels] = {}

    @cached_property
    def period_s(self) -> float:
        """Median period of the true time stamps."""
        forward = np.diff(self.time_s)
        forward = forward[np.isfinite(forward) & (forward > 0)]
        return float(np.median(forward)) if len(forward) else 1 / self.episode.schema.rate_hz

    @cached_property
    def in_order(self) -> bool:
        """Whether time is finite and increases from row to row."""
        return bool(np.isfinite(self.time_s).all() and (np.diff(self.time_s) > 0).all())

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Every scalar of every signal, except flags, clocks and simulator ground truth."""
        found = []
        for signal in self.episode.schema.signals:
            if signal.dtype == "bool" or signal.name.startswith((CLOCK_PREFIX, TRUTH_PREFIX)):
                continue
            rows = self.episode.signals[signal.name].reshape(len(self.episode), -1).astype(np.float64)
            found += [_channel(signal, element, rows[:, element]) for element in range(signal.size)]
        return tuple(found)

    @cached_property
    def commands(self) -> tuple[Channel, ...]:
        """Command channels."""
        return tuple(channel for channel in self.channels if channel.is_command)

    @cached_property
    def measured(self) -> tuple[Channel, ...]:
        """Measured channels."""
        return tuple(channel for channel in self.channels if not channel.is_command)

    def channel(self, name: str) -> Channel:
        """Return the channel called `name`, by element name or number: `action[elbow]`, `action[2]`."""
        for channel in self.channels:
            if name in (channel.name, f"{channel.signal.name}[{channel.element}]"):
                return channel
        raise UnknownName("channel", name, [channel.name for channel in self.channels])

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Command-response pairs: declared ones, or else matched by name, by index or by motion."""
        if self.settings.pairs:
            return tuple(Pair(self.channel(c), self.channel(r)) for c, r in self.settings.pairs)
        rules = (self._pairs_by_name, self._pairs_by_index, self._pairs_by_motion)
        return next(filter(None, (tuple(rule()) for rule in rules)), ())

    @cached_property
    def following(self) -> dict[str, Following]:
        """How every response that follows a command does so, by the response's name."""
        found = {}
        for pair in self.pairs:
            if self.in_order and pair.command.moves and pair.response.moves:
                response = pair.response
                trace = Trace(response.name, response.unit, self.time_s, response.values, pair.command.values)
                following = measure_following(trace, self.settings.longest_lag_s, FEWEST_MOVING)
                if following is not None and following.correlation >= self.settings.lag_correlation:
                    found[response.name] = following
        return found

    def finding(
        self,
        code: str,
        channel: str,
        severity: Severity,
        measured: tuple[float, str, float],
        message: str,
        remedy: str,
        rows: tuple[int, int] | None = None,
    ) -> Finding:
        """Make a finding about rows first ... last, or about the whole episode.

        `measured` is the measured value, its unit and the threshold.
        """
        value, unit, threshold = measured
        first, last = rows or (0, len(self.time_s) - 1)
        last = min(max(last, first), len(self.time_s) - 1)
        start_s, end_s = float(self.time_s[first]), float(self.time_s[last])
        return Finding(
            code, channel, severity, float(value), unit, float(threshold), message, remedy, start_s, end_s
        )

    def images(self, camera: str) -> FrameLevels:
        """Level and change of every frame, in one pass over the video."""
        if camera not in self._images:
            self._images[camera] = measure_levels(self.episode.frames[camera])
        return self._images[camera]

    def pair_of(self, response: Channel) -> Pair | None:
        """Return the pair in which this channel is the response."""
        return next((pair for pair in self.pairs if pair.response is response), None)

    def _pairs_by_name(self) -> Iterator[Pair]:
        responses: dict[str, list[Channel]] = {}
        for channel in self.measured:
            if channel.signal.elements:
                responses.setdefault(_base_name(channel), []).append(channel)
        for command in self.commands:
            if not command.signal.elements:
                continue
            same_unit = [r for r in responses.get(_base_name(command), ()) if _same_unit(command, r)]
            # Prefer the position in the state over another signal with the same element name.
            same_unit.sort(key=lambda r: r.signal.name != "observation.state")
            if same_unit:
                yield Pair(command, same_unit[0])

    def _pairs_by_index(self) -> Iterator[Pair]:
        """Pair `action[i]` with `observation.state[i]` if both are unnamed with the same size and units."""
        sent = [channel for channel in self.commands if channel.signal.name == "action"]
        answered = [channel for channel in self.measured if channel.signal.name == "observation.state"]
        named = any(channel.signal.elements for channel in sent + answered)
        units = [channel.unit for channel in sent]
        if not named and units == [channel.unit for channel in answered] and "unknown" not in units:
            yield from map(Pair, sent, answered)

    def _pairs_by_motion(self) -> Iterator[Pair]:
        """Pair channels that are each other's best match among those of the same unit."""
        moving = [channel for channel in self.measured if channel.moves]
        scores: dict[tuple[int, int], float] = {}
        if not self.in_order or len(self.time_s) < 16:
            return
        grid = np.arange(self.time_s[0], self.time_s[-1], self.period_s)
        most = min(int(self.settings.longest_lag_s / self.period_s), len(grid) // 2)
        for i, command in enumerate(self.commands):
            if not command.moves:
                continue
            sent = np.interp(grid, self.time_s, command.values)
            for j, response in enumerate(moving):
                if _same_unit(command, response):
                    answered = np.interp(grid, self.time_s, response.values)
                    scores[i, j] = correlation_peak(sent, answered, 0, most)[1]
        for (i, j), score in sorted(scores.items()):
            rivals = [s for (a, b), s in scores.items() if (a == i) != (b == j)]
            if score >= self.settings.pair_correlation and score >= max(rivals, default=0.0):
                yield Pair(self.commands[i], moving[j])


def _channel(signal: Signal, element: int, values: Array) -> Channel:
    label = signal.elements[element] if signal.elements else str(element)
    name = signal.name if signal.size == 1 else f"{signal.name}[{label}]"
    unit = signal.units[element] if len(signal.units) > 1 else signal.units[0]
    return Channel(name, signal, element, unit, values)


def _base_name(channel: Channel) -> str:
    """Return the element's name without words that distinguish a target from a reading."""
    return bare_name(channel.signal.elements[channel.element].lower())


def _same_unit(command: Channel, response: Channel) -> bool:
    return command.unit == response.unit or "unknown" in (command.unit, response.unit)


def check_names(settings: Settings, known: list[str]) -> None:
    """Raise if a check in the settings is not registered."""
    for name in settings.checks:
        if name not in known:
            raise UnknownName("quality check", name, known)
    if settings.purpose not in ("identify", "train", "any"):
        raise WrongUse("unknown purpose", got=settings.purpose, expected="identify, train or any")
