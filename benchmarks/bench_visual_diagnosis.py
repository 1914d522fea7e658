"""Diagnosis of a policy with a camera: six visual faults, each alone on a stand-in, and two realities without one.

The policy of `bench_learn_images` (sim-only, seed 0) acts by its wrist camera. A fault counts as found when the first visual cause that
`diagnose` names is the right one. The last table is a policy that never saw a real image but was trained in the twin with the measured
look of failed runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_learn_images import (
    CAMERA,
    DIAGNOSED_FROM,
    EXPERT_NOISE,
    FULL,
    QUICK,
    REALITY,
    SCENES,
    TWIN,
    WAYS,
    Size,
    answer_for,
    policy,
)
from benchmarks.cells import Cells, counted, open_cells
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.run import evaluate
from twinloop.generation.run import generate
from twinloop.learning.train import train
from twinloop.looks.measure import measure_look
from twinloop.looks.measured import CAUSES, look_randomization, look_twin
from twinloop.policies.networks.policy import load_policy
from twinloop.randomization import load_randomization
from twinloop.robots import connected, open_robot
from twinloop.stats.interval import exact_interval
from twinloop.twins import load_twin


@dataclass(frozen=True)
class Case:
    """A reality, and the visual cause that it has, if any."""

    name: str
    cause: str | None
    blocks: Mapping[str, Any]


CASES = (
    Case(
        "camera",
        "camera pose",
        {"visual": {"camera_pitch_rad": 0.1, "camera_yaw_rad": -0.07, "camera_y_m": 0.01}},
    ),
    Case(
        "light",
        "light and colour",
        {
            "visual": {
                "light_intensity": 0.45,
                "light_temperature_k": 2900,
                "exposure_stops": -1.0,
                "saturation": 0.6,
            }
        },
    ),
    Case("table", "texture and background", {"visual": {"texture_index": 38}}),
    Case(
        "sensor",
        "blur and noise",
        {"visual": {"blur_px": 3.0, "full_well_electrons": 100, "read_noise_electrons": 40}},
    ),
    Case("cover", "occlusion and clutter", {"visual": {"covered_fraction": 0.35}}),
    Case("lens", "lens", {"visual": {"distortion": -0.18, "vignetting": 0.8, "flare": 0.8}}),
    Case("late", None, {"latency": {"action_delay_s": 0.2, "observation_delay_s": 0.1}}),
    Case("weak", None, {"actuation": {"gripper_force_scale": 0.12}, "contact": {"friction": 0.15}}),
)
RUNS, FEW_RUNS = 8, 2
SCENES_EACH, BUDGET = 16, 16 * 14
LOOK_EPISODES, LOOK_STEPS = 160, 3000
LOOK_TRIALS, EVALUATED_FROM = 40, 5000


def run(settings: Settings) -> Section:
    size = QUICK if settings.quick else FULL
    policies = open_cells(settings, "learn_images")
    cells = open_cells(settings, "visual_diagnosis")
    wanted = os.environ.get("TWINLOOP_VISUAL", "diagnosis,look").split(",")
    plain = cells.root / "plain.yaml"
    plain.write_text(yaml.safe_dump({"twin": TWIN, "seed": 71}))
    runs = FEW_RUNS if settings.quick else RUNS

    def trained() -> Path | None:
        return policy(policies, WAYS[0], size, 0, plain)

    found = {}
    for case in CASES:
        here = cells if "diagnosis" in wanted else cells.kept
        found[case.name] = here.measured(
            f"{case.name}-{runs}", lambda c=case: diagnosed(cells, c, trained(), runs)
        )
    here = cells if "look" in wanted else cells.kept
    looked = here.measured(f"look-{LOOK_TRIALS}", lambda: with_measured_look(cells, trained(), size, runs))
    rows = [row(case, found[case.name]) for case in CASES]
    return Section(
        "visual_diagnosis",
        "What a policy with a camera loses to what it sees",
        (
            Table(
                "What `diagnose` says of recorded runs of sim-only",
                ("fault", "runs won", "first-named visual cause", "costs", "of the drop", "right"),
                tuple(rows),
            ),
            Table(
                "Trained in the twin with the measured look of failed runs, tried on the stand-in with another look",
                ("policy", "success on the stand-in"),
                look_rows(looked),
            ),
        ),
        targets(found, looked),
        (
            f"{runs} recorded runs of each reality, {SCENES_EACH} simulated scenes of every combination, in all "
            f"{sum(f['processor_s'] for f in found.values() if f) / 60:.0f} minutes of processor time for the diagnoses.",
            "The drop is covered when the interval of the first-named cause contains it.",
            f"The measured look: {LOOK_EPISODES} simulated episodes, {LOOK_STEPS} steps, {LOOK_TRIALS} paired trials; reality is that of "
            "the benchmark of policies that look.",
            f"Measured on commits {cells.commits()}.",
        ),
    )


def recorded(cells: Cells, name: str, blocks: Mapping[str, Any], path: Path, runs: int) -> Path | None:
    """Runs of a policy on a stand-in, images included."""
    reality = cells.root / f"{name}.yaml"
    reality.write_text(yaml.safe_dump({"twin": TWIN, "seed": 71, **blocks}))

    def make(out: Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        robot = open_robot(f"standin:{reality}")
        with connected(robot):
            environment = RobotEnvironment(robot, cameras=(CAMERA,))
            evaluate(load_policy(path), environment, episodes=runs, seed=DIAGNOSED_FROM, out=out)
        answer_for(out)

    return cells.folder(f"runs-{name}-{runs}", make)


def diagnosed(cells: Cells, case: Case, path: Path | None, runs: int) -> dict[str, Any] | None:
    """What `diagnose` says of recorded runs."""
    where = path and recorded(cells, case.name, case.blocks, path, runs)
    if path is None or where is None:
        return None
    times = os.times()
    found = diagnose(load_policy(path), open_dataset(where), TWIN, scenes=SCENES_EACH, budget=BUDGET)
    spent = os.times().user - times.user
    costs = [
        {
            "dimension": c.dimension,
            "named": c.named,
            "value": c.lost.value,
            "low": c.lost.low,
            "high": c.lost.high,
        }
        for c in found.costs
    ]
    return {
        "episodes": found.trials,
        "successes": found.successes,
        "verdict": found.verdict,
        "drop": found.drop.value,
        "costs": costs,
        "processor_s": spent,
    }


def first_visual(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first visual cause that is named."""
    named = [cost for cost in found["costs"] if cost["named"] and cost["dimension"] in CAUSES]
    return named[0] if named else None


