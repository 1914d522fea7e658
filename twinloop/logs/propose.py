"""A first map for a log, from its names, ranges and correlations; every guess carries a confidence and a reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.episode import RESERVED, Array
from twinloop.logs.clocks import regularity, seconds
from twinloop.logs.guess import (
    Guess,
    TwinJoints,
    guess_angle,
    guess_clock_unit,
    guess_leader,
    guess_length,
    guess_quaternion,
    guess_rate_unit,
    guess_role,
    is_quaternion,
    match_joints,
)
from twinloop.logs.log_map import Clock
from twinloop.logs.reader import Block, Channel
from twinloop.logs.sources import Log, find_logs
from twinloop.logs.units import LOG_UNITS

SAMPLE_ROWS = 20_000
"""Rows of each channel that are looked at."""

LARGEST_ROW = 512
"""Numbers a row; larger arrays are pictures or point clouds, not signals."""

_UNITS = {"torque": "N·m", "force": "N", "current": "A", "voltage": "V", "temperature": "°C"}


@dataclass(frozen=True)
class _Sample:
    values: Array
    time_s: Array | None


@dataclass(frozen=True)
class _Line:
    key: str
    value: str
    guess: Guess | None = None

    def text(self, indent: int) -> str:
        comment = f"   {self.guess.comment}" if self.guess else ""
        return f"{' ' * indent}{self.key}: {self.value}{comment}"


def propose_map(source: str | Path, twin: TwinJoints | None = None) -> str:
    """The text of a map for the first log at `source`; complete, but to be read before it is used."""
    logs = find_logs(source).logs
    usual = Counter(log.format for log in logs).most_common(1)[0][0]
    log = next(log for log in logs if log.format == usual)
    channels = {channel.name: channel for channel in log.reader.channels(log.path)}
    layout = _layout(log, channels)
    full = {layout.start + name: name for name in layout.names}
    samples = {full[name]: sample for name, sample in _samples(log, list(full)).items()}
    look = _Look(channels, layout, samples, twin)
    clock = look.clock()
    lines = [
        f"# Proposed from {log.name}. Every guess has a confidence and a reason: read them, correct them.",
        f"format: {log.format}",
        "robot_type: unknown   # name the robot",
        look.rate_line(clock),
        "provenance:",
        "  source: real   # confidence 0.5: a log usually is; say sim if it is not; CHECK",
        "  # actor: operator | policy | expert | excitation; operator: PSEUDONYM; robot_serial; site; consent; licence",
        *layout.lines,
        *clock.lines,
        *look.signals(clock),
        *look.cameras(),
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Layout:
    """How episodes are told apart: lines of the map, the prefix of channel names, one group, the names after it."""

    lines: list[str]
    prefix: str
    names: list[str]
    group: str = ""

    @property
    def start(self) -> str:
        """What the channel names of the first group begin with."""
        return self.prefix.replace("{group}", self.group)


def _layout(log: Log, channels: Mapping[str, Channel]) -> _Layout:
    names = [name for name, channel in channels.items() if not channel.constant]
    if log.format == "lerobot":
        return _Layout(["episodes: {by: parts}   # as the data set declares"], "", names)
    best: tuple[int, int, int, list[str]] | None = None
    for depth in (1, 2, 3):
        sets: dict[str, list[str]] = {}
        for name in names:
            parts = name.split("/")
            if len(parts) > depth and not name.startswith("/"):
                sets.setdefault("/".join(parts[:depth]), []).append("/".join(parts[depth:]))
        common = Counter(tuple(sorted(suffixes)) for suffixes in sets.values()).most_common(1)
        if common and common[0][1] >= 2:
            covered = sum(len(s) for s in sets.values())
            score = (covered, -len(common[0][0]), depth, list(common[0][0]))
            best = max(best, score) if best else score
    if best is not None and best[0] >= 0.8 * len(names):
        _, _, depth, suffixes = best
        groups = list(dict.fromkeys("/".join(name.split("/")[:depth]) for name in names))
        group = next(g for g in groups if all(f"{g}/{suffix}" in channels for suffix in suffixes))
        guess = Guess("", 0.9, f"{len(groups)} groups of channels with the same names")
        pattern = "/".join(["*"] * depth)
        line = f'episodes: {{by: groups, groups: "{pattern}"}}   {guess.comment}'
        return _Layout([line], "{group}/", suffixes, group)
    shapes = Counter(channels[name].shape for name in names if (channels[name].count or 0) > 1)
    shape, tables = shapes.most_common(1)[0] if shapes else ((1,), 0)
    if log.format in ("npz", "hdf5") and tables > 1 and shape[0] > 4:
        same = [name for name in names if channels[name].shape == shape]
        guess = Guess("", 0.8, f"{tables} tables of {shape[0]} columns, each taken for one episode")
        listed = ", ".join(f'"{name}"' for name in same)
        return _Layout(
            [f"episodes: {{by: groups, groups: [{listed}]}}   {guess.comment}"], "{group}", [""], same[0]
        )
    offsets = _offsets(log, channels)
    if offsets is not None:
        name, guess = offsets
        rest = [
            n for n in names if n != name and channels[n].count == max(channels[m].count or 0 for m in names)
        ]
        return _Layout([f"episodes: {{by: offsets, channel: {name}}}   {guess.comment}"], "", rest)
    for name in names:
        if re.fullmatch(r"episode(_?(index|id|number))?|trial|demo|run", name.lower()):
            guess = Guess("", 0.8, "a channel of this name usually numbers episodes")
            rest = [n for n in names if n != name]
            return _Layout([f"episodes: {{by: boundary, channel: {name}}}   {guess.comment}"], "", rest)
    guess = Guess("", 0.7, "nothing in the log marks episodes")
    return _Layout([f"episodes: {{by: file}}   {guess.comment}"], "", names)


def _offsets(log: Log, channels: Mapping[str, Channel]) -> tuple[str, Guess] | None:
    counts = [channel.count or 0 for channel in channels.values()]
    for name, channel in channels.items():
        if (
            channel.shape != (1,)
            or np.dtype(_plain(channel.dtype)).kind not in "iu"
            or (channel.count or 0) < 2
        ):
            continue
        values = _samples(log, [name], limit=1 << 30)[name].values[:, 0]
        if values[0] == 0 and values[-1] == max(counts) and np.all(np.diff(values.astype(np.int64)) > 0):
            return name, Guess(
                "", 0.95, f"it rises from 0 to {int(values[-1])}, the number of rows of the others"
            )
    return None


def _plain(dtype: str) -> str:
    try:
        return np.dtype(dtype).name
    except TypeError:
        return "U1"


def _samples(log: Log, names: Sequence[str], limit: int = SAMPLE_ROWS) -> dict[str, _Sample]:
    """The first rows of some channels."""
    parts: dict[str, list[Block]] = {name: [] for name in names}
    for seen, span in enumerate(log.reader.read(log.path, list(names))):
        for name, piece in span.pieces.items():
            if isinstance(piece, Block):
                parts[name].append(piece)
        most = max((sum(len(b.values) for b in blocks) for blocks in parts.values()), default=0)
        if most >= limit or (span.part and seen >= 0):
            break
    samples = {}
    for name, blocks in parts.items():
        if blocks and len({block.values.shape[1:] for block in blocks}) == 1:
            values = np.concatenate([block.values for block in blocks])[:limit]
            times = [block.time_s for block in blocks if block.time_s is not None]
            samples[name] = _Sample(values, np.concatenate(times)[:limit] if times else None)
    return samples


@dataclass(frozen=True)
class _ClockGuess:
    channel: str | None
    column: int | None
    time_s: Array | None
    lines: list[str]


class _Look:
    """One look at a log: its channels, samples of them, and the twin if there is one."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        layout: _Layout,
        samples: Mapping[str, _Sample],
        twin: TwinJoints | None,
    ) -> None:
        self._prefix = layout.prefix
        self._twin = twin
        self._samples = {
            name: sample
            for name, sample in samples.items()
            if sample.values.dtype.kind in "biuf" and int(np.prod(sample.values.shape[1:])) <= LARGEST_ROW
        }
        self._all = channels
        self._group = layout.start

    def clock(self) -> _ClockGuess:
        """The channel that holds time stamps, or what the log itself has."""
        if any(sample.time_s is not None for sample in self._samples.values()):
            first = next(s for s in self._samples.values() if s.time_s is not None)
            return _ClockGuess(None, None, first.time_s, ["# clock: the log's own time stamps"])
        ranked = sorted(self._samples, key=lambda name: (guess_role(name) != "time", "cmd" in name))
        for name in ranked:
            values = self._samples[name].values
            flat = values.reshape(len(values), -1)
            named = guess_role(name) == "time"
            if len(flat) < 3 or not (named or flat.shape[1] > 2):
                continue
            forward = np.diff(flat[:, 0].astype(np.float64))
            if (
                np.all(forward >= 0)
                and np.any(forward > 0)
                and (named or forward.max() < 20 * np.median(forward) + 1e-12)
            ):
                unit = guess_clock_unit(flat[:, 0])
                column = 0 if flat.shape[1] > 1 else None
                why = Guess(
                    "",
                    0.95 if named else 0.7,
                    "its name and its steady rise" if named else "its first column rises steadily",
                )
                text = f'clock: {{channel: "{self._prefix}{name}"'
                text += f", column: {column}" if column is not None else ""
                lines = [
                    f"{text}, unit: {unit.value}}}   {why.comment}",
                    f"# unit of the clock: {unit.comment[2:]}",
                ]
                clock = Clock(channel=name, column=column, unit=unit.value)  # type: ignore[arg-type]
                return _ClockGuess(name, column, seconds(values, clock), lines)
        guess = Guess("", 0.1, "no channel looks like time stamps; 1 Hz stands in for the true rate")
        return _ClockGuess(None, None, None, [f"clock: {{rate_hz: 1}}   {guess.comment}"])

    def rate_line(self, clock: _ClockGuess) -> str:
        if clock.time_s is None or len(clock.time_s) < 2:
            return f"rate_hz: 1   {Guess('', 0.1, 'the log does not tell its rate').comment}"
        how = regularity(clock.time_s)
        guess = Guess("", 0.9, f"median period of {how.samples} samples, jitter {how.jitter_s * 1e3:.2g} ms")
        return f"rate_hz: {float(f'{how.rate_hz:.5g}')}   {guess.comment}"

    def signals(self, clock: _ClockGuess) -> list[str]:
        lines = ["signals:"]
        taken: set[str] = set()
        commands = self._commands()
        for name in sorted(
            self._samples, key=lambda n: (self._rank(n, commands), list(self._samples).index(n))
        ):
            if guess_role(name) == "time" or (name == clock.channel and clock.column is None):
                continue
            lines += self._signal(name, clock, commands, taken)
        if len(lines) == 1:
            lines.append("  # no channel of numbers was found")
        return lines

    def cameras(self) -> list[str]:
        lines = []
        for name, channel in self._all.items():
            picture = len(channel.shape) == 3 and channel.shape[2] == 3 and channel.dtype == "uint8"
            if (channel.has_pictures or picture) and name.startswith(self._group):
                camera = re.sub(r"\W+", "_", name.removeprefix("observation.images.").strip("/")).strip("_")
                guess = Guess("", 0.95, f"it holds pictures ({channel.dtype})")
                lines.append(
                    f'  {camera}: {{from: "{self._prefix}{name.removeprefix(self._group)}"}}   {guess.comment}'
                )
        return ["cameras:", *lines] if lines else []

    def _rank(self, name: str, commands: Mapping[str, Guess]) -> int:
        if name in commands:
            return 1
        return 0 if guess_role(name) == "position" else 2

    def _commands(self) -> dict[str, Guess]:
        """Channels that tell the robot what to do: by name, else by coming before a measurement of the same shape."""
        named = {
            name: Guess("", 0.9, "its name says command")
            for name in self._samples
            if guess_role(name) == "command"
        }
        if named:
            return named
        plain = [n for n in self._samples if guess_role(n) == "position"]
        for a in plain:
            for b in plain:
                if a < b and self._samples[a].values.shape == self._samples[b].values.shape:
                    leader = guess_leader(self._samples[a].values, self._samples[b].values)
                    if leader is not None:
                        first, second = (a, b) if leader > 0 else (b, a)
                        return {first: Guess("", 0.6, f"it comes before {second}, which follows it")}
        return {}

    def _signal(
        self, name: str, clock: _ClockGuess, commands: Mapping[str, Guess], taken: set[str]
    ) -> list[str]:
        sample = self._samples[name]
        values = sample.values.reshape(len(sample.values), -1)
        channel = self._all.get(self._group + name)
        elements = channel.elements if channel else ()
        signal, why = self._signal_name(name, commands, taken)
        lines = [_Line(signal, "", why)]
        lines.append(_Line("from", f'"{self._prefix}{name}"'))
        joints = match_joints(elements, self._twin)
        if joints is not None:
            lines.append(_Line("columns", f"[{', '.join(str(i) for i in joints[0])}]", joints[1]))
            values = values[:, joints[0]]
        elif name == clock.channel and clock.column is not None:
            rest = ", ".join(str(i) for i in range(1, values.shape[1]))
            lines.append(
                _Line("columns", f"[{rest}]", Guess("", 0.4, "all but the clock; divide them into signals"))
            )
            values = values[:, 1:]
        if is_quaternion(values):
            omega = self._partner("angular velocity", 3)
            order, frame = guess_quaternion(name, elements, values, omega, clock.time_s)
            lines += [_Line("unit", '"1"'), _Line("quaternion", order.value, order)]
            if omega is not None:
                lines.append(_Line("# frame of the angular velocity", frame.value, frame))
            method = "slerp"
        else:
            unit = self._unit(name, values, clock, channel)
            lines.append(_Line("unit", f'"{unit.value}"', unit))
            method = "previous" if name in commands or values.dtype.kind != "f" else "linear"
        if sample.time_s is not None:
            lines.append(
                _Line("method", method, Guess("", 0.8, "used only where its clock is not that of the rows"))
            )
        return [lines[0].text(2).replace(":    #", ":   #"), *(line.text(4) for line in lines[1:])]

    def _signal_name(self, name: str, commands: Mapping[str, Guess], taken: set[str]) -> tuple[str, Guess]:
        if name in commands and "action" not in taken:
            signal, guess = "action", commands[name]
        elif guess_role(name) == "position" and "observation.state" not in taken and name not in commands:
            signal, guess = "observation.state", Guess("", 0.8, "the first channel whose name says position")
        else:
            plain = re.sub(r"[^\w]+", "_", name.removeprefix("observation.")).strip("_") or "values"
            signal = f"action.{plain}" if name in commands else f"observation.{plain}"
            guess = Guess("", 0.8, "named after the channel")
        while signal in taken or signal in RESERVED:
            signal += "_more"
        taken.add(signal)
        return signal, guess

    def _partner(self, role: str, size: int) -> Array | None:
        for name, sample in self._samples.items():
            if guess_role(name) == role and sample.values.shape[1:] == (size,):
                return sample.values
        return None

    def _unit(self, name: str, values: Array, clock: _ClockGuess, channel: Channel | None) -> Guess:
        if channel is not None and channel.unit in LOG_UNITS:
            return Guess(str(channel.unit), 0.95, "the log says so")
        if values.dtype.kind == "b":
            return Guess("bool", 0.95, "flags")
        role = guess_role(name)
        if role in _UNITS:
            return Guess(_UNITS[role], 0.6, f"the usual unit of a {role}")
        if role == "angular velocity":
            return guess_rate_unit(values, None, None, "rad")
        if role == "velocity":
            position = next(
                (
                    s.values
                    for n, s in self._samples.items()
                    if guess_role(n) == "position" and s.values.shape == self._samples[name].values.shape
                ),
                None,
            )
            unit = self._position_unit(position).value if position is not None else "rad"
            time_s = clock.time_s if clock.time_s is not None and len(clock.time_s) == len(values) else None
            flat = position.reshape(len(position), -1) if position is not None else None
            return guess_rate_unit(values, flat, time_s, unit)
        if role == "command":
            return self._command_unit(name, values)
        if role == "position":
            return self._position_unit(values, name)
        return Guess("unknown", 0.3, "neither its name nor its values tell")

    def _command_unit(self, name: str, values: Array) -> Guess:
        """A command has the unit of the measurement it resembles, if there is one."""
        for other, sample in self._samples.items():
            measured = sample.values.reshape(len(sample.values), -1)
            if guess_role(other) == "position" and measured.shape == values.shape and measured.std() > 0:
                alike = float(np.corrcoef(measured.reshape(-1), values.reshape(-1))[0, 1])
                if alike > 0.5:
                    unit = self._position_unit(measured, other)
                    return Guess(
                        unit.value, unit.confidence, f"it resembles {other} (correlation {alike:.2f})"
                    )
        return Guess("unknown", 0.3, "no measurement of the same shape resembles it")

    def _position_unit(self, values: Array, name: str = "") -> Guess:
        flat = values.reshape(len(values), -1)
        cartesian = re.search(r"xyz|translation|cartesian|tcp|end_?effector", name.lower())
        if flat.shape[1] == 3 and (cartesian or self._partner("quaternion", 4) is not None):
            return guess_length(flat)
        unit = guess_angle(flat, self._twin)
        if re.search(r"states?$", name.lower()) and self._twin is None:
            return Guess(
                unit.value, min(unit.confidence, 0.5), f"{unit.reason}; but a state may mix quantities"
            )
        return unit
