"""The whole loop against known worlds: how a policy does on stand-ins before and after, beside what one would do without it.

For each reality and seed the loop runs as `twinloop demo` runs it. Then four policies meet the same scenes: the nominal one the
loop began with, the one it ended with, one trained on guessed wide ranges with as many simulated episodes and weight updates, and
one trained on the same real demonstrations alone. Every robot is a stand-in: a shipped one, or `drawn-N`, whose faults follow from its
number alone and which nobody looked at before its row was made. No cell is made twice; `TWINLOOP_LOOP_REALITIES` and `_SEEDS` (lists
with commas) say what a sitting makes, `TWINLOOP_LOOP_MINUTES` ends it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.cells import Cells, open_cells, shown, tried
from benchmarks.report import Section, Settings, Table, Target
from twinloop.demo import SMALL, TWIN
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.loop import run_loop
from twinloop.loop_result import LoopResult
from twinloop.loop_status import LoopConfig
from twinloop.quality.select import select_usable
from twinloop.randomization import default_randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.twins import load_twin

REALITIES = ("severe", "remote", "workshop", "drawn-1", "drawn-2", "worn", "mild")
SCENES, BLOCK = (range(80), range(40), range(80)), 40
"""What each seed's policies meet, 200 episodes of a reality together: in the first hundred scenes nothing is trained on."""

ARMS = ("before", "after", "guessed", "real-only")
HEADS = ("before", "after", "guessed ranges", "same demonstrations alone")
QUICK = replace(
    SMALL, sim_episodes=16, anchored_episodes=16, train_steps=40, finetune_steps=40, n_sim_trials=8, horizon_episodes=4, n_trials=8,
    excitation_s=3.0, identification_s=4.0, diagnosis_budget=64, max_demonstrations=6, gate_scenes=40, gate_trials=4,
    deployed_episodes=2,
)  # fmt: skip
DRAWN: dict[str, dict[str, tuple[float, float]]] = {
    "contact": {
        "friction": (0.35, 1.1),
        "finger_friction_scale": (0.5, 1.2),
        "table_friction_scale": (0.5, 1.3),
    },
    "object": {"mass_scale": (0.6, 2.2), "size_scale": (0.9, 1.12), "center_x_m": (-0.008, 0.008)},
    "actuation": {
        "stiffness_scale": (0.7, 1.2),
        "damping_scale": (0.8, 1.4),
        "gripper_force_scale": (0.4, 1.1),
        "dry_friction_share": (0.005, 0.05),
        "backlash_rad": (0.001, 0.012),
        "cable_torque_share": (0.01, 0.08),
        "link_mass_scale": (0.92, 1.08),
    },
    "latency": {
        "action_delay_s": (0.02, 0.15),
        "action_jitter_s": (0.002, 0.012),
        "observation_delay_s": (0.01, 0.1),
        "pose_delay_s": (0.02, 0.12),
        "observation_drop_probability": (0.01, 0.08),
    },
    "sensing": {
        "encoder_noise_rad": (0.0003, 0.003),
        "encoder_bias_rad": (0.001, 0.008),
        "velocity_noise_rad_s": (0.01, 0.08),
        "pose_noise_m": (0.0005, 0.004),
        "pose_bias_x_m": (-0.02, 0.02),
        "pose_bias_y_m": (-0.02, 0.02),
        "pose_bias_z_m": (-0.01, 0.01),
        "pose_scale_error": (-0.015, 0.015),
        "pose_drop_probability": (0.01, 0.15),
        "occlusion_m": (0.03, 0.09),
    },
    "environment": {
        "table_height_m": (-0.02, 0.02),
        "table_tilt_rad": (0.005, 0.03),
        "object_scatter_m": (0.04, 0.08),
        "target_scatter_m": (0.01, 0.03),
        "wind_force_n": (0.02, 0.15),
    },
    "human": {
        "reaction_s": (0.1, 0.4),
        "speed_scale": (0.7, 1.1),
        "aim_error_m": (0.001, 0.004),
        "tremor_m": (0.0002, 0.001),
        "wrong_judgement_probability": (0.01, 0.06),
    },
}
"""What a drawn reality may have, each with a chance of a half."""

