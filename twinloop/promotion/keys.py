"""Signing keys: who vouches for an entry of the registry's record. Ed25519 (RFC 8032), kept outside every workspace.

The user's folder holds `keys/NAME.pem`, private keys that only their owner can read, and `trusted/NAME.pub`, the public
keys whose signatures count, one OpenSSH line each. Whoever can write a workspace can change neither.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop.datasets.commit import disk_errors, write_atomically
from twinloop.durable import sync
from twinloop.errors import MissingExtra, UnknownName, WrongUse

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

CONFIG = "TWINLOOP_CONFIG"
"""Environment variable with the user's folder; default: twinloop in XDG_CONFIG_HOME, or in ~/.config."""
KEY = "TWINLOOP_KEY"
"""Environment variable with the name of the key to sign with."""
MAX_KEY_BYTES = 10_000
_PRIVATE, _TRUSTED = "keys", "trusted"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_PURPOSE = b"twinloop registry entry\n"
"""Signed with every hash, so that a signature made for something else never counts."""


@dataclass(frozen=True)
class PublicKey:
    """A public key, 32 bytes, under the name that its owner or its user gave it; `own` if this user can sign with it."""

    name: str
    raw: bytes
    trusted: bool = True
    own: bool = False

    @property
    def fingerprint(self) -> str:
        """The first 128 bits of the key's SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:32]

    @property
    def line(self) -> str:
        """The key as OpenSSH writes it."""
        parts = (b"ssh-ed25519", self.raw)
        blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return f"ssh-ed25519 {base64.b64encode(blob).decode()} {self.name}"

    def signed(self, text: str, signature: str) -> bool:
        """Whether a signature of a text was made with this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            _public(self.raw).verify(base64.b64decode(signature, validate=True), _PURPOSE + text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key of this user."""

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        self.name = name
        self._private = private

    @property
    def public(self) -> PublicKey:
        """Its public key."""
        return PublicKey(self.name, self._private.public_key().public_bytes_raw())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its public key."""
        return self.public.fingerprint

    def sign(self, text: str) -> str:
        """The signature of a text, in base64."""
        return base64.b64encode(self._private.sign(_PURPOSE + text.encode())).decode()


def config_folder() -> Path:
    """The user's folder, which need not exist."""
    if named := os.environ.get(CONFIG):
        return Path(named).absolute()
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".config") / "twinloop"
    except RuntimeError as error:
        raise WrongUse("this user has no home folder", remedy=f"name a folder with {CONFIG}") from error


def make_key(name: str) -> PublicKey:
    """Make a key pair and trust its public key; the private one never leaves this user's folder."""
    private_file = _private_file(_require_name(name))
    if private_file.exists():
        raise WrongUse(f"there is a key {name!r} already", expected="another name", remedy="twinloop key ls")
    if (_folder(_TRUSTED) / f"{name}.pub").exists():
        raise WrongUse(f"another key is trusted as {name!r}", remedy="twinloop key ls; choose another name")
    ed25519, serialization = _library()
    private = ed25519.Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = SigningKey(name, private).public
    with disk_errors(config_folder()):
        _write_once(private_file, pem)
    trust_key(public)
    return public


def read_public_key(file: Path, name: str | None = None) -> PublicKey:
    """Read a public key from a file with one OpenSSH line; `name` replaces the one in the file."""
    try:
        with file.open("rb") as opened:
            words = opened.read(MAX_KEY_BYTES).decode().split()
        blob = base64.b64decode(words[1], validate=True)
        if words[0] != "ssh-ed25519" or len(blob) != 51 or not blob.startswith(_SSH_PREFIX):
            raise ValueError("it is of another kind")
        raw = blob[len(_SSH_PREFIX) :]
        _public(raw)
    except (OSError, ValueError, IndexError) as error:
        raise WrongUse(
            f"{file} is not a public key", expected="one line: ssh-ed25519 BASE64 NAME", remedy="twinloop key show NAME prints one"
        ) from error  # fmt: skip
    return PublicKey(_require_name(name or (words[2] if len(words) > 2 else "")), raw)


