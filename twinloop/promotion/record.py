"""The record of a registry: what it says is believed only as far as signatures and heads stored elsewhere vouch for it.

Two rules decide whether an entry counts. Somebody who trusts keys believes entries that a trusted key has signed, and what
was before an entry `accept` that a trusted key has signed. Without keys, a user believes what they have written or accepted
themselves, and what was there when they first saw the registry. Both notice when entries that were seen before are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twinloop.errors import GateError, TamperedRecord, TwinloopError, WrongUse
from twinloop.promotion.anchor import read_anchor, require_outside, write_anchor
from twinloop.promotion.chain import (
    EMPTY,
    FOLDER,
    RECORD,
    Entry,
    append_entry,
    head_of,
    locked,
    make_entry,
    read_chain,
    require_head,
    set_aside_torn_line,
)
from twinloop.promotion.keys import (
    CONFIG,
    PublicKey,
    SigningKey,
    config_folder,
    find_signing_key,
    trusted_keys,
)
from twinloop.promotion.known import Known, find_known, load_known, save_known
from twinloop.promotion.state import replay_state

UNSIGNED = "UNSIGNED: whoever can write this folder can forge promotions; to sign them: twinloop key new NAME"
"""What commands say loudly where no trusted key vouches for the record."""


@dataclass(frozen=True)
class Signatures:
    """Who vouches for a record.

    Attributes:
        required: Whether this user trusts keys, so that unsigned entries are refused.
        signed: Number of entries that trusted keys have signed.
        accepted: Number of other entries, for which a signed `accept` vouches.
        unsigned: Number of entries for which no trusted key vouches.
        keys: Names of the keys, by which this user trusts them.
    """

    required: bool
    signed: int
    accepted: int
    unsigned: int
    keys: tuple[str, ...]


class RegistryRecord:
    """The record in a workspace, together with what this user knows of it."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.file = self.root / FOLDER / RECORD
        if config_folder().resolve().is_relative_to(self.root.resolve()):
            raise WrongUse(
                f"{config_folder()}, where keys are, is inside the workspace: whoever can write it could sign",
                remedy=f"make the workspace a folder of its own, or name another folder for keys with {CONFIG}",
            )

    def read(self, *, ask_anchor: bool = False) -> list[Entry]:
        """Every entry, oldest first; raises `TamperedRecord` unless all of them count and none is missing.

        Args:
            ask_anchor: Compare with the anchor too, which may be on another machine.
        """
        entries = read_chain(self.file)
        here = find_known(self.root)
        for known in (here, load_known(entries[0].hash) if entries else None):
            if known is not None:
                require_head(self.file, entries, known.head, accept_remedy(entries), "seen by this user")
        if entries:
            known = load_known(entries[0].hash)
            check_signatures(self.file, entries, known)
            replay_state(entries)
            if ask_anchor and known.anchor is not None:
                self._ask_anchor(known, known.anchor, entries)
        return entries

    def signatures(self, entries: list[Entry]) -> Signatures:
        """Who vouches for these entries, which have been read."""
        keys = trusted_keys()
        vouched = _accepted_up_to(entries, keys)
        signed = [entry for entry in entries if entry.key in keys]
        others = [entry.number for entry in entries if entry.key not in keys]
        accepted = sum(number <= vouched for number in others)
        names = tuple(sorted({keys[entry.key].name for entry in signed if entry.key is not None}))
        return Signatures(bool(keys), len(signed), accepted, len(others) - accepted, names)

    def anchor(self) -> str | None:
        """The address of the anchor that this user has chosen."""
        entries = read_chain(self.file)
        return load_known(entries[0].hash).anchor if entries else None

    @contextmanager
    def writing(self) -> Iterator[list[Entry]]:
        """The entries, while nobody else can add any."""
        with locked(self.file):
            yield self.read(ask_anchor=True)

    def append(
        self, entries: list[Entry], action: str, by: str, details: Mapping[str, Any], intent: str
    ) -> Entry:
        """Append an entry, durable on return; within `writing`."""
        entry = make_entry(entries, action, by, details, intent, find_key(by))
        # Noted first: if this process is killed before the next line, the entry is known to be its own.
        known = load_known([*entries, entry][0].hash)
        save_known(self.root, replace(known, head=head_of(entries), pending=entry.hash))
        append_entry(self.file, entry)
        entries.append(entry)
        return entry

    def confirm(self, entries: list[Entry]) -> None:
        """Note the head of entries that were written or verified, for this user and at the anchor."""
        if not entries:
            return
        known = load_known(entries[0].hash)
        signed = known.signed or bool(trusted_keys())
        noted = replace(known, head=head_of(entries), pending=None, signed=signed)
        if noted != known or str(self.root.resolve()) not in known.folders:
            save_known(self.root, noted)
        if known.anchor is not None:
            write_anchor(known.anchor, known.registry, noted.head)

    def is_confirmed(self, entries: list[Entry]) -> bool:
        """Whether this user has noted the head of these entries."""
        return not entries or load_known(entries[0].hash).head == head_of(entries)

    def accept(self, head: str, by: str, details: Mapping[str, Any], intent: str) -> list[Entry]:
        """Vouch for the record as it is, whatever was seen of it before; within the lock of `file`.

        Args:
            head: The head of what was examined; refused if the record is another one by now.
            by: Name of the person.
            details: Details of the entry, if one is written, which takes a key.
            intent: Intent of the command.

        Returns:
            The entries.
        """
        entries = read_chain(self.file)
        replay_state(entries)
        _require_valid_signatures(self.file, entries, trusted_keys())
        if str(head_of(entries)) != head.strip():
            raise GateError(
                "the record is not the one that was examined", got=head[:90], expected=head_of(entries),
                remedy="twinloop registry log shows what it is now",
            )  # fmt: skip
        here = find_known(self.root)
        if not entries:  # everything was lost
            if here is not None:
                save_known(self.root, replace(here, head=EMPTY, pending=None, signed=False))
            return entries
        known = load_known(entries[0].hash)
        seen = max(known, here or known, key=lambda one: one.head.number).head
        save_known(self.root, replace(known, head=head_of(entries), pending=None, signed=False))
        if find_key(by) is not None:
            lost = None if seen.is_in(entries) else str(seen)
            aliases = replay_state(entries).aliases
            self.append(entries, "accept", by, {**details, "lost": lost, "aliases": aliases}, intent)
        return entries

    def repair(self) -> Path | None:
        """Set aside an unfinished last line, which a killed writer or a full disk may have left; returns the file it is in."""
        with locked(self.file):
            aside = set_aside_torn_line(self.file)
            self.read()
        return aside

    def set_anchor(self, address: str | None) -> str | None:
        """Store the head at this address too, from now on, or nowhere else; returns the address as it is kept."""
        with locked(self.file):
            entries = self.read()
            if not entries:
                raise GateError("there is no record to anchor yet", remedy="twinloop promote, then try again")
            known = load_known(entries[0].hash)
            if address is not None:
                address = require_outside(address, self.root)
                self._require_stored(known, address, entries)
                write_anchor(address, known.registry, head_of(entries))
            save_known(self.root, replace(known, anchor=address))
            self.confirm(entries)
        return address

    def _ask_anchor(self, known: Known, address: str, entries: list[Entry]) -> None:
        if not self._require_stored(known, address, entries) and known.head.number:
            raise TamperedRecord(
                f"the anchor {address} no longer has a head of this registry",
                remedy=f"restore it, or store the head again: twinloop registry anchor {address}",
            )

    def _require_stored(self, known: Known, address: str, entries: list[Entry]) -> bool:
        """Require that the record contains the head that an anchor has stored; returns whether it has one."""
        stored = read_anchor(address, known.registry)
        if stored is not None:
            require_head(self.file, entries, stored, accept_remedy(entries), f"stored at {address}")
        return stored is not None


