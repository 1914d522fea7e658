"""A person at a terminal: single keys start, judge, repeat, skip, pause and stop trials."""

from __future__ import annotations

import codecs
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from twinloop.errors import NeedsPerson, WrongUse
from twinloop.supervision.person import PersonSupervisor
from twinloop.supervision.trial import FINDINGS, SEVERITIES, Action, ActionKind, TrialState, describe_need

KEYS: dict[str, ActionKind] = {
    " ": "stop", "x": "stop", "\n": "start", "\r": "start", "s": "success", "f": "failure", "r": "redo", "k": "skip",
    "p": "pause", "n": "note", "q": "leave",
}  # fmt: skip
NAMES: dict[ActionKind, str] = {
    "start": "Enter", "stop": "SPACE", "success": "s", "failure": "f", "redo": "r", "skip": "k", "pause": "p", "note": "n",
    "leave": "q", "resume": "Enter", "reset": "r",
}  # fmt: skip
LISTEN_S = 0.1
"""How often the thread that reads keys looks whether the session is over."""
NEW = "another"


class TerminalKeys:
    """Shows the states of a person's trials as lines, and turns keys into their actions.

    Args:
        person: The person.
        terminal: File descriptor of the terminal that is read.
        write: Prints a line.
        typing: While the person types a line, nothing else is drawn within this `with` block.
    """

    def __init__(
        self,
        person: PersonSupervisor,
        terminal: int,
        write: Callable[[str], None],
        typing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._person, self._terminal, self._write, self._typing = person, terminal, write, typing
        self._over, self._decoder = threading.Event(), codecs.getincrementaldecoder("utf-8")("replace")
        self._shown: tuple[object, ...] = ()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read keys for the length of a `with` block."""
        before = termios.tcgetattr(self._terminal)
        tty.setcbreak(self._terminal, termios.TCSANOW)
        thread = threading.Thread(target=self._listen, name="terminal-keys", daemon=True)
        self._person.listen(self._show)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            termios.tcsetattr(self._terminal, termios.TCSANOW, before)

    def _listen(self) -> None:
        while (key := self._read()) is not None:
            state = self._person.state
            kind = KEYS.get(key)
            if kind == "start" and state.stage == "paused":
                kind = "resume"
            if kind == "redo" and state.stage == "stopped":
                kind = "reset"
            if kind is None or (kind == "start" and "start" not in state.allowed):
                continue
            try:
                if kind == "failure" and state.stage == "judging":
                    self._describe(state)
                elif kind == "reset":
                    self._reset()
                elif kind == "note":
                    if text := self._type("note: "):
                        self._person.press(Action("note", note=text))
                else:
                    self._person.press(Action(kind))
                    if kind == "failure":
                        self._describe_when_asked()
            except WrongUse as error:
                self._write(error.what)

    def _read(self, given_up: Callable[[], bool] = lambda: False) -> str | None:
        """The next key; None when the session is over, or nothing more is to be read."""
        while not (self._over.is_set() or given_up()):
            if select.select([self._terminal], [], [], LISTEN_S)[0]:
                if not (read := os.read(self._terminal, 1)):
                    return None
                if key := self._decoder.decode(read):
                    return key
        return None

    def _robot_moves(self) -> bool:
        return self._person.state.stage == "running"

    def _describe_when_asked(self) -> None:
        """The robot comes to a hold; then the person says how it failed."""
        state = self._person.wait_for_change(-1, 0.0)
        while not self._over.is_set() and state.stage == "running":
            state = self._person.wait_for_change(state.changed, LISTEN_S)
        if state.describing:
            self._describe(state)

    def _describe(self, state: TrialState) -> None:
        """Ask for failure mode, phase and severity, each by one key."""
        mode = self._choose("failure", (*state.failures, NEW))
        if mode == NEW:
            mode = self._type("failure mode: ")
        if not mode:
            self._write("no failure mode was given; f asks again")
            return
        phase = self._choose("phase", state.phases)
        severity = self._choose("severity", SEVERITIES)
        self._person.press(Action("failure", failure=mode, phase=phase, severity=severity))

    def _reset(self) -> None:
        """Ask what the person found at a robot that was stopped."""
        found = self._choose("found", (*FINDINGS, NEW))
        if found == NEW:
            found = self._type("found: ")
        if not found:
            self._write("what was found? r asks again")
            return
        self._person.press(Action("reset", note=found))

    def _choose(self, what: str, choices: Sequence[str]) -> str | None:
        """One of these by its digit; None for any other key."""
        if not choices:
            return None
        offered = "  ".join(f"{k} {choice}" for k, choice in enumerate(choices[:9], start=1))
        required = what in ("failure", "found")
        self._write(f"{what}?  {offered}" + ("" if required else "  Enter: not known"))
        key = self._read()
        chosen = int(key) - 1 if key is not None and key.isascii() and key.isdigit() else -1
        return choices[chosen] if 0 <= chosen < len(choices[:9]) else None

    def _type(self, prompt: str) -> str:
        """A line of text; SPACE is a letter here, because the robot moves only between `start` and an outcome."""
        if self._robot_moves():
            self._write("the robot moves; write the note when the trial is over")
            return ""
        typed = ""
        with self._typing():
            _echo(prompt)
            while (key := self._read(self._robot_moves)) not in (None, "\n", "\r"):
                if key in ("\x7f", "\b"):
                    _echo("\b \b" * bool(typed))
                    typed = typed[:-1]
                elif str(key).isprintable():
                    _echo(str(key))
                    typed += str(key)
            _echo("\n")
        if key is None and self._robot_moves():
            self._write("the robot moves: what was typed is dropped")
            return ""
        return typed.strip()

    def _show(self, state: TrialState) -> None:
        shown = (state.stage, state.trial, state.message, state.describing, state.void)
        if shown == self._shown:
            return
        self._shown = shown
        if state.message:
            self._write(state.message)
        keys = ", ".join(f"{NAMES[kind]} {kind}" for kind in state.allowed)
        if state.stage == "placing" and state.trial is not None:
            void = f", {state.void} void" if state.void else ""
            left = describe_need(state.trial.total - state.done, state.seconds_left)
            self._write(f"trial {state.done + 1} of {state.trial.total}{void}; left: {left}")
            self._write(state.instruction)
            self._write(f"[{keys}]")
        elif state.stage in ("running", "paused", "stopped"):
            self._write(f"{state.stage} [{keys}]")
        elif state.stage == "judging" and not state.describing:
            self._write(f"the trial is over: did it succeed? [{keys}]")


def _echo(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@contextmanager
def at_terminal(
    person: PersonSupervisor,
    write: Callable[[str], None],
    terminal: int | None = None,
    typing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[PersonSupervisor]:
    """A person who acts by keys of the terminal, for the length of a `with` block.

    Args:
        person: The person.
        write: Prints a line.
        terminal: File descriptor of the terminal; default: standard input.
        typing: While the person types a line, nothing else is drawn within this `with` block.

    Yields:
        The person.

    Raises:
        NeedsPerson: If there is no terminal.
    """
    try:
        chosen = sys.stdin.fileno() if terminal is None else terminal
        is_terminal = os.isatty(chosen)
    except (OSError, ValueError):
        is_terminal, chosen = False, -1
    if not is_terminal:
        raise NeedsPerson(
            "somebody beside the robot has to start and judge trials, and there is no terminal to ask them",
            remedy="run the command in a terminal, or on a page: twinloop operate --robot ADDRESS -- COMMAND",
        )
    with TerminalKeys(person, chosen, write, typing).listening():
        yield person
