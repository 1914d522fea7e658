"""`twinloop data consent ...`: record, list, check and withdraw consent."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WrongUse

app = typer.Typer(
    help="Record who consented to which use of their data, check it, and remove a person's episodes.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Option("--workspace", help="The workspace, or any folder inside it.")]


@app.command()
def add(
    pseudonym: Annotated[str, typer.Argument(help="Pseudonym of the person, for example operator-07.")],
    scope: Annotated[str, typer.Option(help="Permitted uses: record, train, evaluate, share, publish.")],
    document: Annotated[Path, typer.Option(help="The signed document; only its hash is stored.")],
    given: Annotated[
        str | None, typer.Option(metavar="DATE", help="Date of consent, YYYY-MM-DD; default: today.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Last day of validity.")] = None,
    consent_id: Annotated[
        str | None, typer.Option("--id", help="Id of the consent; default: the next number.")
    ] = None,
    workspace: Folder = Path(),
    json: Json = False,
) -> None:
    """Record a person's consent; episodes refer to it by its id."""
    from twinloop.consent.records import add_consent
    from twinloop.workspace import find_workspace

    uses = [use.strip() for use in scope.split(",") if use.strip()]
    consent = add_consent(
        find_workspace(workspace).root,
        pseudonym,
        uses,
        document=document,
        given=_parse_date(given),
        expires=_parse_date(until),
        consent_id=consent_id,
    )
    if json:
        console.print_json(asdict(consent))
    else:
        console.out.print(f"recorded consent {consent.id}: {', '.join(consent.scope)}")


@app.command("ls")
def list_(workspace: Folder = Path(), json: Json = False) -> None:
    """List the consents of a workspace, with scope, dates and the hash of the signed document."""
    from twinloop.consent.records import load_consents
    from twinloop.workspace import find_workspace

    consents = load_consents(find_workspace(workspace).root).values()
    if json:
        console.print_json([asdict(consent) for consent in consents])
    elif not consents:
        console.out.print("no consent recorded")
    else:
        console.print_table(
            ("id", "person", "scope", "given", "until", "withdrawn", "document"),
            [
                (
                    c.id,
                    c.pseudonym or "-",
                    ", ".join(c.scope),
                    c.given,
                    c.expires,
                    c.withdrawn,
                    c.document[:19],
                )
                for c in consents
            ],
        )


@app.command()
def check(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset's folder.")],
    use: Annotated[
        str, typer.Option(help="Intended use: record, train, evaluate, share or publish.")
    ] = "train",
    workspace: Folder = Path(),
    json: Json = False,
) -> None:
    """List episodes that may not be used, and why; exits with 1 if there are any."""
    from twinloop.consent.require import check_consent
    from twinloop.datasets.reader import open_dataset
    from twinloop.workspace import find_workspace

    opened = open_dataset(dataset)
    objections = check_consent(opened, use, find_workspace(workspace).root)
    if json:
        console.print_json([asdict(objection) for objection in objections])
    elif objections:
        console.print_table(
            ("episode", "consent", "reason"), [(o.episode, o.consent, o.reason) for o in objections]
        )
    else:
        console.out.print(f"all {len(opened)} episodes may be used to {use}")
    if objections:
        raise typer.Exit(1)


@app.command()
def withdraw(
    consent: Annotated[str, typer.Argument(metavar="ID", help="The consent's id.")],
    by: Annotated[str, typer.Option(help="Who carries out the withdrawal.")],
    reason: Annotated[str, typer.Option(help="Reason for the withdrawal.")],
    workspace: Folder = Path(),
    json: Json = False,
) -> None:
    """Remove a person's episodes, rows and video, from every dataset of the workspace; lists policies trained on them."""
    from twinloop.consent.withdraw import withdraw_consent
    from twinloop.workspace import find_workspace

    with console.progress_bar("removing") as progress:
        withdrawal = withdraw_consent(
            find_workspace(workspace).root, consent, by=by, reason=reason, progress=progress
        )
    if json:
        console.print_json(asdict(withdrawal))
        return
    console.out.print(
        f"consent {consent} is withdrawn; {console.count(len(withdrawal.episode_ids), 'episode')} removed"
    )
    for removal in withdrawal.removals:
        console.out.print(f"  {len(removal.episode_ids)} from {removal.dataset}", markup=False)
    for link in withdrawal.links:
        console.out.print(f"  deleted {link}, a hard link to removed data", markup=False)
    for policy in withdrawal.policies:
        doubt = "" if policy.certain else " (uncertain)"
        console.out.print(f"policy {policy.name}{doubt}: {policy.detail}", markup=False)
    for path in withdrawal.mentions:
        console.out.print(f"check {path}: it still mentions one of the episodes", markup=False)


def _parse_date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise WrongUse("cannot read the date", got=text, expected="YYYY-MM-DD") from error
