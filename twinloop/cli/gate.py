"""`twinloop gate`: promote a candidate, refuse it, or state how many more trials are needed."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.attend import RATER, Attend, Rater, is_person, supervise
from twinloop.cli.options import CompensateMs, EnvironmentUrl, Json, PolicyMap, SceneConfig, WorkspaceTwin
from twinloop.cli.places import choose_place, find_twin, find_workspace, load_policy
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.promotion.checks import Situation
    from twinloop.promotion.evidence import Evidence, PairedTrial

REPORT = "report.html"

ChampionName = Annotated[
    str | None,
    Option(metavar="POLICY", help="The policy to beat, in the same scenes; default: --threshold."),
]
RobotUrl = Annotated[str | None, Option(help="Real trials on this robot: standin:NAME, tcp:HOST:PORT ...")]
EarlierEvidence = Annotated[
    Path | None, Option(metavar="FILE", help="Continue from an earlier gate's evidence.json.")
]
SimEvidence = Annotated[
    Path | None,
    Option(metavar="FILE", help="Simulated trials: the output of `twinloop evaluate --json`."),
]
RealEvidence = Annotated[
    Path | None,
    Option(metavar="FILE", help="Real trials: the output of `twinloop evaluate --robot ... --json`."),
]
MinEffect = Annotated[
    float, Option(help="Smallest gain worth having; evidence against it refuses the candidate.")
]
SliceMargin = Annotated[
    float, Option(help="Largest loss of success rate that is accepted in any slice of the scenes.")
]
Alpha = Annotated[
    float, Option(help="Probability of a wrong promotion, however often the trials are inspected.")
]
MaxArtefacts = Annotated[float, Option(help="Largest accepted fraction of simulated trials with artefacts.")]
IdentificationFolder = Annotated[
    Path | None,
    Option(metavar="FOLDER", help="With --diagnosis: output of `identify`; default: the twin's folder."),
]
DiagnosisFolder = Annotated[
    Path | None,
    Option(
        metavar="FOLDER", help="Output of `diagnose`; values it measured replace the twin's in every scene."
    ),
]
SimulationOnly = Annotated[
    bool, Option("--simulation-only", help="Judge by simulated trials alone; recorded in the verdict.")
]
EnginesFile = Annotated[
    Path | None,
    Option("--engines", metavar="FILE", help="The output of `twinloop evaluate --engines ... --json`."),
]
RequireEngines = Annotated[
    bool, Option("--require-engines", help="The candidate must be robust in several physics engines.")
]
DriftFile = Annotated[Path | None, Option(metavar="FILE", help="The output of `twinloop drift --json`.")]
AcceptedChecks = Annotated[
    list[str] | None,
    Option(metavar="CHECK", help="Waive this check; recorded with --by and --reason. May be repeated."),
]
Reason = Annotated[str | None, Option(help="Reason for waiving a check.")]
Out = Annotated[
    Path | None,
    Option(help="Folder for evidence, verdict, report and recordings; default: gate-CANDIDATE."),
]


def gate(
    candidate: Annotated[str, Argument(metavar="CANDIDATE", help="The policy to judge.")],
    champion: ChampionName = None,
    twin: WorkspaceTwin = None,
    robot: RobotUrl = None,
    env: EnvironmentUrl = None,
    evidence: EarlierEvidence = None,
    sim_evidence: SimEvidence = None,
    real_evidence: RealEvidence = None,
    threshold: Annotated[float, Option(help="Without a champion: success rate to exceed.")] = 0.8,
    better_by: Annotated[float, Option(help="With a champion: gain in success rate to exceed.")] = 0.0,
    min_effect: MinEffect = 0.05,
    slice_margin: SliceMargin = 0.1,
    alpha: Alpha = 0.05,
    max_trials: Annotated[int, Option(help="Budget of real trials (pairs).")] = 100,
    max_artefact_fraction: MaxArtefacts = 0.02,
    scenes: Annotated[int, Option(help="Number of simulated scenes.")] = 400,
    first_scene: Annotated[int, Option(help="Number of the first scene on a stand-in.")] = 200,
    config: SceneConfig = None,
    seed: Annotated[int, Option(help="Random seed for the scenes and for those tried on the robot.")] = 0,
    compensate_ms: CompensateMs = None,
    map_file: PolicyMap = None,
    identification: IdentificationFolder = None,
    diagnosis: DiagnosisFolder = None,
    simulation_only: SimulationOnly = False,
    drift: DriftFile = None,
    engines: EnginesFile = None,
    require_engines: RequireEngines = False,
    accept: AcceptedChecks = None,
    by: Annotated[str | None, Option(help="Name of the person who waives a check.")] = None,
    reason: Reason = None,
    out: Out = None,
    attend: Attend = False,
    rater: Rater = RATER,
    json: Json = False,
) -> None:
    """Judge a candidate: promote, refuse, or state how many more trials are needed. Exits with 1 unless it promotes.

    Trials are judged one by one and may stop at any time: a candidate that is no better is promoted with probability alpha
    at most. All scenes are simulated; the better simulation predicts the real trials, the fewer are needed. On a robot, the same command
    continues an earlier gate in the same folder.
    """
    robot = choose_place(robot, env)
    rules = twinloop.Rules(
        alpha, better_by, threshold, min_effect, slice_margin, max_trials, max_artefact_fraction, simulation_only, require_engines
    )  # fmt: skip
    policy, other = _load_contenders(candidate, champion, compensate_ms, map_file, twin)
    cell, situation = _load_situation(twin, policy, drift, tuple(accept or ()), by, reason)
    situation = replace(situation, quirks=_load_json(engines, "twinloop evaluate --engines all --json"))
    folder = out or Path(f"gate-{policy.name}")
    known = _load_evidence(policy, other, cell, evidence, sim_evidence, real_evidence, robot, folder)
    distribution = twinloop.load_randomization(config, cell) if config else None
    measured = _load_measured(identification or situation.twin_folder, diagnosis, distribution)
    settings = twinloop.GateConfig(rules, scenes, first_scene, distribution, measured, seed)
    arguments = {"champion": other, "evidence": known, "out": folder, "situation": situation}
    verdict = _run(policy, cell, settings, robot, (attend, rater), json, arguments)
    _report(verdict, folder, json)


def _load_contenders(
    candidate: str,
    champion: str | None,
    compensate_ms: float | None,
    map_file: Path | None,
    twin: str | None,
) -> tuple[twinloop.PolicyLike, twinloop.PolicyLike | None]:
    """The candidate, which the map is about if it is an address, and the champion."""
    policy = load_policy(candidate, compensate_ms, interface_map=map_file, twin=twin)
    other = load_policy(champion, compensate_ms, twin=twin) if champion else None
    if other is not None and other.id == policy.id:
        raise WrongUse("candidate and champion are the same policy", got=policy.id)
    return policy, other


def _run(
    candidate: twinloop.PolicyLike,
    cell: twinloop.Twin,
    config: twinloop.GateConfig,
    url: str | None,
    attend: tuple[bool, str],
    json: bool,
    arguments: dict[str, Any],
) -> twinloop.Verdict:
    """Run the gate with progress on the terminal; with an address, on that robot."""
    from twinloop.promotion.run import Watchers

    with console.progress_bar("gate") as bar:
        arguments["watchers"] = Watchers(
            on_progress=bar,
            on_trial=lambda number, trial, verdict: None if json else _print_trial(number, trial, verdict),
            log=console.log,
        )
        if url is None:
            return twinloop.gate(candidate, cell, config, **arguments)
        with supervise(url, *attend) as (robot, supervisor):
            if is_person(supervisor):  # who is not to know which policy did what
                arguments["watchers"] = Watchers(on_progress=bar, log=console.log)
            return twinloop.gate(candidate, cell, config, robot=robot, supervisor=supervisor, **arguments)


def _report(verdict: twinloop.Verdict, folder: Path, json: bool) -> None:
    """Write the report page, and print the verdict; exits with 1 unless it promotes."""
    from twinloop.promotion.evidence import load_evidence
    from twinloop.promotion.run import EVIDENCE
    from twinloop.report.gate_page import write_gate_page

    page = write_gate_page(verdict, load_evidence(folder / EVIDENCE), folder / REPORT)
    files = {"evidence": folder / EVIDENCE, "verdict": folder / verdict.FILE, "report": page}
    value = verdict.as_json() | {"sentence": verdict.sentence, "files": files}
    console.print_result(json, value, lambda: _print(verdict, page))
    if verdict.decision != "promote":
        raise typer.Exit(1)


def _load_measured(
    identification: Path | None, diagnosis: Path | None, scenes: twinloop.Randomization | None
) -> dict[str, float]:
    """Values that the diagnosis measured on the robot, except those that identification estimates better."""
    if diagnosis is None:
        return {}
    if identification is None:
        raise WrongUse("--diagnosis needs the identification of the twin", remedy="--identification FOLDER")
    identified, diagnosed = twinloop.load_identification(identification), twinloop.load_diagnosis(diagnosis)
    return twinloop.measured_values(identified, diagnosed, scenes)


def _load_situation(
    named: str | None,
    policy: twinloop.PolicyLike,
    drift: Path | None,
    accepted: tuple[str, ...],
    by: str | None,
    reason: str | None,
) -> tuple[twinloop.Twin, Situation]:
    """The twin to simulate in (named, the workspace's or the policy's), and what its checks need."""
    from twinloop.monitoring.alerts import FOLDER, load_alerts
    from twinloop.policies.protocol import twin_of
    from twinloop.promotion.checks import Situation
    from twinloop.twin_versions import twin_history

    workspace = find_workspace()
    place, since = named, None
    if place is None and workspace is not None and workspace.twin is not None:
        place = str(workspace.root / workspace.twin)
        since = datetime.fromisoformat(twin_history(workspace)[-1].at)
    place = place or twin_of(policy)
    if place is None:
        raise WrongUse("no twin is named", remedy="--twin NAME|FOLDER")
    folder = Path(place) if Path(place).is_dir() else None
    root = workspace.root if workspace else None
    alerts = tuple(asdict(alert) for alert in load_alerts(root / FOLDER)) if root else ()
    situation = Situation(
        folder, root, _load_json(drift, "twinloop drift ... --json"), alerts, since, accepted, by, reason
    )
    return find_twin(place), situation


def _load_json(path: Path | None, command: str) -> Any:
    """What a command printed into a file; None without a file."""
    import json

    try:
        found = None if path is None else json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise WrongUse(f"{path} cannot be read ({error})", remedy=command) from error
    if found is not None and not isinstance(found, dict):
        raise WrongUse(
            f"{path} is not what it should be",
            got=type(found).__name__,
            expected=f"the output of `{command}`",
        )
    return found


def _load_evidence(
    candidate: twinloop.PolicyLike,
    champion: twinloop.PolicyLike | None,
    cell: twinloop.Twin,
    earlier: Path | None,
    simulated: Path | None,
    real: Path | None,
    robot: str | None,
    folder: Path,
) -> Evidence | None:
    """Trials so far: those that were named, else those of an earlier gate on a robot in the same folder."""
    from twinloop.promotion.evidence import load_evidence, make_evidence
    from twinloop.promotion.run import EVIDENCE, make_contender

    if earlier is not None:
        if simulated or real:
            raise WrongUse(
                "--evidence holds simulated and real trials", remedy="omit --sim-evidence and --real-evidence"
            )
        return load_evidence(earlier)
    if simulated is None and real is None:
        return load_evidence(folder) if robot is not None and (folder / EVIDENCE).exists() else None
    if robot is not None:
        raise WrongUse(
            "--sim-evidence and --real-evidence exclude --robot",
            remedy="--evidence FILE continues an earlier gate on a robot",
        )
    return make_evidence(
        make_contender(candidate),
        make_contender(champion) if champion else None,
        {"name": cell.name, "version": cell.version, "hash": cell.content_hash},
        simulated=simulated,
        real=real,
    )


def _print_trial(number: int, trial: PairedTrial, verdict: twinloop.Verdict) -> None:
    outcome = "succeeded" if trial.candidate else "failed"
    if trial.champion is not None:
        outcome += f", champion {'succeeded' if trial.champion else 'failed'}"
    e_value = math.exp(verdict.statistics.log_e_value[-1])
    console.err.print(f"trial {number}: scene {trial.scene}, candidate {outcome}; e-value {e_value:.2f}")


def _print(verdict: twinloop.Verdict, page: Path) -> None:
    console.print_table(
        ("check", "status", ""),
        [(c.name, f"{c.status}{' (accepted)' if c.accepted else ''}", c.detail) for c in verdict.checks],
    )
    if verdict.statistics.slices:
        console.print_table(
            ("slice", "simulated", "points", "stand-in" if verdict.standin else "real", "points", ""),
            [
                (s.name, s.simulated, _points(s.simulated_mean), s.real, _points(s.real_mean), s.standing)
                for s in verdict.statistics.slices
            ],
        )
    where = f" (stand-in {verdict.robot})" if verdict.standin else ""
    console.out.print(f"{verdict.sentence}{where}")
    console.out.print(f"report {page}")


def _points(mean: float | None) -> str:
    return "-" if mean is None else f"{100 * mean:+.1f}"
