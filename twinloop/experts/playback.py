"""Play back a motion from a file: one designed by `twinloop excite`, or your own.

`motion:FILE` is the name of the expert that plays FILE. With `@` and the beginning of the motion's digest behind it, a
file that has changed since is refused, so that an episode made from it is made again from the same motion or not at all.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.durable import replace_durably
from twinloop.episode import Actor, Array
from twinloop.errors import TwinloopError, WrongUse
from twinloop.experts.excitation import home_qpos
from twinloop.experts.protocol import EXPERTS, Expert, Setup
from twinloop.experts.reading import Reading
from twinloop.tasks import Cell

PREFIX = "motion:"


@dataclass(frozen=True, eq=False)
class Motion:
    """Commands (T, actuators) of named actuators at a fixed rate."""

    actuators: tuple[str, ...]
    rate_hz: float
    commands: Array

    def __post_init__(self) -> None:
        shape = np.shape(self.commands)
        if len(shape) != 2 or shape[0] < 2 or shape[1] != len(self.actuators) or not self.actuators:
            raise WrongUse(
                "a motion has one column per actuator and at least two rows",
                got=f"{shape} for {', '.join(self.actuators) or 'no actuator'}",
            )
        if not np.isfinite(self.commands).all() or not self.rate_hz > 0.0:
            raise WrongUse("a motion holds finite numbers at a positive rate", got=f"{self.rate_hz:g} Hz")

    @property
    def time_s(self) -> Array:
        """When each row is commanded, from 0."""
        return np.asarray(np.arange(len(self.commands)) / self.rate_hz)

    @property
    def duration_s(self) -> float:
        """From the first row to the end of the last one."""
        return len(self.commands) / self.rate_hz

    @property
    def digest(self) -> str:
        """Names the motion by what it holds."""
        words = f"{self.actuators}{self.rate_hz!r}".encode()
        rows = np.ascontiguousarray(self.commands, dtype="<f8").tobytes()
        return hashlib.blake2b(words + rows, digest_size=6).hexdigest()


def save_motion(motion: Motion, path: str | Path) -> Path:
    """Write a motion as .npz or .csv, by the ending of `path`."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            actuators=np.array(motion.actuators),
            rate_hz=np.array(motion.rate_hz),
            commands=motion.commands,
        )
        content = buffer.getvalue()
    elif target.suffix == ".csv":
        lines = [",".join(("time_s", *motion.actuators))]
        for time_s, row in zip(motion.time_s.tolist(), motion.commands.tolist(), strict=True):
            lines.append(",".join(repr(number) for number in (time_s, *row)))
        content = ("\n".join(lines) + "\n").encode()
    else:
        raise WrongUse("a motion is a .npz or a .csv file", got=str(target))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        replace_durably(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def load_motion(path: str | Path) -> Motion:
    """Load a motion from the file that `save_motion` wrote, or from a table of your own.

    Args:
        path: An .npz file, or a .csv with `time_s` in seconds at a fixed rate and one column per actuator.

    Returns:
        The motion: commands (rows, actuators) in each actuator's unit, and their rate in Hz.

    Raises:
        WrongUse: The file cannot be read, or its rate is not fixed.
    """
    source = Path(path)
    if not source.is_file():
        raise WrongUse(f"no motion file {source}", remedy="`twinloop excite --out motion.npz` designs one")
    try:
        if source.suffix == ".npz":
            with np.load(source, allow_pickle=False) as kept:
                names = tuple(str(name) for name in kept["actuators"])
                return Motion(names, float(kept["rate_hz"]), np.asarray(kept["commands"], np.float64))
        header, *lines = source.read_text().splitlines()
        names = tuple(word.strip() for word in header.split(","))
        rows = np.array([[float(word) for word in line.split(",")] for line in lines if line.strip()])
        if names[0] != "time_s" or rows.ndim != 2 or rows.shape[1] != len(names) or len(rows) < 2:
            raise ValueError(f"columns {', '.join(names)} of {len(rows)} rows")
        if not np.isfinite(rows).all():
            raise ValueError("numbers that are not finite")
        gaps = np.diff(rows[:, 0])
        if gaps.min() <= 0.0 or np.ptp(gaps) > 0.01 * gaps.mean() or gaps.mean() < 1e-6:
            raise ValueError(f"times {gaps.min():g} to {gaps.max():g} s apart")
        rate_hz = float(1.0 / gaps.mean())
        whole = round(rate_hz)
        rate_hz = float(whole) if whole and abs(rate_hz / whole - 1.0) < 1e-9 else rate_hz
        return Motion(names[1:], rate_hz, rows[:, 1:])
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise TwinloopError(
            f"{source} cannot be read as a motion",
            got=str(error),
            expected="a file of `twinloop excite`, or a .csv: time_s at a fixed rate, one column per actuator",
        ) from error


class MotionExpert:
    """Plays one motion in every environment; actuators that it does not name stay at home."""

    actor: Actor = "excitation"

    def __init__(self, setup: Setup, motion: Motion) -> None:
        self._plan = fit_motion(motion, setup.cell, setup.steps)

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """The motion is the same in every episode."""

    def act(self, reading: Reading, step: Array) -> Array:
        """The command of this moment; the last one once the motion is over."""
        return np.asarray(self._plan[np.minimum(step, len(self._plan) - 1)])


def fit_motion(motion: Motion, cell: Cell, steps: int) -> Array:
    """The motion at the control rate of a cell, (steps, actuators), the last command held."""
    for name in motion.actuators:
        if name not in cell.actuators:
            raise WrongUse(
                f"the motion moves {name!r}, which twin {cell.twin.name!r} does not have",
                available=cell.actuators,
            )
    plan = np.tile(cell.positions(home_qpos(cell)), (steps, 1))
    at = np.arange(steps) * cell.dt_s
    for column, name in enumerate(motion.actuators):
        plan[:, cell.actuators.index(name)] = np.interp(at, motion.time_s, motion.commands[:, column])
    beyond = np.flatnonzero(
        ((plan < cell.control_low - 1e-9) | (plan > cell.control_high + 1e-9)).any(axis=0)
    )
    if len(beyond):
        names = ", ".join(cell.actuators[index] for index in beyond)
        raise WrongUse(f"the motion leaves the range of {names}", remedy="design it for this twin")
    return plan


@dataclass(frozen=True, eq=False)
class MotionExpertFactory:
    """Makes the expert that plays back a motion; an episode takes `duration_s`."""

    motion: Motion

    @property
    def duration_s(self) -> float:
        """The motion's length."""
        return self.motion.duration_s

    def __call__(self, setup: Setup) -> Expert:
        """An expert for these environments."""
        return MotionExpert(setup, self.motion)


def find_expert(name: str) -> Callable[[Setup], Expert]:
    """The registered expert called `name`, or the one that plays the motion named by `motion:FILE[@DIGEST]`."""
    if not name.startswith(PREFIX):
        return EXPERTS.get(name)
    file, _, digest = name.removeprefix(PREFIX).partition("@")
    motion = load_motion(file)
    if digest and digest != motion.digest:
        raise TwinloopError(
            f"{file} is not the motion it was",
            got=motion.digest,
            expected=digest,
            remedy="bring the old file back",
        )
    return MotionExpertFactory(motion)


def pinned_name(name: str) -> str:
    """The expert's name with the motion's digest, so that a changed file is detected."""
    if not name.startswith(PREFIX) or "@" in name:
        return name
    file = name.removeprefix(PREFIX)
    if any(letter.isspace() for letter in file):
        raise WrongUse("a motion's path cannot have spaces here", got=file)
    return f"{name}@{load_motion(file).digest}"


def provenance_name(name: str) -> str:
    """The name stored in provenance: a motion by file name and digest, without its folder."""
    if not name.startswith(PREFIX):
        return name
    file = Path(name.removeprefix(PREFIX).partition("@")[0])
    return f"{PREFIX}{file.name}@{load_motion(file).digest}"
