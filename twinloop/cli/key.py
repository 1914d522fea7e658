"""`twinloop key`: the keys that sign the registry's record, and those whose signatures count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twinloop.cli import console
from twinloop.cli.options import Json
from twinloop.errors import UnknownName

if TYPE_CHECKING:
    from twinloop.promotion.keys import PublicKey

app = typer.Typer(help="Make and list signing keys, and choose whose signatures count.", no_args_is_help=True)

KeyName = Annotated[
    str, Argument(metavar="NAME", help="Name of the person or machine, for example ann or lab-pc.")
]
PublicFile = Annotated[Path, Argument(metavar="FILE", help="A public key, as `twinloop key show` prints it.")]
PublicOut = Annotated[Path | None, Option(metavar="FILE", help="Write it into this file too.")]
OtherName = Annotated[
    str | None, Option(metavar="NAME", help="Name of its owner; default: the one in the file.")
]


@app.command()
def new(name: KeyName, json: Json = False) -> None:
    """Make a key pair. From then on you sign what you change in registries, and refuse what no trusted key has signed."""
    from twinloop.promotion.keys import config_folder, make_key

    key = make_key(name)
    text = f"made key {key.name}, {key.fingerprint}, in {config_folder()}; others trust it with this line:\n{key.line}"
    console.print_result(json, _describe(key), text)


@app.command("ls")
def list_keys(json: Json = False) -> None:
    """List your own keys and the ones you trust."""
    from twinloop.promotion.keys import list_keys

    keys = list_keys()
    if json:
        console.print_json([_describe(key) for key in keys])
        return
    if not keys:
        console.out.print("none; registries are unsigned until you make one: twinloop key new NAME")
        return
    rows = [(key.name, key.own, key.trusted, key.fingerprint) for key in keys]
    console.print_table(("key", "yours", "trusted", "fingerprint"), rows)


@app.command()
def show(name: KeyName, out: PublicOut = None, json: Json = False) -> None:
    """Print a public key, for others to trust."""
    from twinloop.datasets.commit import write_atomically
    from twinloop.promotion.keys import list_keys

    keys = {key.name: key for key in list_keys()}
    if name not in keys:
        raise UnknownName("key", name, keys, remedy="twinloop key new NAME")
    if out is not None:
        write_atomically(out, f"{keys[name].line}\n".encode())
    console.print_result(json, _describe(keys[name]), keys[name].line)


@app.command()
def trust(file: PublicFile, name: OtherName = None, json: Json = False) -> None:
    """Trust a public key: entries that it has signed count, in every registry. Compare the fingerprint with its owner first."""
    from twinloop.promotion.keys import read_public_key, trust_key

    key = trust_key(read_public_key(file, name))
    console.print_result(json, _describe(key), f"trusted {key.name}, {key.fingerprint}")


@app.command()
def distrust(name: KeyName, json: Json = False) -> None:
    """Trust a public key no longer. What it has signed must then be accepted: twinloop registry accept."""
    from twinloop.promotion.keys import distrust_key

    distrust_key(name)
    console.print_result(json, {"name": name, "trusted": False}, f"{name} is no longer trusted")


def _describe(key: PublicKey) -> dict[str, Any]:
    return {"name": key.name, "fingerprint": key.fingerprint, "trusted": key.trusted, "public": key.line}