def trust_key(key: PublicKey) -> PublicKey:
    """Trust the signatures of a public key; a name stands for one key only."""
    for known in trusted_keys().values():
        if known.fingerprint == key.fingerprint and known.name != key.name:
            raise WrongUse(f"this key is trusted already, as {known.name!r}", got=key.name)
        if known.name == key.name and known.fingerprint != key.fingerprint:
            raise WrongUse(
                f"another key is trusted as {key.name!r}",
                remedy=f"--name OTHER, or first: twinloop key distrust {key.name}",
            )
    with disk_errors(config_folder()):
        write_atomically(make_config_folder(_TRUSTED) / f"{key.name}.pub", f"{key.line}\n".encode())
    return key


def distrust_key(name: str) -> None:
    """Trust the signatures of a key no longer; a private key stays where it is."""
    file = _folder(_TRUSTED) / f"{name}.pub"
    known = [key.name for key in trusted_keys().values()]
    if name not in known:
        raise UnknownName("trusted key", name, known)
    with disk_errors(config_folder()):
        file.unlink()
        sync(file.parent)


def trusted_keys() -> dict[str, PublicKey]:
    """The public keys whose signatures count, by fingerprint."""
    files = sorted(_folder(_TRUSTED).glob("*.pub"))
    return {key.fingerprint: key for key in (read_public_key(file, file.stem) for file in files)}


def list_keys() -> list[PublicKey]:
    """Every key that this user trusts or can sign with, by name."""
    found = {key.name: key for key in trusted_keys().values()}
    for name in _own_names():
        public = load_signing_key(name).public
        trusted = name in found and found[name].fingerprint == public.fingerprint
        found[name] = PublicKey(name, public.raw, trusted, own=True)
    return [found[name] for name in sorted(found)]


def find_signing_key(by: str) -> SigningKey | None:
    """The key to sign with: the one that `TWINLOOP_KEY` names, else that of the same name, else the only one; None without keys.

    Args:
        by: The name that is recorded.

    Returns:
        The key, or None if this user has no private key.

    Raises:
        UnknownName: The named key does not exist.
        WrongUse: There are several keys, and none of them is named.
    """
    names = _own_names()
    if named := os.environ.get(KEY):
        if named not in names:
            raise UnknownName("key", named, names, remedy=f"correct {KEY}, or: twinloop key new {named}")
        return load_signing_key(named)
    if by in names:
        return load_signing_key(by)
    if len(names) > 1:
        raise WrongUse("there are several keys to sign with", available=names, remedy=f"name one with {KEY}")
    return load_signing_key(names[0]) if names else None


def load_signing_key(name: str) -> SigningKey:
    """Read a private key that only its owner can read."""
    file = _private_file(name)
    ed25519, serialization = _library()
    try:
        if file.stat().st_mode & 0o077:
            raise WrongUse(f"{file}: others can read this private key", remedy=f"chmod 600 {file}")
        private = serialization.load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise WrongUse(
            f"{file} cannot be read as a private key", remedy="restore it from a backup"
        ) from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise WrongUse(f"{file} is a key of another kind", expected="Ed25519")
    return SigningKey(name, private)


def _own_names() -> list[str]:
    return sorted(file.stem for file in _folder(_PRIVATE).glob("*.pem"))


def _folder(name: str) -> Path:
    return config_folder() / name


def _private_file(name: str) -> Path:
    return _folder(_PRIVATE) / f"{name}.pem"


def _require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise WrongUse(
            "bad name of a key", got=name, expected="1 to 40 letters, digits, '.', '_' or '-', for example ann or lab-pc-2"
        )  # fmt: skip
    return name


def make_config_folder(name: str) -> Path:
    """Make a folder in the user's folder, where there is none; only this user can enter either."""
    config_folder().parent.mkdir(parents=True, exist_ok=True)
    for folder in (config_folder(), config_folder() / name):
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _write_once(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on, and that did not exist."""
    make_config_folder(file.parent.name)
    partial = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.link(partial, file)
    finally:
        os.close(descriptor)
        partial.unlink(missing_ok=True)
    sync(file.parent)


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:  # pragma: no cover - the tests install it
        raise MissingExtra("signatures", "cryptography", "learn") from error
    return ed25519, serialization


def _public(raw: bytes) -> Ed25519PublicKey:
    key: Ed25519PublicKey = _library()[0].Ed25519PublicKey.from_public_bytes(raw)
    return key


_SSH_PREFIX = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"
