"""What a check of a dataset finds, and the ledger that its parts write into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import layout
from twinloop.datasets.manifest import Manifest
from twinloop.errors import TwinloopError

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""

REPAIR = "run `twinloop data verify --repair`"
FOREIGN = "copy what is intact: `twinloop data merge --skip-unusable`"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. An "error" makes data unreadable or wrong; a "warning" does not."""

    severity: Literal["error", "warning"]
    file: str
    episodes: tuple[int, ...]
    what: str
    remedy: str


@dataclass(frozen=True)
class Verification:
    """What a check found; `findings` is empty for a dataset without fault."""

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
        """Files that something is wrong with, each once."""
        return tuple(dict.fromkeys(f.file for f in self.findings if f.severity == "error"))


class Ledger:
    """What a check knows and has found so far; every part of the check writes into it.

    `ours` is whether Twinloop wrote the dataset, `busy` whether a writer is at work, `broken` says what is wrong with
    files that cannot be trusted as a whole.
    """

    def __init__(self, root: Path, decode: bool, progress: Progress | None, *, busy: bool) -> None:
        self.root = root
        self.busy = busy
        self.decode = decode
        self.progress = progress
        self.findings: list[Finding] = []
        self.sizes: dict[str, int] = {}
        self.broken: dict[str, str] = {}
        self.manifest: Manifest | None = None
        self.ours = False
        self.version = layout.CODEBASE_VERSION
        self.steps = [0, 0]

    def error(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        """Something that makes data unreadable or wrong."""
        numbers = tuple(sorted({int(number) for number in episodes}))
        remedy = remedy or (REPAIR if self.ours else FOREIGN)
        self.findings.append(Finding("error", file, numbers, what, remedy))

    def warning(self, file: str, what: str, episodes: Iterable[Any] = (), remedy: str = "") -> None:
        """Something odd that harms nothing."""
        numbers = tuple(sorted({int(number) for number in episodes}))
        self.findings.append(Finding("warning", file, numbers, what, remedy))

    def step(self) -> None:
        """One more file is done."""
        self.steps[0] += 1
        if self.progress:
            self.progress(min(self.steps[0], self.steps[1]), self.steps[1])


def told(error: TwinloopError, root: Path) -> str:
    """The first sentence of an error, without the path, which a finding names already."""
    line = str(error).splitlines()[0].rstrip(".")
    return line.replace(f"{root}/", "")


def numbers_in(path: Path) -> list[int]:
    """Episode numbers in a table that may be broken."""
    return sorted({int(number) for number in column_of(path, "episode_index") if number is not None})


def column_of(path: Path, name: str) -> list[Any]:
    """One column of a file that may be broken: nothing rather than an error."""
    try:
        values: list[Any] = pq.read_table(path, columns=[name], partitioning=None).column(name).to_pylist()
    except (OSError, pa.ArrowException, KeyError):
        return []
    return values
