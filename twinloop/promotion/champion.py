"""The policy in use: find it, and promote a candidate to replace it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twinloop.policies.protocol import PolicyLike
from twinloop.promotion.record import RegistryRecord
from twinloop.promotion.registry import PolicyRegistry
from twinloop.records import SavedRecord, load_record


@dataclass(frozen=True)
class Champion(SavedRecord):
    """The policy in use after a promotion."""

    FILE, COMMAND = "champion.json", "twinloop promote"

    name: str
    policy_id: str


def load_champion(folder: str | Path) -> Champion:
    """Read what `Champion.save` wrote into a folder."""
    return load_record(Champion, folder)


def find_champion(
    workspace: str | Path, candidate: PolicyLike | None, otherwise: PolicyLike | None = None
) -> PolicyLike | None:
    """Find the champion that a candidate has to beat.

    Args:
        workspace: The workspace that holds the registry.
        candidate: If it is already the champion, its predecessor is returned. None: the current champion.
        otherwise: Returned if there is no champion.

    Returns:
        The champion, or `otherwise`.
    """
    root = Path(workspace)
    if not RegistryRecord(root).read():
        return otherwise
    registry = PolicyRegistry(root)
    if candidate is None:
        return registry.policy("champion") if registry.state().aliases.get("champion") else otherwise
    return registry.previous_champion(candidate.id) or otherwise


def promote(
    policy: PolicyLike,
    verdict: str | Path,
    workspace: str | Path,
    *,
    by: str,
    previous: PolicyLike | None = None,
) -> Champion:
    """Make a policy the champion of a workspace, based on its verdict.

    Args:
        policy: The candidate.
        verdict: The gate's folder, or its `verdict.json`.
        workspace: The workspace.
        by: Name of the person who promotes it; recorded.
        previous: The policy in use so far; registered first if the workspace has no champion yet.

    Returns:
        The champion.

    Raises:
        GateError: If the verdict does not promote this policy.
    """
    registry = PolicyRegistry(Path(workspace))
    if previous is not None and registry.state().aliases.get("champion") is None:
        registry.promote(previous, None, by=by, override="in use before the loop")
    holder = registry.policy("champion") if registry.state().aliases.get("champion") else None
    if holder is None or holder.id != policy.id:
        registry.promote(policy, verdict, by=by)
    registry.verify()
    return Champion(policy.name, policy.id)
