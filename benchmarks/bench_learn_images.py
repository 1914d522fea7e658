"""Policies that look: how much success a strong visual change costs, and how much of it comes back.

A Panda picks and places by its wrist camera and its own joints; nobody tells it where the object is. Reality is a stand-in
with ideal hardware and a look that simulation does not have: other light, another table, a dark, pale, noisy, soft lens.
No cell is made twice; `TWINLOOP_LEARN_MINUTES` ends a sitting early, `TWINLOOP_IMAGE_WAYS` (names with "; " between them) and
`TWINLOOP_IMAGE_SEEDS` (with commas) say which ones it makes.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from benchmarks.cells import Cells, counted, open_cells, portion, shown, tried
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.looks.measured import CAUSES
from twinloop.policies.networks.policy import load_policy
from twinloop.quality.check import check_dataset
from twinloop.quality.require import override
from twinloop.quality.settings import Settings as QualitySettings
from twinloop.randomization import load_randomization
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.twins import load_twin

TWIN, CAMERA = "franka_pick_place", "wrist"
SCENES = {
    "environment": {
        "object_offset_x_m": [-0.05, 0.05],
        "object_offset_y_m": [-0.05, 0.05],
        "object_yaw_rad": [-0.5, 0.5],
    }
}
LOOKS = {
    "visual": {
        "light_intensity": [0.3, 1.8],
        "light_azimuth_rad": [-2.0, 2.0],
        "light_temperature_k": [2800, 8000],
        "texture_index": [0, 199],
        "exposure_stops": [-1.0, 0.7],
        "shot_noise": [0.0, 0.04],
        "lens_blur_px": [0.0, 1.0],
        "lens_vignetting": [0.0, 0.5],
        "lens_flare": [0.0, 0.3],
    }
}
"""Guessed, without a look at the reality; its table is not one of these textures."""

REALITY = {
    "description": "ideal hardware; other light, another table and a poor camera",
    "twin": TWIN,
    "seed": 71,
    "visual": {
        "light_intensity": 0.6,
        "light_azimuth_rad": 1.6,
        "light_temperature_k": 3200,
        "texture_index": 337,
        "exposure_stops": -0.5,
        "saturation": 0.6,
        "full_well_electrons": 2000,
        "blur_px": 0.8,
        "vignetting": 0.4,
        "flare": 0.2,
    },
}
PLAIN = {"description": "ideal hardware, drawn by another engine", "twin": TWIN, "seed": 71}
RECORDED_FROM, DIAGNOSED_FROM = 1000, 2000
"""Demonstrations and runs to diagnose are of other scenes than evaluations, which begin with 0."""

EXPERT_NOISE = 2.5
"""Bumps of some centimetres: at first the object is a few pixels at the edge of the image, and whoever sets out wrongly must
have been shown how to come back."""

LATENCY_MS = 15.0


@dataclass(frozen=True)
class Size:
    """How much of the table is made."""

    sim_episodes: int
    demonstrations: int
    on_robot: int
    diagnosed: int
    seeds: int
    config: TrainConfig


FULL = Size(240, 50, 200, 24, 3, TrainConfig(cameras=(CAMERA,), steps=4000, batch=64, validate_every=500))
QUICK = Size(10, 6, 2, 8, 1, replace(FULL.config, steps=40, validate_every=20))


@dataclass(frozen=True)
class Way:
    """One way to a policy: the simulated data it learns from, the real data if any, and the rest of the config."""

    name: str
    sim: str
    real: Literal["demonstrations", "failed runs"] | None = None
    config: tuple[tuple[str, Any], ...] = ()


AS_DRAWN, CO_TRAIN = ("vary_images", False), (("recipe", "co-train"), ("mix", 0.5))
WAYS = (
    Way("sim-only", "nominal", None, (AS_DRAWN,)),
    Way("visual randomization, varied images", "looks"),
    Way("50 demonstrations", "nominal", "demonstrations", (AS_DRAWN, *CO_TRAIN)),
    Way("adapt coral", "nominal", "demonstrations", (AS_DRAWN, ("adapt", "coral"))),
    Way("varied images", "nominal"),
    Way("visual randomization", "looks", None, (AS_DRAWN,)),
    Way("randomization, varied images, 50 demonstrations", "looks", "demonstrations", CO_TRAIN),
    Way("restyle fourier", "nominal", "demonstrations", (AS_DRAWN, ("restyle", "fourier"))),
    Way("adapt ot", "nominal", "demonstrations", (AS_DRAWN, ("adapt", "ot"))),
    Way("adapt coral, failed runs", "nominal", "failed runs", (AS_DRAWN, ("adapt", "coral"))),
    Way("restyle fourier, failed runs", "nominal", "failed runs", (AS_DRAWN, ("restyle", "fourier"))),
    Way("varied images, adapt coral", "nominal", "demonstrations", (("adapt", "coral"),)),
    Way("50 demonstrations alone", "nominal", "demonstrations", (("recipe", "real-only"),)),
    Way("state, no camera", "nominal", None, (("cameras", ()),)),
)


def asked_for(way: str, seed: int) -> bool:
    """Whether this sitting makes such a cell; what was made before is shown in any case."""
    ways, seeds = (os.environ.get(f"TWINLOOP_IMAGE_{what}") for what in ("WAYS", "SEEDS"))
    return (ways is None or way in ways.split("; ")) and (seeds is None or str(seed) in seeds.split(","))


def run(settings: Settings) -> Section:
    size = QUICK if settings.quick else FULL
    cells = open_cells(settings, "learn_images")
    reality, plain = cells.root / "visual.yaml", cells.root / "plain.yaml"
    reality.write_text(yaml.safe_dump(REALITY))
    plain.write_text(yaml.safe_dump(PLAIN))
    found: dict[tuple[str, str], list[Any]] = {}
    for seed in range(size.seeds):
        scenes = portion(size.on_robot, size.seeds, seed)
        for way in WAYS:
            here = cells if asked_for(way.name, seed) else cells.kept
            name = folder_of(way, seed, size)
            made = partial(policy, cells, way, size, seed, reality)
            inside = here.measured(
                f"{name}@twin-{scenes.start}-{len(scenes)}",
                lambda m=made, s=scenes: (path := m()) and in_twin(path, s),
            )
            found.setdefault((way.name, "own twin"), []).append(inside)
            found.setdefault((way.name, "visual"), []).append(
                tried(here, name, made, str(reality), scenes, "visual")
            )
    name, scenes = folder_of(WAYS[0], 0, size), portion(size.on_robot, size.seeds, 0)
    first = partial(policy, cells, WAYS[0], size, 0, reality)
    making = cells if asked_for("diagnosis", 0) else cells.kept
    told: dict[Path, tuple[Any, Any]] = {
        where: (
            explained(making, name, first, where, size.diagnosed),
            tried(making, name, first, str(where), scenes, where.stem),
        )
        for where in (reality, plain)
    }
    rows = []
    for way in WAYS:
        if not any(found[way.name, "visual"]):
            continue
        shares = [
            shown([m for m in found[way.name, where] if m], size.seeds) for where in ("own twin", "visual")
        ]
        rows.append((way.name, shares[0][0], shares[1][0], shares[1][1], shares[1][2]))
    cost = making.measured("cost", lambda: (path := first()) and action_cost_ms(path))
    columns = ("way", "own twin", "on the stand-in with another look", "trials", "training seeds")
    return Section(
        "learn_images",
        "Policies that look: what another look costs, and what brings it back",
        (
            Table("Success by the wrist camera (the robot is a stand-in)", columns, tuple(rows)),
            Table(
                "What `diagnose` says of recorded runs of sim-only",
                ("reality", "success there", "runs", "said", "predicted with everything"),
                (
                    diagnosis_row(str(REALITY["description"]), *told[reality]),
                    diagnosis_row(PLAIN["description"], *told[plain]),
                ),
            ),
        ),
        (*targets(found, cost), *diagnosis_targets(told[reality][0], told[plain][0])),
        (
            f"{size.sim_episodes} simulated episodes, {size.demonstrations} demonstrations of the stand-in's operator, "
            f"{size.config.steps} steps of batch {size.config.batch}, images of {CAMERA} averaged down to "
            f"{size.config.image_side} pixels a side. Adaptation sees the images of the demonstrations, not their "
            f"actions; of failed runs, those of {size.diagnosed} runs of sim-only. The state policy is told where the object is: what it loses is not visual.",
            "The drop is the success of sim-only in its own twin minus the success of a way on the stand-in. Every training seed "
            "meets other scenes, every way the same.",
            f"{len(rows)} of {len(WAYS)} ways are measured, on commits {cells.commits()}; benchmarks/measured/learn_images.json has the cells one by one.",
        ),
    )


def make_sim(out: Path, look: str, size: Size) -> None:
    twin = load_twin(TWIN)
    varied = SCENES | LOOKS if look == "looks" else SCENES
    generate(
        twin,
        load_randomization({"name": look, "randomization": varied}, twin),
        out=out,
        episodes=size.sim_episodes,
        seed=1,
        expert_noise=EXPERT_NOISE,
        cameras=(CAMERA,),
        workers=1,
        resume=out.exists(),
    )


def demonstrations(cells: Cells, size: Size, reality: Path) -> Path | None:
    """Successful demonstrations with images; findings about quality are answered for."""
    spare = size.demonstrations + max(1, size.demonstrations // 12)

    def demonstrate(out: Path) -> None:
        before = len(open_dataset(out)) if out.exists() else 0
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            plan = RecordingSpec(
                max(1, spare - before),
                12.0,
                task="Pick and place.",
                cameras=(CAMERA,),
                first=RECORDED_FROM + before,
            )
            record(robot, OperatorController(robot, "operator-1"), out, plan, supervisor=robot)

    def take(out: Path) -> None:
        source = open_dataset(cells.root / "recorded")
        shutil.rmtree(out, ignore_errors=True)
        with make_dataset(out, source.schema, history=("took", (source.id,), "successes")) as writer:
            for episode in itertools.islice((e for e in source if e.success), size.demonstrations):
                writer.add(episode)
        answer_for(out)

    everything = cells.folder("recorded", demonstrate)
    return everything and cells.folder(f"demonstrations-{size.demonstrations}", take)


def failed_runs(cells: Cells, size: Size, reality: Path) -> Path | None:
    """What a team has before anybody demonstrates: recorded runs of sim-only, which hardly ever succeeds there."""
    first = policy(cells, WAYS[0], size, 0, reality)
    return first and recorded_runs(cells, first, reality, size.diagnosed)


def recorded_runs(cells: Cells, path: Path, reality: Path, runs: int) -> Path | None:
    """Runs of a policy on the stand-in, images included."""

    def make(out: Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            environment = RobotEnvironment(robot, cameras=(CAMERA,))
            evaluate(load_policy(path), environment, episodes=runs, seed=DIAGNOSED_FROM, out=out)
        answer_for(out)

    return cells.folder(f"runs-{reality.stem}-{runs}-{path.name}", make)


def answer_for(recorded: Path) -> None:
    """A stand-in's images are meant to look as bad as quality checks say they do."""
    dataset = open_dataset(recorded)
    report = check_dataset(dataset, QualitySettings(purpose="train"))
    for code in sorted({finding.code for finding in report.blocking}):
        override(report, dataset, code, "benchmark", "a stand-in is meant to look as bad as this")


