"""Stages at the desk: simulated data, policies, the twin identified, the gap, what it costs, and what to do about it."""

from __future__ import annotations

import fnmatch
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from twinloop.coverage.run import measure_coverage
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import open_dataset
from twinloop.diagnosis.run import diagnose
from twinloop.evaluation.horizon import find_execution_horizon
from twinloop.gap.evidence import Options
from twinloop.gap.run import measure_gap
from twinloop.generation.run import generate
from twinloop.identification.anchor import anchor, not_identified
from twinloop.identification.replays import replay_held_out
from twinloop.identification.result import Identification, load_identification, save_identification
from twinloop.identification.run import RefusedData, identify
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.planning.run import plan
from twinloop.policies.policy import WORDS, load_policy
from twinloop.randomization import Randomization, default_randomization, load_randomization
from twinloop.randomization.distribution import Constant, Distribution, Normal, Uniform
from twinloop.randomization.randomization import make_randomization
from twinloop.report.coverage_page import write_coverage_page
from twinloop.report.diagnosis_page import write_diagnosis_page
from twinloop.report.gap_page import write_gap_page
from twinloop.report.identification_page import write_identification_page
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.stages import Done, Progress
from twinloop.steps.folders import (
    BELIEVED,
    COVERAGE,
    DATA,
    DIAGNOSIS,
    PLAN,
    REPORT,
    RUNS,
    THREADS,
    TWIN,
    USABLE,
    Found,
    described,
    policy_of,
)
from twinloop.twins import Twin

GAP_EPISODES = 20
"""Of either side, spread evenly: enough for intervals, and soon done."""


def simulate(
    out: Path, progress: Progress, *, twin: Twin, randomization: Randomization, episodes: int, seed: int
) -> Found:
    """Episodes of the scripted expert, a little disturbed so that the data show how to recover.

    The expert sees how things are, so that what it shows is right however wrong the recorded readings are.
    """
    folder = out / DATA
    data = generate(
        twin,
        randomization,
        out=folder,
        episodes=episodes,
        seed=seed,
        expert_noise=0.5,
        expert_sees_truth=True,
        resume=folder.exists(),
        progress=lambda now: progress(now.episodes, now.total),
    )
    return described(data)


def keep(out: Path, progress: Progress, *, policy: Done, why: str) -> Found:
    """A policy as it is: nothing more was to be learned, or there is nothing to learn it from."""
    policy_of(policy).save(out / policy.found["name"])
    return {**policy.found, "kept": why}


def learn(
    out: Path,
    progress: Progress,
    *,
    name: str,
    config: TrainConfig,
    sim: Done,
    real: Done | None = None,
    twin: Twin | None = None,
    randomization: Randomization | None = None,
    pace_episodes: int = 0,
) -> Found:
    """A policy; the curve says how its error fell. Too few demonstrations are no demonstrations.

    With `twin`, how it carries out its chunks is what succeeds best there, in `pace_episodes` episodes for each way.
    """
    shown = (
        real.folder / USABLE if real is not None and real.found["used"] >= config.fewest_episodes else None
    )
    if config.recipe == "co-train" and shown is None:
        config = replace(config, recipe="sim-only")
    if not (out / name / WORDS).exists():
        trained = out / "trained" / name
        if not (trained / WORDS).exists():
            train(
                sim.folder / DATA,
                shown,
                out=trained,
                config=config,
                resume=trained.exists(),
                hear=lambda point, steps: progress(point.step, steps),
            )
        policy = load_policy(trained)
        if twin is not None:
            policy, _ = find_execution_horizon(
                policy,
                twin,
                randomization,
                episodes=pace_episodes,
                seed=config.seed,
                threads=THREADS,
                progress=progress,
            )
        policy.save(out / name)
    shutil.rmtree(out / "trained", ignore_errors=True)
    policy = load_policy(out / name)
    results = policy.training_record.results
    return {
        "policy": policy.id,
        "name": name,
        "recipe": config.recipe,
        "validation": results["validation"],
        "curve": results["curve"],
        "horizons": results.get("horizons", []),
    }


def calibrate(
    out: Path,
    progress: Progress,
    *,
    twin: Twin,
    real: Done,
    parameters: Sequence[str],
    seconds: float,
    seed: int,
) -> Found:
    """The twin identified from excitation runs, and whether held-out replay accepts it.

    Which runs are held out goes by their order: their ids tell when they were recorded, and the same loop ends the same.
    """
    episodes, signals = list(open_dataset(real.folder / DATA)), ("observation.state",)
    rounds = iter(range(1, 10**9))

    def fit(force: str | None = None) -> Identification:
        return identify(
            twin,
            episodes,
            parameters,
            signals=signals,
            held_out=[episode.id for episode in episodes[1::4]],
            seconds=seconds,
            seed=seed,
            force=force,
            progress=lambda *_: progress(next(rounds), 0),
        )

    try:
        result = fit()
    except (
        RefusedData
    ) as error:  # the report says so, and whether the twin is taken is for held-out replay to decide
        result = fit(f"the loop goes on though {error.what}")
    save_identification(result, out / TWIN)
    write_identification_page(result, replay_held_out(twin, result, episodes, signals=signals), out / REPORT)
    return {
        "twin": result.twin.content_hash,
        "accepted": result.gate.accepted,
        "reason": result.gate.reason,
        "estimates": [
            {
                "name": e.name,
                "unit": e.unit,
                "dimension": e.dimension,
                "nominal": e.nominal,
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "status": e.status,
            }
            for e in result.estimates
        ],
    }


