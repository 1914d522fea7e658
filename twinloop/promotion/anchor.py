"""Anchors: places outside the workspace that store the head of a record, so that removing its last entries is noticed.

    file:PATH    a file, one line per head, only ever appended to; on another disk, or on a share that few can write
    git:REPO     tags in a git repository, by path or URL; every head gets a tag of its own, and none is ever moved
    mlflow:URI   a tag on an MLflow server, or in a database elsewhere

The head that was stored last is the one that counts, so that a loss somebody has accepted can be stored too.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from twinloop.datasets.commit import disk_errors
from twinloop.datasets.jsonl import append_jsonl, read_jsonl
from twinloop.errors import GateError, TwinloopError, UnknownName, WrongUse
from twinloop.learning.tracking import database_file, mlflow_client
from twinloop.promotion.chain import Head, locked, parse_head

T = TypeVar("T")

GIT_TIMEOUT_S = 60.0
"""As long as MLflow's own requests may take at most."""
_MODEL = "twinloop-record-heads"
_SPACE = "refs/tags/twinloop-registry"


def read_anchor(address: str, registry: str) -> Head | None:
    """The head that was stored last for a registry, or None.

    Args:
        address: The anchor.
        registry: Hash of the registry's first entry.
    """
    scheme, place = _split(address)
    return _SCHEMES[scheme][0](place, registry)


def write_anchor(address: str, registry: str, head: Head) -> None:
    """Store a head, unless it is the one that was stored last."""
    scheme, place = _split(address)
    if read_anchor(address, registry) != head:
        _SCHEMES[scheme][1](place, registry, head)


def require_outside(address: str, root: Path) -> str:
    """The address with an absolute path; refuses places inside the workspace."""
    scheme, place = _split(address)
    path = database_file(place) if scheme == "mlflow" else None if _is_url(place) else Path(place)
    if path is None:
        return address
    whole = path.expanduser().resolve()
    if whole.is_relative_to(root.resolve()):
        raise WrongUse(
            f"{place} is inside the workspace: whoever can change the record can change it too",
            remedy="name a place elsewhere, or a URL",
        )
    return f"mlflow:sqlite:///{whole}" if scheme == "mlflow" else f"{scheme}:{whole}"


def _split(address: str) -> tuple[str, str]:
    scheme, colon, place = address.partition(":")
    if not colon or not place:
        raise WrongUse(
            "not the address of an anchor", got=address, expected="file:PATH, git:REPOSITORY or mlflow:URI"
        )
    if scheme not in _SCHEMES:
        raise UnknownName("kind of anchor", scheme, _SCHEMES)
    return scheme, place


def _is_url(place: str) -> bool:
    """Whether a git repository is on another machine: URL://..., or HOST:PATH as ssh writes it."""
    return "://" in place or bool(re.match(r"[^/]+:", place))


@dataclass(frozen=True)
class _Line:
    registry: str
    head: str
    at: str


def _read_file(place: str, registry: str) -> Head | None:
    if not Path(place).exists():
        return None
    lines = read_jsonl(Path(place), _Line, "a head of a registry")
    return next((parse_head(line.head) for line in reversed(lines) if line.registry == registry), None)


def _write_file(place: str, registry: str, head: Head) -> None:
    line = _Line(registry, str(head), datetime.now(UTC).isoformat(timespec="seconds"))
    with disk_errors(Path(place).parent), locked(Path(place)):
        append_jsonl(Path(place), [line])


def _read_git(place: str, registry: str) -> Head | None:
    return max(_git_tags(place, registry), default=(0, None), key=lambda tag: tag[0])[1]


def _write_git(place: str, registry: str, head: Head) -> None:
    """Push a tag, numbered in the order of writing, whose name is the head."""
    serial = 1 + max((number for number, _ in _git_tags(place, registry)), default=0)
    name = f"{_SPACE}/{registry[:32]}/{serial:06d}-{head.number}-{head.hash}"
    with tempfile.TemporaryDirectory() as folder:
        _git(folder, "init", "--quiet", "--bare")
        content = _git(folder, "hash-object", "-w", "--stdin", text=f"{registry}\n{head}\n").strip()
        _git(folder, "push", "--quiet", "--", place, f"{content}:{name}")


def _git_tags(place: str, registry: str) -> list[tuple[int, Head]]:
    listed = _git("/", "ls-remote", "--refs", "--", place, f"{_SPACE}/{registry[:32]}/*")
    found = [
        re.fullmatch(r"(\d+)-(\d+)-([0-9a-f]{64})", line.rpartition("/")[2]) for line in listed.splitlines()
    ]
    return [(int(tag[1]), Head(int(tag[2]), tag[3])) for tag in found if tag]


def _git(folder: str, *arguments: str, text: str = "") -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_DIR")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, input=text, env=environment, capture_output=True, text=True, timeout=GIT_TIMEOUT_S
        )  # fmt: skip
    except FileNotFoundError as error:
        raise WrongUse("git is not installed", remedy="install it, or use another kind of anchor") from error
    except subprocess.TimeoutExpired as error:
        raise GateError(f"git did not answer within {GIT_TIMEOUT_S:g} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise GateError(
            f"the anchor's git repository cannot be used ({last})",
            remedy="correct it, then type the command again",
        )
    return done.stdout


def _tag(registry: str) -> str:
    return f"twinloop.head.{registry[:32]}"


def _read_mlflow(place: str, registry: str) -> Head | None:
    def read(client: Any, tags: Any) -> Head | None:
        return parse_head(tags[_tag(registry)]) if _tag(registry) in tags else None

    return _with_mlflow(place, read)


def _write_mlflow(place: str, registry: str, head: Head) -> None:
    def write(client: Any, tags: Any) -> None:
        client.set_registered_model_tag(_MODEL, _tag(registry), str(head))

    _with_mlflow(place, write)


def _with_mlflow(place: str, use: Callable[[Any, Any], T]) -> T:
    """Call `use(client, tags)` with the tags of the model that holds the heads, which is made where it does not exist."""
    client = mlflow_client(place, "the anchor")
    from mlflow.exceptions import MlflowException

    try:
        try:
            model = client.get_registered_model(_MODEL)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            model = client.create_registered_model(_MODEL)
        return use(client, model.tags or {})
    except TwinloopError:
        raise
    except (MlflowException, OSError) as error:
        first = (str(error).splitlines() or ["no message"])[0]
        raise GateError(f"the anchor's MLflow at {place} does not answer ({first})") from error


_SCHEMES: dict[str, tuple[Callable[[str, str], Head | None], Callable[[str, str, Head], None]]] = {
    "file": (_read_file, _write_file),
    "git": (_read_git, _write_git),
    "mlflow": (_read_mlflow, _write_mlflow),
}
