"""Policies by recipe: success in their own twin and on the shipped stand-ins, and what one action costs.

Every cell (a data set, a policy, an evaluation) is kept in benchmarks/work/learn and not made again, so that a long table
can be built in several sittings: `--only learn` goes on where it stopped, the first seed and what matters most before the rest.
`TWINLOOP_LEARN_MINUTES` ends a sitting early; cells that are missing then are shown as such. Trials are kept in blocks of
20, so that a sitting of a few minutes brings something, and a later one with more `TWINLOOP_LEARN_TRIALS` adds to it. All robots here are stand-ins; none of these numbers is about a real one.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_anchor import identified, randomization_of
from benchmarks.cells import TWIN, Cells, in_twin, shown, tried
from benchmarks.report import Section, Settings, Table, Target
from twinloop.dataset.reader import open_dataset
from twinloop.dataset.writer import make_dataset
from twinloop.generate.run import generate
from twinloop.identify.result import Identification
from twinloop.learn.config import TrainConfig
from twinloop.learn.policy import load_policy
from twinloop.learn.train import train
from twinloop.quality.check import check_dataset
from twinloop.quality.require import override
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.robot import connected, open_robot
from twinloop.robot.controllers import OperatorController
from twinloop.robot.record import Plan, record

RECORDED_FROM = 200
"""Demonstrations are of other scenes than evaluations, which begin with 0; close by, because some realities drift."""

IN_TWIN, LEAST_IN_TWIN, LEAST_LOSS, LEAST_GAIN = 200, 0.95, 0.30, 0.30
LATENCY_MS = 2.0
MIXED = ("pretrain-finetune", "co-train")

Key = tuple[str, int, str]
"""Recipe, demonstrations, where."""


@dataclass(frozen=True)
class Size:
    """How much of the table is made."""

    sim_episodes: int
    demonstrations: tuple[int, ...]
    realities: tuple[str, ...]
    in_twin: int
    on_robot: int
    seeds: int
    config: TrainConfig


FULL = Size(
    1000,
    tuple(int(count) for count in os.environ.get("TWINLOOP_LEARN_DEMONSTRATIONS", "10,50,200").split(",")),
    tuple(os.environ.get("TWINLOOP_LEARN_REALITIES", "severe,worn,remote,workshop,mild").split(",")),
    IN_TWIN,
    int(os.environ.get("TWINLOOP_LEARN_TRIALS", "200")),
    int(os.environ.get("TWINLOOP_LEARN_SEEDS", "3")),
    TrainConfig(steps=3000),
)
QUICK = Size(20, (5,), ("ideal",), 4, 2, 1, TrainConfig(steps=60, finetune_steps=20))


def run(settings: Settings) -> Section:
    small = settings.quick
    size = QUICK if small else FULL
    cells = Cells(settings.work / ("learn-quick" if small else "learn"), settings.say)
    rows, found = [], {}
    for seed in range(size.seeds):
        for key, made in one_seed(cells, size, seed, small):
            found.setdefault(key, []).append(made)
    for (recipe, count, where), made in found.items():
        rows.append((where, recipe, str(count or "-"), *shown([m for m in made if m], size.seeds)))
    first = cells.root / "sim-only-nominal-s0"
    cost = cells.numbers("cost", lambda: action_cost_ms(first)) if first.exists() else None
    columns = ("where", "recipe", "demonstrations", "success, 95 % interval", "trials", "training seeds")
    return Section(
        "learn",
        "Policies: recipes on stand-ins for reality",
        (Table("Success (every robot is a stand-in)", columns, tuple(rows)),),
        targets(found, cost, size),
        notes(size, found),
    )


def one_seed(cells: Cells, size: Size, seed: int, small: bool) -> Iterator[tuple[Key, Any]]:
    """The cells of one training seed; None for what is not measured yet."""

    def learned(name: str, sim: Path | None, real: Path | None = None, start: Path | None = None) -> Any:
        return policy(cells, f"{name}-s{seed}", size, seed, sim, real, start)

    nominal, guessed = (simulated(cells, arm, None, size) for arm in ("nominal", "guessed"))
    alone = {arm: data and learned(f"sim-only-{arm}", data) for arm, data in
             (("nominal", nominal), ("guessed", guessed))}  # fmt: skip
    own = alone["nominal"]
    yield (
        ("sim-only, nominal", 0, "own twin"),
        own and cells.numbers(f"{own.name}@twin", lambda: in_twin(own, size.in_twin)),
    )
    for reality in size.realities:
        result = identified(cells, reality, small)
        anchored = result and simulated(cells, f"anchored-{reality}", result, size)
        alone["anchored"] = anchored and learned(f"sim-only-anchored-{reality}", anchored)
        for arm, made in alone.items():
            yield (f"sim-only, {arm}", 0, reality), made and tried(cells, made, reality, size.on_robot)
        for count in size.demonstrations:
            real = anchored and demonstrations(cells, reality, count, max(size.demonstrations))
            name = f"{reality}-{count}"
            ways = {
                "real-only": real and learned(f"real-only-{name}", None, real),
                "co-train": real and learned(f"co-train-{name}", anchored, real),
                "pretrain-finetune": real
                and learned(f"pretrain-finetune-{name}", None, real, alone["anchored"]),
            }
            for recipe, made in ways.items():
                yield (recipe, count, reality), made and tried(cells, made, reality, size.on_robot)


def simulated(cells: Cells, name: str, result: Identification | None, size: Size) -> Path | None:
    """Simulated episodes: nominal, with guessed ranges, or with those anchored in what was identified."""
    twin, varied = randomization_of(name.split("-")[0], result)
    return cells.folder(
        f"sim-{name}",
        lambda out: generate(
            twin,
            varied,
            out=out,
            episodes=size.sim_episodes,
            seed=1,
            expert_noise=0.5,
            expert_sees_truth=True,
            resume=out.exists(),
        ),
    )


def demonstrations(cells: Cells, reality: str, count: int, most: int) -> Path | None:
    """The first `count` successful demonstrations of a simulated operator; findings about quality are answered for."""
    spare = most + max(1, most // 8)
    recorded = f"recorded-{reality}-{spare}"

    def demonstrate(out: Path) -> None:
        before = len(open_dataset(out)) if out.exists() else 0
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            plan = Plan(max(1, spare - before), 12.0, task="Pick and place.", first=RECORDED_FROM + before)
            record(robot, OperatorController(robot, "operator-1"), out, plan, attendant=robot)

    def take(out: Path) -> None:
        source = open_dataset(cells.root / recorded)
        shutil.rmtree(out, ignore_errors=True)
        with make_dataset(out, source.schema, history=("took", (source.id,), f"{count} successes")) as writer:
            for episode in itertools.islice((e for e in source if e.success), count):
                writer.add(episode)
        dataset = open_dataset(out)
        report = check_dataset(dataset, QualitySettings(purpose="train"))
        for code in sorted({finding.code for finding in report.blocking}):
            override(report, dataset, code, "benchmark", "a stand-in is meant to be as bad as this")

    everything = cells.folder(recorded, demonstrate)
    return everything and cells.folder(f"demonstrations-{reality}-{count}", take)


def policy(
    cells: Cells,
    name: str,
    size: Size,
    seed: int,
    sim: Path | None,
    real: Path | None = None,
    start: Path | None = None,
) -> Path | None:
    recipe = next(r for r in ("sim-only", "real-only", *MIXED) if name.startswith(r))
    config = replace(size.config, recipe=recipe, seed=seed)
    return cells.folder(
        name, lambda out: train(sim, real, out=out, config=config, start=start, resume=out.exists())
    )


def action_cost_ms(path: Path) -> dict[str, float]:
    """Processor time of one prediction at batch 1: median and 99th percentile."""
    loaded = load_policy(path)
    shape = (1, loaded.network.shape.history, loaded.interface.observation_size)
    seen = np.zeros(shape, np.float32)
    took = []
    for _ in range(400):
        began = time.process_time()
        loaded.predict(seen)
        took.append(1e3 * (time.process_time() - began))
    kept = took[100:]
    return {"median": statistics.median(kept), "p99": float(np.quantile(kept, 0.99))}


def share(found: dict[Any, list[Any]], key: tuple[str, int, str]) -> float | None:
    made = [m for m in found.get(key, []) if m]
    return sum(m["successes"] for m in made) / sum(m["episodes"] for m in made) if made else None


def targets(found: dict[Any, list[Any]], cost: Any, size: Size) -> tuple[Target, ...]:
    def percent(value: float | None) -> str:
        return "not measured" if value is None else f"{100 * value:.1f} %"

    own, severe = (share(found, ("sim-only, nominal", 0, where)) for where in ("own twin", "severe"))
    loss = own - severe if own is not None and severe is not None else None
    made = [
        Target(
            "sim-only in its own twin: at least 95 %",
            percent(own),
            None if own is None else own >= LEAST_IN_TWIN,
        ),
        Target(
            "sim-only (nominal) loses at least 30 points on severe",
            "not measured" if loss is None else f"{100 * loss:.1f} points",
            None if loss is None else loss >= LEAST_LOSS,
        ),
        Target(
            f"one action at batch 1 in under {LATENCY_MS:g} ms",
            "not measured"
            if cost is None
            else f"{cost['median']:.2f} ms ({cost['p99']:.2f} at the 99th percentile)",
            None if cost is None else cost["median"] < LATENCY_MS,
        ),
    ]
    for reality in size.realities:
        for count in size.demonstrations:
            alone = share(found, ("real-only", count, reality))
            mixed = [share(found, (recipe, count, reality)) for recipe in MIXED]
            known = [value for value in mixed if value is not None]
            gain = max(known) - alone if known and alone is not None else None
            made.append(
                Target(
                    f"{reality}, {count} demonstrations: best mixed recipe beats real-only by 30 points",
                    "not measured" if gain is None else f"{100 * gain:+.1f} points",
                    None if gain is None else gain >= LEAST_GAIN,
                )
            )
    return tuple(made)


def notes(size: Size, found: dict[Any, list[Any]]) -> tuple[str, ...]:
    missing = sum(m is None or not m for made in found.values() for m in made)
    return (
        f"Simulated data: {size.sim_episodes} episodes of {TWIN}, expert disturbed by 0.5; scenes vary alike. Guessed: the ranges that the "
        "package ships. Anchored: what excitation runs of the stand-in leave uncertain; mixed recipes simulate so too. Policies: state "
        f"observations, {size.config.head} head, {size.config.steps} steps. Demonstrations are of the stand-in's simulated operator, "
        "successful ones only.",
        f"{missing} of {sum(map(len, found.values()))} cells are not measured yet.",
    )
