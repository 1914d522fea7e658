"""`twinloop promote`, `twinloop rollback` and `twinloop registry`: which policy is in use, and its history."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import TRACKING, Json, PolicyMap, PolicyName
from twinloop.cli.places import find_workspace, load_policy
from twinloop.errors import UnknownName, WrongUse

if TYPE_CHECKING:
    from twinloop.promotion.listing import FoundVerdict
    from twinloop.promotion.record import Signatures
    from twinloop.promotion.registry import Change, Verified
    from twinloop.promotion.release import StageVerdict

app = typer.Typer(
    help="List the registry, verify, accept, repair and anchor its record, and judge a staged release.",
    no_args_is_help=True,
)

Root = Annotated[
    Path | None,
    Option(
        "--workspace",
        metavar="FOLDER",
        help="Folder of the registry; default: the workspace, or this folder.",
    ),
]
Tracking = Annotated[
    str | None,
    Option(metavar="URI", envvar=TRACKING, help="MLflow address; default: mlflow.db in the workspace."),
]
By = Annotated[str, Option(help="Your name; recorded.")]
VerdictFile = Annotated[Path | None, Option(metavar="FILE", help="The verdict.json of `twinloop gate`.")]
ReleaseStage = Annotated[
    str, Option(help="shadow: runs but does not act; canary: acts in a fraction of episodes; full.")
]
Override = Annotated[
    str | None,
    Option(metavar="REASON", help="Promote without a favourable verdict; recorded with your name."),
]
GatedCompensateMs = Annotated[
    float | None, Option(help="Latency of the hardware that the gated policy compensated; default: its own.")
]
Reason = Annotated[str, Option(help="Reason; recorded.")]
Champion = Annotated[
    str | None,
    Option("--from", metavar="VERSION", help="Go back from this version, the champion, or not at all."),
]
Examined = Annotated[
    str, Option(metavar="NUMBER:HASH", help="The head of what you examined, as the error message states it.")
]
Address = Annotated[
    str | None,
    Argument(metavar="ADDRESS", help="file:PATH, git:REPOSITORY, mlflow:URI, or none; default: print it."),
]
Head = Annotated[
    str | None,
    Option(metavar="NUMBER:HASH", help="A head stored earlier; the record must still contain it."),
]
Restore = Annotated[
    bool,
    Option("--restore", help="If the record is intact, restore versions and aliases in MLflow from it."),
]
Deployed = Annotated[
    Path, Argument(metavar="DATASET", help="Deployed episodes; at stage shadow, the .shadow.jsonl file.")
]


def promote(
    policy: PolicyName,
    by: By,
    verdict: VerdictFile = None,
    stage: ReleaseStage = "full",
    fraction: Annotated[float, Option(help="canary: fraction of the episodes in which it acts.")] = 0.1,
    override: Override = None,
    compensate_ms: GatedCompensateMs = None,
    map_file: PolicyMap = None,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Promote a policy to shadow, canary or champion. Needs a verdict that promotes it over the current champion.

    The verdict is recomputed from the evidence next to it, and both are copied into the registry.
    """
    loaded = load_policy(policy, compensate_ms, interface_map=map_file)
    registry = open_registry(workspace, tracking, new=True)
    change = registry.promote(loaded, verdict, by=by, stage=stage, fraction=fraction, override=override)  # type: ignore[arg-type]
    _print_change(registry, change, json)


