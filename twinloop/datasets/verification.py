"""The result of verifying a dataset, and the ledger that collects findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import layout
from twinloop.datasets.manifest import Manifest
from twinloop.errors import TwinloopError, first_line

Severity = Literal["error", "warning"]

OnProgress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

REPAIR = "run `twinloop data verify --repair`"
FOREIGN = "copy what is intact: `twinloop data merge --skip-unusable`"


@dataclass(frozen=True)
class Finding:
    """One problem. An "error" means unreadable or wrong data; a "warning" does not."""

    severity: Severity
    file: str
    episodes: tuple[int, ...]
    what: str
    remedy: str


@dataclass(frozen=True)
class Verification:
    """The result of a check; `findings` is empty for a dataset without problems."""

    root: Path
    findings: tuple[Finding, ...]
    episodes: int
    frames: int
    files: int
    bytes: int
    layout_version: str
    checksums: bool

    @property
    def ok(self) -> bool:
        """Whether every episode can be trusted."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def broken_episodes(self) -> dict[int, str]:
        """Episodes that cannot be trusted, and the first reason for each."""
        reasons: dict[int, str] = {}
        for finding in self.findings:
            if finding.severity == "error":
                for number in finding.episodes:
                    reasons.setdefault(number, f"{finding.file}: {finding.what}")
        return dict(sorted(reasons.items()))

    @property
    def broken_files(self) -> tuple[str, ...]:
        """Files with errors, each once."""
        return tuple(dict.fromkeys(f.file for f in self.findings if f.severity == "error"))


class Ledger:
    """The state of a check and its findings so far.

    `ours` is whether Twinloop wrote the dataset, `busy` whether a writer is active. `broken` maps files that cannot be
    trusted as a whole to reasons.
    """

    def __init__(self, root: Path, decode: bool, on_progress: OnProgress | None, *, busy: bool) -> None:
        self.root = root
        self.busy = busy
        self.decode = decode
        self.on_progress = on_progress
        self.findings: list[Finding] = []
        self.sizes: dict[str, int] = {}
        self.broken: dict[str, str] = {}
        self.manifest: Manifest | None = None
        self.ours = False
        self.version = layout.CODEBASE_VERSION
        self.steps = [0, 0]

    def error(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        """Add an error: data that is unreadable or wrong."""
        self._add("error", file, what, episodes, remedy or (REPAIR if self.ours else FOREIGN))

    def warning(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        """Add a warning: an oddity that does no harm."""
        self._add("warning", file, what, episodes, remedy)

    def complain(self, file: str, what: str, episodes: Iterable[Any] = ()) -> None:
        """Add an error for a dataset written by Twinloop, a warning for a foreign one."""
        (self.error if self.ours else self.warning)(file, what, episodes)

    def _add(self, severity: Severity, file: str, what: str, episodes: Iterable[Any], remedy: str) -> None:
        numbers = tuple(sorted({int(number) for number in episodes}))
        self.findings.append(Finding(severity, file, numbers, what, remedy))

    def step(self) -> None:
        """Report one more file as done."""
        self.steps[0] += 1
        if self.on_progress:
            self.on_progress(min(self.steps[0], self.steps[1]), self.steps[1])


def strip_root(error: TwinloopError, root: Path) -> str:
    """Return the first sentence of an error without the dataset's path, which the finding already names."""
    return first_line(error).rstrip(".").replace(f"{root}/", "")


def numbers_in(path: Path) -> list[int]:
    """Read the episode numbers in a table that may be broken."""
    return sorted({int(number) for number in column_of(path, "episode_index") if number is not None})


def column_of(path: Path, name: str) -> list[Any]:
    """Read one column of a file that may be broken; empty if it cannot be read."""
    try:
        values: list[Any] = pq.read_table(path, columns=[name], partitioning=None).column(name).to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return []
    return values
