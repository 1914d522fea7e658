"""Diagnosis of a foreign policy: one that is only known by its address, on stand-ins with injected gaps.

The policy is ours behind `twinloop serve`, so that it may be compared with the table of `bench_diagnose`, but everything reaches it
through `openpi:` and an interface map, and nothing knows more of it than of any other server. Recordings and diagnoses are kept in
benchmarks/work/diagnose; `TWINLOOP_FOREIGN_MINUTES` ends a sitting. All robots here are stand-ins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench_diagnose import FULL, QUICK, Size, injected, learn, make_sim, named, standin
from benchmarks.bench_remote import make_map, served
from benchmarks.cells import TWIN, Cells
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.evaluation.run import evaluate
from twinloop.policies.networks.policy import load_policy
from twinloop.policies.open import connect_policy
from twinloop.policies.protocol import PolicyLike
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, record

FIRST, REALITIES = 301, 6
"""Realities of `bench_diagnose`, from this number on: nothing was tuned or mended on them. So many that cost the policy something."""
WORKS = 0.85
"""A policy that succeeds this often all the same lost nothing that could be named; another reality is taken in its place."""
MOST = 10
DEMONSTRATED_FROM = 9000
RIGHT = 5


def run(settings: Settings) -> Section:
    size, count = (QUICK, 1) if settings.quick else (FULL, REALITIES)
    root = settings.work / ("diagnose-quick" if settings.quick else "diagnose")
    cells = Cells(root, settings.say, limit="TWINLOOP_FOREIGN_MINUTES")
    sim = cells.folder("sim", lambda out: make_sim(out, size))
    folder = sim and cells.folder("pick", lambda out: learn(sim, out, size))
    found: dict[int, dict[str, Any]] = {}
    if folder is not None:
        with served(folder) as (address, _):
            policy = connect_policy(make_map(load_policy(folder), address))
            for number in itertools.islice(choose(), MOST):
                if (made := diagnosed(cells, policy, number, size)) is None:
                    break
                found[number] = made
                if sum(map(is_counted, found.values())) == count or settings.quick:
                    break
            policy.close()
    return _section(found, count)


def choose() -> Iterator[int]:
    """Realities with one injected gap: each in another dimension as long as there is one, then over again."""
    single = [number for number in range(FIRST, FIRST + 200) if len(injected(number)) == 1]
    for _ in itertools.count():
        met: set[str] = set()
        for number in list(single):
            (block,) = injected(number)
            if block not in met:
                met.add(block)
                single.remove(number)
                yield number


def is_counted(made: dict[str, Any]) -> bool:
    """Whether the policy lost something that could be named."""
    return bool(made["successes"] < WORKS * made["runs"])


def diagnosed(cells: Cells, policy: PolicyLike, number: int, size: Size) -> dict[str, Any] | None:
    """The diagnosis of one reality from recordings of the policy and demonstrations, and how often the policy succeeded."""
    address = standin(cells, number, injected(number), f"foreign-{number}")

    def run_policy(out: Path) -> None:
        with connected(open_robot(address)) as robot:
            evaluate(policy, robot, episodes=size.runs, seed=0, out=out)

    def demonstrate(out: Path) -> None:
        with connected(open_robot(address)) as robot:
            plan = RecordingSpec(size.demonstrations, 12.0, first=DEMONSTRATED_FROM)
            record(robot, OperatorController(robot, "operator-1"), out, plan, supervisor=robot)

    runs = cells.folder(f"foreign-runs-{number}", run_policy)
    shown = runs and cells.folder(f"foreign-demonstrations-{number}", demonstrate)
    if not runs or not shown:
        return None

    def explain() -> dict[str, Any]:
        dataset = open_dataset(runs)
        keep = cells.root / f"foreign-evaluations-{number}"
        made = diagnose(policy, dataset, TWIN, excitation=open_dataset(shown), seed=number, keep=keep)
        successes = sum(bool(episode.outcome.success) for episode in dataset)
        return {**made.as_json(), "successes": successes, "runs": len(dataset), "policy": policy.name}

    answer: dict[str, Any] | None = cells.numbers(f"foreign-diagnosis-{number}", explain)
    return answer


def _section(found: dict[int, dict[str, Any]], count: int) -> Section:
    rows, right, counted = [], 0, 0
    for number, made in found.items():
        ((block, effect),) = injected(number).items()
        first = next(iter(named(made)), "nothing")
        if is_counted(made):
            counted += 1
            right += first == block
        costs = ", ".join(f"{c['dimension']} {100 * c['lost']['value']:.0f}" for c in made["costs"])
        rows.append(
            (
                str(number),
                f"{block}: " + " ".join(f"{key} {value:.3g}" for key, value in effect.items()),
                f"{made['successes']} of {made['runs']}",
                ", ".join(named(made)) or "nothing",
                costs or "-",
                f"{100 * made['unknown']['value']:.0f}",
            )
        )
    columns = ("reality", "injected", "succeeded", "named", "costs", "unknown")
    left = count - counted
    return Section(
        "foreign",
        "Diagnosis of a foreign policy",
        (Table("Stand-ins with one injected gap, policy behind openpi:", columns, tuple(rows)),),
        (
            Target(
                f"the injected dimension is named first in at least {RIGHT} of {REALITIES}",
                f"{right} of {counted}" + (f", {left} not found yet" if left else ""),
                right >= RIGHT if not left else None,
            ),
        ),
        (
            f"A reality in which the policy succeeds in {WORKS:.0%} of its runs or more has nothing to find and is not "
            "counted; another is taken in its place.",
        ),
        cases=tuple(map(str, found)),
    )
