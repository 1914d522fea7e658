"""What a benchmark gives back, and how it is shown: tables in the terminal and sections of RESULTS.md."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/RESULTS.md"
LIBRARIES = ("numpy", "pyarrow", "duckdb", "av", "mujoco", "torch")
INTRODUCTION = """# Benchmark results

Written by `make bench`. Every section says on which commit and machine it was measured; sections that were not run
again keep their old numbers. Both sides of a comparison run in turn on the same machine and the same data. A number is
the median of its repeats, with the smallest and largest in brackets where there were several.
"""


@dataclass(frozen=True)
class Table:
    """One table of a section; every cell is text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Target:
    """A promise and what was measured; `met` is None where it could not be measured."""

    promise: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "not measured"}[self.met]


@dataclass(frozen=True)
class Section:
    """The result of one benchmark module."""

    name: str
    title: str
    tables: tuple[Table, ...]
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    loads: tuple[float, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How to run: `quick` is a short run that shows the shape and no more; `work` is for datasets, kept between runs."""

    quick: bool
    work: Path
    say: Console


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, with smallest and largest where there is more than one value."""
    text = f"{statistics.median(values):,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f}-{max(values):,.{digits}f})"
    return text


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times faster the median of ours is."""
    return statistics.median(ours) / statistics.median(theirs)


def show(section: Section, console: Console) -> None:
    """Print a section."""
    console.rule(section.title)
    for table in (*section.tables, *_target_table(section)):
        drawn = RichTable(*map(escape, table.columns), title=escape(table.title), title_justify="left")
        for row in table.rows:
            drawn.add_row(*map(escape, row))
        console.print(drawn)
    for note in section.notes:
        console.print(f"- {escape(note)}")


def save(section: Section) -> None:
    """Put a section into RESULTS.md in place of the one it replaces; the others stay as they are."""
    kept = load_sections(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[section.name] = _as_markdown(section)
    parts = [INTRODUCTION]
    for name in sorted(kept):
        parts.append(f"<!-- section {name} -->\n{kept[name].strip()}\n<!-- end {name} -->\n")
    RESULTS.write_text("\n".join(parts))


def load_sections(text: str) -> dict[str, str]:
    """The sections of a results page, by name."""
    found = re.findall(r"<!-- section (\w+) -->\n(.*?)<!-- end \1 -->", text, re.DOTALL)
    return dict(found)


def _as_markdown(section: Section) -> str:
    lines = [f"## {section.title}", "", _circumstances(section), ""]
    for table in (*_target_table(section), *section.tables):
        lines += [f"### {table.title}", ""]
        lines.append("| " + " | ".join(table.columns) + " |")
        lines.append("|" + "---|" * len(table.columns))
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
        lines.append("")
    lines += [f"- {note}" for note in section.notes]
    return "\n".join(lines)


def _target_table(section: Section) -> tuple[Table, ...]:
    if not section.targets:
        return ()
    rows = tuple((t.promise, t.measured, t.verdict) for t in section.targets)
    return (Table("Targets", ("promise", "measured", "verdict"), rows),)


def _circumstances(section: Section) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = {name: _version(name) for name in LIBRARIES} | section.versions
    listed = ", ".join(f"{name} {number}" for name, number in libraries.items() if number)
    return (
        f"Commit {commit()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {os.cpu_count()} cores ({platform.machine()}), "
        f"{memory:.0f} GiB memory, load {_range(section.loads)} meanwhile, Python {platform.python_version()}; "
        f"{listed}."
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

    changed = git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        ":!benchmarks/RESULTS.md",
        ":!benchmarks/measured",
    )
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