WITHIN = 0.05
"""How far success on the stand-in may stay behind simulated success."""


def run(settings: Settings) -> Section:
    quick = settings.quick
    cells = open_cells(settings, "loop", "TWINLOOP_LOOP_MINUTES")
    realities, scenes = (("ideal",), (range(4),)) if quick else (REALITIES, SCENES)
    config = QUICK if quick else SMALL
    rows: list[tuple[str, ...]] = []
    found: dict[str, list[dict[str, Any]]] = {}
    for seed, met in enumerate(scenes):
        for reality in realities:
            here = cells if asked_for("REALITIES", reality) and asked_for("SEEDS", seed) else cells.kept
            made = one(here, reality, replace(config, seed=seed), met)
            if made is None:
                continue
            found.setdefault(reality, []).append(made)
            simulated = made.get("simulated")
            rows.append(
                (
                    reality,
                    str(seed),
                    str(made["demonstrations"]),
                    *(shown([made[arm]] if made[arm] else [], 1)[0] for arm in ARMS),
                    " / ".join(str(made[arm]["episodes"]) if made[arm] else "0" for arm in ARMS),
                    "not kept" if simulated is None else f"{100 * simulated:.1f} %",
                    made["verdict"],
                )
            )
    return Section(
        "loop",
        "The whole loop on stand-ins",
        (
            Table(
                "All seeds of a reality together",
                ("reality", "seeds", *HEADS),
                tuple(
                    (reality, str(len(seeds)), *(shown([m[arm] for m in seeds if m[arm]], 1)[0] for arm in ARMS))
                    for reality, seeds in found.items()
                ),
            ),
            Table(
                "Success on the stand-in, 95 % intervals",
                ("reality", "seed", "demonstrations", *HEADS, "episodes each", "after, simulated", "gate"),
                tuple(rows),
            ),
        ),
        targets(found),
        (
            f"{len(rows)} of {len(realities) * len(scenes)} loops run. A loop as `twinloop demo` runs it: {config.n_trials} trials, {config.excitation_runs} excitation runs and {config.n_demonstrations} demonstrations of "
            f"the robot, {config.max_demonstrations} where a policy from the calibrated twin fails in one of {config.n_retrials} trials; {config.sim_episodes} + {config.anchored_episodes} simulated "
            "episodes. Where a row's rivals always succeed, nothing can beat them.",
            f"Measured on commits {cells.commits()}; benchmarks/measured/loop.json has the cells one by one.",
        ),
    )  # fmt: skip


def asked_for(what: str, value: object) -> bool:
    """Whether this sitting makes such cells: all, unless TWINLOOP_LOOP_<what> lists some."""
    listed = os.environ.get(f"TWINLOOP_LOOP_{what}")
    return listed is None or str(value) in listed.split(",")


def one(cells: Cells, reality: str, config: LoopConfig, scenes: range) -> dict[str, Any] | None:
    """One loop and its four policies, those that were not tried yet as None; None when the sitting ended before the last of them was."""
    name = f"{reality}-{config.seed}"
    where = reality_of(cells, reality)

    stages = looped(cells, name, where, config)

    def decided() -> dict[str, Any] | None:
        if (done := stages()) is None or done.verdict is None or done.evidence is None:
            return None
        simulated = [trial.candidate for trial in done.evidence.simulated]
        recorded = (done.demonstrate, done.demonstrate_more)
        return {
            "demonstrations": sum(len(dataset) for dataset in recorded if dataset is not None),
            "simulated": sum(simulated) / len(simulated),
            "verdict": done.verdict.decision,
        }

    def made_by_loop(names: tuple[str, ...]) -> Path | None:
        """The policy of the first of these stages that ran."""
        done = stages()
        found = [stage for name in names if done is not None and (stage := done.stage(name)) is not None]
        return found[0].folder / found[0].result.name if found else None

    gated = cells.measured(f"loop-{name}", decided)
    policies: dict[str, Callable[[], Path | None]] = {
        "before": partial(made_by_loop, ("train",)),
        "after": partial(made_by_loop, ("finetune", "train")),
        "guessed": partial(guessed, cells, config),
        "real-only": lambda: (done := stages()) and real_only(cells, name, done, config),
    }
    made = {
        arm: tried(cells, f"{arm}-{name}", policy, where, scenes, reality, BLOCK)
        for arm, policy in policies.items()
    }
    return made | gated if gated and made["after"] else None


