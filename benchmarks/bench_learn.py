"""Policies by recipe: success in their own twin and on the shipped stand-ins, and what one action costs.

No cell (a dataset, a policy, a block of trials) is made twice, so that a long table can be built in several sittings: `--only
learn` goes on where it stopped, the first seed before the others. `TWINLOOP_LEARN_MINUTES` ends a sitting early,
`TWINLOOP_LEARN_REALITIES`, `_DEMONSTRATIONS` and `_SEEDS` (lists with commas) say what it makes; what is still missing is shown as
such. All robots here are stand-ins; none of these numbers is about a real one.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_anchor import randomization_of
from benchmarks.bench_loop import QUICK as QUICK_LOOP
from benchmarks.cells import TWIN, Cells, in_twin, open_cells, portion, shown, tried
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.demo import SMALL
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.loop import run_loop
from twinloop.policies.networks.policy import load_policy
from twinloop.quality.check import check_dataset
from twinloop.quality.require import override
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.twins import load_twin
from twinloop.workflows import DATA

RECORDED_FROM = 200
"""Demonstrations are of other scenes than evaluations, which begin with 0; close by, because some realities drift."""

IN_TWIN, LEAST_IN_TWIN, LEAST_LOSS, LEAST_GAIN = 200, 0.95, 0.30, 0.30
LATENCY_MS = 2.0
FEW = 50
"""Up to so many demonstrations mixing should pay; with more it may."""

MIXED = ("pretrain-finetune", "co-train")

BEFORE_THE_ROBOT = ("generate", "train", "evaluate-sim")
"""Stages of a loop that are the same for every reality."""

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
    (10, 50, 200),
    ("severe", "worn", "remote", "workshop", "mild"),
    IN_TWIN,
    200,
    3,
    TrainConfig(steps=3000, patience=4),
)
"""Patience of 4 kept the same weights as the usual 12 in all 40 policies that were looked at (lab notes)."""

QUICK = Size(20, (5,), ("ideal",), 4, 2, 1, TrainConfig(steps=60, finetune_steps=20))

Source = Callable[[], Path | None]
"""A folder that is made when somebody asks for it; None when the sitting is over."""


def run(settings: Settings) -> Section:
    size = QUICK if settings.quick else FULL
    cells = open_cells(settings, "learn")
    rows, found = [], {}
    for seed in range(size.seeds):
        for key, made in one_seed(cells, size, seed, settings.quick):
            found.setdefault(key, []).append(made)
    for (recipe, count, where), made in found.items():
        if not any(made):
            continue
        rows.append((where, recipe, str(count or "-"), *shown([m for m in made if m], size.seeds)))
    cost = cells.measured("cost", lambda: action_cost_ms(cells.root / "sim-only-nominal-s0"))
    columns = ("where", "recipe", "demonstrations", "success, 95 % interval", "trials", "training seeds")
    return Section(
        "learn",
        "Policies: recipes on stand-ins for reality",
        (Table("Success (every robot is a stand-in)", columns, tuple(rows)),),
        targets(found, cost, size),
        notes(cells, size, found),
    )


def asked_for(what: str, value: object) -> bool:
    """Whether this sitting makes such cells: all, unless TWINLOOP_LEARN_<what> lists some."""
    listed = os.environ.get(f"TWINLOOP_LEARN_{what}")
    return listed is None or str(value) in listed.split(",")


def one_seed(cells: Cells, size: Size, seed: int, small: bool) -> Iterator[tuple[Key, Any]]:
    """The cells of one training seed; None for what is not measured yet."""
    scenes = portion(size.on_robot, size.seeds, seed)
    making = cells if asked_for("SEEDS", seed) else cells.kept

    def learned(
        name: str, sim: Source | None, real: Source | None = None, start: Source | None = None
    ) -> tuple[str, Source]:
        return f"{name}-s{seed}", partial(policy, cells, f"{name}-s{seed}", size, seed, sim, real, start)

    alone = {
        arm: learned(f"sim-only-{arm}", partial(simulated, cells, arm, size))
        for arm in ("nominal", "guessed")
    }
    name, own = alone["nominal"]
    yield (
        ("sim-only, nominal", 0, "own twin"),
        making.measured(f"{name}@twin", lambda: (path := own()) and in_twin(path, size.in_twin)),
    )
    for reality in size.realities:
        here = making if asked_for("REALITIES", reality) else cells.kept
        calibrated = partial(anchored, cells, reality, size, small)
        alone["anchored"] = learned(f"sim-only-anchored-{reality}", calibrated)
        for arm, made in alone.items():
            yield (f"sim-only, {arm}", 0, reality), tried(here, *made, reality, scenes)
        for count in size.demonstrations:
            now = here if asked_for("DEMONSTRATIONS", count) else cells.kept
            real = partial(demonstrations, cells, reality, count)
            where = f"{reality}-{count}"
            ways = {
                "real-only": learned(f"real-only-{where}", None, real),
                "co-train": learned(f"co-train-{where}", calibrated, real),
                "pretrain-finetune": learned(f"pretrain-finetune-{where}", None, real, alone["anchored"][1]),
            }
            for recipe, made in ways.items():
                yield (recipe, count, reality), tried(now, *made, reality, scenes)


def simulated(cells: Cells, arm: str, size: Size) -> Path | None:
    """Simulated episodes of the nominal twin, with guessed ranges or none."""
    twin, varied = randomization_of(arm, None)
    return cells.folder(
        f"sim-{arm}",
        lambda out: generate(
            twin,
            varied,
            out=out,
            episodes=size.sim_episodes,
            seed=1,
            expert_noise=0.5,
            expert_sees_truth=True,
            workers=1,
            resume=out.exists(),
        ),
    )


def anchored(cells: Cells, reality: str, size: Size, small: bool) -> Path | None:
    """Simulated episodes of a calibrated twin: what `twinloop loop` makes of a reality before anybody demonstrates for training."""
    config = replace(QUICK_LOOP if small else SMALL, anchored_episodes=size.sim_episodes)

    def go(out: Path) -> None:
        for folder in cells.root.glob("anchored-*/loop/*-*/"):
            name = folder.name.rpartition("-")[0]
            if name in BEFORE_THE_ROBOT and not list((out / "loop").glob(f"{name}-*")):
                shutil.copytree(folder, out / "loop" / folder.name)
        run_loop(load_twin(TWIN), f"standin:{reality}", out / "loop", config, until="regenerate")

    folder = cells.folder(f"anchored-{reality}", go)
    if folder is None:
        return None
    return next((folder / "loop").glob("regenerate-*")) / DATA


def demonstrations(cells: Cells, reality: str, count: int) -> Path | None:
    """The first `count` successful demonstrations of a simulated operator; findings about quality are answered for."""
    attempts = cells.root / f"recorded-{reality}"

    def demonstrate(most: int) -> None:
        before = len(open_dataset(attempts)) if attempts.exists() else 0
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            plan = RecordingSpec(most - before, 12.0, task="Pick and place.", first=RECORDED_FROM + before)
            record(robot, OperatorController(robot, "operator-1"), attempts, plan, supervisor=robot)

    def take(out: Path) -> None:
        most = count + max(1, count // 8)
        if not attempts.exists() or len(open_dataset(attempts)) < most:
            demonstrate(most)
        source = open_dataset(attempts)
        shutil.rmtree(out, ignore_errors=True)
        with make_dataset(out, source.schema, history=("took", (source.id,), f"{count} successes")) as writer:
            for episode in itertools.islice((e for e in source if e.success), count):
                writer.add(episode)
        dataset = open_dataset(out)
        report = check_dataset(dataset, QualitySettings(purpose="train"))
        for code in sorted({finding.code for finding in report.blocking}):
            override(report, dataset, code, "benchmark", "a stand-in is meant to be as bad as this")

    return cells.folder(f"demonstrations-{reality}-{count}", take)


def policy(
    cells: Cells,
    name: str,
    size: Size,
    seed: int,
    sim: Source | None,
    real: Source | None = None,
    start: Source | None = None,
) -> Path | None:
    """A policy by the recipe that its name begins with; what it learns from is made first."""
    if (cells.root / f"{name}.done").exists():
        return cells.root / name
    sources = [source and source() for source in (sim, real, start)]
    if any(asked and not made for asked, made in zip((sim, real, start), sources, strict=True)):
        return None
    recipe = next(r for r in ("sim-only", "real-only", *MIXED) if name.startswith(r))
    config = replace(size.config, recipe=recipe, seed=seed)
    return cells.folder(
        name,
        lambda out: train(
            sources[0], sources[1], out=out, config=config, start=sources[2], resume=out.exists()
        ),
    )


def action_cost_ms(path: Path) -> dict[str, float] | None:
    """Processor time of one prediction at batch 1: median and 99th percentile."""
    if not path.exists():
        return None
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
        for count in (c for c in size.demonstrations if c <= FEW):
            alone = share(found, ("real-only", count, reality))
            mixed = [share(found, (recipe, count, reality)) for recipe in MIXED]
            known = [value for value in mixed if value is not None]
            if not known or alone is None:
                continue
            gain = max(known) - alone
            made.append(
                Target(
                    f"{reality}, {count} demonstrations: best mixed recipe beats real-only by 30 points",
                    f"{100 * gain:+.1f} points over {percent(alone)}",
                    gain >= LEAST_GAIN,
                )
            )
    return tuple(made)


def notes(cells: Cells, size: Size, found: dict[Any, list[Any]]) -> tuple[str, ...]:
    missing = sum(m is None or not m for made in found.values() for m in made)
    wanted = size.on_robot * (len(found) - 1) + size.in_twin * size.seeds
    done = sum(m["episodes"] for made in found.values() for m in made if m)
    return (
        f"Simulated data: {size.sim_episodes} episodes of {TWIN}, expert disturbed by 0.5; scenes vary alike. Guessed: the ranges that the "
        f"package ships. Anchored: what `twinloop loop` simulates after {SMALL.n_trials} trials, {SMALL.excitation_runs} excitation runs and {SMALL.n_demonstrations} "
        "demonstrations of its own, which nobody trains on; mixed recipes simulate so too. Policies: state "
        f"observations, {size.config.head} head, {size.config.steps} steps. Demonstrations are of the stand-in's simulated operator, "
        "successful ones only.",
        f"Where real-only succeeds in more than {100 * (1 - LEAST_GAIN):.0f} %, nothing can beat it by {100 * LEAST_GAIN:.0f} points.",
        f"{len(found) * size.seeds - missing} of {len(found) * size.seeds} cells (each with one training seed) and {done} of {wanted} "
        f"trials are measured, on commits {cells.commits()}; benchmarks/measured/learn.json has them one by one.",
    )
