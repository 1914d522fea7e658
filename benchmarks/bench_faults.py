"""Faults, kills and hostile inputs: every command that writes under `tests/faults`, every reader under `tests/fuzz`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report import ROOT, Section, Settings, Table, Target
from tests.faults import layer
from tests.faults.scenarios import SCENARIOS
from tests.fuzz.targets import TARGETS

TITLE = "Faults of the disk, kills and hostile inputs"
FULL = ("--most", "5", "--kills", "3"), ("--runs", "2000", "--seconds", "4")
QUICK = ("--most", "1", "--kills", "1", "--quick"), ("--runs", "20", "--seconds", "2")
"""Choices for the sweep of each scenario, and for each target of the fuzzer."""


def run(settings: Settings) -> Section:
    words = QUICK if settings.quick else FULL
    work = settings.work / "faults"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    loads = [os.getloadavg()[0]]
    swept = _sweep(settings, work, words[0])
    read = [_fuzz(settings, work / name, name, words[1]) for name in TARGETS]
    loads.append(os.getloadavg()[0])
    guided = find_spec("atheris") is not None
    notes = (
        "A fault is made in the C library below one folder: an I/O error at one call, a disk that is full from one call on, a write "
        "of half its bytes. Then a clean process looks at what is left, repeats the command and compares with an undisturbed run. "
        f"There are {len(SCENARIOS)} commands; of writes to one file in a row the first, one amid and the last are struck, and at most "
        "as many calls as the table shows, chosen by a seed.",
        "A crash is computed from a trace: names reach the disk in order, data in any order, and for certain with an fsync; what "
        "is not safe is kept, lost or half there. Not covered: stat, reading through mapped memory, caches written through mapped "
        "memory, file systems that reorder names.",
        f"Inputs are {'guided by coverage (atheris)' if guided else 'changed at random: atheris is not installed'}, from the corpus in "
        "tests/fuzz/corpus.",
    )
    targets = (*_sweep_targets(swept), *_fuzz_targets(read))
    return Section(
        "faults", TITLE, (_swept_table(swept), _read_table(read)), targets, notes, {}, tuple(loads)
    )


def _sweep(settings: Settings, work: Path, words: tuple[str, ...]) -> list[dict[str, Any]]:
    if not layer.IS_AVAILABLE:
        return []
    settings.say.print("  faults and kills ...")
    lines = layer.run(layer.build(work), "tests.faults.sweep", work, *words).splitlines()
    return [json.loads(line) for line in lines]


def _fuzz(settings: Settings, work: Path, name: str, words: tuple[str, ...]) -> dict[str, Any]:
    work.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.run", name, str(work), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    found = json.loads(lines[-1]) if lines else {"name": name, "inputs": 0, "slowest_s": 0.0, "problems": {}}
    if done.returncode:
        found["problems"]["the process ended"] = done.stderr[-300:]
    settings.say.print(f"  {name}: {found['inputs']:,} inputs, {len(found['problems'])} problems")
    return found


def _sweep_targets(swept: list[dict[str, Any]]) -> tuple[Target, ...]:
    promise = "no fault, crash or kill loses what was committed; the command can be repeated"
    if not swept:
        return (Target(promise, "the layer takes Linux and a C compiler", None),)
    tried = sum(sum(one["faults"].values()) + one["crashes"] + one["kills"] for one in swept)
    problems = sum(len(one["problems"]) for one in swept)
    return (Target(promise, f"{problems} of {tried:,} went wrong", problems == 0),)


def _fuzz_targets(read: list[dict[str, Any]]) -> tuple[Target, ...]:
    problems = sum(len(one["problems"]) for one in read)
    inputs = sum(one["inputs"] for one in read)
    slowest = max(one["slowest_s"] for one in read)
    return (
        Target(
            "only our own errors escape a reader", f"{problems} others from {inputs:,} inputs", problems == 0
        ),
        Target("no input takes a reader longer than 10 s", f"{slowest:.1f} s", slowest <= 10.0),
    )


def _swept_table(swept: list[dict[str, Any]]) -> Table:
    kinds = tuple(layer.KINDS.values())
    rows = [
        (
            one["name"],
            f"{one['calls']:,}",
            *(f"{one['faults'][kind]:,}" for kind in kinds),
            f"{one['crashes']:,}",
            str(one["kills"]),
            f"{one['refused']:,}",
            "; ".join(one["problems"][:2]) or "0",
        )
        for one in swept
    ]
    totals = [sum(one["faults"][kind] for one in swept) for kind in kinds]
    totals += [sum(one[key] for one in swept) for key in ("crashes", "kills", "refused")]
    problems = sum(len(one["problems"]) for one in swept)
    rows.append(("in all", "", *(f"{total:,}" for total in totals), str(problems)))
    columns = ("command", "calls", *kinds, "crash states", "kills", "ended with an error", "went wrong")
    return Table("Commands that write", columns, tuple(rows))


def _read_table(read: list[dict[str, Any]]) -> Table:
    rows = [
        (
            one["name"],
            f"{one['inputs']:,}",
            f"{one['slowest_s']:.2f}",
            "; ".join(list(one["problems"])[:2]) or "0",
        )
        for one in read
    ]
    rows.append(
        (
            "in all",
            f"{sum(one['inputs'] for one in read):,}",
            "",
            str(sum(len(one["problems"]) for one in read)),
        )
    )
    return Table(
        "Readers of files and messages", ("reader", "inputs", "slowest, s", "errors not our own"), tuple(rows)
    )