def rollback(
    by: By,
    reason: Reason,
    champion: Champion = None,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Make the previous champion the champion again. The rollback is recorded too.

    The same command typed again finishes what was interrupted and does nothing more; to go back once more, name the champion
    with --from.
    """
    registry = open_registry(workspace, tracking)
    change = registry.roll_back(by=by, reason=reason, champion=champion)
    _print_change(registry, change, json)


@app.command("ls")
def list_versions(workspace: Root = None, tracking: Tracking = None, json: Json = False) -> None:
    """List registered policies with their verdicts and current aliases."""
    registry = open_registry(workspace, tracking)
    versions = registry.versions()
    if json:
        console.print_json({"versions": [asdict(v) for v in versions], "fraction": registry.state().fraction})
        return
    console.print_table(
        ("version", "policy", "id", "verdict", "registered", "alias"),
        [
            (v.version, v.policy, v.policy_id, v.decision, v.registered_at, ", ".join(v.aliases) or "-")
            for v in versions
        ],
    )


@app.command()
def log(workspace: Root = None, tracking: Tracking = None, json: Json = False) -> None:
    """Print the record: every action, by whom and why, oldest first."""
    from twinloop.promotion.keys import trusted_keys
    from twinloop.promotion.listing import describe_entry

    entries = open_registry(workspace, tracking).entries()

    keys = trusted_keys()
    names = {
        e.number: keys[e.key].name if e.key in keys else "unknown key" if e.key else "-" for e in entries
    }
    columns = ("number", "at", "by", "signed", "action")
    console.print_list(
        json, entries, columns, lambda e: (e.number, e.at, e.by, names[e.number], describe_entry(e))
    )


@app.command()
def verify(
    head: Head = None,
    restore: Restore = False,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Verify that record, aliases, policies, verdicts and evidence were not edited, deleted, reordered or truncated.

    Trusted keys must have signed every entry, and the record must contain the heads that you saw last and that the anchor
    stores. Prints the head, which can also be passed with --head.
    """
    found = open_registry(workspace, tracking).verify(head, restore)
    value = {"intact": True, "entries": found.head.number, "head": str(found.head), "anchor": found.anchor}
    value |= {"signatures": asdict(found.signatures)}
    console.print_result(json, value, lambda: _print_verified(found))
    _warn_unsigned(found.signatures)


@app.command()
def verdicts(workspace: Root = None, json: Json = False) -> None:
    """List the verdicts of every gate in the workspace, newest last."""
    from twinloop.promotion.listing import find_verdicts

    found = find_verdicts(_find_root(workspace))

    def row(one: FoundVerdict) -> tuple[Any, ...]:
        verdict = one.verdict
        if verdict is None:
            return "-", "-", "-", "-", one.problem, one.folder
        champion = verdict.champion.name if verdict.champion else "-"
        return (
            verdict.decided_at,
            verdict.candidate.name,
            champion,
            verdict.decision,
            "; ".join(verdict.reasons),
            one.folder,
        )

    columns = ("decided", "candidate", "champion", "decision", "why", "folder")
    console.print_list(json, found, columns, row, "no policy has been at the gate: twinloop gate")


@app.command()
def accept(
    head: Examined,
    by: By,
    reason: Reason,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Vouch for the record as it is: unsigned entries, entries of keys that are no longer trusted, or a known loss.

    Read it first: twinloop registry log. Signed and recorded if you have a key; else noted for yourself alone.
    """
    found = open_registry(_require_record(workspace), tracking, new=True).accept(head, by=by, reason=reason)
    console.print_result(json, {"head": str(found)}, f"accepted; head {found}")


@app.command()
def repair(workspace: Root = None, json: Json = False) -> None:
    """Set aside an unfinished last line of the record, which a killed command or a full disk may have left."""
    from twinloop.promotion.record import RegistryRecord

    aside = RegistryRecord(_require_record(workspace)).repair()
    text = f"set aside the unfinished last line in {aside}; type the command again that was interrupted"
    console.print_result(json, {"set_aside": aside}, text if aside else "the last line is complete")


@app.command()
def anchor(address: Address = None, workspace: Root = None, json: Json = False) -> None:
    """Store the head of the record outside the workspace too, so that nobody can remove its last entries unnoticed.

    Your choice of anchor is kept in your own folder, not in the workspace; so everybody who shares it makes it once.
    """
    from twinloop.promotion.record import RegistryRecord

    record = RegistryRecord(_require_record(workspace))
    kept = record.anchor() if address is None else record.set_anchor(None if address == "none" else address)
    console.print_result(json, {"anchor": kept}, f"anchor {kept or 'none'}")


@app.command()
def release(
    source: Deployed,
    stage: Annotated[str, Option(help="Stage of release: shadow, canary or full.")],
    min_success_rate: Annotated[
        float | None, Option(help="Success rate to exceed; default: that of the stage.")
    ] = None,
    apply: Annotated[
        bool, Option("--apply", help="On stop: withdraw or roll back; recorded. Needs --by.")
    ] = False,
    by: Annotated[str, Option(help="Your name; recorded.")] = "",
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Judge the policy at a stage of release: advance, stop, or go on. Valid after every episode; exits with 1 on stop."""
    from twinloop.promotion.release import RULES, judge_stage, load_shadow, read_outcomes
    from twinloop.promotion.state import ALIAS_OF

    if stage not in RULES:
        raise UnknownName("stage", stage, RULES)
    rule = RULES[stage]
    if min_success_rate is not None:
        rule = replace(rule, min_success_rate=min_success_rate)
    registry = open_registry(workspace, tracking)
    held = registry.policy(ALIAS_OF[stage])
    if stage == "shadow":
        good = load_shadow(source, held.id)
    else:
        good = read_outcomes(twinloop.open_dataset(source), held.id)
    found = judge_stage(stage, good, rule)
    stop = found.step == "stop"
    version = registry.state().aliases[ALIAS_OF[stage]]
    change = registry.withdraw(stage, by=by, reason=found.reason, version=version) if stop and apply else None
    value = found.as_json() | {"policy": held.name, "entry": change.entry.number if change else None}
    console.print_result(json, value, lambda: _print_release(held.name, found, change, source))
    if stop:
        raise typer.Exit(1)


def _print_release(policy: str, found: StageVerdict, change: Change | None, source: Path) -> None:
    from twinloop.promotion.release import NEXT

    console.out.print(f"{policy}, {found.stage}: {found.step}; {found.reason}")
    if change is not None:
        console.out.print(_describe(change))
    elif found.step == "stop":
        console.out.print(f"next: twinloop registry release {source} --stage {found.stage} --apply --by NAME")
    elif found.step == "advance":
        following = NEXT[found.stage]
        console.out.print(f"next: twinloop promote {policy} --stage {following} --verdict FILE --by NAME")


def open_registry(
    workspace: Path | None = None, tracking: str | None = None, new: bool = False
) -> twinloop.PolicyRegistry:
    """Open the registry; unless `new`, it must exist."""
    root = _find_root(workspace) if new or _has_database(workspace) else _require_record(workspace)
    registry = twinloop.PolicyRegistry(root, None if tracking == "off" else tracking)
    if not new and not registry.entries():
        _require_record(root)
    return registry


def load_registered(named: str) -> twinloop.PolicyLike | None:
    """Load the policy of an alias, version, name or id; says so where no trusted key vouches for it.

    None where there is no registry, or no such version in it; an alias that no policy holds is an error.
    """
    from twinloop.promotion.chain import FOLDER, RECORD
    from twinloop.promotion.state import NO_ALIASES

    tracking = os.environ.get(TRACKING)
    if named not in NO_ALIASES and not (_find_root(None) / FOLDER / RECORD).is_file():
        return None
    registry = open_registry(tracking=tracking)
    if named not in NO_ALIASES and not registry.holds(named):
        return None
    policy = registry.policy(named)
    _warn_unsigned(registry.record.signatures(registry.entries()))
    return policy


def _find_root(workspace: Path | None) -> Path:
    here = find_workspace()
    root = workspace or (here.root if here else Path())
    if not root.is_dir():
        raise WrongUse(f"{root} is not a folder", remedy="--workspace FOLDER")
    return root


def _has_database(workspace: Path | None) -> bool:
    from twinloop.learning.tracking import DATABASE

    return (_find_root(workspace) / DATABASE).exists()


def _require_record(workspace: Path | None) -> Path:
    """The folder of a registry, which has a record, or had one when this user saw it last."""
    from twinloop.promotion.chain import FOLDER, RECORD
    from twinloop.promotion.known import find_known

    root = _find_root(workspace)
    if not (root / FOLDER / RECORD).exists() and find_known(root) is None:
        raise WrongUse(
            f"there is no registry in {root.resolve()}",
            expected=f"{FOLDER}/{RECORD}",
            remedy="--workspace FOLDER, or twinloop promote, which creates one",
        )
    return root


def _print_change(registry: twinloop.PolicyRegistry, change: Change, json: bool) -> None:
    console.print_result(json, asdict(change.entry) | {"how": change.how}, _describe(change))
    _warn_unsigned(registry.record.signatures(registry.entries()))


def _describe(change: Change) -> str:
    from twinloop.promotion.listing import describe_entry

    entry = change.entry
    text = f"{describe_entry(entry)} (entry {entry.number}, {entry.hash[:16]})"
    if change.how == "done":
        return text
    if change.how == "finished":
        return f"finished what was interrupted: {text}"
    more = ""
    if entry.action == "rollback":
        more = f"\nto go back once more: twinloop rollback --from {entry.details['version']} --by NAME --reason TEXT"
    return f"nothing changed; this was done already, at {entry.at}: {text}{more}"


def _print_verified(found: Verified) -> None:
    signatures = found.signatures
    signed = f", {signatures.signed} signed by {', '.join(signatures.keys)}" if signatures.signed else ""
    accepted = f", {signatures.accepted} accepted by a signed entry" if signatures.accepted else ""
    console.out.print(f"intact: {_count_entries(found.head.number)}{signed}{accepted}")
    console.out.print(f"head {found.head}, also stored at {found.anchor or 'no anchor'}")


def _count_entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"


def _warn_unsigned(signatures: Signatures) -> None:
    from twinloop.promotion.record import UNSIGNED

    if signatures.unsigned:
        console.log(f"{UNSIGNED} ({_count_entries(signatures.unsigned)})")