def measure(out: Path, progress: Progress, *, twin: Twin, runs: Done, sim: Done, seed: int) -> Found:
    """How far the twin is from the robot, dimension by dimension."""
    found = measure_gap(
        open_dataset(runs.folder / RUNS),
        twin,
        open_dataset(sim.folder / DATA),
        options=Options(seed=seed, episodes=GAP_EPISODES),
        progress=lambda _, done, total: progress(done, total),
    )
    write_gap_page(found, out / REPORT)
    return found.as_json()


def cover(out: Path, progress: Progress, *, real: Done, sim: Done, seed: int) -> Found:
    """Where the robot's episodes lie outside what simulation shows."""
    sides = open_dataset(real.folder / RUNS), open_dataset(sim.folder / DATA)
    found = measure_coverage(*sides, seed=seed, progress=progress)
    write_atomically(out / COVERAGE, json.dumps(found.as_json(), indent=1).encode())
    write_coverage_page(found, out / REPORT, sides)
    return found.as_json()


def explain(
    out: Path,
    progress: Progress,
    *,
    policy: Done,
    runs: Done,
    others: Sequence[Done],
    twin: Twin,
    budget: int,
    seed: int,
) -> Found:
    """How many points each gap dimension costs the policy on the robot, and what was measured of each."""
    found = diagnose(
        policy_of(policy),
        open_dataset(runs.folder / RUNS),
        twin,
        excitation=[episode for one in others for episode in open_dataset(one.folder / DATA)],
        budget=budget,
        seed=seed,
        keep=out / "evaluations",
        progress=lambda _, done, total: progress(done, total),
    )
    found.save(out)
    write_diagnosis_page(found, out / "diagnosis.html")
    write_atomically(out / BELIEVED, json.dumps(found.randomization(twin).plain()).encode())
    return found.as_json()


def propose(
    out: Path, progress: Progress, *, diagnosis: Done, coverage: Done, identification: Done, seed: int
) -> Found:
    """What to record next, and what it is expected to bring."""
    made = plan(
        diagnosis=diagnosis.folder / DIAGNOSIS,
        coverage=coverage.folder / COVERAGE,
        identification=identification.folder / TWIN,
        seed=seed,
    )
    write_atomically(out / PLAN, json.dumps(made.as_json(), indent=1).encode())
    write_plan_sheet(made, out / REPORT)
    return made.as_json()


def matching(twin: Twin, patterns: Sequence[str]) -> list[str]:
    """The twin's parameters that any of the patterns matches."""
    return [p.name for p in twin.parameters if any(fnmatch.fnmatch(p.name, pattern) for pattern in patterns)]


def calibrated(identified: Done, nominal: Twin) -> Twin:
    """The twin that was accepted, or the nominal one."""
    return load_identification(identified.folder / TWIN).twin if identified.found["accepted"] else nominal


def anchored(twin: Twin, identified: Done, explained: Done, scenes: Randomization) -> Randomization:
    """What varies in training: usual ranges, narrowed to what was measured of this robot; scenes, widened to its own.

    Identification is asked about all there is, not about what somebody suspects: what it cannot tell varies as it usually does around
    the nominal and the calibrated value. Over all that is possible, a gripper that nothing excited would often be too stiff to grasp.
    """
    measured = measured_of(twin, identified, explained)
    usual = default_randomization(twin)
    loose = {
        name: _loosened(twin, name, measured[name], usual[name])
        for name in measured.names
        if name in usual.names
    }
    varied = usual | measured | make_randomization(twin, loose)
    if identified.found["accepted"]:
        told = anchor(load_identification(identified.folder / TWIN), beside=varied)
        nominal = {e["name"]: Constant(e["nominal"]) for e in identified.found["estimates"]}
        untold = {n: _wider(nominal[n], varied[n]) for n in told.guessed if n in varied.names}
        varied = told.randomization | make_randomization(twin, untold)
    wide = {name: _wider(scenes[name], measured[name]) for name in scenes.names if name in measured.names}
    return (varied | scenes | make_randomization(twin, wide)).named("anchored")


def measured_of(twin: Twin, identified: Done, explained: Done) -> Randomization:
    """What diagnosis measured of the robot; where identification did too, it knows better."""
    told = load_randomization(json.loads((explained.folder / BELIEVED).read_text()), twin)
    names = [estimate["name"] for estimate in identified.found["estimates"]]
    return not_identified(told, names) if identified.found["accepted"] else told


def _loosened(twin: Twin, name: str, seen: Distribution, usual: Distribution) -> Distribution:
    """Around what was measured, and as wide as such things usually vary: a robot is not tomorrow what it was today."""
    widths = [0.5 * (value_at(one, 0.84) - value_at(one, 0.16)) for one in (seen, usual)]
    spread = math.hypot(*widths)
    return Normal(value_at(seen, 0.5), spread, *twin.parameter(name).bounds) if spread > 0.0 else seen


def _wider(usual: Distribution, seen: Distribution) -> Uniform:
    low, high = usual.support()
    return Uniform(min(low, value_at(seen, 0.005)), max(high, value_at(seen, 0.995)))


def value_at(distribution: Distribution, share: float) -> float:
    """The value below which this share of the draws lies."""
    return float(distribution.quantile(np.array([[share]]), np.zeros(1, dtype=np.int64))[0])