def folder_of(way: Way, seed: int, size: Size) -> str:
    return f"{way.name.replace(', ', '+').replace(' ', '-')}-{size.sim_episodes}x{size.config.steps}-s{seed}"


def policy(cells: Cells, way: Way, size: Size, seed: int, reality: Path) -> Path | None:
    if (cells.root / f"{folder_of(way, seed, size)}.done").exists():
        return cells.root / folder_of(way, seed, size)
    sim = cells.folder(f"sim-{way.sim}-{size.sim_episodes}", lambda out: make_sim(out, way.sim, size))
    sources = {"demonstrations": demonstrations, "failed runs": failed_runs}
    real = sources[way.real](cells, size, reality) if way.real else None
    if sim is None or (way.real and real is None):
        return None
    config = replace(size.config, seed=seed, **dict(way.config))
    return cells.folder(
        folder_of(way, seed, size),
        lambda out: train(
            None if config.recipe == "real-only" else sim, real, out=out, config=config, resume=out.exists()
        ),
    )


def in_twin(path: Path, numbers: range) -> dict[str, Any]:
    """Success in the nominal twin, where only scenes vary; others for each part of the table."""
    twin = load_twin(TWIN)
    scenes = load_randomization({"name": "nominal", "randomization": SCENES}, twin)
    loaded = load_policy(path)
    seed = 77 + numbers.start
    return counted(evaluate(loaded, TwinEnvironment(twin, scenes), episodes=len(numbers), seed=seed))


