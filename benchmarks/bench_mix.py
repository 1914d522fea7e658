"""How much simulation to mix in: a full sweep of shares beside what `--mix auto` chooses, and which score tells them apart.

Co-training on simulated episodes of the nominal twin and a few demonstrations on a stand-in. Every share is trained whole and
tried on the stand-in: that is the sweep. `--mix auto` sees neither the stand-in nor a trained policy: it compares partly
trained ones by held-out real error and by success in the calibrated twin. Its policy is the sweep's of the same share, bit for
bit, so its success is known. The scores of the whole policies are set against their success on the stand-in as well.

Cells stay in benchmarks/work/mix and are not made again. `TWINLOOP_LEARN_MINUTES` ends a sitting; `TWINLOOP_MIX_TRIALS`,
`TWINLOOP_MIX_SEEDS` and `TWINLOOP_MIX_REALITY` say how much. Every robot here is a stand-in.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.bench_anchor import identified
from benchmarks.bench_learn import NOMINAL, TWIN, Cells, Size, demonstrations, make_sim, on_standin, shown
from benchmarks.report import Section, Settings, Table, Target
from twinloop.learn.config import TrainConfig
from twinloop.learn.evaluate import evaluate_in_twin
from twinloop.learn.mix import SHARES, choose_mix, load_choice
from twinloop.learn.policy import load_policy
from twinloop.learn.train import train
from twinloop.randomize import load_randomization
from twinloop.twin import Twin, load_twin

REALITY = os.environ.get("TWINLOOP_MIX_REALITY", "severe")
TRIALS = int(os.environ.get("TWINLOOP_MIX_TRIALS", "200"))
SEEDS = int(os.environ.get("TWINLOOP_MIX_SEEDS", "3"))
SIM_EPISODES, DEMONSTRATIONS, STEPS = 300, 20, 1500
IN_TWIN = 60
MOST_POINTS, MOST_COST = 3.0, 1.0 / 3.0
FIRST = (0.5, 0.9, 0.1)
"""Shares that tell most are trained and tried first, so that a short sitting has something to say."""


def run(settings: Settings) -> Section:
    small = settings.quick
    cells = Cells(settings.work / ("mix-quick" if small else "mix"), settings.say)
    reality, trials, seeds = ("ideal", 2, 1) if small else (REALITY, TRIALS, SEEDS)
    config = TrainConfig(recipe="co-train", steps=60, validate_every=10) if small else TrainConfig(
        recipe="co-train", steps=STEPS
    )  # fmt: skip
    shares = SHARES[::3] if small else tuple(sorted(SHARES, key=lambda s: (s not in FIRST, s)))
    size = Size(20 if small else SIM_EPISODES, (), (), (), 1, 1, 1, config)
    sim = cells.folder("sim-nominal", lambda out: make_sim(out, size))
    count = 5 if small else DEMONSTRATIONS
    real = demonstrations(cells, reality, count, count)
    twin = (
        load_twin(TWIN)
        if small
        else identified(Cells(settings.work / "anchor", settings.say), reality, False).twin
    )
    found: dict[tuple[int, float], dict[str, Any]] = {}
    choices: list[Any] = []
    for seed in range(seeds):
        if sim is None or real is None:
            break
        chosen = replace(config, seed=seed)
        for share in shares:
            made = cell(cells, sim, real, replace(chosen, mix=share), twin, reality, trials)
            if made is not None:
                found[seed, share] = made
        choices.append(auto(cells, sim, real, chosen, twin, shares, seed))
    return section(found, choices, shares, seeds, trials, reality)


def cell(
    cells: Cells, sim: Path, real: Path, config: TrainConfig, twin: Twin, reality: str, trials: int
) -> dict[str, Any] | None:
    """One share, trained whole: its scores and its success on the stand-in."""
    name = f"co-train-{config.mix:g}-s{config.seed}"

    def make(out: Path) -> None:
        train(sim, real, out=out, config=config, resume=out.exists())

    def score() -> dict[str, Any]:
        policy = load_policy(cells.root / name)
        scenes = load_randomization({"name": "nominal", "randomization": NOMINAL}, twin)
        began = time.process_time()
        inside = evaluate_in_twin(policy, twin, episodes=IN_TWIN, seed=78, randomization=scenes, real=True)
        return {
            "twin": inside.success,
            "real_error": policy.story.results["validation"],
            "train_s": policy.story.results["seconds"],
            "twin_cpu_s": time.process_time() - began,
        }

    policy = cells.folder(name, make)
    if policy is None:
        return None
    scores = cells.numbers(f"{name}@calibrated", score)
    outcome = on_standin(cells, policy, reality, trials)
    return None if scores is None else scores | {"outcome": outcome}


def auto(
    cells: Cells, sim: Path, real: Path, config: TrainConfig, twin: Twin, shares: tuple[float, ...], seed: int
) -> Any:
    """What the search chooses, and what it cost."""

    def make(out: Path) -> None:
        choose_mix(sim, real, config=config, twin=twin, shares=tuple(sorted(shares)), folder=out)

    folder = cells.folder(f"auto-s{seed}", make)
    return folder and load_choice(folder)


def section(
    found: dict[tuple[int, float], dict[str, Any]],
    choices: list[Any],
    shares: tuple[float, ...],
    seeds: int,
    trials: int,
    reality: str,
) -> Section:
    rows = []
    for share in sorted(shares):
        made = [found[seed, share] for seed in range(seeds) if (seed, share) in found]
        if not made:
            rows.append((f"{share:g}", "not measured yet", "0", "", "", ""))
            continue
        tried = [m["outcome"] for m in made if m["outcome"]]
        picked = [seed for seed, choice in enumerate(choices) if choice and choice.share == share]
        rows.append(
            (
                f"{share:g}",
                *shown(tried, seeds)[:2],
                f"{np.mean([m['real_error'] for m in made]):.4f}",
                f"{100 * np.mean([m['twin'] for m in made]):.0f} %",
                ", ".join(f"seed {seed}" for seed in picked),
            )
        )
    columns = (
        "sim share",
        "success, 95 % interval",
        "trials",
        "held-out real error",
        "calibrated twin, told real",
        "auto",
    )
    return Section(
        "mix",
        "How much simulation to mix in: a sweep beside --mix auto",
        (Table(f"Co-training for the stand-in {reality}", columns, tuple(rows)), scores_table(found)),
        targets(found, choices, shares, seeds),
        (
            f"{SIM_EPISODES} simulated episodes of the nominal {TWIN}, {DEMONSTRATIONS} demonstrations on the stand-in {reality}, "
            f"{STEPS} updates, {len(found)} of {seeds * len(shares)} policies trained, {trials} trials each where tried.",
            "Cost is counted in weight updates; the sweep's trials on the robot, which auto does not need, are not counted.",
            *(f"Seed {s}: auto chose {c.share:g} ({c.cost_updates} updates, {c.seconds:.0f} s with scoring)." for s, c in enumerate(choices) if c),
        ),
    )  # fmt: skip


def scores_table(found: dict[tuple[int, float], dict[str, Any]]) -> Table:
    """Spearman's rank correlation of each score of whole policies with success on the stand-in."""
    known = [m for m in found.values() if m["outcome"]]
    success = np.array([m["outcome"]["success"] for m in known])
    scores = {
        "held-out real error (negated)": [-m["real_error"] for m in known],
        "success in the calibrated twin, told real": [m["twin"] for m in known],
        "both, mean of ranks": combined(known),
    }
    rows = []
    for name, values in scores.items():
        enough = len(known) > 3 and np.ptp(values) > 0 and np.ptp(success) > 0
        rho = f"{stats.spearmanr(values, success).statistic:+.2f}" if enough else "not measured"
        rows.append((name, rho, str(len(known))))
    return Table("Which score goes with success", ("score", "rank correlation", "policies"), tuple(rows))


