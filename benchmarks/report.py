"""What a benchmark returns, how it is printed, and how it is saved as a result with its commit, date and machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from scipy.stats import binom

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
"""One JSON file and one page per benchmark."""
LIBRARIES = ("numpy", "pyarrow", "duckdb", "av", "mujoco", "torch")


@dataclass(frozen=True)
class Table:
    """One table of a section; every cell is text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Target:
    """A claim and what was measured; `met` is None where it could not be measured."""

    promise: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "not measured"}[self.met]


@dataclass(frozen=True)
class Section:
    """The result of one benchmark module. `cases` names the cases that count in its targets, where cases have names."""

    name: str
    title: str
    tables: tuple[Table, ...]
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    loads: tuple[float, ...] = ()
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """A section as it was saved: where and when it was measured, and on which commit."""

    name: str
    title: str
    commit: str
    date: str
    machine: str
    targets: tuple[Target, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How to run: `quick` is a short run that exercises every part; `work` is for datasets, kept between runs."""

    quick: bool
    work: Path
    say: Console


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, with smallest and largest where there is more than one value."""
    text = f"{statistics.median(values):,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
    return text


def median_interval(values: Sequence[float], digits: int = 2) -> str:
    """Median and its 95 % interval by order statistics, which assumes nothing about how values scatter."""
    ordered = sorted(values)
    rank = max(1, int(binom.ppf(0.025, len(ordered), 0.5)))
    low, high = ordered[rank - 1], ordered[-rank]
    return f"{statistics.median(ordered):.{digits}f} [{low:.{digits}f} to {high:.{digits}f}]"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times faster the median of ours is."""
    return statistics.median(ours) / statistics.median(theirs)


def target_table(targets: Sequence[Target]) -> tuple[Table, ...]:
    """The targets as a table; nothing where there are none."""
    if not targets:
        return ()
    rows = tuple((target.promise, target.measured, target.verdict) for target in targets)
    return (Table("Targets", ("promise", "measured", "verdict"), rows),)


def show(section: Section, console: Console) -> None:
    """Print a section."""
    console.rule(section.title)
    for table in (*section.tables, *target_table(section.targets)):
        drawn = RichTable(*map(escape, table.columns), title=escape(table.title), title_justify="left")
        for row in table.rows:
            drawn.add_row(*map(escape, row))
        console.print(drawn)
    for note in section.notes:
        console.print(f"- {escape(note)}")


def save(section: Section) -> None:
    """Save a section as the newest result of its benchmark."""
    result = Result(
        name=section.name,
        title=section.title,
        commit=commit(),
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        machine=_describe_machine(section),
        targets=section.targets,
        tables=section.tables,
        notes=section.notes,
        cases=section.cases,
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{section.name}.json").write_text(
        json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n"
    )


def load_results(folder: Path = RESULTS) -> list[Result]:
    """The saved results, by name."""
    return [_load_result(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def _load_result(plain: dict[str, Any]) -> Result:
    tables = tuple(
        Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))
        for table in plain["tables"]
    )
    return Result(
        **plain
        | {
            "targets": tuple(Target(**target) for target in plain["targets"]),
            "tables": tables,
            "notes": tuple(plain["notes"]),
            "cases": tuple(plain["cases"]),
        }
    )


def _describe_machine(section: Section) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = {name: _version(name) for name in LIBRARIES} | section.versions
    listed = ", ".join(f"{name} {number}" for name, number in libraries.items() if number)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GiB memory, load {_range(section.loads)} meanwhile, "
        f"Python {platform.python_version()}; {listed}"
    )


def _range(loads: Sequence[float]) -> str:
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The commit that is checked out, and whether anything has changed since."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    written = (":!benchmarks/RESULTS.md", ":!benchmarks/measured", ":!benchmarks/results")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *written)
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
