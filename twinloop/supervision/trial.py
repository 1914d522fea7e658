"""What a person beside the robot sees and does: the stage of a trial, the next scene, and their actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twinloop.episode import Event
from twinloop.errors import WrongUse

Stage = Literal["waiting", "placing", "running", "judging", "stopped", "paused", "ended"]
"""`waiting` for the robot or a policy, `placing` the scene, `running`, `judging` a trial that is over, `stopped` until a person resets
the robot, `paused`, or `ended`."""

ActionKind = Literal[
    "start", "success", "failure", "redo", "skip", "pause", "resume", "stop", "reset", "note", "leave"
]

ALLOWED: Mapping[Stage, tuple[ActionKind, ...]] = {
    "waiting": ("stop", "pause", "note", "leave"),
    "placing": ("start", "skip", "pause", "note", "stop", "leave"),
    "running": ("stop", "success", "failure", "redo", "note", "pause"),
    "judging": ("success", "failure", "redo", "note", "stop", "pause"),
    "stopped": ("reset", "note", "leave"),
    "paused": ("resume", "note", "stop", "leave"),
    "ended": (),
}
"""What a person can do in each stage."""

FINDINGS = ("nothing is wrong", "put right")
"""What a person usually finds who looks at a robot that was stopped."""
SEVERITIES = ("minor", "major", "dangerous")
"""How bad a failure was: nothing happened, something has to be put right, somebody or something could have come to harm."""
MOST_CHARACTERS = 200
"""Longest failure mode or phase; a note may be `MOST_NOTE`."""
MOST_NOTE = 1000
SETUP_S = 60.0
"""How long a person takes for a trial besides the trial itself, until it has been measured; as in the cost file of `plan`."""

TRIAL, PLACED, NOTE, SEVERITY, PHASE = "trial", "placed", "note", "severity", "phase"
"""Kinds of events that keep in an episode what the person said of it."""


@dataclass(frozen=True)
class Action:
    """What a person did: pressed a key or a button.

    Args:
        kind: What it is.
        failure: With `failure`: the failure mode, from the task's list or a new one.
        phase: With `failure`: the phase in which it failed.
        severity: With `failure`: one of `SEVERITIES`.
        note: Free text; with `reset` what the person found.
    """

    kind: ActionKind
    failure: str | None = None
    phase: str | None = None
    severity: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        for name, text, most in (
            ("failure mode", self.failure, MOST_CHARACTERS),
            ("phase", self.phase, MOST_CHARACTERS),
            ("note", self.note, MOST_NOTE),
        ):
            if text is not None and (not text.strip() or len(text) > most or not text.isprintable()):
                raise WrongUse(f"bad {name}", got=text[:80], expected=f"1 to {most} characters on one line")
        if self.severity is not None and self.severity not in SEVERITIES:
            raise WrongUse("no such severity", got=self.severity, available=SEVERITIES)
        if self.kind == "note" and self.note is None:
            raise WrongUse("a note without text")
        if self.kind == "reset" and self.note is None:
            raise WrongUse("a reset without what was found", expected="a note, such as: nothing is wrong")


@dataclass(frozen=True)
class Announcement:
    """The next trial of a series. It never says which policy acts.

    Args:
        number: Its number in the series, from 0.
        total: How many trials the series has, or may have at most.
        scene: The number of the scene.
        can_skip: Whether the scene may be left out.
    """

    number: int
    total: int
    scene: int
    can_skip: bool = True


@dataclass(frozen=True)
class TrialState:
    """What a person is shown.

    Args:
        stage: What is going on.
        trial: The trial; None before the first one is announced.
        done: Trials that are over and count.
        void: Trials that are over and say nothing.
        instruction: Where things go, in words.
        values: The scene as values of the twin's parameters.
        seconds_left: Estimated time for the trials that are left, s.
        message: What happened last, such as why a trial is void.
        allowed: What the person can do now.
        failures: The task's failure modes, and new ones that were used before.
        phases: The task's phases.
        describing: The trial failed, and how is to be said.
        changed: Grows with every change.
    """

    stage: Stage = "waiting"
    trial: Announcement | None = None
    done: int = 0
    void: int = 0
    instruction: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    seconds_left: float = 0.0
    message: str = ""
    allowed: tuple[ActionKind, ...] = ALLOWED["waiting"]
    failures: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    describing: bool = False
    changed: int = 0


def estimate_s(trials: int, time_limit_s: float, each_s: float | None = None) -> float:
    """How long trials will take with a person beside the robot, s.

    Args:
        trials: How many are left.
        time_limit_s: Longest duration of one.
        each_s: How long one took on average so far, with all that belongs to it.

    Returns:
        The estimate.
    """
    return trials * (each_s if each_s is not None else time_limit_s + SETUP_S)


def describe_need(trials: int, seconds: float) -> str:
    """Trials that wait for a person, in words: `12 trials, about 40 minutes`."""
    minutes = max(1, round(seconds / 60.0))
    return f"{trials} trial{'s' * (trials != 1)}, about {minutes} minute{'s' * (minutes != 1)}"


def find_trial(events: tuple[Event, ...]) -> int | None:
    """The number of an episode's trial in its series, which its events tell; None if they do not."""
    found = [event.detail for event in events if event.kind == TRIAL]
    return int(found[-1]) if found and found[-1].isdecimal() else None