def combined(known: list[dict[str, Any]]) -> list[float]:
    if not known:
        return []
    error = stats.rankdata([-m["real_error"] for m in known])
    twin = stats.rankdata([m["twin"] for m in known])
    return [float(value) for value in 0.5 * (error + twin)]


def targets(
    found: dict[tuple[int, float], dict[str, Any]], choices: list[Any], shares: tuple[float, ...], seeds: int
) -> tuple[Target, ...]:
    behind, costs = [], []
    for seed, choice in enumerate(choices):
        if choice is None:
            continue
        costs.append(choice.cost_updates / (len(shares) * choice.steps))
        tried = {
            share: found[seed, share]["outcome"]["success"]
            for share in shares
            if (seed, share) in found and found[seed, share]["outcome"]
        }
        if len(tried) == len(shares):
            behind.append(100 * (max(tried.values()) - tried[choice.share]))
    points = float(np.mean(behind)) if behind else None
    cost = float(np.mean(costs)) if costs else None
    return (
        Target(
            f"auto is within {MOST_POINTS:g} points of the best of the sweep",
            "not measured"
            if points is None
            else f"{points:.1f} points behind, {len(behind)} of {seeds} seeds",
            None if points is None else points <= MOST_POINTS,
        ),
        Target(
            "at no more than a third of the sweep's cost, its own training included",
            "not measured" if cost is None else f"{100 * cost:.1f} %",
            None if cost is None else cost <= MOST_COST + 1e-9,
        ),
    )