def explained(
    cells: Cells, name: str, policy: Callable[[], Path | None], reality: Path, runs: int
) -> dict[str, Any] | None:
    """What `diagnose` says of recorded runs of a policy, images included."""

    def say() -> dict[str, Any] | None:
        path = policy()
        recorded = path and recorded_runs(cells, path, reality, runs)
        if path is None or recorded is None:
            return None
        found = diagnose(load_policy(path), open_dataset(recorded), TWIN).as_json()
        return {key: found[key] for key in ("trials", "verdict", "predicted", "drop")} | {
            "named": [cost["dimension"] for cost in found["costs"] if cost["named"]]
        }

    return cells.measured(f"diagnosis-{reality.stem}-{runs}-{name}", say)


def action_cost_ms(path: Path) -> dict[str, float]:
    """Processor time of one prediction at batch 1, one 128 x 128 image included: median and 99th percentile."""
    loaded = load_policy(path)
    seen = np.zeros((1, loaded.network.shape.history, loaded.interface.observation_size), np.float32)
    rng = np.random.default_rng(0)
    took = []
    for _ in range(300):
        image = rng.integers(0, 256, (1, 1, 128, 128, 3)).astype(np.uint8)
        began = time.process_time()
        loaded.predict(seen, image)
        took.append(1e3 * (time.process_time() - began))
    kept = took[50:]
    return {"median": statistics.median(kept), "p99": float(np.quantile(kept, 0.99))}


