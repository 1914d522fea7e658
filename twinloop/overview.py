"""Where a workspace stands: its datasets, its loop, its champion, and the next step worth taking."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from twinloop.errors import TwinloopError
from twinloop.evaluation.result import Evaluation, load_evaluation
from twinloop.loop_status import LoopStatus, read_loop_status
from twinloop.promotion.record import read_aliases
from twinloop.workspace import DatasetSummary, Workspace, read_status

LOOP = "loop"
"""Folder of the loop's stages in a workspace."""
EVALUATED = ("loop/*", "reports", "reports/*")
"""Where evaluations are, as patterns; those inside a diagnosis are its own."""
MOST_EVALUATIONS = 500


@dataclass(frozen=True)
class StageRun:
    """A stage of the loop that ran: its folder in the workspace, when it ended and how long it took, s."""

    stage: str
    folder: str
    finished_at: str
    seconds: float


@dataclass(frozen=True)
class SuccessRecord:
    """One evaluation of a policy, with the exact interval of its success rate (Clopper-Pearson, 95 %).

    Attributes:
        at: When it was finished.
        folder: Where it is, seen from the workspace.
        policy: Its name.
        where: The twin, or the robot's serial number.
        kind: sim, standin or real.
        trials: Trials whose outcome is known.
        successes: Those that succeeded.
        rate: Success rate; None where no outcome is known.
        low: Lower end of its interval.
        high: Upper end.
    """

    at: str
    folder: str
    policy: str
    where: str
    kind: str
    trials: int
    successes: int
    rate: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Overview:
    """Where a workspace stands.

    Attributes:
        workspace: Its name.
        datasets: Everything in `data/`.
        next_step: The command worth running next.
        reason: Why.
        loop: The loop's stages; None where no loop was started.
        stages: What ran of the loop, in order.
        evaluations: Every evaluation of the loop and of `reports/`, oldest first.
        registry: Which policy holds each alias; `warning` or `problem` says what is wrong with the record.
    """

    workspace: str
    datasets: tuple[DatasetSummary, ...]
    next_step: str
    reason: str
    loop: LoopStatus | None
    stages: tuple[StageRun, ...]
    evaluations: tuple[SuccessRecord, ...]
    registry: dict[str, str]


def read_overview(workspace: Workspace) -> Overview:
    """Read where a workspace stands.

    Args:
        workspace: The workspace.

    Returns:
        Its datasets, loop and registry; the next step is the loop's where one was started.
    """
    status = read_status(workspace)
    folder = workspace.root / LOOP
    loop = read_loop_status(folder) if folder.exists() else None
    step, reason = (loop.next_step, loop.reason) if loop else (status.next_step, status.reason)
    return Overview(
        workspace=status.workspace,
        datasets=status.datasets,
        next_step=step,
        reason=reason,
        loop=loop,
        stages=read_stages(workspace),
        evaluations=read_evaluations(workspace),
        registry=read_aliases(workspace.root),
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
        folders = [str(name) for name in json.loads((root / "reached.json").read_text())]
    except (OSError, ValueError, TypeError):
        return ()
    found = []
    for name in folders:
        with suppress(OSError, ValueError, KeyError, TypeError):
            facts = json.loads((root / name / "stage.json").read_text())
            stage = name.rpartition("-")[0]
            found.append(
                StageRun(stage, f"{LOOP}/{name}", str(facts["finished_at"]), float(facts["seconds"]))
            )
    return tuple(found)


def read_evaluations(workspace: Workspace) -> tuple[SuccessRecord, ...]:
    """Every evaluation of a workspace's loop and reports, oldest first; one that cannot be read is left out.

    Args:
        workspace: The workspace.

    Returns:
        Success rates with intervals.
    """
    finished = {run.folder: run.finished_at for run in read_stages(workspace)}
    files = [file for place in EVALUATED for file in workspace.root.glob(f"{place}/{Evaluation.FILE}")]
    found = []
    for file in sorted(files)[:MOST_EVALUATIONS]:
        with suppress(TwinloopError, OSError):
            folder = file.parent.relative_to(workspace.root).as_posix()
            at = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
            found.append(_record(load_evaluation(file.parent), folder, finished.get(folder, at)))
    return tuple(sorted(found, key=lambda one: one.at))


def _record(evaluation: Evaluation, folder: str, at: str) -> SuccessRecord:
    interval = evaluation.interval()
    kind = "sim" if evaluation.twin is not None else "standin" if evaluation.standin else "real"
    trials = len(evaluation.judged)
    rate = evaluation.successes / trials if trials else None
    return SuccessRecord(
        at,
        folder,
        evaluation.policy,
        evaluation.where,
        kind,
        trials,
        evaluation.successes,
        rate,
        interval.low,
        interval.high,
    )
