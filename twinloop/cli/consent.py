"""`twinloop data consent ...`: record, list, check and withdraw consent."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import DatasetFolder, Json, WorkspaceFolder, split_names
from twinloop.cli.places import require_workspace
from twinloop.errors import WrongUse

if TYPE_CHECKING:
    from twinloop.consent.people import PersonConsent
    from twinloop.consent.records import Consent
    from twinloop.consent.withdraw import Tombstone, WithdrawalPlan

app = typer.Typer(
    help="Record who consented to which use of their data, check it, and remove a person's episodes.",
    no_args_is_help=True,
)


@app.command()
def add(
    pseudonym: Annotated[str, Argument(help="Pseudonym of the person, for example operator-07.")],
    scope: Annotated[str, Option(help="Permitted uses: record, train, evaluate, share, publish.")],
    document: Annotated[Path, Option(help="The signed document; only its hash is stored.")],
    given: Annotated[
        str | None, Option(metavar="DATE", help="Date of consent, YYYY-MM-DD; default: today.")
    ] = None,
    until: Annotated[str | None, Option(metavar="DATE", help="Last day of validity.")] = None,
    consent_id: Annotated[
        str | None, Option("--id", help="Id of the consent; default: the next number.")
    ] = None,
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Record a person's consent; episodes refer to it by its id."""
    from twinloop.consent.records import add_consent

    root, uses = require_workspace(workspace).root, split_names(scope)
    dates = {"given": _parse_date(given), "expires": _parse_date(until)}
    consent = add_consent(root, pseudonym, uses, document=document, consent_id=consent_id, **dates)
    text = f"recorded consent {consent.id}: {', '.join(consent.scope)}"
    console.print_result(json, asdict(consent), text)


@app.command("ls")
def list_(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the consents of a workspace, with scope, dates and the hash of the signed document."""
    from twinloop.consent.records import load_consents

    consents = load_consents(require_workspace(workspace).root).values()
    columns = ("id", "person", "scope", "given", "until", "withdrawn", "document")

    def row(c: Consent) -> tuple[Any, ...]:
        dates = (c.given, c.expires, c.withdrawn)
        return c.id, c.pseudonym or "-", ", ".join(c.scope), *dates, c.document[:19]

    console.print_list(json, consents, columns, row, "no consent recorded")


@app.command()
def people(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List whose episodes a workspace holds: consent, permitted uses, whether it covers them today, and how many there are."""
    from twinloop.consent.people import survey_people

    found = survey_people(require_workspace(workspace).root)
    columns = ("person", "consent", "uses", "until", "standing", "episodes", "datasets")

    def row(one: PersonConsent) -> tuple[Any, ...]:
        uses, until = (", ".join(one.scope), one.expires or "-") if one.consent else ("-", "-")
        return (
            one.person or "-",
            one.consent or "none",
            uses,
            until,
            one.standing,
            one.episodes,
            len(one.datasets),
        )

    console.print_list(json, found, columns, row, "no episode involves a person")


@app.command()
def check(
    dataset: DatasetFolder,
    use: Annotated[str, Option(help="Intended use: record, train, evaluate, share or publish.")] = "train",
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """List episodes that may not be used, and why; exits with 1 if there are any."""
    from twinloop.consent.require import check_consent

    opened = twinloop.open_dataset(dataset)
    objections = check_consent(opened, use, require_workspace(workspace).root)
    columns, none = ("episode", "consent", "reason"), f"all {len(opened)} episodes may be used to {use}"
    console.print_list(json, objections, columns, lambda o: (o.episode, o.consent, o.reason), none)
    if objections:
        raise typer.Exit(1)


@app.command()
def withdraw(
    consent: Annotated[str, Argument(metavar="ID", help="The consent's id.")],
    by: Annotated[str, Option(help="Who carries out the withdrawal.")] = "",
    reason: Annotated[str, Option(help="Reason for the withdrawal.")] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="List what would be removed; change nothing.")] = False,
    workspace: WorkspaceFolder = Path(),
    json: Json = False,
) -> None:
    """Remove a person's episodes from every dataset of the workspace, and the pages, images, videos and tables that show them.

    Says first what it removes, then searches the workspace for copies of frames and rows; exits with 1 if it finds any, and is
    run again when they are deleted. Lists artefacts outside the workspace and policies trained on the episodes.
    """
    from twinloop.consent.withdraw import plan_withdrawal, withdraw_consent

    root = require_workspace(workspace).root
    if dry_run:
        plan = plan_withdrawal(root, consent)
        console.print_result(json, asdict(plan), lambda: _print_plan(plan, "would be"))
        return
    with console.progress_bar("removing") as progress:
        withdrawal = withdraw_consent(
            root,
            consent,
            by=by,
            reason=reason,
            on_plan=None if json else lambda plan: _print_plan(plan, "will be"),
            on_progress=progress,
        )
    if json:
        console.print_json(asdict(withdrawal) | {"complete": withdrawal.is_complete})
    else:
        _print_withdrawal(withdrawal)
    if not withdrawal.is_complete:
        raise typer.Exit(1)


def _print_plan(plan: WithdrawalPlan, verb: str) -> None:
    """What is removed, line by line."""
    for removal in plan.removals:
        console.out.print(
            f"{console.count(len(removal.episode_ids), 'episode')} {verb} removed from {removal.dataset}"
        )
    console.print_lines(f"{link}, a hard link to removed data, {verb} deleted" for link in plan.links)
    console.print_lines(
        f"{artefact}, which shows removed episodes, {verb} deleted" for artefact in plan.artefacts
    )
    console.print_lines(
        f"{path} is outside the workspace and stays: delete it by hand" for path in plan.outside
    )
    console.print_lines(
        f"policy {policy.name} stays: {policy.detail}; {policy.path}" for policy in plan.policies
    )
    if not (plan.removals or plan.links or plan.artefacts or plan.outside):
        console.out.print(f"nothing {verb} removed")


def _print_withdrawal(withdrawal: Tombstone) -> None:
    console.out.print(
        f"consent {withdrawal.consent} is withdrawn; {console.count(len(withdrawal.episode_ids), 'episode')} and "
        f"{console.count(len(withdrawal.artefacts), 'artefact')} removed"
    )
    for policy in withdrawal.policies:
        doubt = "" if policy.certain else " (uncertain)"
        console.out.print(f"policy {policy.name}{doubt}: {policy.detail}")
    for found in withdrawal.found:
        console.out.print(f"{'delete' if found.certain else 'check'} {found.path}: {found.what}")
    named = {found.path for found in withdrawal.found}
    for path in withdrawal.mentions:
        if path not in named:
            console.out.print(f"check {path}: it still mentions one of the episodes")
    again = "searched the workspace: no copy of their frames or rows is left"
    if not withdrawal.is_complete:
        again = f"copies are left: delete them, then run `twinloop data consent withdraw {withdrawal.consent}` again"
    console.out.print(again)


def _parse_date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise WrongUse("cannot read the date", got=text, expected="YYYY-MM-DD") from error