def row(case: Case, found: Mapping[str, Any] | None) -> tuple[str, ...]:
    if found is None:
        return (case.name, "not measured yet", "", "", "", "")
    first = first_visual(found)
    costs = (
        f"{100 * first['value']:.0f} [{100 * first['low']:.0f}, {100 * first['high']:.0f}]" if first else ""
    )
    return (
        case.name,
        f"{found['successes']} of {found['episodes']}",
        first["dimension"] if first else "none",
        costs,
        f"{100 * found['drop']:.0f}",
        "yes" if (first["dimension"] if first else None) == case.cause else "no",
    )


def with_measured_look(cells: Cells, path: Path | None, size: Size, runs: int) -> dict[str, Any] | None:
    """Success on a stand-in with another look: of sim-only, and of a policy trained with the look of sim-only's failed runs."""
    blocks = {key: value for key, value in REALITY.items() if key == "visual"}
    where = path and recorded(cells, "look", blocks, path, runs)
    if path is None or where is None:
        return None
    twin = load_twin(TWIN)

    def make(out: Path) -> None:
        look = measure_look(open_dataset(where), twin, (CAMERA,))
        seen = look_twin(look, twin)
        scenes = load_randomization({"name": "look", "randomization": SCENES}, seen)
        generate(
            seen,
            scenes | look_randomization(look, seen),
            out=out,
            episodes=min(LOOK_EPISODES, size.sim_episodes),
            seed=1,
            expert_noise=EXPERT_NOISE,
            cameras=(CAMERA,),
            workers=1,
            resume=out.exists(),
        )

    sim = cells.folder(f"sim-look-{LOOK_EPISODES}", make)
    config = replace(size.config, steps=min(LOOK_STEPS, size.config.steps), vary_images=False)
    learned = sim and cells.folder(
        f"policy-look-{LOOK_STEPS}", lambda out: train(sim, None, out=out, config=config, resume=out.exists())
    )
    if learned is None:
        return None
    robot = open_robot(f"standin:{cells.root / 'look.yaml'}")
    trials = 2 if size is QUICK else LOOK_TRIALS
    with connected(robot):
        environment = RobotEnvironment(robot, cameras=(CAMERA,))
        return {
            name: counted(evaluate(load_policy(one), environment, episodes=trials, seed=EVALUATED_FROM))
            for name, one in (("sim-only", path), ("measured look", learned))
        }


def look_rows(looked: Mapping[str, Any] | None) -> tuple[tuple[str, ...], ...]:
    if looked is None:
        return (("not measured yet", ""),)
    return tuple(
        (name, exact_interval(looked[name]["successes"], looked[name]["episodes"]).percent)
        for name in ("sim-only", "measured look")
    )


def targets(found: Mapping[str, Any], looked: Mapping[str, Any] | None) -> tuple[Target, ...]:
    faulty = [case for case in CASES if case.cause and found[case.name]]
    first = {case.name: first_visual(found[case.name]) for case in faulty}
    right = [case for case in faulty if first[case.name] and first[case.name]["dimension"] == case.cause]  # type: ignore[index]
    covered = [c for c in right if _covers(first[c.name], found[c.name]["drop"])]
    sound = [case for case in CASES if case.cause is None and found[case.name]]
    wrong = [case.name for case in sound if first_visual(found[case.name])]
    made = [
        Target(
            "the first-named visual cause is right in at least five of six",
            f"{len(right)} of {len(faulty)}",
            len(right) >= 5 if len(faulty) == 6 else None,
        ),
        Target(
            "the drop is covered where the cause is right",
            f"{len(covered)} of {len(right)}",
            len(covered) == len(right) if right else None,
        ),
        Target(
            "no visual cause is named where there is none",
            ", ".join(wrong) or f"none in {len(sound)}",
            not wrong if len(sound) == 2 else None,
        ),
    ]
    if looked is not None:
        rates = [
            looked[name]["successes"] / looked[name]["episodes"] for name in ("sim-only", "measured look")
        ]
        made.append(
            Target(
                "a measured look alone gives back at least half of the visual drop",
                f"{100 * (rates[1] - rates[0]):.0f} of {100 * (1 - rates[0]):.0f} points",
                rates[1] - rates[0] >= 0.5 * (1.0 - rates[0]),
            )
        )
    return tuple(made)


def _covers(cost: Mapping[str, Any] | None, drop: float) -> bool:
    return cost is not None and cost["low"] <= drop <= cost["high"]
