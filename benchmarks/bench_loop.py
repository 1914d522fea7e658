"""The whole loop against known worlds: how a policy does on stand-ins before and after, beside what one would do without it.

For each reality and seed the loop runs as `twinloop demo` runs it. Then four policies meet the same scenes: the nominal one the
loop began with, the one it ended with, one trained on guessed wide ranges with as many simulated episodes and weight updates, and
one trained on the same real demonstrations alone. Every robot is a stand-in. Made cells stay in benchmarks/work/loop;
`TWINLOOP_LOOP_REALITIES`, `_SEEDS` and `_EPISODES` make the table larger or smaller, `TWINLOOP_LOOP_MINUTES` ends a sitting.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells, on_standin, shown
from benchmarks.report import Section, Settings, Table, Target
from twinloop.demo import SMALL, TWIN
from twinloop.generate.run import generate
from twinloop.learn.config import TrainConfig
from twinloop.learn.train import train
from twinloop.loop import FIRST, SECOND, LoopConfig, run_loop, training_scenes
from twinloop.randomize import default_randomization
from twinloop.stages import Done
from twinloop.steps.folders import USABLE
from twinloop.twin import load_twin

REALITIES = tuple(os.environ.get("TWINLOOP_LOOP_REALITIES", "severe,worn,remote,workshop,mild").split(","))
SEEDS = int(os.environ.get("TWINLOOP_LOOP_SEEDS", "3"))
EPISODES = int(os.environ.get("TWINLOOP_LOOP_EPISODES", "200"))
QUICK = replace(
    SMALL, sim_episodes=16, anchored_episodes=16, steps=40, finetune_steps=40, in_twin=8, paced=4, trials=8, excited_s=3.0,
    identified_s=4.0, diagnosed=64, demonstrations=6, gate_scenes=40, gate_trials=4, deployed=2,
)  # fmt: skip
WITHIN = 0.05
"""How far success on the stand-in may stay behind simulated success."""


def run(settings: Settings) -> Section:
    quick = settings.quick
    cells = Cells(settings.work / ("loop-quick" if quick else "loop"), settings.say, "TWINLOOP_LOOP_MINUTES")
    realities, seeds, episodes = (("ideal",), 1, 4) if quick else (REALITIES, SEEDS, EPISODES)
    config = QUICK if quick else SMALL
    rows: list[tuple[str, ...]] = []
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        for reality in realities:
            made = one(cells, reality, replace(config, seed=seed), episodes)
            if made is None:
                continue
            found.setdefault(reality, []).append(made)
            rows.append(
                (
                    reality,
                    str(seed),
                    *(shown([made[arm]], 1)[0] for arm in ("before", "after", "guessed", "real-only")),
                    f"{100 * made['simulated']:.1f} %",
                    made["verdict"],
                )
            )
    return Section(
        "loop",
        "The whole loop on stand-ins",
        (
            Table(
                f"Success on the stand-in, {episodes} episodes each, 95 % intervals",
                ("reality", "seed", "before", "after", "guessed ranges", "same demonstrations alone", "after, simulated",
                 "gate"),
                tuple(rows),
            ),
        ),
        targets(found),
        (
            f"{len(rows)} of {len(realities) * seeds} loops run. A loop as `twinloop demo` runs it: {config.trials} trials, "
            f"{config.excitations} excitation runs and {config.demonstrations} demonstrations of the robot, "
            f"{config.sim_episodes} + {config.anchored_episodes} simulated episodes.",
        ),
    )  # fmt: skip


def one(cells: Cells, reality: str, config: LoopConfig, episodes: int) -> dict[str, Any] | None:
    """One loop and its four policies; None when the sitting ended first."""
    name = f"{reality}-{config.seed}"

    def go(out: Path) -> None:
        run_loop(load_twin(TWIN), f"standin:{reality}", out / "loop", config)

    folder = cells.folder(name, go)
    if folder is None:
        return None
    stages = run_loop(load_twin(TWIN), f"standin:{reality}", folder / "loop", config)
    policies: dict[str, Path | None] = {
        "before": stages["pretrain"].folder / FIRST,
        "after": stages["finetune"].folder / SECOND,
        "guessed": guessed(cells, config),
        "real-only": real_only(cells, name, stages, config),
    }
    made: dict[str, Any] = {}
    for arm, policy in policies.items():
        measured = policy and on_standin(cells, policy, reality, episodes, f"{arm}-{name}")
        if not measured:
            return None
        made[arm] = measured
    gate = stages["gate"].found
    return made | {"simulated": gate["simulation"]["success"], "verdict": gate["decision"]}


def guessed(cells: Cells, config: LoopConfig) -> Path | None:
    """A policy from wide ranges around the nominal twin, as the package ships them."""
    twin = load_twin(TWIN)
    varied = default_randomization(twin).updated(training_scenes(twin), name="guessed")

    def make(out: Path) -> None:
        generate(
            twin,
            varied,
            out=out,
            episodes=config.anchored_episodes,
            seed=config.seed + 1,
            expert_noise=0.5,
            expert_sees_truth=True,
            resume=out.exists(),
        )

    data = cells.folder(f"sim-guessed-{config.seed}", make)

    def learn(out: Path) -> None:
        how = TrainConfig(recipe="sim-only", seed=config.seed, steps=config.finetune_steps)
        train(data, None, out=out, config=how, resume=out.exists())

    return data and cells.folder(f"policy-guessed-{config.seed}", learn)


def real_only(cells: Cells, name: str, stages: Mapping[str, Done], config: LoopConfig) -> Path | None:
    """A policy from the loop's demonstrations and nothing else."""

    def learn(out: Path) -> None:
        how = TrainConfig(recipe="real-only", seed=config.seed, steps=config.finetune_steps)
        train(None, stages["demonstrate"].folder / USABLE, out=out, config=how, resume=out.exists())

    return cells.folder(f"policy-real-{name}", learn)


def targets(found: Mapping[str, list[dict[str, Any]]]) -> tuple[Target, ...]:
    """All seeds of a reality together."""

    def mean(reality: str, arm: str) -> float:
        return sum(m[arm]["successes"] / m[arm]["episodes"] for m in found[reality]) / len(found[reality])

    made = []
    for reality, cells in found.items():
        after, simulated = mean(reality, "after"), sum(m["simulated"] for m in cells) / len(cells)
        behind = f"{100 * (simulated - after):.1f} points behind"
        made.append(
            Target(f"{reality}: after within 5 points of simulation", behind, simulated - after <= WITHIN)
        )
        for arm in ("guessed", "real-only"):
            gain = after - mean(reality, arm)
            made.append(Target(f"{reality}: after beats {arm}", f"{100 * gain:+.1f} points", gain > 0.0))
    return tuple(made)
