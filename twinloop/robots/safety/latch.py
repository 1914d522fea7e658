"""Stops that outlive a process: a line for every stop and every reset of a robot, beside its safety file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.errors import WrongUse

LOG = "safety-log.jsonl"


@dataclass(frozen=True)
class StopEntry:
    """A robot was stopped, or let move again: which one, why, and by whom."""

    robot: str
    kind: Literal["stop", "reset"]
    reason: str
    by: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class Latch:
    """The stops of the robot `serial`, in the file `LOG` of a folder."""

    def __init__(self, folder: Path, serial: str) -> None:
        self._file, self._serial = folder / LOG, serial

    def entries(self) -> list[StopEntry]:
        """Every stop and reset of this robot, oldest first."""
        found = read_jsonl(self._file, StopEntry, "a stop or a reset")
        return [entry for entry in found if entry.robot == self._serial]

    @property
    def stopped(self) -> StopEntry | None:
        """The stop that nobody has reset yet."""
        entries = self.entries()
        return entries[-1] if entries and entries[-1].kind == "stop" else None

    def stop(self, reason: str, by: str) -> None:
        """Remember a stop."""
        self._write("stop", reason, by)

    def reset(self, by: str, reason: str) -> StopEntry:
        """Let the robot move again.

        Args:
            by: The person who looked at the robot.
            reason: What they found.

        Returns:
            The stop that this ends.

        Raises:
            WrongUse: The robot is not stopped, or nobody is named.
        """
        stop = self.stopped
        if stop is None:
            raise WrongUse(f"robot {self._serial} is not stopped")
        if not by.strip() or not reason.strip():
            raise WrongUse("a reset names who looked at the robot, and what they found")
        self._write("reset", reason, by)
        return stop

    def _write(self, kind: Literal["stop", "reset"], reason: str, by: str) -> None:
        append_jsonl(self._file, [asdict(StopEntry(self._serial, kind, reason, by))])
