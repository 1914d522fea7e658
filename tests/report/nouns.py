"""Small results of every kind, in which every text is `name`: what the page writers are tested with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.coverage import worlds
from twinloop.alignment.result import Alignment, CameraEstimate
from twinloop.coverage.run import compare_samples
from twinloop.diagnosis.measured import Measured, Quantity
from twinloop.diagnosis.result import Cost, Diagnosis, Rule
from twinloop.evaluation.result import Evaluation, Trial
from twinloop.gap.result import Gap, Measure, NotEvaluated, collect
from twinloop.gap.success import Pair, Success, rate
from twinloop.generation.videos import Video
from twinloop.identification.accept import ReplayError, ReplayGate
from twinloop.identification.bands import Bands
from twinloop.identification.choose import Choice
from twinloop.identification.choose import Contender as Model
from twinloop.identification.identifiable import Confusion
from twinloop.identification.replays import ReplayOverlay
from twinloop.identification.result import Estimate, Identification
from twinloop.loop_result import LoopResult
from twinloop.monitoring.run import MonitorReport
from twinloop.monitoring.success import Success as Watched
from twinloop.planning.items import Item, Plan
from twinloop.planning.power import Gain
from twinloop.promotion.checks import Check
from twinloop.promotion.evidence import Contender, Evidence, PairedTrial
from twinloop.promotion.rules import Rules
from twinloop.promotion.statistics import measure
from twinloop.promotion.verdict import Verdict, decide
from twinloop.quality.finding import Finding, Measurement, Override, QualityReport
from twinloop.stages import Stage
from twinloop.stats.interval import Interval, difference_of_rates
from twinloop.twins import load_twin

LOSSES = (0.234, 0.334, -0.03)
"""Fractions of success that three dimensions cost; rounded one by one they do not add up to the drop."""


def make_gap(name: str) -> Gap:
    numbers = {"low": -0.09, "value": -0.07, "high": -0.05, "standard_error": 0.01}
    size = {"episodes": 9, "sim_episodes": 9, "samples": 900}
    measures = [
        Measure(dimension="latency", name=name, unit="s", against=name, about=name, real=0.1, sim=0.03, **numbers, **size),
        Measure(dimension="latency", name=name, unit="1", against=name, channel=name, **numbers, **size),
        NotEvaluated("visual", name, name),
    ]  # fmt: skip
    robot, sim = rate(3, 9), rate(9, 9)
    pair = Pair(name, name, robot, sim, difference_of_rates(sim, robot), 0.01)
    counts = {name: 3}
    success = Success(pair, (pair,), name, counts, counts, counts, counts, needs=name)
    return Gap(name, name, name, name, 9, collect(measures), success, notes=(name,))


def make_diagnosis(name: str) -> Diagnosis:
    costs = tuple(
        Cost(f"{dimension} {name}", Interval(lost, lost - 0.1, lost + 0.1), lost)
        for dimension, lost in zip(("latency", "contact", "human"), LOSSES, strict=True)
    )
    high, low = Interval(0.9, 0.8, 1.0), Interval(0.3, 0.1, 0.5)
    unknown, drop = Interval(0.062, -0.05, 0.2), Interval(0.6, 0.4, 0.8)
    quantity = Quantity(name, name, 0.0, 0.1, 0.05, 0.15, True)
    return Diagnosis(
        name, name, name, name, False, 10, 3, high, low, low, drop, drop, unknown, costs,
        (Measured(name, (quantity,), missing=(name,)),), {"on_robot": {name: 3}},
        ({"condition": name, "split_at": 0.1, "lower": (1, 5), "upper": (2, 5), "p_value": 0.4},),
        (Rule(name, True, name, name), Rule(name, None, name, name)), name, True, 32, 100, 0, (name,),
    )  # fmt: skip


def make_alignment(name: str) -> Alignment:
    known = {"prior": 0.1, "nominal": 0.0, "parameter": None}
    estimates = (
        CameraEstimate(0.07, 0.05, 0.09, unit=name, name=f"{name} 1", determined=True, **known),
        CameraEstimate(0.0, -0.2, 0.2, unit="rad", name=f"{name} 2", determined=False, **known),
    )
    return Alignment(
        twin=replace(load_twin("servo_pendulum"), name=name, version=name), base=name, camera=name, verdict="partly determined",
        reason=name, estimates=estimates, covariance=np.eye(2), frames=("0-0",), held_out=("0-1",), before_px=3.0, after_px=0.5,
        scatter_px=0.4, matched=0.9, offsets=(name,), poses_to_record=({name: 0.3},), warnings=(name,),
    )  # fmt: skip


def make_identification(name: str) -> Identification:
    estimates = [
        Estimate(0.14, 0.13, 0.15, unit="s", name=f"{name} 1", dimension="latency", nominal=0.0, prior=(0, 1), status="identifiable"),
        Estimate(0.0, 0.0, 12.7, unit=name, name=f"{name} 2", dimension=name, nominal=0.0, prior=(0, 20), status="weak", at_edge=True),
        Estimate(3.0, 1.0, 5.0, unit="1", name=f"{name} 3", dimension=name, nominal=2.0, prior=(0, 9), status="not identifiable"),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    return Identification(
        twin=replace(load_twin("servo_pendulum"), name=name, version=name),
        base=name,
        estimates=tuple(estimates),
        covariance=np.eye(3),
        run_to_run=np.eye(3),
        samples=rng.normal(size=(40, 3)),
        confusions=(Confusion((name, name), (1.0, -1.0), name),),
        channels=(name,),
        units=(name,),
        sensor_noise=(0.001,),
        discrepancy=(0.0,),
        bands=Bands(0.9, ((1.0, 0.0, 0.0),), (1.0,), (1.0,), 1.0),
        coverage=(0.91,),
        horizon_s=0.5,
        fitted=(name,),
        held_out=(name,),
        errors=(ReplayError(name, (0.2,), (0.1,)),),
        gate=ReplayGate(True, 0.5, 0.01, 6, name, name),
        warnings=(name,),
        forced=name,
        details={"windows": 3, "fitted_s": 9.0, "available_s": 20.0},
        choice=make_choice(name),
    )


def make_replay(name: str) -> ReplayOverlay:
    time_s = np.arange(100) / 50.0
    real = np.sin(time_s)[:, None]
    return ReplayOverlay(name, name, time_s, real, 0.9 * real, 0.99 * real, np.full_like(real, 0.02))


def make_choice(name: str) -> Choice:
    models = (Model(name, (name,), 0.2, 0.1, 0.02), Model(f"{name} 2", (name,), 0.1, 0.0, 0.0))
    return Choice(name, models, (name,), name)


def make_verdict(name: str) -> tuple[Verdict, Evidence]:
    rng = np.random.default_rng(1)
    trials = [
        PairedTrial(k, bool(rng.random() < 0.9), bool(rng.random() < 0.4), {name: float(k)})
        for k in range(40)
    ]
    evidence = Evidence(
        Contender(name, name), Contender(f"{name} 2", name), {}, tuple(trials), tuple(trials[:20]), robot=name
    )
    statistics = measure(evidence, Rules(), twin_is_current=True)
    checks = (Check(name, "failed", name, accepted=name),)
    return replace(decide(evidence, statistics, Rules(), checks), reasons=(name,)), evidence


def make_plan(name: str) -> Plan:
    item = Item(
        name, "demonstrations", name, name, "latency", 3, 0, 30.0, Gain(12.0, 3.0, 20.0), name, name, name, name,
        name, ({name: 0.1, f"{name} 2": name},) * 3, name,
    )  # fmt: skip
    return Plan(name, (item,), 0.4, 10, 20.0, {name: name}, (name,))


def make_coverage(name: str):
    real, sim = worlds.scenes(60, 1), worlds.scenes(150, 2)
    outcomes = tuple(bool(x < 0.55) for x in real[:, 0])
    reasons = tuple(None if won else name for won in outcomes)
    side = replace(worlds.side(name, real, 0), success=outcomes, failure=reasons)
    found = compare_samples(side, worlds.side(f"{name} 2", sim[sim[:, 0] < 0.5], 1000))
    regions = tuple(replace(region, name=name) for region in found.regions)
    return replace(found, regions=regions, missing=(name,))


def make_quality(name: str, dataset: str) -> QualityReport:
    finding = Finding(
        code=name, channel=name, severity="blocking", value=2.0, unit=name, threshold=1.0, message=name,
        remedy=name, start_s=0.1, end_s=0.3, episode=0, episode_id=name,
    )  # fmt: skip
    lag = Measurement("lag", name, 20.0, 1.0, "ms", 0)
    note = replace(finding, severity="note")
    override = Override(name, (name,), name, name, name)
    return QualityReport(dataset, name, name, name, 1, (finding, note), (lag,), (override,))


def make_loop(name: str, folder: Path) -> LoopResult:
    """The result of a loop whose gate saw 20 real trials, 15 of them successes."""
    verdict, evidence = make_verdict(name)
    real = tuple(replace(trial, candidate=k < 15) for k, trial in enumerate(evidence.real))
    video = folder / "video.webm"
    video.parent.mkdir(parents=True, exist_ok=True)
    video.write_bytes(b"\x1aE\xdf\xa3")
    results = {
        "evaluate-sim": make_evaluation(name, 9, 10, standin=False),
        "evaluate": make_evaluation(name, 5, 10, standin=True),
        "identify": make_identification(name),
        "gap": make_gap(name),
        "diagnose": make_diagnosis(name),
        "reevaluate": make_evaluation(name, 12, 12, standin=True),
        "gate": verdict,
        "video": (Video(video, name),),
        "monitor": MonitorReport(name, 5, 20, Watched(5, 5, 0.5, 1.0, None, None), None, (), None, ()),
    }
    stages = []
    for stage, result in results.items():
        place = folder / f"{stage}-0"
        place.mkdir(exist_ok=True)
        (place / "report.html").write_text("<p>a section</p>")
        stages.append(Stage(stage, place, result, "", 7.0, ""))
    replace(evidence, real=real).save(folder / "gate-0")
    named = {stage.replace("-", "_"): result for stage, result in results.items()}
    return LoopResult(folder, tuple(stages), **named)


def make_evaluation(name: str, successes: int, trials: int, *, standin: bool) -> Evaluation:
    made = tuple(Trial(k, k < successes, None if k < successes else name) for k in range(trials))
    return Evaluation(name, name, name, 0, made, standin)