def looped(cells: Cells, name: str, where: str, config: LoopConfig) -> Callable[[], LoopResult | None]:
    """Gives the stages of a loop, which runs when they are first asked for."""

    def go(out: Path) -> None:
        run_loop(load_twin(TWIN), f"standin:{where}", out / "loop", config)

    @cache
    def stages() -> LoopResult | None:
        if (folder := cells.folder(name, go)) is None:
            return None
        return run_loop(load_twin(TWIN), f"standin:{where}", folder / "loop", config)

    return stages


def reality_of(cells: Cells, name: str) -> str:
    """A shipped reality's name, or the file of a drawn one."""
    if not name.startswith("drawn-"):
        return name
    number = int(name.removeprefix("drawn-"))
    rng = np.random.default_rng([2027, number])
    drawn = {
        block: {key: round(float(rng.uniform(*span)), 5) for key, span in keys.items() if rng.random() < 0.5}
        for block, keys in DRAWN.items()
    }
    words = {"description": f"drawn, number {number}", "twin": TWIN, "seed": 4000 + number}
    path = cells.root / f"{name}.yaml"
    path.write_text(yaml.safe_dump(words | {block: keys for block, keys in drawn.items() if keys}))
    return str(path)


def guessed(cells: Cells, config: LoopConfig) -> Path | None:
    """A policy from wide ranges around the nominal twin, as the package ships them."""
    twin = load_twin(TWIN)
    varied = (default_randomization(twin) | training_scenes(twin)).named("guessed")

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


def real_only(cells: Cells, name: str, result: LoopResult, config: LoopConfig) -> Path | None:
    """A policy from the loop's demonstrations and nothing else."""

    def learn(out: Path) -> None:
        how = TrainConfig(
            recipe="real-only",
            seed=config.seed,
            steps=config.finetune_steps,
            fewest_episodes=config.n_demonstrations,
        )
        recorded = [
            dataset for dataset in (result.demonstrate, result.demonstrate_more) if dataset is not None
        ]
        usable = select_usable(recorded, out.with_name(f"{out.name}-demonstrations"))
        train(None, usable, out=out, config=how, resume=out.exists())

    return cells.folder(f"policy-real-{name}", learn)


def share(tried: Mapping[str, Any]) -> float:
    return float(tried["successes"] / tried["episodes"])


def targets(found: Mapping[str, list[dict[str, Any]]]) -> tuple[Target, ...]:
    """All seeds of a reality together."""

    def ahead(seeds: list[dict[str, Any]], arm: str) -> float:
        """By how much the loop's policy is ahead of another, over seeds in which both were tried."""
        return sum(share(one["after"]) - share(one[arm]) for one in seeds) / len(seeds)

    made = []
    for reality, seeds in found.items():
        if known := [one for one in seeds if one.get("simulated") is not None]:
            left = sum(one["simulated"] - share(one["after"]) for one in known) / len(known)
            made.append(
                Target(
                    f"{reality}: after within 5 points of simulation",
                    f"{100 * left:.1f} points behind",
                    left <= WITHIN,
                )
            )
        for arm in ("guessed", "real-only"):
            if both := [one for one in seeds if one[arm]]:
                gain = ahead(both, arm)
                made.append(Target(f"{reality}: after beats {arm}", f"{100 * gain:+.1f} points", gain > 0.0))
    return tuple(made)
