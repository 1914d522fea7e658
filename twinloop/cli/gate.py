"""`twinloop gate`: is this policy better than the one in use? promote, refuse, or need so many more trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import workspace_here
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.policies.policy import Policy
    from twinloop.promotion.evidence import Evidence, PairedTrial
    from twinloop.promotion.run import Situation
    from twinloop.promotion.verdict import Verdict
    from twinloop.randomization import Randomization
    from twinloop.twins import Twin
    from twinloop.workspace import Workspace

REPORT = "report.html"


def gate(
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The policy that wants in.")],
    champion: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY", help="The policy it must beat, in the same scenes; default: --threshold."
        ),
    ] = None,
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="The twin to simulate in; default: the workspace's."),
    ] = None,
    robot: Annotated[
        str | None, typer.Option(help="Real trials on this robot: standin:NAME, tcp:HOST:PORT ...")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on from an earlier gate's evidence.json.")
    ] = None,
    sim_evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Simulated trials: the JSON of `twinloop evaluate --json`."),
    ] = None,
    real_evidence: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real trials: the JSON of `twinloop evaluate --robot ... --json`."),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Without a champion: success to exceed.")] = 0.8,
    better_by: Annotated[float, typer.Option(help="With a champion: gain to exceed, as a share.")] = 0.0,
    min_effect: Annotated[
        float, typer.Option(help="A gain worth having; evidence against it refuses.")
    ] = 0.05,
    slice_margin: Annotated[float, typer.Option(help="No slice may be worse by more than this share.")] = 0.1,
    alpha: Annotated[
        float, typer.Option(help="Chance of promoting wrongly, however often one looks.")
    ] = 0.05,
    max_trials: Annotated[int, typer.Option(help="Real trials (pairs) that may be spent.")] = 100,
    max_artefact_fraction: Annotated[
        float, typer.Option(help="Simulated trials with artefacts that are allowed.")
    ] = 0.02,
    scenes: Annotated[int, typer.Option(help="Scenes that are simulated.")] = 400,
    first_scene: Annotated[int, typer.Option(help="Number of the first scene that a stand-in sets.")] = 200,
    config: Annotated[
        Path | None,
        typer.Option(help="A generation config: what varies in the scenes, instead of the usual."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws scenes, and which of them are tried on the robot.")] = 0,
    latency_ms: Annotated[
        float | None, typer.Option(help="Delay that chunks are carried out for; default: each policy's own.")
    ] = None,
    identification: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --diagnosis: what `identify` wrote; by default the twin's own folder.",
        ),
    ] = None,
    diagnosis: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="What `diagnose` measured of the robot holds in every simulated scene."
        ),
    ] = None,
    simulation_only: Annotated[
        bool, typer.Option("--simulation-only", help="Judge by simulated trials alone; the verdict says so.")
    ] = False,
    drift: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The JSON of `twinloop drift --json`.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK", help="Let this check pass nevertheless; recorded with --by and --reason."
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who accepts.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for evidence, verdict, report and recordings; default: gate-CANDIDATE."),
    ] = None,
    json: Json = False,
) -> None:
    """Decide on a policy: promote, refuse, or say how many more trials are needed. Exits with 1 unless it promotes.

    Trials are looked at one by one and may stop at any time: a candidate that is no better is promoted with chance alpha
    at most. Scenes are simulated all, and real trials drawn from them count for more the better simulation foresees them.
    """
    from twinloop.cli.policy import load_late
    from twinloop.promotion.rules import Rules
    from twinloop.promotion.run import EVIDENCE, GateConfig, Watchers
    from twinloop.promotion.run import gate as run
    from twinloop.randomization import load_randomization
    from twinloop.report.gate_page import write_gate_page

    rules = Rules(
        alpha,
        better_by,
        threshold,
        min_effect,
        slice_margin,
        max_trials,
        max_artefact_fraction,
        simulation_only,
    )
    workspace = workspace_here()
    loaded = load_late(candidate, latency_ms)
    other = load_late(champion, latency_ms) if champion else None
    if other is not None and other.id == loaded.id:
        raise WrongUse("candidate and champion are the same policy", got=loaded.id)
    cell, situation = _twin(twin, loaded, workspace, drift, tuple(accept or ()), by, reason)
    folder = out or Path(f"gate-{loaded.name}")
    known = _evidence(loaded, other, cell, evidence, sim_evidence, real_evidence, robot)
    with console.progress_bar("gate") as bar:
        watchers = Watchers(
            progress=lambda what: bar,
            trial=lambda number, trial, verdict: None if json else _trial(number, trial, verdict),
            tell=lambda line: console.err.print(line, markup=False),
        )
        where = load_randomization(config, cell) if config else None
        measured = _measured(identification or situation.twin_folder, diagnosis, where)
        settings = GateConfig(rules, scenes, first_scene, where, measured, seed)
        words: dict[str, Any] = {
            "config": settings,
            "champion": other,
            "evidence": known,
            "out": folder,
            "situation": situation,
            "watchers": watchers,
        }
        verdict = _on_robot(run, loaded, cell, robot, words) if robot else run(loaded, cell, **words)
    from twinloop.promotion.evidence import load_evidence

    page = write_gate_page(verdict, load_evidence(folder / EVIDENCE), folder / REPORT)
    if json:
        files = {
            "evidence": str(folder / EVIDENCE),
            "verdict": str(folder / "verdict.json"),
            "report": str(page),
        }
        console.print_json(verdict.as_json() | {"sentence": verdict.sentence, "files": files})
    else:
        _print(verdict, page)
    if verdict.decision != "promote":
        raise typer.Exit(1)


def _on_robot(run: Any, candidate: Policy, cell: Twin, url: str, words: dict[str, Any]) -> Verdict:
    from twinloop.cli.robot import open_supervised

    with open_supervised(url) as (opened, supervisor):
        verdict: Verdict = run(candidate, cell, robot=opened, supervisor=supervisor, **words)
        return verdict


def _measured(
    identification: Path | None, diagnosis: Path | None, scenes: Randomization | None
) -> dict[str, float]:
    """Values that a diagnosis measured of the robot, without what identification knows better."""
    if diagnosis is None:
        return {}
    if identification is None:
        raise WrongUse("--diagnosis needs the identification of the twin", remedy="--identification FOLDER")
    from twinloop.anchoring import measured_values
    from twinloop.diagnosis.result import load_diagnosis
    from twinloop.identification.result import load_identification

    return measured_values(load_identification(identification), load_diagnosis(diagnosis), scenes)


def _twin(
    named: str | None,
    policy: Policy,
    workspace: Workspace | None,
    drift: Path | None,
    accepted: tuple[str, ...],
    by: str | None,
    reason: str | None,
) -> tuple[Twin, Situation]:
    import json as text
    from dataclasses import asdict
    from datetime import datetime

    from twinloop.monitoring.alerts import FOLDER, load_alerts
    from twinloop.promotion.run import Situation
    from twinloop.twins import load_twin
    from twinloop.workspace import twin_history

    place = named
    since = None
    if place is None and workspace is not None and workspace.twin is not None:
        place = str(workspace.root / workspace.twin)
        since = datetime.fromisoformat(twin_history(workspace)[-1].at)
    place = place or policy.training_record.twin["name"]
    if place is None:
        raise WrongUse("which twin?", remedy="--twin NAME|FOLDER")
    report = None
    if drift is not None:
        try:
            report = text.loads(drift.read_text())
        except (OSError, ValueError) as error:
            raise WrongUse(f"{drift} cannot be read ({error})", remedy="twinloop drift ... --json") from error
    folder = Path(place) if Path(place).is_dir() else None
    root = workspace.root if workspace else None
    alerts = tuple(asdict(alert) for alert in load_alerts(root / FOLDER)) if root else ()
    situation = Situation(folder, root, report, alerts, since, accepted, by, reason)
    return load_twin(place), situation


def _evidence(
    candidate: Policy,
    champion: Policy | None,
    cell: Twin,
    earlier: Path | None,
    simulated: Path | None,
    real: Path | None,
    robot: str | None,
) -> Evidence | None:
    from twinloop.promotion.evidence import evidence_of, load_evidence
    from twinloop.promotion.run import contender

    if earlier is not None:
        if simulated or real:
            raise WrongUse(
                "--evidence holds both kinds of trials", remedy="leave --sim-evidence and --real-evidence"
            )
        return load_evidence(earlier)
    if simulated is None and real is None:
        return None
    if robot is not None:
        raise WrongUse(
            "evidence or a robot?", remedy="--evidence FILE goes on from an earlier gate on a robot"
        )
    return evidence_of(
        contender(candidate),
        contender(champion) if champion else None,
        {"name": cell.name, "version": cell.version, "hash": cell.content_hash},
        simulated=simulated,
        real=real,
    )


def _trial(number: int, trial: PairedTrial, verdict: Verdict) -> None:
    import math

    words = "succeeded" if trial.candidate else "failed"
    if trial.champion is not None:
        words += f", champion {'succeeded' if trial.champion else 'failed'}"
    e_value = math.exp(verdict.statistics.log_e_value[-1])
    console.err.print(
        f"trial {number}: scene {trial.scene}, candidate {words}; e-value {e_value:.2f}", markup=False
    )


def _print(verdict: Verdict, page: Path) -> None:
    console.print_table(
        ("check", "answer", ""),
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
    console.out.print(f"{verdict.sentence}{where}", markup=False)
    console.out.print(f"report {page}", markup=False)


def _points(mean: float | None) -> str:
    return "-" if mean is None else f"{100 * mean:+.1f}"