def read_aliases(root: Path) -> dict[str, str]:
    """Which policies a workspace's record names champion, challenger and shadow, or what is wrong with it.

    The key `warning` is there where no trusted key vouches for the record.
    """
    try:
        record = RegistryRecord(root)
        entries = record.read()
        unsigned = record.signatures(entries).unsigned
    except TwinloopError as error:
        return {"problem": error.what}
    names = {e.details["version"]: e.details["policy"] for e in entries if e.action == "register"}
    held = replay_state(entries).aliases
    found = {alias: f"{names[version]} (version {version})" for alias, version in held.items() if version}
    return found | ({"warning": UNSIGNED} if unsigned else {})


def check_signatures(file: Path, entries: list[Entry], known: Known) -> None:
    """Require that every entry counts; see the rules above."""
    keys = trusted_keys()
    _require_valid_signatures(file, entries, keys)
    if keys:
        for entry in entries[_accepted_up_to(entries, keys) :]:
            if entry.key not in keys:
                how = (
                    f"was signed by a key that you do not trust ({entry.key})"
                    if entry.key
                    else "is not signed"
                )
                raise TamperedRecord(f"{file}: entry {entry.number}, {entry.action} by {entry.by[:40]}, {how}", remedy=accept_remedy(entries, entry))  # fmt: skip
    elif known.signed:
        raise TamperedRecord(
            f"{file} was signed when it was last seen, and you trust no keys any more",
            remedy=f"twinloop key trust FILE, or correct {CONFIG}",
        )
    elif known.head.number or known.pending:
        for entry in entries[known.head.number :]:
            if entry.hash != known.pending:
                raise TamperedRecord(
                    f"{file}: entry {entry.number}, {entry.action} by {entry.by[:40]}, is not yours, and no key that you trust has signed it",
                    remedy=accept_remedy(entries, entry),
                )  # fmt: skip


def accept_remedy(entries: list[Entry], entry: Entry | None = None) -> str:
    """What to do about a record that differs from what was seen, or about an entry that nobody vouches for."""
    command = f"twinloop registry accept --head {head_of(entries)} --by NAME --reason TEXT"
    if entry is not None:
        trust = "trust its key (twinloop key trust FILE); " if entry.key else ""
        return f"{trust}delete the line if it is forged; if it is right: {command}"
    return f"restore it from a backup; if it is right as it is: {command}"


def find_key(by: str) -> SigningKey | None:
    """The key to sign with; None if this user has no keys and trusts none."""
    key, keys = find_signing_key(by), trusted_keys()
    if keys and key is None:
        raise WrongUse("you trust keys, but have none to sign with", remedy="twinloop key new NAME")
    if key is not None and keys and key.fingerprint not in keys:
        raise WrongUse(
            f"your key {key.name} is not trusted, so what it signs would not count",
            remedy=f"twinloop key show {key.name} --out FILE, then twinloop key trust FILE",
        )
    return key


def _require_valid_signatures(file: Path, entries: list[Entry], keys: Mapping[str, PublicKey]) -> None:
    for entry in entries:
        key = keys.get(entry.key or "")
        if key is not None and not key.signed(entry.hash, entry.signature or ""):
            raise TamperedRecord(
                f"{file}: entry {entry.number} claims to be signed by {key.name}, but was not",
                remedy="delete the line if it is the last one; else restore the record from a backup",
            )


def _accepted_up_to(entries: list[Entry], keys: Mapping[str, PublicKey]) -> int:
    """The number of the last entry with which a trusted key vouches for all before it, or 0."""
    return max((e.number for e in entries if e.action == "accept" and e.key in keys), default=0)
