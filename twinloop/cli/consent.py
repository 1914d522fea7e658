"""`twinloop data consent ...`: who agreed to what, and taking it back."""

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
    help="Record who agreed to which use of their data, check it, and take a person's episodes out again.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Option("--workspace", help="The workspace, or any folder inside it.")]


@app.command()
def add(
    pseudonym: Annotated[
        str, typer.Argument(help="What the person is called here, for example operator-07.")
    ],
    scope: Annotated[str, typer.Option(help="Uses agreed to: record, train, evaluate, share, publish.")],
    document: Annotated[Path, typer.Option(help="The signed document; only its hash is kept.")],
    given: Annotated[
        str | None, typer.Option(metavar="DATE", help="When, as YYYY-MM-DD; default: today.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="The last day on which it holds.")] = None,
    identity: Annotated[
        str | None, typer.Option("--id", help="The consent's own name; default: the next number.")
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
        given=_day(given),
        expires=_day(until),
        identity=identity,
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

    found = load_consents(find_workspace(workspace).root).values()
    if json:
        console.print_json([asdict(consent) for consent in found])
    elif not found:
        console.out.print("no consent is recorded")
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
                for c in found
            ],
        )


@app.command()
def check(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset's folder.")],
    use: Annotated[str, typer.Option(help="For what: record, train, evaluate, share or publish.")] = "train",
    workspace: Folder = Path(),
    json: Json = False,
) -> None:
    """Say which episodes may not be used, and why. Exits with 1 if there are any."""
    from twinloop.consent.require import check_consent
    from twinloop.datasets.reader import open_dataset
    from twinloop.workspace import find_workspace

    opened = open_dataset(dataset)
    objections = check_consent(opened, use, find_workspace(workspace).root)
    if json:
        console.print_json([asdict(objection) for objection in objections])
    elif objections:
        console.print_table(
            ("episode", "consent", "why not"), [(o.episode, o.consent, o.reason) for o in objections]
        )
    else:
        console.out.print(f"all {len(opened)} episodes may be used to {use}")
    if objections:
        raise typer.Exit(1)


@app.command()
def withdraw(
    consent: Annotated[str, typer.Argument(metavar="ID", help="The consent's id.")],
    by: Annotated[str, typer.Option(help="Who carries it out.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    workspace: Folder = Path(),
    json: Json = False,
) -> None:
    """Take the person's episodes out of every dataset of the workspace, rows and video, and list policies that saw them."""
    from twinloop.consent.withdraw import withdraw_consent
    from twinloop.workspace import find_workspace

    with console.progress_bar("removing") as progress:
        done = withdraw_consent(
            find_workspace(workspace).root, consent, by=by, reason=reason, progress=progress
        )
    if json:
        console.print_json(asdict(done))
        return
    console.out.print(f"consent {consent} is withdrawn; {len(done.episode_ids)} episodes are gone")
    for removal in done.removals:
        console.out.print(f"  {len(removal.episode_ids)} from {removal.dataset}", markup=False)
    for link in done.links:
        console.out.print(f"  deleted {link}, which held the same bytes", markup=False)
    for policy in done.policies:
        doubt = "" if policy.certain else " (uncertain)"
        console.out.print(f"policy {policy.name}{doubt}: {policy.detail}", markup=False)
    for path in done.mentions:
        console.out.print(f"look at {path}: it still names one of the episodes", markup=False)


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise WrongUse("cannot read the date", got=text, expected="YYYY-MM-DD") from error
