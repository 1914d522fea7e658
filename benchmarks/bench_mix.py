"""How much simulation to mix in: a full sweep of shares beside what `--mix auto` chooses, and which score tells them apart.

Co-training on simulated episodes of the nominal twin and a few demonstrations in a reality. Every share is trained whole and
tried in that reality: that is the sweep. `--mix auto` sees neither the reality nor a whole policy: it compares partly
trained ones by held-out real error and by success in a calibrated twin. Its policy is the sweep's of the same share, bit for
bit, so its success is known. The scores of the whole policies are set against their success as well.

The reality is by default the twin that was identified from the stand-in `severe` (friction, gains, 196 ms of delay), and the
calibrated twin falls short of it by 5 % of every parameter (10 ms of delay): no other engine, but a hundred times cheaper to try.
`TWINLOOP_MIX_REALITY=severe` takes the stand-in itself. Cells stay in benchmarks/work/mix and are not made again;
`TWINLOOP_LEARN_MINUTES` ends a sitting, `TWINLOOP_MIX_TRIALS` and `TWINLOOP_MIX_SEEDS` say how much. No robot here is real.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.bench_anchor import identified
from benchmarks.bench_learn import Size, demonstrations, simulated
from benchmarks.cells import NOMINAL, TWIN, Cells, on_standin, shown
from benchmarks.report import Section, Settings, Table, Target
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.mix import SHARES, choose_mix, load_choice
from twinloop.learning.train import train
from twinloop.policies.networks.policy import load_policy
from twinloop.randomization import load_randomization
from twinloop.twins import Twin, load_twin

REALITY = os.environ.get("TWINLOOP_MIX_REALITY", "twin")
TRIALS = int(os.environ.get("TWINLOOP_MIX_TRIALS", "200"))
SEEDS = int(os.environ.get("TWINLOOP_MIX_SEEDS", "3"))
SIM_EPISODES, DEMONSTRATIONS, STEPS, VALIDATE_EVERY = 300, 20, 1200, 100
IN_TWIN, SCENES = 40, 30
SHORT = 0.05
"""By how much of the way from nominal calibration falls short, where a twin plays the reality."""
MOST_POINTS, MOST_COST = 3.0, 1.0 / 3.0
FIRST = (0.5, 0.9, 0.1)
"""Shares that tell most are trained and tried first, so that a short sitting has something to say."""


def run(settings: Settings) -> Section:
    small = settings.quick
    cells = Cells(settings.work / ("mix-quick" if small else "mix"), settings.say)
    reality, trials, seeds = ("twin", 2, 1) if small else (REALITY, TRIALS, SEEDS)
    config = TrainConfig(recipe="co-train", steps=60, validate_every=10)
    if not small:
        config = replace(config, steps=STEPS, validate_every=VALIDATE_EVERY)
    shares = SHARES[::3] if small else tuple(sorted(SHARES, key=lambda s: (s not in FIRST, s)))
    size = Size(20 if small else SIM_EPISODES, (), (), 1, 1, 1, config)
    sim = simulated(cells, "nominal", size)
    count = 5 if small else DEMONSTRATIONS
    truth, twin = twins(settings, reality, small)
    real = demonstrated(cells, truth, count) if reality == "twin" else demonstrations(cells, reality, count)
    found: dict[tuple[int, float], dict[str, Any]] = {}
    choices: list[Any] = []
    for seed in range(seeds):
        if sim is None or real is None:
            break
        chosen = replace(config, seed=seed)
        policies = {}
        for share in shares:
            policy = trained(cells, sim, real, replace(chosen, mix=share))
            outcome = policy and tried(cells, policy, truth, reality, trials)
            if policy is not None and outcome is not None:
                policies[share], found[seed, share] = policy, {"outcome": outcome}
        choices.append(auto(cells, sim, real, chosen, twin, shares, seed))
        for share, policy in policies.items():
            found[seed, share] |= scored(cells, policy, twin)
    return section(found, choices, shares, seeds, trials, reality)


def twins(settings: Settings, reality: str, small: bool) -> tuple[Twin, Twin]:
    """The twin that plays the reality where none does it better, and the calibrated one that the search is given."""
    if small:
        return load_twin(TWIN), load_twin(TWIN)
    anchored = Cells(settings.work / "anchor", settings.say)
    found = identified(anchored, "severe" if reality == "twin" else reality, small=False)
    assert found is not None
    if reality != "twin":
        return found.twin, found.twin
    short = {e.name: e.nominal + (1.0 - SHORT) * (e.value - e.nominal) for e in found.estimates}
    return found.twin, load_twin(TWIN).with_values(short)


def demonstrated(cells: Cells, truth: Twin, count: int) -> Path | None:
    """Demonstrations of the scripted expert in the twin that plays the reality."""

    def make(out: Path) -> None:
        scenes = load_randomization({"name": "nominal", "randomization": NOMINAL}, truth)
        generate(truth, scenes, out=out, episodes=count, seed=9, workers=1, resume=out.exists())

    return cells.folder(f"demonstrations-twin-{count}", make)


def trained(cells: Cells, sim: Path, real: Path, config: TrainConfig) -> Path | None:
    """One share, trained whole."""

    def make(out: Path) -> None:
        train(sim, real, out=out, config=config, resume=out.exists())

    return cells.folder(f"co-train-{config.mix:g}-{real.name}-s{config.seed}", make)


def inside(path: Path, cell: Twin, episodes: int, seed: int) -> dict[str, Any]:
    """Success in a twin whose readings the policy is told are a robot's."""
    scenes = load_randomization({"name": "nominal", "randomization": NOMINAL}, cell)
    environment = TwinEnvironment(cell, scenes, as_robot=True)
    return evaluate(load_policy(path), environment, episodes=episodes, seed=seed).as_json()


