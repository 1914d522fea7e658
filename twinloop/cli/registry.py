"""`twinloop promote`, `twinloop rollback` and `twinloop registry`: which policy is in use, and its history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.cli.places import workspace_here
from twinloop.cli.train import TRACKING
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.promotion.chain import Entry
    from twinloop.promotion.registry import PolicyRegistry

app = typer.Typer(
    help="List the registry, verify its record, and judge a staged release.", no_args_is_help=True
)

Root = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="FOLDER",
        help="Folder of the registry; default: the workspace, or this folder.",
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(metavar="URI", envvar=TRACKING, help="MLflow address; default: mlflow.db in the workspace."),
]
By = Annotated[str, typer.Option(help="Your name; recorded.")]


def promote(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    by: By,
    verdict: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The verdict.json of `twinloop gate`.")
    ] = None,
    stage: Annotated[
        str,
        typer.Option(help="shadow: runs but does not act; canary: acts in a fraction of episodes; full."),
    ] = "full",
    fraction: Annotated[float, typer.Option(help="canary: fraction of the episodes in which it acts.")] = 0.1,
    override: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Promote without a favourable verdict; recorded with your name."),
    ] = None,
    latency_ms: Annotated[
        float | None, typer.Option(help="Delay at which the policy was gated; default: its own.")
    ] = None,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Promote a policy to shadow, canary or champion. Needs a verdict that promotes it over the current champion.

    The verdict is recomputed from the evidence next to it, and both are copied into the registry.
    """
    from twinloop.cli.policy import load_late

    loaded = load_late(policy, latency_ms)
    registry = open_registry(workspace, tracking, new=True)
    entry = registry.promote(loaded, verdict, by=by, stage=stage, fraction=fraction, override=override)  # type: ignore[arg-type]
    _print_entry(entry, json)


def rollback(
    by: By,
    reason: Annotated[str, typer.Option(help="Reason; recorded.")],
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Make the previous champion the champion again. The rollback is recorded too."""
    _print_entry(open_registry(workspace, tracking).roll_back(by=by, reason=reason), json)


@app.command("ls")
def list_versions(workspace: Root = None, tracking: Tracking = None, json: Json = False) -> None:
    """List registered policies with their verdicts and current aliases."""
    from dataclasses import asdict

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
    from dataclasses import asdict

    entries = open_registry(workspace, tracking).entries()
    if json:
        console.print_json([asdict(entry) for entry in entries])
        return
    console.print_table(
        ("number", "at", "by", "action"), [(e.number, e.at, e.by, _sentence(e)) for e in entries]
    )


@app.command()
def verify(
    head: Annotated[
        str | None,
        typer.Option(metavar="NUMBER:HASH", help="A head stored earlier; the record must still contain it."),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", help="If the record is intact, restore versions and aliases in MLflow from it."
        ),
    ] = False,
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Verify that record, aliases, policies, verdicts and evidence were not edited, deleted, reordered or truncated.

    Prints the head of the record. Store it elsewhere and pass it with --head: then even a complete rewrite of the
    registry is detected.
    """
    found = open_registry(workspace, tracking).verify(head, restore)
    if json:
        console.print_json({"intact": True, "entries": found.number, "head": str(found)})
    else:
        console.out.print(
            f"intact: {console.count(found.number, 'entry').replace('entrys', 'entries')}\nhead {found}"
        )


@app.command()
def release(
    source: Annotated[
        Path,
        typer.Argument(metavar="DATASET", help="Deployed episodes; at stage shadow, the .shadow.jsonl file."),
    ],
    stage: Annotated[str, typer.Option(help="shadow, canary or full.")],
    min_success_rate: Annotated[
        float | None, typer.Option(help="Success rate to exceed; default: that of the stage.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="On stop: withdraw or roll back; recorded. Needs --by.")
    ] = False,
    by: Annotated[str, typer.Option(help="Your name; recorded.")] = "",
    workspace: Root = None,
    tracking: Tracking = None,
    json: Json = False,
) -> None:
    """Judge the policy at a stage of release: advance, stop, or go on. Valid after every episode; exits with 1 on stop."""
    from dataclasses import replace

    from twinloop.datasets.reader import open_dataset
    from twinloop.errors import UnknownName
    from twinloop.promotion.registry import ALIAS_OF
    from twinloop.promotion.release import RULES, judge_stage, load_shadow, read_outcomes

    if stage not in RULES:
        raise UnknownName("stage", stage, RULES)
    rule = (
        RULES[stage] if min_success_rate is None else replace(RULES[stage], min_success_rate=min_success_rate)
    )
    registry = open_registry(workspace, tracking)
    held = registry.policy(ALIAS_OF[stage])
    good = load_shadow(source, held.id) if stage == "shadow" else read_outcomes(open_dataset(source), held.id)
    found = judge_stage(stage, good, rule)
    entry = None
    if found.step == "stop" and apply:
        entry = registry.withdraw(stage, by=by, reason=found.reason)
    if json:
        console.print_json(found.as_json() | {"policy": held.name, "entry": entry.number if entry else None})
    else:
        console.out.print(f"{held.name}, {stage}: {found.step}; {found.reason}", markup=False)
        if entry is not None:
            _print_entry(entry, json)
        elif found.step == "stop":
            console.out.print(f"next: twinloop registry release {source} --stage {stage} --apply --by NAME")
        elif found.step == "advance":
            following = {"shadow": "canary", "canary": "full"}[stage]
            console.out.print(
                f"next: twinloop promote {held.name} --stage {following} --verdict FILE --by NAME"
            )
    if found.step == "stop":
        raise typer.Exit(1)


def open_registry(
    workspace: Path | None = None, tracking: str | None = None, new: bool = False
) -> PolicyRegistry:
    """Open the registry; unless `new`, it must exist."""
    from twinloop.learning.tracking import DATABASE
    from twinloop.promotion.chain import FOLDER, RECORD
    from twinloop.promotion.registry import PolicyRegistry

    here = workspace_here()
    root = workspace or (here.root if here else Path())
    if not root.is_dir():
        raise WrongUse(f"{root} is not a folder", remedy="--workspace FOLDER")
    missing = WrongUse(
        f"there is no registry in {root.resolve()}",
        expected=f"{FOLDER}/{RECORD}",
        remedy="--workspace FOLDER, or twinloop promote, which creates one",
    )
    if not new and not any((root / name).exists() for name in (f"{FOLDER}/{RECORD}", DATABASE)):
        raise missing
    registry = PolicyRegistry(root, None if tracking == "off" else tracking)
    if not new and not registry.entries():
        raise missing
    return registry


def _print_entry(entry: Entry, json: bool) -> None:
    from dataclasses import asdict

    if json:
        console.print_json(asdict(entry))
    else:
        console.out.print(f"{_sentence(entry)} (entry {entry.number}, {entry.hash[:16]})", markup=False)


def _sentence(entry: Entry) -> str:
    details: Any = entry.details
    if entry.action == "register":
        return f"registered {details['policy']} ({details['policy_id']}) as version {details['version']}"
    if entry.action == "promote":
        basis = (
            f"override: {details['override']}"
            if details.get("override")
            else f"verdict {details['verdict'][:12]}"
        )
        stage = f"{details['stage']} {details['fraction']:.0%}" if details["fraction"] else details["stage"]
        return f"promoted version {details['version']} to {stage}, {basis}"
    if entry.action == "rollback":
        return f"rolled back from version {details['from']} to {details['version']}: {details['reason']}"
    return f"{entry.action} version {details['version']} from {details['stage']}: {details['reason']}"
