"""Which commands may become jobs: those that work inside the workspace, on files and robots that are part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from twinloop.errors import UnknownName, WrongUse

COMMANDS = (
    "anchor", "check", "coverage", "data merge", "data select", "data selection draw", "data split", "data trim",
    "data verify", "diagnose", "drift", "evaluate", "gap",
    "gate", "generate", "identify", "ingest", "loop", "monitor", "plan", "policy horizon", "rank", "record", "replay", "train",
)  # fmt: skip
"""Commands that take longer than a person waits; the others act at once."""
RESUME = frozenset(("generate", "ingest", "train"))
"""Commands that go on with --resume; all others go on, or begin again, as they were."""
SCHEMES = ("motion", "onnx", "standin")
"""Addresses of stand-ins and files. A robot, a program or a server elsewhere is for somebody at a terminal."""
REFUSED_OPTIONS = ("--debug", "--ray", "--tracking", "--webhook", "--webhook-allow")
MOST_WORDS, LONGEST_WORD = 200, 2000

_ADDRESS = re.compile(r"([A-Za-z][\w+.-]*):\S*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def name_of(command: Sequence[str]) -> str:
    """The name of a command: its first words, as many as a command that can be a job has, or the first one."""
    beginnings = (" ".join(command[:number]) for number in (3, 2, 1))
    return next((name for name in beginnings if name in COMMANDS), " ".join(command[:1]))


def check_command(root: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Require that a command may become a job.

    Args:
        root: The workspace, in which it would run.
        command: Its words, without `twinloop`.

    Returns:
        The words.

    Raises:
        UnknownName: If it is none of `COMMANDS`.
        WrongUse: If it names a file outside the workspace, an address elsewhere, or an option that reaches out of it.
    """
    words = tuple(command)
    if len(words) > MOST_WORDS or any(len(word) > LONGEST_WORD for word in words):
        raise WrongUse(
            "the command is too long", expected=f"at most {MOST_WORDS} words of {LONGEST_WORD} characters"
        )
    if name_of(words) not in COMMANDS:
        raise UnknownName("command that can be a job", name_of(words), COMMANDS, "run it in a terminal")
    for word in words:
        if _CONTROL.search(word):
            raise WrongUse("a command holds no control characters", got=repr(word)[:80])
        option, _, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if option in REFUSED_OPTIONS:
            raise WrongUse(f"{option} is not for jobs", remedy="run the command in a terminal")
        for part in re.split(r"[=,]", value):
            _require_inside(root, part)
    return words


def continued(root: Path, command: Sequence[str]) -> tuple[str, ...]:
    """The command that goes on where this one was interrupted."""
    words = tuple(command)
    if name_of(words) in RESUME and "--resume" not in words and _out(words) and (root / _out(words)).exists():
        return (*words, "--resume")
    return words


def _out(words: tuple[str, ...]) -> str:
    """The folder that a command writes to, if it is named."""
    for number, word in enumerate(words):
        if word.startswith("--out="):
            return word.removeprefix("--out=")
        if word == "--out" and number + 1 < len(words):
            return words[number + 1]
    return ""


def _require_inside(root: Path, text: str) -> None:
    """Refuse a word that is an address elsewhere, or a path out of the workspace; other words are not looked at."""
    if (address := _ADDRESS.fullmatch(text)) and "/" not in address[1]:
        if address[1] not in SCHEMES:
            raise WrongUse(
                f"a job reaches nothing at {address[1]}:",
                got=text[:80],
                expected=" or ".join(f"{scheme}:..." for scheme in SCHEMES),
                remedy="run the command in a terminal",
            )
        text = text.partition(":")[2]
    path = Path(text.partition("#")[0])
    inside = root.resolve()
    try:
        leaves = (
            text.startswith("~") or ".." in path.parts or not (inside / path).resolve().is_relative_to(inside)
        )
    except (OSError, RuntimeError, ValueError):
        leaves = True
    if leaves:
        raise WrongUse("the path leads out of the workspace", got=text[:200], expected="a path in it")
