"""Policies: how they learned, which of them are in use, and the registry: promote, stage, roll back, verify."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from twinloop.errors import UnknownName
from twinloop.policies.listing import PolicySummary, list_policies
from twinloop.policies.open import open_policy
from twinloop.promotion.listing import RegistrySummary, describe_entry, summarize_registry
from twinloop.promotion.registry import Change, PolicyRegistry
from twinloop.promotion.state import Stage
from twinloop.studio.context import CurrentWorkspace, confine
from twinloop.workspace import Workspace

router = APIRouter(prefix="/api/policies", tags=["policies"])

TRACKING = "TWINLOOP_TRACKING"
"""Environment variable with the address of MLflow, as for the commands."""

Name = Annotated[str, Field(max_length=200)]
Reason = Annotated[str, Field(max_length=2000)]
Place = Annotated[str, Field(max_length=1000)]


class PolicyLine(BaseModel):
    """A policy with its version in the registry and the aliases it holds, if it is registered."""

    policy: PolicySummary
    version: str | None
    aliases: list[str]


class Promotion(BaseModel):
    """Which policy goes to which stage, on what grounds, and who says so."""

    policy: Place
    verdict: Place | None = None
    stage: Stage = "full"
    fraction: float = 0.1
    by: Name
    override: Reason | None = None


class RollBack(BaseModel):
    """Who goes back to the previous champion, and why; `champion` is the version to go back from."""

    by: Name
    reason: Reason
    champion: str | None = Field(None, max_length=20)


class StageWithdrawal(BaseModel):
    """Who takes the policy from a stage, and why."""

    stage: Stage
    by: Name
    reason: Reason
    version: str | None = Field(None, max_length=20)


class ChangeAnswer(BaseModel):
    """What was done; `how` says whether now, or by the same request before."""

    sentence: str
    how: str
    number: int
    registry: RegistrySummary


class VerifiedAnswer(BaseModel):
    """An intact registry: its head, which can be stored elsewhere, and who signed its entries."""

    head: str
    entries: int
    signed: int
    unsigned: int
    keys: list[str]
    anchor: str | None


@router.get("", operation_id="list_policies")
def list_all_policies(workspace: CurrentWorkspace) -> list[PolicyLine]:
    """Every policy of the workspace with its learning curve, oldest first."""
    registry = {one.policy_id: one for one in summarize_registry(workspace.root).versions}
    lines = []
    for policy in list_policies(workspace.root):
        found = registry.get(policy.id)
        version, aliases = (found.version, list(found.aliases)) if found else (None, [])
        lines.append(PolicyLine(policy=policy, version=version, aliases=aliases))
    return lines


@router.get("/registry", operation_id="read_registry")
def read_registry(workspace: CurrentWorkspace) -> RegistrySummary:
    """Versions, who holds which alias, and every action with name and reason."""
    return summarize_registry(workspace.root)


@router.post("/registry/verify", operation_id="verify_registry")
def verify_registry(workspace: CurrentWorkspace) -> VerifiedAnswer:
    """Verify that record, policies, verdicts and evidence are as they were recorded, as `twinloop registry verify` does."""
    found = _registry(workspace).verify()
    return VerifiedAnswer(
        head=str(found.head),
        entries=found.head.number,
        signed=found.signatures.signed,
        unsigned=found.signatures.unsigned,
        keys=list(found.signatures.keys),
        anchor=found.anchor,
    )


@router.post("/promote", operation_id="promote_policy")
def promote_policy(workspace: CurrentWorkspace, promotion: Promotion) -> ChangeAnswer:
    """Promote a policy to a stage, as `twinloop promote` does; refused without a verdict that promotes it, or an override."""
    folder = confine(workspace, promotion.policy)
    if not folder.is_dir():
        known = [one.folder for one in list_policies(workspace.root)]
        raise UnknownName("policy", promotion.policy, known)
    verdict = confine(workspace, promotion.verdict) if promotion.verdict else None
    change = _registry(workspace).promote(
        open_policy(folder),
        verdict,
        by=promotion.by,
        stage=promotion.stage,
        fraction=promotion.fraction,
        override=promotion.override or None,
    )
    return _answer(workspace, change)


@router.post("/rollback", operation_id="roll_back_policy")
def roll_back_policy(workspace: CurrentWorkspace, step: RollBack) -> ChangeAnswer:
    """Make the previous champion the champion again, as `twinloop rollback` does."""
    change = _registry(workspace).roll_back(by=step.by, reason=step.reason, champion=step.champion)
    return _answer(workspace, change)


@router.post("/withdraw", operation_id="withdraw_policy")
def withdraw_policy(workspace: CurrentWorkspace, step: StageWithdrawal) -> ChangeAnswer:
    """Take the policy from the shadow or canary stage; at stage full, roll back."""
    change = _registry(workspace).withdraw(step.stage, by=step.by, reason=step.reason, version=step.version)
    return _answer(workspace, change)


def _registry(workspace: Workspace) -> PolicyRegistry:
    tracking = os.environ.get(TRACKING)
    return PolicyRegistry(workspace.root, None if tracking in ("", "off") else tracking)


def _answer(workspace: Workspace, change: Change) -> ChangeAnswer:
    return ChangeAnswer(
        sentence=describe_entry(change.entry),
        how=change.how,
        number=change.entry.number,
        registry=summarize_registry(workspace.root),
    )
