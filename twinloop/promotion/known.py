"""What this user has seen of a registry, kept in the user's folder, where nobody who can only write the workspace reaches it.

A registry is known by the hash of its first entry, which all later ones build on, and by the folders it was seen in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.errors import WrongUse
from twinloop.promotion.chain import EMPTY, Head, parse_head
from twinloop.promotion.keys import CONFIG, config_folder, make_config_folder

_FOLDER = "registries"


@dataclass(frozen=True)
class Known:
    """What is known of a registry.

    Attributes:
        registry: Hash of its first entry.
        folders: Workspaces it was seen in.
        head: The last head that this user wrote or verified.
        pending: Hash of an entry that this user has begun to write; it may be in the record or not.
        signed: Whether its entries have been signed; then unsigned ones are refused.
        anchor: Address of the anchor that also stores the head.
    """

    registry: str
    folders: tuple[str, ...] = ()
    head: Head = EMPTY
    pending: str | None = None
    signed: bool = False
    anchor: str | None = None


def find_known(root: Path) -> Known | None:
    """What this user knows of the registry that was last seen in this folder."""
    here = str(root.resolve())
    found = [known for known in _load_all() if here in known.folders]
    return max(found, key=lambda known: known.head.number, default=None)


def load_known(registry: str) -> Known:
    """What this user knows of the registry whose first entry has this hash."""
    return next((known for known in _load_all() if known.registry == registry), Known(registry))


def save_known(root: Path, known: Known) -> None:
    """Store durably what is known of a registry, which is the one in this folder from now on."""
    here = str(root.resolve())
    with disk_errors(config_folder()):
        for other in _load_all():
            if here in other.folders and other.registry != known.registry:
                _write(replace(other, folders=tuple(f for f in other.folders if f != here)))
        _write(replace(known, folders=tuple(dict.fromkeys((*known.folders, here)))))


def forget_folder(root: Path) -> None:
    """Expect no registry in a folder any more, because it is made anew; the registries that were there stay known."""
    here = str(root.resolve())
    for known in _load_all():
        if here in known.folders:
            with disk_errors(config_folder()):
                _write(replace(known, folders=tuple(f for f in known.folders if f != here)))


def _write(known: Known) -> None:
    content = asdict(known) | {"head": str(known.head)}
    file = make_config_folder(_FOLDER) / f"{known.registry[:32]}.json"
    write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())


def _load_all() -> Iterator[Known]:
    for file in sorted((config_folder() / _FOLDER).glob("*.json")):
        try:
            content: dict[str, Any] = json.loads(file.read_text())
            folders, head = tuple(content["folders"]), parse_head(content["head"])
            yield Known(**{**content, "folders": folders, "head": head})
        except FileNotFoundError:
            continue  # another process has just replaced it
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WrongUse(
                f"{file} cannot be read ({error})", remedy=f"restore it from a backup, or name another folder with {CONFIG}"
            ) from error  # fmt: skip
