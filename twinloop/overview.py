"""Where a workspace stands: its datasets, each stage of the loop, success over rounds, its champion, and the next step worth taking.

`twinloop status` and the studio show the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from twinloop.coverage.result import Coverage, load_coverage
from twinloop.diagnosis.result import load_diagnosis
from twinloop.errors import TwinloopError
from twinloop.gap.result import load_gap
from twinloop.identification.result import load_identification
from twinloop.loop_status import LoopStatus, read_loop_status
from twinloop.monitoring.run import load_monitor_report
from twinloop.monitoring.watch import find_reports
from twinloop.planning.items import Plan, load_plan
from twinloop.policies.listing import list_policies
from twinloop.promotion.listing import find_verdicts
from twinloop.promotion.record import RegistryRecord, read_aliases
from twinloop.promotion.state import replay_state
from twinloop.report.findings import summarize
from twinloop.results import find_results
from twinloop.stages import REACHED, STAGE
from twinloop.trial_sets import LOOP, SuccessRecord, find_success_records
from twinloop.workspace import DatasetSummary, Workspace, list_datasets, read_status

StageState = Literal["done", "running", "next", "missing"]

STAGES = (
    "generate", "train", "evaluate", "record", "identify", "gap", "diagnose", "coverage", "plan", "anchor", "gate", "promote", "monitor",
)  # fmt: skip
"""The loop, named after its commands; after monitor it begins again."""
COMMANDS = {
    "evaluate-sim": "evaluate",
    "excite": "record",
    "gate-first": "gate",
    "demonstrate": "record",
    "regenerate": "generate",
    "retrain": "train",
    "reevaluate": "evaluate",
    "demonstrate-more": "record",
    "select": "record",
    "finetune": "train",
    "video": "gate",
}
"""Stages of `twinloop loop` that have another name than the command that does the same."""


@dataclass(frozen=True)
class StageResult:
    """What one stage of the loop has found, whoever ran it.

    Attributes:
        name: The command that does it.
        state: done, running, next (worth doing now) or missing.
        summary: What it has found, in one line; or what cannot be read.
        at: When its newest result was written; ISO 8601.
        place: That result, seen from the workspace.
    """

    name: str
    state: StageState
    summary: str | None = None
    at: str | None = None
    place: str | None = None


@dataclass(frozen=True)
class StageRun:
    """A stage of `twinloop loop` that ran: its folder in the workspace, when it ended and how long it took, s."""

    stage: str
    folder: str
    finished_at: str
    seconds: float


@dataclass(frozen=True)
class ChampionOverview:
    """The policy in use: what it is, who made it the champion, when and why."""

    policy: str
    policy_id: str
    version: str
    promoted_at: str
    by: str
    reason: str


@dataclass(frozen=True)
class Overview:
    """Where a workspace stands.

    Attributes:
        workspace: Its name.
        twin: The folder of its current twin, seen from the workspace.
        datasets: Everything in `data/`.
        next_step: The command worth running next.
        reason: Why.
        loop: The stages of `twinloop loop`; None where it was not started.
        registry: Which policy holds each alias; `warning` or `problem` says what is wrong with the record.
        champion: The policy in use; None where there is none, or the record cannot be trusted.
        stages: What ran of `twinloop loop`, in order.
        results: What every stage of the loop has found, whoever ran it.
        evaluations: Success in simulation and on the robot, oldest first.
    """

    workspace: str
    twin: str | None
    datasets: tuple[DatasetSummary, ...]
    next_step: str
    reason: str
    loop: LoopStatus | None
    registry: dict[str, str]
    champion: ChampionOverview | None
    stages: tuple[StageRun, ...]
    results: tuple[StageResult, ...]
    evaluations: tuple[SuccessRecord, ...]


def read_overview(workspace: Workspace) -> Overview:
    """Read where a workspace stands.

    Args:
        workspace: The workspace.

    Returns:
        What it holds; the next step is the loop's where one was started.
    """
    status = read_status(workspace)
    folder = workspace.root / LOOP
    loop = read_loop_status(folder) if folder.exists() else None
    step, reason = (loop.next_step, loop.reason) if loop else (status.next_step, status.reason)
    trials = find_success_records(workspace)
    champion = _read_champion(workspace.root)
    found = {stage.name: stage for stage in _find_stages(workspace, trials, champion)}
    return Overview(
        status.workspace,
        workspace.twin,
        status.datasets,
        step,
        reason,
        loop,
        read_aliases(workspace.root),
        champion,
        read_stages(workspace),
        tuple(_with_state(name, found.get(name), loop, step) for name in STAGES),
        trials,
    )


def read_stages(workspace: Workspace) -> tuple[StageRun, ...]:
    """The stages of a workspace's loop that ran, in order.

    Args:
        workspace: The workspace.

    Returns:
        One entry for each stage that the newest run reached; one whose record cannot be read is left out.
    """
    root = workspace.root / LOOP
    try:
        folders = [str(name) for name in json.loads((root / REACHED).read_text())]
    except (OSError, ValueError, TypeError, RecursionError):
        return ()
    found = []
    for name in folders:
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            facts = json.loads((root / name / STAGE).read_text())
            stage = name.rpartition("-")[0]
            found.append(
                StageRun(stage, f"{LOOP}/{name}", str(facts["finished_at"]), float(facts["seconds"]))
            )
    return tuple(found)


def _with_state(name: str, found: StageResult | None, loop: LoopStatus | None, step: str) -> StageResult:
    """The stage with what is to be done about it; the loop's next stage may have been done before, in another round."""
    left = COMMANDS.get(loop.next_stage, loop.next_stage) if loop and loop.next_stage else None
    wanted = left or (None if loop else step.removeprefix("twinloop ").partition(" ")[0])
    state: StageState = "done" if found else "missing"
    if name == wanted:
        state = "running" if loop is not None and loop.reason.endswith("or is running") else "next"
    return StageResult(name, state, *((found.summary, found.at, found.place) if found else ()))


