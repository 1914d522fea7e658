"""Gate: verdicts with their evidence: paired trials, the e-value over them, slices and checks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from twinloop.errors import UnknownName
from twinloop.promotion.evidence import Contender, PairedTrial, load_evidence
from twinloop.promotion.listing import find_verdicts
from twinloop.promotion.verdict import Decision, Verdict, find_contradiction, load_verdict
from twinloop.studio.context import CurrentWorkspace, confine

router = APIRouter(prefix="/api/gate", tags=["gate"])

GateFolder = Annotated[str, Query(description="Folder of the gate in the workspace.", max_length=1000)]


class VerdictLine(BaseModel):
    """A verdict in one line; `problem` says why it cannot be read."""

    folder: str
    decided_at: str | None = None
    candidate: Contender | None = None
    champion: Contender | None = None
    decision: Decision | None = None
    sentence: str = ""
    trials: int = 0
    robot: str | None = None
    standin: bool = False
    problem: str | None = None


class VerdictAnswer(BaseModel):
    """A verdict with its trials; `contradiction` says where it does not follow from the evidence beside it."""

    folder: str
    verdict: Verdict
    sentence: str
    real: list[PairedTrial]
    simulated: int
    recordings: list[str]
    contradiction: str | None


@router.get("", operation_id="list_verdicts")
def list_verdicts(workspace: CurrentWorkspace) -> list[VerdictLine]:
    """Every verdict of the workspace, the newest first."""
    lines = []
    for found in reversed(find_verdicts(workspace.root)):
        verdict = found.verdict
        if verdict is None:
            lines.append(VerdictLine(folder=found.folder, problem=found.problem))
            continue
        lines.append(
            VerdictLine(
                folder=found.folder,
                decided_at=verdict.decided_at,
                candidate=verdict.candidate,
                champion=verdict.champion,
                decision=verdict.decision,
                sentence=verdict.sentence,
                trials=verdict.statistics.trials,
                robot=verdict.robot,
                standin=verdict.standin,
            )
        )
    return lines


@router.get("/verdict", operation_id="read_verdict")
def read_verdict(workspace: CurrentWorkspace, folder: GateFolder) -> VerdictAnswer:
    """One verdict, the trials it rests on, and whether deciding again gives the same."""
    place = confine(workspace, folder)
    file = place / Verdict.FILE
    if not file.is_file():
        raise UnknownName("gate", folder, [one.folder for one in find_verdicts(workspace.root)])
    verdict, evidence = load_verdict(file), load_evidence(place)
    return VerdictAnswer(
        folder=folder,
        verdict=verdict,
        sentence=verdict.sentence,
        real=list(evidence.real),
        simulated=len(evidence.simulated),
        recordings=list(evidence.recordings),
        contradiction=find_contradiction(verdict, file),
    )
