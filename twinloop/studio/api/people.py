"""People: consents with scope and expiry, whose episodes there are, and withdrawals with what they remove before they do."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from twinloop.consent.people import PersonConsent, survey_people
from twinloop.consent.policies import TrainedPolicy
from twinloop.consent.records import USES, Consent, add_consent
from twinloop.consent.search import Found
from twinloop.consent.withdraw import load_tombstones, plan_withdrawal, withdraw_consent
from twinloop.studio.context import CurrentWorkspace, confine
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/people", tags=["people"])

Name = Annotated[str, Field(max_length=200)]


class DatasetRemoval(BaseModel):
    """Episodes that a withdrawal removes from a dataset."""

    dataset: str
    episodes: int


class PastWithdrawal(BaseModel):
    """A withdrawal that was carried out: what was removed, by whom and why, and what a person has to look after."""

    consent: str
    at: str
    by: str
    reason: str
    episodes: int
    artefacts: int
    found: int


class PeopleAnswer(BaseModel):
    """Everybody whose episodes the workspace holds or held, and the uses that can be consented to."""

    people: list[PersonConsent]
    withdrawals: list[PastWithdrawal]
    uses: list[str]


class NewConsent(BaseModel):
    """A consent to record; `document` is the signed one's path in the workspace, of which only the hash is kept."""

    pseudonym: str = Field(max_length=40)
    scope: list[str] = Field(max_length=len(USES))
    document: str = Field(max_length=1000)
    given: date | None = None
    expires: date | None = None


class Withdrawal(BaseModel):
    """Who carries out a withdrawal, and why."""

    by: Name
    reason: str = Field(max_length=2000)


class WithdrawalAnswer(BaseModel):
    """What a withdrawal removes or has removed; `outside`, `policies` and `found` are left to a person.

    `complete` says whether the search found no copy in the workspace; before the withdrawal it is not known.
    """

    consent: str
    removals: list[DatasetRemoval]
    links: list[str]
    artefacts: list[str]
    outside: list[str]
    policies: list[TrainedPolicy]
    found: list[Found] = []
    mentions: list[str] = []
    complete: bool | None = None


@router.get("", operation_id="list_people")
def list_people(workspace: CurrentWorkspace) -> PeopleAnswer:
    """Every consent with the episodes under it, operators without one, and past withdrawals."""
    return PeopleAnswer(
        people=list(survey_people(workspace.root)),
        withdrawals=[_past(line) for line in reversed(load_tombstones(workspace.root))],
        uses=list(USES),
    )


@router.post("", operation_id="add_consent")
def add_new_consent(workspace: CurrentWorkspace, new: NewConsent) -> Consent:
    """Record a consent, as `twinloop data consent add` does."""
    return add_consent(
        workspace.root,
        new.pseudonym,
        new.scope,
        document=confine(workspace, new.document),
        given=new.given,
        expires=new.expires,
    )


@router.get("/{consent}/withdrawal", operation_id="plan_withdrawal")
def plan_one_withdrawal(workspace: CurrentWorkspace, consent: str) -> WithdrawalAnswer:
    """What a withdrawal would remove; nothing is changed."""
    plan = plan_withdrawal(workspace.root, consent)
    return WithdrawalAnswer(
        consent=consent,
        removals=[_removal(workspace, one.dataset, len(one.episode_ids)) for one in plan.removals],
        links=[_inside(workspace, link) for link in plan.links],
        artefacts=list(plan.artefacts),
        outside=list(plan.outside),
        policies=list(plan.policies),
    )


@router.post("/{consent}/withdraw", operation_id="withdraw_consent")
def withdraw_one_consent(workspace: CurrentWorkspace, consent: str, step: Withdrawal) -> WithdrawalAnswer:
    """Remove a person's episodes and what shows them, as `twinloop data consent withdraw` does; cannot be undone."""
    done = withdraw_consent(workspace.root, consent, by=step.by, reason=step.reason)
    return WithdrawalAnswer(
        consent=consent,
        removals=[_removal(workspace, one.dataset, len(one.episode_ids)) for one in done.removals],
        links=[_inside(workspace, link) for link in done.links],
        artefacts=list(done.artefacts),
        outside=list(done.outside),
        policies=list(done.policies),
        found=list(done.found),
        mentions=[_inside(workspace, path) for path in done.mentions],
        complete=done.is_complete,
    )


def _removal(workspace: Workspace, dataset: str, episodes: int) -> DatasetRemoval:
    return DatasetRemoval(dataset=_inside(workspace, dataset), episodes=episodes)


def _inside(workspace: Workspace, path: str) -> str:
    """A path as seen from the workspace."""
    return path.removeprefix(f"{workspace.root}/")


def _past(line: dict[str, Any]) -> PastWithdrawal:
    return PastWithdrawal(
        consent=line["consent"],
        at=line["at"],
        by=line["by"],
        reason=line["reason"],
        episodes=len({e for removal in line["removals"] for e in removal["episode_ids"]}),
        artefacts=len(line.get("artefacts", ())),
        found=sum(bool(one.get("certain", True)) for one in line.get("found", ())),
    )
