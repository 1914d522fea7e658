"""The results as pages: RESULTS.md with one row per claim, and results/NAME.md with the tables of each benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import RESULTS, ROOT, Result, Table, load_results, target_table
from twinloop.stats.interval import exact_interval

CLAIMS = ROOT / "benchmarks/RESULTS.md"
COUNT = re.compile(r"^(\d+) of (\d+)\b")
INTERVAL = re.compile(r"\s*\[([\d.,]+ ?%? to [\d.,]+ ?%?)\]")
RANGE = re.compile(r"\s*\(([\d.,]+ ?%? to [\d.,]+ ?%?)\)")
INTRODUCTION = """# Benchmark results

One row per claim. `make bench` measures; `python -m benchmarks --pages` writes these pages from `benchmarks/results/*.json`, and a
test fails when a page differs from its file, when a commit is not in the history, or when a case that tuned a constant
(`benchmarks/tuned.yaml`) counts as evidence. Both sides of a comparison run in turn on the same machine and the same data.
Unless said otherwise a robot is a stand-in: another physics engine with hidden faults. A commit "before" another is one that is
no longer in the history; the result is older than the commit that is named. The interval of a count is exact, at 95 %; "-" means that
none was computed.
"""


def write_pages(folder: Path = RESULTS, claims: Path = CLAIMS) -> None:
    """Write the page of claims and the page of every benchmark."""
    results = load_results(folder)
    claims.write_text(format_claims(results))
    for result in results:
        (folder / f"{result.name}.md").write_text(format_result(result))


def format_claims(results: Sequence[Result]) -> str:
    """The page of claims: claim, number, interval, verdict, commit and date."""
    lines = [INTRODUCTION]
    columns = ("claim", "measured", "interval", "verdict", "commit", "date")
    for result in results:
        rows = []
        for target in result.targets:
            number, interval = split_interval(target.measured)
            rows.append((target.promise, number, interval, target.verdict, result.commit, result.date[:10]))
        link = f"[{result.title}](results/{result.name}.md)"
        if rows:
            lines += _format_table(Table(link, columns, tuple(rows)), level=2)
        else:
            lines += [f"## {link}", "", f"Tables only; commit {result.commit}, {result.date[:10]}.", ""]
    return "\n".join(lines)


def split_interval(measured: str) -> tuple[str, str]:
    """The number and its interval: at 95 % of a count of successes or where it is given in brackets, smallest to largest of repeats."""
    if count := COUNT.match(measured):
        rate = exact_interval(int(count[1]), int(count[2]))
        return measured, f"{100 * rate.low:.0f} to {100 * rate.high:.0f} %"
    if (given := INTERVAL.search(measured)) and len(INTERVAL.findall(measured)) == 1:
        return INTERVAL.sub("", measured), given[1]
    if spread := RANGE.search(measured):
        return RANGE.sub("", measured), f"{spread[1]}, smallest to largest"
    return measured, "-"


def format_result(result: Result) -> str:
    """The page of one benchmark."""
    lines = [f"# {result.title}", "", f"Commit {result.commit}, {result.date} UTC; {result.machine}.", ""]
    for table in (*target_table(result.targets), *result.tables):
        lines += _format_table(table, level=2)
    if result.cases:
        lines += [f"- Cases that count: {', '.join(result.cases)}."]
    lines += [f"- {note}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _format_table(table: Table, level: int) -> list[str]:
    head = "| " + " | ".join(table.columns) + " |"
    rows = ["| " + " | ".join(row) + " |" for row in table.rows]
    return [f"{'#' * level} {table.title}", "", head, "|" + "---|" * len(table.columns), *rows, ""]
