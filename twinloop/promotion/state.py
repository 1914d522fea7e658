"""Which policy is in use according to a record: every entry must follow from the ones before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from twinloop.errors import TamperedRecord
from twinloop.promotion.chain import RESTORE, Entry

Stage = Literal["shadow", "canary", "full"]
Aliases = dict[str, str | None]

ALIAS_OF: dict[Stage, str] = {"shadow": "shadow", "canary": "challenger", "full": "champion"}
"""The alias of a policy at each stage of a release."""
NO_ALIASES: Aliases = {"champion": None, "challenger": None, "shadow": None}

_POLICY_ID = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class State:
    """Aliases, champions so far (oldest first), the canary's fraction of episodes, and versions by policy id."""

    aliases: Aliases = field(default_factory=lambda: dict(NO_ALIASES))
    champions: tuple[str, ...] = ()
    fraction: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def replay_state(entries: list[Entry]) -> State:
    """The state after these entries; raises `TamperedRecord` naming the first that does not follow from those before it."""
    state = State()
    for entry in entries:
        try:
            state = _after(state, entry)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise TamperedRecord(
                f"entry {entry.number} of the record does not follow from the ones before it: "
                f"no {entry.action[:20]!r} that twinloop writes ({error})",
                remedy=RESTORE,
            ) from error
    return state


def aliases_after_promotion(state: State, version: str, stage: Stage) -> Aliases:
    """The aliases once a version is at a stage; a policy is at one stage at a time."""
    others = {alias: None if holder == version else holder for alias, holder in state.aliases.items()}
    return {**others, ALIAS_OF[stage]: version}


def aliases_after_rollback(state: State) -> Aliases:
    """The aliases once the champion before the current one is champion again."""
    return aliases_after_promotion(state, state.champions[-2], "full")


def _after(state: State, entry: Entry) -> State:
    """The state after one more entry; raises KeyError, TypeError, ValueError or IndexError if there cannot be such an entry."""
    details, action = entry.details, entry.action
    expected: Aliases = state.aliases
    champions, versions, fraction = list(state.champions), dict(state.versions), state.fraction
    if action == "register":
        _require(details["version"] == str(len(versions) + 1), "number of the version")
        _require(_POLICY_ID.fullmatch(details["policy_id"]) is not None, "id of the policy")
        _require(all(isinstance(details[name], str) for name in ("policy", "decision")), "name and decision")
        _require(isinstance(details["files"], dict), "files of the policy")
        _require(details["policy_id"] not in versions, "new policy")
        versions[details["policy_id"]] = details["version"]
    elif action == "promote":
        stage, fraction_now = details["stage"], details["fraction"]
        _require(versions[details["policy_id"]] == details["version"], "version of the policy")
        _require(bool(details.get("override")) or "verdict" in details, "verdict or override")
        expected = aliases_after_promotion(state, details["version"], stage)
        if stage == "full" and (not champions or champions[-1] != details["version"]):
            champions.append(details["version"])
        if stage == "canary":
            _require(0.0 < fraction_now < 1.0, "fraction of episodes")
            fraction = fraction_now
    elif action == "rollback":
        _require((details["from"], details["version"]) == (champions[-1], champions[-2]), "champions")
        expected = aliases_after_rollback(state)
        champions.pop()
    elif action == "withdraw":
        _require(details["version"] == state.aliases[ALIAS_OF[details["stage"]]], "policy at the stage")
        _require(details["stage"] != "full", "stage")
        expected = {**state.aliases, ALIAS_OF[details["stage"]]: None}
    elif action != "accept":
        raise ValueError("unknown action")
    _require_digests(details)
    _require(details["aliases"] == expected, "aliases")
    return replace(
        state,
        aliases=dict(expected),
        champions=tuple(champions),
        versions=versions,
        fraction=fraction if expected["challenger"] else None,
    )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong: {what}")


def _require_digests(details: Mapping[str, Any]) -> None:
    """Digests name files, so they must be digests."""
    for name in ("verdict", "evidence"):
        if name in details:
            _require(_SHA256.fullmatch(details[name]) is not None, name)
            _require("evidence" in details and "verdict" in details, "verdict and evidence")