def _find_stages(
    workspace: Workspace, trials: tuple[SuccessRecord, ...], champion: ChampionOverview | None
) -> Iterator[StageResult]:
    """The stages of which there is a result; one that cannot be read says so."""
    yield from _datasets(workspace)
    root = workspace.root
    if policies := list_policies(root):
        newest = policies[-1]
        number = f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'}, newest {newest.name}"
        yield StageResult("train", "done", number, newest.created_at, newest.folder)
    if trials:
        yield StageResult("evaluate", "done", trials[-1].sentence, trials[-1].at, trials[-1].folder)
    readers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "identify": ("identification", lambda path: load_identification(path.parent)),
        "gap": ("gap", load_gap),
        "diagnose": ("diagnosis", load_diagnosis),
    }
    for name, (kind, read) in readers.items():
        for result in find_results(workspace, kind)[:1]:
            yield _result(name, root, root / result.path, read)
    for name, kept, reader in (("coverage", Coverage.FILE, load_coverage), ("plan", Plan.FILE, load_plan)):
        if files := _newest(root, kept):
            yield _result(name, root, files[0], reader)
    if anchors := _newest(root, "anchor.json"):
        yield StageResult("anchor", "done", None, _written(anchors[0]), _seen_from(root, anchors[0].parent))
    verdicts = [found for found in find_verdicts(root) if found.verdict is not None]
    if verdicts and (verdict := verdicts[-1].verdict) is not None:
        yield StageResult("gate", "done", verdict.sentence, verdict.decided_at, verdicts[-1].folder)
    if champion is not None:
        sentence = f"{champion.policy} is champion: {champion.reason}"
        yield StageResult("promote", "done", sentence, champion.promoted_at)
    if reports := find_reports(root):
        yield _result("monitor", root, reports[0], load_monitor_report)


def _datasets(workspace: Workspace) -> Iterator[StageResult]:
    """What was generated, and what was recorded."""
    every = [one for one in list_datasets(workspace.root) if one.episodes]
    for name, sources in (("generate", {"sim"}), ("record", {"real", "standin"})):
        own = [one for one in every if sources & set(one.sources.split("+"))]
        if own:
            newest = max(own, key=lambda one: Path(one.path).stat().st_mtime)
            number = (
                f"{sum(one.episodes for one in own)} episodes in {len(own)} dataset{'s' * (len(own) > 1)}"
            )
            place = Path(newest.path)
            yield StageResult(name, "done", number, _written(place), _seen_from(workspace.root, place))


def _result(name: str, root: Path, file: Path, read: Callable[[Path], Any]) -> StageResult:
    try:
        sentence = summarize(read(file))
    except TwinloopError as error:
        sentence = error.what
    return StageResult(name, "done", sentence, _written(file), _seen_from(root, file))


def _newest(root: Path, name: str) -> list[Path]:
    """Files of this name below a folder, newest first; those in hidden folders are left out."""
    found = [
        path
        for path in root.rglob(name)
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    return sorted(found, key=lambda path: -path.stat().st_mtime_ns)


def _read_champion(root: Path) -> ChampionOverview | None:
    """The champion as the record says; None where no trusted record names one."""
    try:
        entries = RegistryRecord(root).read()
        version = replay_state(entries).aliases["champion"]
    except TwinloopError:
        return None
    changes = [
        e for e in entries if e.details.get("version") == version and e.action in ("promote", "rollback")
    ]
    registered = [e for e in entries if e.details.get("version") == version and e.action == "register"]
    if version is None or not changes or not registered:
        return None
    last, about = changes[-1], registered[-1].details
    why = last.details.get("override") or last.details.get("reason")
    reason = {"rollback": f"rolled back: {why}"}.get(
        last.action, f"override: {why}" if why else "its verdict promotes it"
    )
    return ChampionOverview(about["policy"], about["policy_id"], version, last.at, last.by, reason)


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _seen_from(root: Path, path: Path) -> str:
    return str(path.resolve().relative_to(root.resolve()))
