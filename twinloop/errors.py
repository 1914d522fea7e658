"""Every error Twinloop raises on purpose: one tree, each message saying got, expected, available and remedy.

The command line prints `str(error)` and exits with `error.exit_code`; nothing else about an error is special.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 400
"""Characters of what was got that a message shows: it is to be read, not scrolled past."""


class TwinloopError(Exception):
    """Something the user can act on.

    `what` is the fact; the keyword parts are appended in a fixed order so that messages read alike everywhere.
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
        self.remedy = remedy


class WrongUse(TwinloopError):
    """The caller asked for something that makes no sense; the command line exits with 2."""

    exit_code = 2


class UnknownName(WrongUse):
    """A name that is not registered, with the nearest one that is."""

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
    """A twin, or a model file it should be made from, that contradicts itself."""


class InvalidRandomization(WrongUse):
    """A randomization that cannot be drawn from: wrong names, units, ranges or shapes."""


class DatasetError(TwinloopError):
    """A dataset on disk that cannot be used as asked."""


class NoDataset(DatasetError):
    """The path holds no dataset: the caller's mistake, so the command line exits with 2."""

    exit_code = 2


class DamagedDataset(DatasetError):
    """A file of the dataset is missing, truncated or contradicts the others."""


class NewerFormat(DatasetError):
    """Written by a newer Twinloop or LeRobot than this one understands."""


class LockedDataset(DatasetError):
    """Another process is writing this dataset."""


class DiskError(DatasetError):
    """The disk refused: full, not permitted, gone."""


class LogError(TwinloopError):
    """A recording that cannot be used as asked."""


class DamagedLog(LogError):
    """A recording that is truncated, malformed or not what it claims to be."""


class MapError(WrongUse):
    """A log map that says something impossible; the message names the key."""


class QualityError(TwinloopError):
    """Data with blocking findings that nobody has answered for."""


class ConsentError(TwinloopError):
    """Data of a person who has not agreed to this use, or not any more."""


class WorkspaceError(TwinloopError):
    """The folder is not a workspace, or not in the state the command needs."""


class RobotError(TwinloopError):
    """A robot that refuses, or that does not do what it declared."""


class RobotGone(RobotError):
    """The connection to the robot was lost."""


class GenerationError(TwinloopError):
    """A generation that cannot start, continue or be repeated as asked."""


class LearnError(TwinloopError):
    """Data that cannot be learned from, or a policy that does not fit where it should act."""


class GateError(TwinloopError):
    """Evidence that cannot be judged, or a step of the registry that the verdict does not allow."""


class TamperedRecord(GateError):
    """The registry's record is not what was written."""


def misread(error: Exception) -> str:
    """What an exception from reading somebody's values says about them, in words for whoever wrote them."""
    if isinstance(error, KeyError):
        return f"nothing called {error}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return "values of another kind"
    return str(error).strip().splitlines()[0] if str(error).strip() else "something unreadable"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text)} characters)"
