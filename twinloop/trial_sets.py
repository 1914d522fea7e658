"""Sets of trials in a workspace: success of policies in simulation and on the robot, in the order in which they were tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from twinloop.errors import TwinloopError
from twinloop.evaluation.result import Evaluation, load_evaluation
from twinloop.monitoring.run import load_monitor_report
from twinloop.monitoring.watch import find_reports
from twinloop.promotion.evidence import Evidence, PairedTrial, load_evidence
from twinloop.promotion.listing import find_verdicts
from twinloop.records import Record
from twinloop.stages import STAGE
from twinloop.stats.interval import Interval, exact_interval
from twinloop.workspace import Workspace, list_datasets

LOOP = "loop"
"""Folder of the loop's stages in a workspace."""
SCENES_PER_ROUND = 500
"""Later rounds of the loop use new scenes, numbered on from those of the round before."""

EVALUATED = ("loop/*", "reports", "reports/*")
"""Where evaluations are, as patterns; those inside a diagnosis are its own."""
MOST_EVALUATIONS = 500

Occasion = Literal["evaluate", "gate", "monitor"]
Kind = Literal["sim", "standin", "real"]


@dataclass(frozen=True)
class SuccessRecord(Record):
    """Trials of one policy in one place, with the exact interval of its success rate (Clopper-Pearson, 95 %).

    Attributes:
        at: When they were finished; ISO 8601.
        folder: Where they are, seen from the workspace.
        policy: Its name; that of deployed episodes is not known.
        where: The twin, or the robot's serial number.
        kind: sim, standin or real.
        trials: Trials whose outcome is known.
        successes: Those that succeeded.
        rate: Success rate; None where no outcome is known.
        low: Lower end of its interval.
        high: Upper end.
        occasion: evaluate, gate, or monitor: at work.
        round: The loop's round; None where it is not known.
    """

    at: str
    folder: str
    policy: str
    where: str
    kind: Kind
    trials: int
    successes: int
    rate: float | None
    low: float
    high: float
    occasion: Occasion
    round: int | None

    @property
    def sentence(self) -> str:
        """The success rate in one line."""
        place = {"sim": "in simulation", "standin": "on the stand-in", "real": "on the robot"}[self.kind]
        limits = f"{100 * (self.rate or 0):.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"
        return f"{self.policy}: {limits} of {self.trials} {place}"


def find_success_records(workspace: Workspace) -> tuple[SuccessRecord, ...]:
    """Find every set of trials in a workspace.

    Args:
        workspace: The workspace.

    Returns:
        Evaluations of the loop and of `reports/`, gates and monitors, oldest first; those that cannot be read are left out.
    """
    found = [*_evaluations(workspace.root), *_gates(workspace.root), *_monitors(workspace.root)]
    return tuple(sorted(found, key=lambda one: (one.at, one.folder, one.kind)))


def _evaluations(root: Path) -> Iterator[SuccessRecord]:
    files = sorted(file for place in EVALUATED for file in root.glob(f"{place}/{Evaluation.FILE}"))
    for file in files[:MOST_EVALUATIONS]:
        try:
            one = load_evaluation(file.parent)
        except TwinloopError:
            continue
        kind: Kind = "sim" if one.twin is not None else "standin" if one.standin else "real"
        folder = file.parent
        number = _round(_inputs(folder).get("first"))
        counted = (len(one.judged), one.successes)
        yield _record(
            root, folder, _finished_at(folder), one.policy, one.where, kind, counted, "evaluate", number
        )


def _gates(root: Path) -> Iterator[SuccessRecord]:
    for found in find_verdicts(root):
        folder = root / found.folder
        if found.verdict is None:
            continue
        try:
            evidence = load_evidence(folder / Evidence.FILE)
        except TwinloopError:
            continue
        config = _inputs(folder).get("config")
        number = _round(config.get("first_scene") if isinstance(config, dict) else None)
        robot: Kind = "standin" if evidence.standin else "real"
        places: tuple[tuple[Kind, str, tuple[PairedTrial, ...]], ...] = (
            ("sim", str(evidence.twin.get("name") or "twin"), evidence.simulated),
            (robot, evidence.robot or "robot", evidence.real),
        )
        for kind, where, trials in places:
            counted = (len(trials), sum(trial.candidate for trial in trials))
            at, name = found.verdict.decided_at, evidence.candidate.name
            if trials:
                yield _record(root, folder, at, name, where, kind, counted, "gate", number)


def _monitors(root: Path) -> Iterator[SuccessRecord]:
    standins = {Path(one.path).name for one in list_datasets(root) if "standin" in one.sources.split("+")}
    for file in find_reports(root):
        try:
            report = load_monitor_report(file)
        except TwinloopError:
            continue
        if not report.success.episodes:
            continue
        at = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
        counted = (report.success.episodes, report.success.successes)
        number, where = _round(_inputs(file.parent).get("first")), Path(report.dataset).name
        kind: Kind = "standin" if where in standins else "real"
        yield _record(root, file, at, "deployed", where, kind, counted, "monitor", number)


def _record(
    root: Path,
    place: Path,
    at: str,
    policy: str,
    where: str,
    kind: Kind,
    counted: tuple[int, int],
    occasion: Occasion,
    number: int | None,
) -> SuccessRecord:
    """Trials and successes with the interval of their rate."""
    trials, successes = counted
    interval = exact_interval(successes, trials) if trials else Interval(0.0, 0.0, 1.0)
    rate = interval.value if trials else None
    folder = place.relative_to(root).as_posix()
    return SuccessRecord(
        at,
        folder,
        policy,
        where,
        kind,
        trials,
        successes,
        rate,
        interval.low,
        interval.high,
        occasion,
        number,
    )


def _facts(folder: Path) -> dict[str, Any]:
    """What is kept of a stage of the loop; nothing of a folder that is none."""
    try:
        facts = json.loads((folder / STAGE).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _inputs(folder: Path) -> dict[str, Any]:
    inputs = _facts(folder).get("inputs")
    return inputs if isinstance(inputs, dict) else {}


def _round(first_scene: object) -> int | None:
    """The loop's round in which these scenes are used."""
    return first_scene // SCENES_PER_ROUND + 1 if isinstance(first_scene, int) else None


def _finished_at(folder: Path) -> str:
    """When a stage of the loop was done."""
    found = _facts(folder).get("finished_at")
    if isinstance(found, str):
        return found
    changed = folder.stat().st_mtime
    return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
