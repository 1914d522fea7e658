"""Stages of a long path: each is made once for the same inputs, resumes when killed, and keeps a typed result.

A stage is a name, a function that fills a folder and returns a noun, and the function's inputs: plain values and nouns with a content
hash. The stage's key is the hash of its name, its inputs and this package's version. So a change runs again exactly what depends on it,
and a stage whose result is the same as before holds up nothing after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from twinloop.datasets.commit import hold_lock, write_atomically
from twinloop.errors import WorkspaceError
from twinloop.records import hash_of
from twinloop.version import __version__

STAGE = "stage.json"
RUNNING = "running.json"
REACHED = "reached.json"
"""Folders of the stages that the newest run passed."""
LOCK = "lock"

Result = TypeVar("Result")
Kind = TypeVar("Kind", list[Any], dict[str, Any])
OnProgress = Callable[[int, int], None]
"""Called with (done, total); a total of 0 is not known."""


@dataclass(frozen=True, eq=False)
class Stage(Generic[Result]):
    """A finished stage: its folder, its result, and the hash of the result that later stages depend on."""

    name: str
    folder: Path
    result: Result
    content_hash: str
    seconds: float
    finished_at: str
    cached: bool = False
    """Whether an earlier run made it."""


class StageListener:
    """Follows a run; this one ignores everything."""

    def on_start(self, name: str) -> None:
        """A stage starts or resumes."""

    def on_progress(self, name: str, done: int, total: int) -> None:
        """A stage has done `done` of `total`; a total of 0 is not known."""

    def on_end(self, stage: Stage[Any]) -> None:
        """A stage is finished, now or by an earlier run."""


class StoppedEarly(Exception):
    """The stage to stop after is done."""


class Stages:
    """The stages below one folder; one process at a time may run them. `until` names the stage to stop after."""

    def __init__(
        self, root: str | Path, listener: StageListener | None = None, until: str | None = None
    ) -> None:
        self.root = Path(root)
        self._listener, self._until = listener or StageListener(), until
        self.reached: list[Stage[Any]] = []

    def locked(self) -> AbstractContextManager[None]:
        """Hold the lock; a second process is refused at once and learns which one holds it."""
        return hold_lock(
            self.root,
            LOCK,
            lambda holder: WorkspaceError(
                f"another loop runs in {self.root.parent}",
                got=holder,
                remedy="wait for it, or use another workspace",
            ),
        )

    def run(
        self, name: str, make: Callable[..., Result], load: Callable[[Path], Result], /, **inputs: Any
    ) -> Result:
        """The result of a stage, made now or loaded.

        Args:
            name: The stage's name.
            make: Called with `out` (a folder that may hold what an interrupted run left), `on_progress` and the inputs; leaves
                its result in `out`.
            load: Reads the result from the folder.
            inputs: Plain values, dataclasses of them, and nouns with a content hash.

        Returns:
            The result.
        """
        described = {key: describe(value) for key, value in inputs.items()}
        key = hash_of({"stage": name, "inputs": described, "twinloop": __version__})
        folder = self.root / f"{name}-{key[:12]}"
        if (facts := _read_facts(folder)) is not None:
            stage = Stage(name, folder, load(folder), **facts, cached=True)
            self._reach(stage)
            return stage.result
        self._listener.on_start(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.root / RUNNING, json.dumps({"stage": name, "folder": folder.name}).encode())
        began = time.monotonic()
        result = make(
            out=folder,
            on_progress=lambda done, total: self._listener.on_progress(name, done, total),
            **inputs,
        )
        stage = Stage(
            name=name,
            folder=folder,
            result=result,
            content_hash=hash_of([name, describe(result)]),
            seconds=round(time.monotonic() - began, 1),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._keep(stage, described)
        self._reach(stage)
        return result

    def folder(self, name: str) -> Path:
        """The folder of a stage that this run has reached."""
        folders: dict[str, Path] = {stage.name: stage.folder for stage in self.reached}
        return folders[name]

    def finished(self) -> list[str]:
        """Names of the stages that the newest run passed and that are intact, in order."""
        folders = [self.root / str(name) for name in _read(self.root / REACHED, list) or ()]
        return [folder.name.rpartition("-")[0] for folder in folders if _read_facts(folder) is not None]

    def running(self) -> str | None:
        """The stage that runs, or ran when a process died."""
        running = _read(self.root / RUNNING, dict) or {}
        return str(running["stage"]) if "stage" in running else None

    def note_need(self, need: str) -> None:
        """The stage that has begun waits for something; remembered until it runs again."""
        began = _read(self.root / RUNNING, dict) or {}
        write_atomically(self.root / RUNNING, json.dumps(began | {"needs": need}).encode())

    def needs(self) -> str | None:
        """What the stage that has begun waits for; None if nothing."""
        needs = (_read(self.root / RUNNING, dict) or {}).get("needs")
        return needs if isinstance(needs, str) else None

    def _keep(self, stage: Stage[Any], inputs: dict[str, Any]) -> None:
        """Write the stage's facts last: a folder without them is unfinished."""
        files = sorted(path for path in stage.folder.rglob("*") if path.is_file() and path.name != STAGE)
        facts = {
            "content_hash": stage.content_hash,
            "seconds": stage.seconds,
            "finished_at": stage.finished_at,
            "inputs": inputs,
            "files": {str(path.relative_to(stage.folder)): path.stat().st_size for path in files},
        }
        write_atomically(stage.folder / STAGE, json.dumps(facts, indent=1).encode())
        (self.root / RUNNING).unlink(missing_ok=True)

    def _reach(self, stage: Stage[Any]) -> None:
        self.reached.append(stage)
        names = [reached.folder.name for reached in self.reached]
        write_atomically(self.root / REACHED, json.dumps(names).encode())
        self._listener.on_end(stage)
        if stage.name == self._until:
            raise StoppedEarly(stage.name)


def _read_facts(folder: Path) -> dict[str, Any] | None:
    """Facts of a finished stage; None if it is unfinished, or if one of its files is missing or truncated."""
    facts = _read(folder / STAGE, dict) or {}
    try:
        intact = all((folder / name).stat().st_size == size for name, size in facts["files"].items())
        return {key: facts[key] for key in ("content_hash", "seconds", "finished_at")} if intact else None
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _read(path: Path, kind: type[Kind]) -> Kind | None:
    """The JSON value of this kind in a file; None if there is none."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def describe(value: Any) -> Any:
    """Plain values that stand for an input or a result: the same on every machine."""
    if hasattr(value, "content_hash"):
        return value.content_hash
    if hasattr(value, "as_json"):
        return hash_of(value.as_json())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: describe(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): describe(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [describe(one) for one in value]
    if isinstance(value, Path):
        raise TypeError(f"a stage cannot depend on a path: {value}")
    return value
