"""Propose a map for a log from names, ranges and correlations; every guess has a confidence and a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from twinloop.episode import RESERVED, Array
from twinloop.logs.bundle import split_unit
from twinloop.logs.candidates import Candidate, find_candidates
from twinloop.logs.clocks import measure_regularity, to_seconds
from twinloop.logs.guess import (
    POSE,
    Guess,
    guess_angle,
    guess_clock_unit,
    guess_leader,
    guess_length,
    guess_named_unit,
    guess_quaternion,
    guess_rate_unit,
    is_cartesian,
    is_quaternion,
    map_line,
)
from twinloop.logs.joints import Joints
from twinloop.logs.kinematics import (
    ToolMotion,
    guess_angle_by_tool,
    guess_length_by_tool,
    guess_order_by_tool,
    tool_motion,
)
from twinloop.logs.log_kinds import describe_files, find_kinds
from twinloop.logs.log_layout import FEWEST_ROWS, Layout, find_gaps, find_layout, load_samples
from twinloop.logs.log_map import Clock
from twinloop.logs.reader import Channel
from twinloop.logs.sources import find_logs
from twinloop.logs.units import stored_unit
from twinloop.tasks.joint_names import bare_name

MAX_LISTED = 20
"""Constants that are listed by name."""

_UNITS = {"torque": "N·m", "force": "N", "current": "A", "voltage": "V", "temperature": "°C"}


@dataclass(frozen=True)
class _ClockGuess:
    channel: str | None
    column: int | None
    time_s: Array | None
    lines: list[str]


def propose_map(source: str | Path, joints: Joints | None = None) -> str:
    """Propose a map for the first log at a path.

    Args:
        source: A log, a folder of logs, or a pattern.
        joints: Joints of the robot's twin: they name and order channels, and reveal units by range and kinematics.

    Returns:
        YAML text of a complete map. Each guess has a confidence and a reason; read it before you use it.

    Raises:
        LogError: No reader knows the format, or the log cannot be read.
    """
    logs = find_logs(source).logs
    kind = find_kinds(logs)[0]
    log, channels = kind.logs[0], kind.channels
    layout = find_layout(log, channels)
    full = {layout.start + name: name for name in layout.names}
    samples = {full[name]: sample for name, sample in load_samples(log, list(full)).items()}
    proposal = _Proposal(channels, layout, find_candidates(samples, channels, layout.start, joints))
    lines = [
        f"# Proposed from {log.name}. Every guess has a confidence and a reason: review and correct them.",
        "# Ingest refuses guesses marked CHECK until you delete the comment (or pass --accept-guesses).",
        f"format: {log.format}",
        *describe_files(kind, logs),
        "robot_type: unknown   # name the robot",
        proposal.rate_line(),
        "provenance:",
        "  source: real   # confidence 0.50: logs usually are; otherwise sim; CHECK",
        "  # actor: operator | policy | expert | excitation; operator: PSEUDONYM; robot_serial; site; consent; licence",
        proposal.episodes_line(),
        *proposal.clock.lines,
        *proposal.signals(),
        *proposal.cameras(),
        *proposal.left_out(),
    ]
    return "\n".join(lines) + "\n"


class _Proposal:
    """The guesses about one log."""

    def __init__(self, channels: Mapping[str, Channel], layout: Layout, candidates: list[Candidate]) -> None:
        self._channels = channels
        self._layout = layout
        self._prefix = layout.prefix
        self._start = layout.start
        self._candidates = candidates

    @cached_property
    def clock(self) -> _ClockGuess:
        """The channel with time stamps, or the log's own."""
        stamped = next((c for c in self._candidates if c.time_s is not None), None)
        if stamped is not None:
            return _ClockGuess(None, None, stamped.time_s, ["# clock: the log's own time stamps"])
        for candidate in sorted(self._candidates, key=lambda c: (c.role != "time", "cmd" in c.name)):
            values, named = candidate.values, candidate.role == "time"
            if len(values) < 3 or len(candidate.sources) > 1 or not (named or values.shape[1] > 2):
                continue
            forward = np.diff(values[:, 0].astype(np.float64))
            steady = named or forward.max() < 20 * np.median(forward) + 1e-12
            restarts = named and np.sum(forward < 0) * FEWEST_ROWS < len(forward)
            if (np.all(forward >= 0) or restarts) and np.any(forward > 0) and steady:
                return self._clock_of(candidate, named)
        guess = Guess("", 0.1, "no channel looks like time stamps: write the rate of the recording")
        return _ClockGuess(None, None, None, [map_line("clock", "{rate_hz: 1}", guess)])

    def _clock_of(self, candidate: Candidate, named: bool) -> _ClockGuess:
        name, values = candidate.sources[0], candidate.values
        unit = guess_clock_unit(values[:, 0], split_unit(candidate.name)[1] if named else None)
        column = 0 if values.shape[1] > 1 else candidate.place
        why = Guess("", 0.95, "its name, and it increases steadily")
        if not named:
            why = Guess("", 0.7, "its first column increases steadily")
        selected = f", column: {column}" if column is not None else ""
        text = f'{{channel: "{self._prefix}{name}"{selected}, unit: {unit.value}}}'
        lines = [map_line("clock", text, why), f"# unit of the clock: {unit.comment[2:]}"]
        clock = Clock(channel=name, unit=unit.value)  # type: ignore[arg-type]
        return _ClockGuess(name, column, to_seconds(values[:, :1], clock), lines)

    def episodes_line(self) -> str:
        """Return the line that says how episodes are marked; gaps in time are offered where nothing else marks them."""
        time_s = self.clock.time_s
        gap = find_gaps(time_s) if time_s is not None and not self._layout.marked else None
        if gap is None:
            return self._layout.line
        return map_line("episodes", f"{{by: gaps, gap_s: {gap.value}}}", gap)

    def left_out(self) -> list[str]:
        """Return comments on what is not a signal: constants, and parameters beside the series."""
        constants = [f"{c.name} ({c.values[0, 0]:g})" for c in self._candidates if self._is_constant(c)]
        constants += list(self._layout.parameters)
        if not constants:
            return []
        shown = ", ".join(constants[:MAX_LISTED]) + (" ..." if len(constants) > MAX_LISTED else "")
        return [
            "# Left out, because they do not change in time or are no series. To keep one value for the whole log,",
            "# constants: {observation.NAME: {from: CHANNEL, unit: UNIT}}",
            f"# {shown}",
        ]

    def _is_constant(self, candidate: Candidate) -> bool:
        """Return whether a scalar channel is a setting of the experiment: never changes, and is no joint's."""
        values = candidate.values
        plain = candidate.role in (None, "voltage", "temperature", "force") and not candidate.bundled
        scalar = values.shape[1] == 1 and len(values) >= FEWEST_ROWS and values.dtype.kind != "b"
        return plain and scalar and bool((values == values[0]).all())

    def rate_line(self) -> str:
        """Return the line with the nominal rate, from the clock."""
        time_s = self.clock.time_s
        if time_s is None or len(time_s) < 2:
            return map_line("rate_hz", "1", Guess("", 0.1, "the log does not give its rate"))
        clock = measure_regularity(time_s)
        guess = Guess(
            "", 0.9, f"median period of {clock.samples} samples, jitter {clock.jitter_s * 1e3:.2g} ms"
        )
        return map_line("rate_hz", str(float(f"{clock.rate_hz:.5g}")), guess)

    def signals(self) -> list[str]:
        """Return the block of signals: state, commands, the rest."""
        lines = ["signals:"]
        taken: set[str] = set()
        for candidate in sorted(self._candidates, key=self._rank):
            alone = candidate.name == self.clock.channel and self.clock.column is None
            if candidate.role != "time" and not alone and not self._is_constant(candidate):
                lines += self._signal(candidate, taken)
        if len(lines) == 1:
            lines.append("  # no channel of numbers was found")
        return lines

    def cameras(self) -> list[str]:
        """Return the block of cameras, if the log has images."""
        lines = []
        for name, channel in self._channels.items():
            image = len(channel.shape) == 3 and channel.shape[2] == 3 and channel.dtype == "uint8"
            if (channel.has_images or image) and name.startswith(self._start):
                camera = re.sub(r"\W+", "_", name.removeprefix("observation.images.").strip("/")).strip("_")
                guess = Guess("", 0.95, f"it holds images ({channel.dtype})")
                source = f"{self._prefix}{name.removeprefix(self._start)}"
                lines.append("  " + map_line(camera, f'{{from: "{source}"}}', guess))
        return ["cameras:", *lines] if lines else []

    def _rank(self, candidate: Candidate) -> tuple[int, bool]:
        """Sort state first, then commands, then the rest; vectors before scalars."""
        if candidate.name in self._commands:
            return 1, candidate.values.shape[1] == 1
        place = 0 if candidate.role == "position" else 2
        # Joint positions make a better state than the tool position.
        if place == 0 and is_cartesian(candidate.name):
            place = 2
        return place, candidate.joints is None and candidate.values.shape[1] == 1

    @cached_property
    def _commands(self) -> dict[str, Guess]:
        """Command channels: by name, or because they lead a measurement of the same shape."""
        named = {c.name: Guess("", 0.9, "from its name") for c in self._candidates if c.role == "command"}
        if named:
            return named
        plain = sorted((c for c in self._candidates if c.role == "position"), key=lambda c: c.name)
        for i, a in enumerate(plain):
            for b in plain[i + 1 :]:
                if a.values.shape == b.values.shape:
                    leader = guess_leader(a.values, b.values)
                    if leader is not None:
                        first, second = (a, b) if leader > 0 else (b, a)
                        return {first.name: Guess("", 0.6, f"it leads {second.name}")}
        return {}

    @cached_property
    def _tool(self) -> ToolMotion | None:
        """The tool motion of the twin for the log's joint positions."""
        for candidate in self._candidates:
            if candidate.role == "position" and candidate.joints is not None:
                unit = self._unit(candidate).value.strip("[").split(",")[0]
                return tool_motion(candidate.values, unit, candidate.joints)
        return None

    def _is_point(self, candidate: Candidate) -> bool:
        return candidate.role == "position" and (
            is_cartesian(candidate.name) or self._partner("quaternion", 4) is not None
        )

    def _signal(self, candidate: Candidate, taken: set[str]) -> list[str]:
        clock = self.clock
        signal, why = self._signal_name(candidate, taken)
        sources = [f'"{self._prefix}{source}"' for source in candidate.sources]
        lines = [map_line("from", sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]")]
        if candidate.columns is not None:
            lines.append(map_line("columns", json.dumps(list(candidate.columns)), candidate.matched))
        elif candidate.name == clock.channel and clock.column is not None:
            rest = list(range(1, candidate.values.shape[1]))
            guess = Guess("", 0.4, "all but the clock; split them into signals")
            lines.append(map_line("columns", str(rest), guess))
            candidate = replace(candidate, values=candidate.values[:, 1:])
        if is_quaternion(candidate.values):
            lines += self._quaternion_lines(candidate)
            method = "slerp"
        else:
            named = candidate.bundled or candidate.columns is not None or candidate.ordered
            if named and candidate.elements:
                names = json.dumps(list(candidate.elements))
                lines.append(map_line("elements", names, candidate.ordered))
            unit = self._unit(candidate)
            quoted = unit.value if unit.value.startswith("[") else f'"{unit.value}"'
            lines.append(map_line("unit", quoted, unit))
            held = candidate.name in self._commands or candidate.values.dtype.kind != "f"
            method = "previous" if held else "linear"
        if candidate.time_s is not None:
            guess = Guess("", 0.8, "used only if it is not sampled at the row times")
            lines.append(map_line("method", method, guess))
        return ["  " + map_line(signal, "", candidate.bundled or why), *(f"    {line}" for line in lines)]

    def _quaternion_lines(self, candidate: Candidate) -> list[str]:
        omega = self._partner("angular velocity", 3)
        order, frame = guess_quaternion(
            candidate.name, candidate.elements, candidate.values, omega, self.clock.time_s
        )
        if order.confidence < 0.9 and self._tool is not None and self._same_rows(candidate):
            order = guess_order_by_tool(candidate.values, self._tool) or order
        lines = [map_line("unit", '"1"'), map_line("quaternion", order.value, order)]
        if omega is not None:
            lines.append(map_line("# frame of the angular velocity", frame.value, frame))
        return lines

    def _same_rows(self, candidate: Candidate) -> bool:
        return self._tool is not None and int(self._tool.rows[-1]) == len(candidate.values) - 1

    def _signal_name(self, candidate: Candidate, taken: set[str]) -> tuple[str, Guess]:
        name = candidate.name
        first_position = candidate.role == "position" and "observation.state" not in taken
        if name in self._commands and "action" not in taken:
            signal, guess = "action", self._commands[name]
        elif first_position and name not in self._commands and not self._is_named_point(candidate):
            signal, guess = "observation.state", Guess("", 0.8, "the first channel named like a position")
        else:
            own = name.removeprefix(self._shared_prefix).removeprefix("observation.")
            plain = re.sub(r"[^\w]+", "_", own).strip("_") or "values"
            measured = candidate.values.dtype.kind == "f" and not is_cartesian(name)
            if candidate.role in ("velocity", "torque") and measured:
                plain = plain if f"observation.{candidate.role}" in taken else candidate.role
            signal = f"action.{plain}" if name in self._commands else f"observation.{plain}"
            guess = Guess("", 0.8, "named after the channel")
        while signal in taken or signal in RESERVED:
            signal += "_more"
        taken.add(signal)
        return signal, guess

    @cached_property
    def _shared_prefix(self) -> str:
        """What all channels' names begin with, such as `entries.` for records inside a document."""
        starts = {c.name[: re.search(r"[./]|$", c.name).end()] for c in self._candidates}  # type: ignore[union-attr]
        start = next(iter(starts)) if len(starts) == 1 else ""
        return start if start.endswith((".", "/")) else ""

    def _is_named_point(self, candidate: Candidate) -> bool:
        """Return whether it is a 3D point in a log that also has joint positions."""
        joints = any(c.role == "position" and c is not candidate and c.joints for c in self._candidates)
        return joints and self._is_point(candidate) and candidate.joints is None

    def _partner(self, role: str, size: int) -> Array | None:
        for candidate in self._candidates:
            if candidate.role == role and candidate.values.shape[1] == size:
                return candidate.values
        return None

    def _unit(self, candidate: Candidate) -> Guess:
        if candidate.unit is not None:
            return guess_named_unit(candidate.values, candidate.unit.value)
        values, role = candidate.values, candidate.role
        if values.dtype.kind == "b":
            return Guess("bool", 0.95, "flags")
        if role in _UNITS:
            return Guess(_UNITS[role], 0.6, f"the usual unit of a {role}")
        if role == "angular velocity":
            return guess_rate_unit(values, None, None, "rad")
        if role == "velocity":
            return self._velocity_unit(candidate)
        if role == "command":
            return self._command_unit(candidate)
        if role == "position":
            return self._position_unit(candidate)
        return Guess("unknown", 0.3, "neither its name nor its values suggest one")

    def _velocity_unit(self, candidate: Candidate) -> Guess:
        values, time_s = candidate.values, self.clock.time_s
        timed = time_s if time_s is not None and len(time_s) == len(values) else None
        for other in self._candidates:
            if other.role == "position" and other.values.shape == values.shape:
                return guess_rate_unit(values, other.values, timed, self._unit(other).value)
        return guess_rate_unit(values, None, timed, "rad")

    def _command_unit(self, candidate: Candidate) -> Guess:
        """Guess that a command has the unit of the measurement it resembles."""
        for other in self._candidates:
            same = other.role == "position" and other.values.shape == candidate.values.shape
            if same and other.values.std() > 0 and candidate.values.std() > 0:
                correlation = float(np.corrcoef(other.values.reshape(-1), candidate.values.reshape(-1))[0, 1])
                if correlation > 0.5:
                    unit = self._unit(other)
                    reason = f"it resembles {other.name} (correlation {correlation:.2f})"
                    return Guess(unit.value, min(unit.confidence, 0.95), reason)
        for other in self._candidates:
            if other.role == "position" and bare_name(other.name) == bare_name(candidate.name):
                return Guess(self._unit(other).value, 0.75, f"it is named like {other.name}")
        return Guess("unknown", 0.3, "no measurement of the same shape resembles it")

    def _position_unit(self, candidate: Candidate) -> Guess:
        values = candidate.values
        if candidate.elements == POSE:
            return Guess("[m, m, m, rad, rad, rad]", 0.6, "the usual units of a pose in six numbers")
        if values.shape[1] == 3 and candidate.joints is None and self._is_point(candidate):
            if self._tool is not None and self._same_rows(candidate):
                return guess_length_by_tool(values, self._tool) or guess_length(values)
            return guess_length(values)
        if "grip" in candidate.name.lower() and values.min() >= 0 and values.max() <= 1:
            return Guess("1", 0.6, "a gripper between 0 and 1, probably the fraction of its opening")
        unit = guess_angle(values, candidate.joints)
        if candidate.joints is not None:
            return self._check_by_tool(candidate, candidate.joints, unit)
        if re.search(r"states?$", candidate.name.lower()):
            return Guess(
                unit.value, min(unit.confidence, 0.5), f"{unit.reason}; but a state may mix quantities"
            )
        return unit

    def _check_by_tool(self, candidate: Candidate, joints: Joints, unit: Guess) -> Guess:
        """If ranges leave a doubt, choose the unit for which the twin's tool moves like the log's."""
        points = [c for c in self._candidates if c.values.shape[1] == 3 and self._is_point(c)]
        point = points[0] if points else None
        if unit.confidence >= 0.9 or point is None or len(point.values) != len(candidate.values):
            return unit
        found = guess_angle_by_tool(candidate.values, point.values, joints)
        if found is None:
            return unit
        slides = {"rad": found.value, "m": "m"}
        units = [slides[stored_unit(kind)] for kind in joints.units]
        value = found.value if len(set(units)) == 1 else f"[{', '.join(units)}]"
        return Guess(value, found.confidence, found.reason)
