"""The errors Twinloop raises on purpose: one tree; each message states got, expected, available and remedy.

The command line prints `str(error)` and exits with `error.exit_code`; nothing else about an error is special.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_GOT_CHARACTERS = 400
"""Longer values of `got` are shortened, so that a message stays readable."""


class TwinloopError(Exception):
    """An error the user can act on.

    `what` states the fact; the keyword parts are appended in a fixed order, so that all messages read alike.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        expected: object = None,
        available: Iterable[str] | None = None,
        remedy: str | None = None,
    ) -> None:
        available = None if available is None else tuple(available)
        parts = [what.rstrip(".")]
        if got is not None:
            parts.append(f"got {_shortened(str(got))}")
        if expected is not None:
            parts.append(f"expected {expected}")
        if available is not None:
            parts.append(f"available: {', '.join(available) or 'none'}")
        message = "; ".join(parts).rstrip()
        message += "" if message.endswith(("?", "!", ".")) else "."
        if remedy:
            message += f"\n  -> {remedy}"
        super().__init__(message)
        self.what = what
        self.got = None if got is None else _shortened(str(got))
        self.expected = None if expected is None else str(expected)
        self.available = available
        self.remedy = remedy


class WrongUse(TwinloopError):
    """An invalid request by the caller; the command line exits with 2."""

    exit_code = 2


class UnknownName(WrongUse):
    """A name that is not registered; the message suggests the nearest one that is."""

    def __init__(self, kind: str, name: str, available: Iterable[str], remedy: str | None = None) -> None:
        known = sorted(available)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        shown = known
        if len(known) > 20:
            shown = difflib.get_close_matches(name, known, n=8, cutoff=0.0)
            shown = [*shown, f"... ({len(known)} in all)"]
        super().__init__(
            f"no {kind} is called {name!r}",
            available=shown,
            remedy=" ".join(part for part in (f"did you mean {near[0]!r}?" if near else "", remedy) if part)
            or None,
        )


class MissingExtra(TwinloopError):
    """An optional part of Twinloop is not installed."""

    def __init__(self, needed_for: str, module: str, extra: str) -> None:
        super().__init__(
            f"{needed_for} needs the Python package {module!r}, which is not installed",
            remedy=f"pip install 'twinloop[{extra}]'",
        )


class InvalidEpisode(TwinloopError):
    """An episode that contradicts its own declaration."""


class InvalidTwin(TwinloopError):
    """A twin, or the model file it is built from, that contradicts itself."""


class InvalidRandomization(WrongUse):
    """A randomization that cannot be drawn from: wrong names, units, ranges or shapes."""


class DatasetError(TwinloopError):
    """A dataset on disk that cannot be used as asked."""


class NoDataset(DatasetError):
    """The path holds no dataset; the command line exits with 2."""

    exit_code = 2


class DamagedDataset(DatasetError):
    """A file of the dataset is missing, truncated or contradicts the others."""


class NewerFormat(DatasetError):
    """Written by a newer Twinloop or LeRobot than this one understands."""


class LockedDataset(DatasetError):
    """Another process is writing this dataset."""


class DiskError(DatasetError):
    """A disk operation failed: disk full, no permission, device gone."""


class LogError(TwinloopError):
    """A recording that cannot be used as asked."""


class DamagedLog(LogError):
    """A recording that is truncated, malformed or not what it claims to be."""


class MapError(WrongUse):
    """An invalid map of a log or a policy; the message names the key."""


class QualityError(TwinloopError):
    """Data with blocking findings that have not been overridden."""


class ConsentError(TwinloopError):
    """Data of a person who has not consented to this use, or has withdrawn consent."""


class WorkspaceError(TwinloopError):
    """The folder is not a workspace, or not in the state that the command needs."""


class RobotError(TwinloopError):
    """A robot that refuses a command or does not behave as it declared."""


class RobotGone(RobotError):
    """The connection to the robot was lost."""


class SafetyStop(RobotError):
    """A robot that the safety envelope, or a person, has stopped; only a person lets it move again."""


class TrialVoid(TwinloopError):
    """A trial that says nothing about what acted in it: somebody stopped the robot, or wants to do it again."""


class TrialSkipped(TwinloopError):
    """A scene that the person beside the robot leaves out."""


class TrialsPaused(TwinloopError):
    """The person beside the robot ended the session; the same command resumes at the next trial."""

    exit_code = 3


class NeedsPerson(TwinloopError):
    """Trials that only somebody beside the robot can set up and judge."""

    exit_code = 3


class GenerationError(TwinloopError):
    """A generation run that cannot start, continue or be repeated as asked."""


class LearnError(TwinloopError):
    """Data that cannot be used for training, or a policy that does not fit its environment."""


class PolicyGone(TwinloopError):
    """A policy that cannot be reached, is too slow, or answers with something that is no action."""


class PolicyChanged(PolicyGone):
    """A foreign policy that is another one than before."""


class GateError(TwinloopError):
    """Evidence that cannot be judged, or a registry operation that the verdict does not allow."""


class TamperedRecord(GateError):
    """The registry's record has been changed since it was written."""


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _shortened(text: str) -> str:
    return (
        text
        if len(text) <= MAX_GOT_CHARACTERS
        else f"{text[:MAX_GOT_CHARACTERS]} ... ({len(text)} characters)"
    )