def tried(cells: Cells, path: Path, truth: Twin, reality: str, trials: int) -> dict[str, Any] | None:
    """How a whole policy does in the reality."""
    if reality != "twin":
        return on_standin(cells, path, reality, trials)
    return cells.numbers(f"{path.name}@truth-{trials}", lambda: inside(path, truth, trials, 77))


def scored(cells: Cells, path: Path, twin: Twin) -> dict[str, Any]:
    """What a search without a robot could know of a whole policy."""
    name = f"{path.name}@calibrated-{twin.content_hash[:8]}-{IN_TWIN}"
    success = cells.numbers(name, lambda: inside(path, twin, IN_TWIN, 78)["success"])
    return {"twin": success, "real_error": load_policy(path).training_record.results["validation"]}


def auto(
    cells: Cells, sim: Path, real: Path, config: TrainConfig, twin: Twin, shares: tuple[float, ...], seed: int
) -> Any:
    """What the search chooses, and what it cost."""

    def make(out: Path) -> None:
        choose_mix(
            sim, real, config=config, twin=twin, shares=tuple(sorted(shares)), folder=out, scenes=SCENES
        )

    folder = cells.folder(f"auto-{real.name}-s{seed}", make)
    return folder and load_choice(folder)


def section(
    found: dict[tuple[int, float], dict[str, Any]],
    choices: list[Any],
    shares: tuple[float, ...],
    seeds: int,
    trials: int,
    reality: str,
) -> Section:
    name = (
        "a reality played by the twin identified from severe"
        if reality == "twin"
        else f"the stand-in {reality}"
    )
    rows = []
    for share in sorted(shares):
        made = [found[seed, share] for seed in range(seeds) if (seed, share) in found]
        if not made:
            rows.append((f"{share:g}", "not measured yet", "0", "", "", ""))
            continue
        tried = [m["outcome"] for m in made]
        picked = [seed for seed, choice in enumerate(choices) if choice and choice.share == share]
        rows.append(
            (
                f"{share:g}",
                *shown(tried, seeds)[:2],
                f"{np.mean([m['real_error'] for m in made]):.4f}",
                percent([m["twin"] for m in made if m["twin"] is not None]),
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
        (Table(f"Co-training for {name}", columns, tuple(rows)), scores_table(found)),
        targets(found, choices, shares, seeds),
        (
            f"{SIM_EPISODES} simulated episodes of the nominal {TWIN}, {DEMONSTRATIONS} demonstrations in {name}, "
            f"{STEPS} updates, {len(found)} of {seeds * len(shares)} policies trained, {trials} trials each where tried.",
            "Cost is counted in weight updates; the sweep's trials on the robot, which auto does not need, are not counted.",
            *(f"Seed {s}: auto chose {c.share:g} ({c.cost_updates} updates, {c.seconds:.0f} s with scoring)." for s, c in enumerate(choices) if c),
        ),
    )  # fmt: skip


def scores_table(found: dict[tuple[int, float], dict[str, Any]]) -> Table:
    """Spearman's rank correlation of each score of whole policies with success on the stand-in."""
    known = [m for m in found.values() if m.get("twin") is not None]
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


def percent(shares: list[float]) -> str:
    return f"{100 * float(np.mean(shares)):.0f} %" if shares else "not measured yet"


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
            share: found[seed, share]["outcome"]["success"] for share in shares if (seed, share) in found
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