def diagnosis_row(name: str, found: dict[str, Any] | None, truth: dict[str, Any] | None) -> tuple[str, ...]:
    won = shown([truth] if truth else [], 1)[0]
    if found is None:
        return (name, won, "0", "not measured yet", "")
    predicted = found["predicted"]
    return (name, won, str(found["trials"]), found["verdict"], f"{100 * predicted['value']:.0f} %")


def diagnosis_targets(visual: dict[str, Any] | None, plain: dict[str, Any] | None) -> tuple[Target, ...]:
    first = visual["named"][:1] if visual else []
    return (
        Target(
            "diagnose names a visual cause first where nothing else is wrong",
            ", ".join(first) or "nothing" if visual else "not measured",
            bool(first) and first[0] in CAUSES if visual and visual["drop"]["low"] > 0.0 else None,
        ),
        Target(
            "diagnose names nothing but the look where not even that was changed",
            ", ".join(plain["named"]) or "nothing" if plain else "not measured",
            set(plain["named"]) <= set(CAUSES) if plain else None,
        ),
    )


def targets(found: dict[tuple[str, str], list[Any]], cost: Any) -> tuple[Target, ...]:
    def share(name: str, where: str) -> float | None:
        made = [m for m in found[name, where] if m]
        return sum(m["successes"] for m in made) / sum(m["episodes"] for m in made) if made else None

    inside, outside = share("sim-only", "own twin"), share("sim-only", "visual")
    drop = inside - outside if inside is not None and outside is not None else None
    made = []
    for way in WAYS[1:-1]:
        reached = share(way.name, "visual")
        if drop is None or reached is None:
            continue
        left = inside - reached
        made.append(
            Target(
                f"{way.name}: the visual drop is at least halved",
                f"{f'{100 * left:.1f} points' if left > 0.0 else 'nothing'} left of {100 * drop:.1f}",
                left <= 0.5 * drop if drop > 0.0 else None,
            )
        )
    made.append(
        Target(
            f"one action at batch 1 with one 128x128 camera in under {LATENCY_MS:g} ms",
            f"{cost['median']:.2f} ms ({cost['p99']:.2f} at the 99th percentile)" if cost else "not measured",
            cost["median"] < LATENCY_MS if cost else None,
        )
    )
    return tuple(made)
