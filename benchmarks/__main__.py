"""Run the benchmarks: `python -m benchmarks [--only store] [--quick]`, or write their pages: `python -m benchmarks --pages`.

A benchmark is a module benchmarks/bench_<name>.py with `run(settings) -> Section`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.pages import write_pages
from benchmarks.report import ROOT, Settings, save, show


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=names(), action="append", help="run this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a short run; nothing is saved")
    parser.add_argument("--pages", action="store_true", help="only write the pages from the saved results")
    arguments = parser.parse_args()
    if arguments.pages:
        write_pages()
        return 0
    console = Console()
    work = ROOT / "benchmarks/work"
    work.mkdir(exist_ok=True)
    missed = 0
    for name in arguments.only or names():
        began = time.monotonic()
        section = importlib.import_module(f"benchmarks.bench_{name}").run(
            Settings(arguments.quick, work, console)
        )
        show(section, console)
        console.print(f"[dim]{name}: {time.monotonic() - began:.0f} s[/dim]")
        if not arguments.quick:
            save(section)
            write_pages()
        missed += sum(target.met is False for target in section.targets)
    if missed:
        console.print(f"[bold]{missed} targets missed[/bold]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
