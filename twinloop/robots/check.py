"""`check_connected`: rates, jitter, clocks, limits, cameras and echo of a robot, before anything moves fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twinloop.episode import Array
from twinloop.errors import TwinloopError
from twinloop.measure.delay import measure_following
from twinloop.measure.trace import Trace
from twinloop.robots.protocol import read_position
from twinloop.robots.safety.envelope import SafetyEnvelope
from twinloop.robots.safety.file import list_joints

State = Literal["ok", "warning", "wrong"]

SECONDS = 3.0
"""How long rates and clocks are watched."""
ECHO_S, ECHO_RAD, ECHO_M = 6.0, 0.05, 0.005
"""How long each joint swings for the echo, and how far: 3 degrees, or 5 mm."""
ECHO_HZ = (0.4, 0.9)
RATE_OFF, JITTER_OFF = 0.1, 0.5
"""A rate that is further off than a tenth, and stamps that scatter by more than half a control step, are warned of."""
DRIFT_OFF_PPM = 500.0
LATE_S = 0.15
"""An echo that is later is warned of: a policy must be told."""
DARK, BRIGHT, FLAT = 8.0, 247.0, 2.0
"""Mean and scatter of pixels of a camera that shows something."""


@dataclass(frozen=True)
class CheckLine:
    """One thing that was looked at: how it stands, what was found, and what to do."""

    state: State
    what: str
    found: str
    remedy: str | None = None


def check_connected(
    robot: SafetyEnvelope,
    *,
    seconds: float = SECONDS,
    move: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[CheckLine, ...]:
    """Look at a connected robot: its limits, rates, clock and cameras; with `move`, how late each joint answers.

    Args:
        robot: The robot in its safety envelope.
        seconds: How long rates and clocks are watched.
        move: Whether its joints may be moved by about 3 degrees, one after the other.
        clock: This machine's clock.

    Returns:
        What was found, line by line.
    """
    lines = [*_check_limits(robot)]
    if any(line.state == "wrong" for line in lines):
        return tuple(lines)
    robot.restart()
    lines += _check_rates(robot, seconds, clock)
    lines += _check_cameras(robot)
    if move:
        lines += _check_echo(robot)
    return tuple(lines)


def _check_limits(robot: SafetyEnvelope) -> Iterator[CheckLine]:
    """Safety file, latched stops, and whether the robot is where it may be."""
    try:
        robot.check()
    except TwinloopError as error:
        yield CheckLine("wrong", "safety limits", error.what, error.remedy)
        return
    limits, description = robot.limits, robot.description
    off = ", ".join(f"{name}: {why}" for name, why in limits.overrides.items())
    if limits.bounds is None:
        yield CheckLine(
            "warning",
            "safety limits",
            "only the declared range and speed",
            "twinloop robot limits ADDRESS --by NAME",
        )
    else:
        yield CheckLine(
            "warning" if off else "ok", "safety limits", f"overridden: {off}" if off else "complete"
        )
    try:
        place = read_position(description, robot.observe())
    except TwinloopError as error:
        yield CheckLine("wrong", "position", error.what, error.remedy)
        return
    low, high = np.array(limits.declared.low), np.array(limits.declared.high)
    outside = [
        name
        for name, out in zip(list_joints(description), (place < low) | (place > high), strict=True)
        if out
    ]
    if outside:
        yield CheckLine(
            "warning",
            "position",
            f"outside its range: {', '.join(outside)}",
            "the first commands bring it back slowly",
        )
    else:
        yield CheckLine("ok", "position", "inside its range")


def _check_rates(robot: SafetyEnvelope, seconds: float, clock: Callable[[], float]) -> Iterator[CheckLine]:
    """How often new readings come, how evenly they are stamped, how long asking takes, and whether the clocks agree."""
    description = robot.description
    if description.lockstep:
        yield CheckLine("ok", "rate", "in lockstep: time passes with commands")
        return
    step_s, end = 1.0 / description.rate_hz, clock() + seconds
    asked: list[float] = []
    stamps: list[float] = []
    here: list[float] = []
    while clock() < end:
        began = clock()
        seen = robot.observe()
        now = clock()
        asked.append(now - began)
        if not stamps or seen.time_s > stamps[-1]:
            stamps.append(seen.time_s)
            here.append(now)
        robot.wait(0.25 * step_s)
    if len(stamps) < 3:
        yield CheckLine(
            "wrong",
            "rate",
            f"{len(stamps)} readings in {seconds:g} s",
            "check that the robot's driver is running",
        )
        return
    gaps = np.diff(stamps)
    rate_hz, jitter_s = 1.0 / float(np.median(gaps)), float(np.quantile(np.abs(gaps - np.median(gaps)), 0.95))
    slow = rate_hz < (1.0 - RATE_OFF) * description.rate_hz
    yield CheckLine(
        "warning" if slow else "ok", "rate", f"{rate_hz:.1f} readings/s, declared {description.rate_hz:g}",
        "declare the rate that the robot keeps" if slow else None,
    )  # fmt: skip
    uneven = jitter_s > JITTER_OFF * step_s
    yield CheckLine(
        "warning" if uneven else "ok", "jitter", f"95 % of stamps within {1e3 * jitter_s:.1f} ms, longest gap {1e3 * gaps.max():.0f} ms",
        "stamp readings where they are taken, and keep other work off that machine" if uneven else None,
    )  # fmt: skip
    late = np.quantile(asked, [0.5, 0.95]) * 1e3
    slow = late[1] > 1e3 * step_s
    yield CheckLine(
        "warning" if slow else "ok", "round trip", f"median {late[0]:.1f} ms, 95 % below {late[1]:.1f} ms",
        "an observation takes longer than a control step: a faster link, or a lower rate" if slow else None,
    )  # fmt: skip
    drift_ppm = 1e6 * (float(np.polyfit(here, stamps, 1)[0]) - 1.0)
    # A slope from few seconds is no better than the scatter of the stamps over their length.
    sure_ppm = 2e6 * float(np.std(gaps) + np.std(asked)) / max(here[-1] - here[0], step_s)
    off = abs(drift_ppm) > DRIFT_OFF_PPM + sure_ppm
    yield CheckLine(
        "warning" if off else "ok", "clock", f"{drift_ppm:+.0f} ppm against this machine's, give or take {sure_ppm:.0f}",
        "the robot's clock runs at another speed: rates and delays are by its clock" if off else None,
    )  # fmt: skip


def _check_cameras(robot: SafetyEnvelope) -> Iterator[CheckLine]:
    """Whether each camera gives the frames that it declares, how long that takes, and whether it shows anything."""
    for camera in robot.description.cameras:
        began = time.monotonic()
        try:
            frame = np.asarray(robot.observe((camera.name,)).frames[camera.name])
        except (TwinloopError, KeyError) as error:
            yield CheckLine(
                "wrong", f"camera {camera.name}", f"no frame ({error})", "check its cable and its driver"
            )
            continue
        took_ms = 1e3 * (time.monotonic() - began)
        size = f"{frame.shape[1]} x {frame.shape[0]}" if frame.ndim == 3 else f"shape {frame.shape}"
        if frame.shape != (camera.height, camera.width, 3) or frame.dtype != np.uint8:
            wanted = f"{camera.width} x {camera.height}"
            yield CheckLine(
                "wrong",
                f"camera {camera.name}",
                f"{size} {frame.dtype}, declared {wanted} uint8",
                "declare what it gives",
            )
            continue
        mean, scatter = float(frame.mean()), float(frame.std())
        shows = DARK < mean < BRIGHT and scatter > FLAT
        found = f"{size} in {took_ms:.0f} ms" + (
            "" if shows else f", but it shows nothing: mean {mean:.0f}, scatter {scatter:.1f}"
        )
        yield CheckLine(
            "ok" if shows else "warning",
            f"camera {camera.name}",
            found,
            None if shows else "lens cap, exposure, light?",
        )


def _check_echo(robot: SafetyEnvelope) -> Iterator[CheckLine]:
    """How late each joint's reading follows its command."""
    description = robot.description
    units = description.action.units * (description.action.size // len(description.action.units))
    sizes = {"rad": ECHO_RAD, "deg": float(np.degrees(ECHO_RAD)), "m": ECHO_M, "mm": 1e3 * ECHO_M}
    for joint, (name, unit) in enumerate(zip(list_joints(description), units, strict=True)):
        trace = _swing(robot, joint, sizes.get(unit, ECHO_RAD))
        followed = measure_following(Trace(name, unit, *trace))
        if followed is None:
            yield CheckLine(
                "wrong",
                f"echo {name}",
                "its reading does not follow its command",
                "twinloop robot joints ADDRESS",
            )
            continue
        delay = followed.delay
        late = delay.value > LATE_S
        yield CheckLine(
            "warning" if late else "ok", f"echo {name}", f"{1e3 * delay.value:.0f} ms late, 95 % interval {1e3 * delay.low:.0f} to {1e3 * delay.high:.0f}",
            "policies must be told: identify the twin's delay, or --compensate-ms" if late else None,
        )  # fmt: skip


def _swing(robot: SafetyEnvelope, joint: int, size: float) -> tuple[Array, Array, Array]:
    """Swing one joint by two tones; its times, readings and commands."""
    description = robot.description
    robot.restart()
    observation = robot.observe()
    start = read_position(description, observation)
    high, low = (np.array(end)[joint] for end in (robot.limits.declared.high, robot.limits.declared.low))
    side = 1.0 if high - start[joint] >= start[joint] - low else -1.0
    rows = []
    for step in range(round(ECHO_S * description.rate_hz)):
        at_s = step / description.rate_hz
        # Both tones begin and end at rest, on the side where there is room.
        wave = sum(0.5 - 0.5 * np.cos(2.0 * np.pi * tone * at_s) for tone in ECHO_HZ) / len(ECHO_HZ)
        target = start.copy()
        target[joint] += side * size * wave
        sent = robot.act(target)
        rows.append((observation.time_s, read_position(description, observation)[joint], sent[joint]))
        robot.wait_step()
        observation = robot.observe()
    robot.hold()
    times, readings, commands = np.array(rows).T
    new = np.concatenate([[True], np.diff(times) > 0])
    return times[new], readings[new], commands[new]
