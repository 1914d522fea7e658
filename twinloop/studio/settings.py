"""What a studio serves, where, and to whom."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from twinloop.errors import WrongUse

TOKEN = "TWINLOOP_STUDIO_TOKEN"
"""Environment variable with the token, for those who do not want it in the list of processes."""
PORT = 8765
SHORTEST_TOKEN = 16
"""Characters of a token that somebody chose; what cannot be guessed over a network."""


@dataclass(frozen=True)
class StudioSettings:
    """What a studio serves, where, and to whom.

    Attributes:
        workspace: The workspace, or any folder inside it.
        token: What a browser or a script has to show.
        host: The address to listen at.
        port: The port to listen at; 0 picks one.
        read_only: Whether everything that would change the workspace is refused.
        names: Host names, besides addresses and this machine's own names, under which browsers may ask.
        slowest_s: Seconds that a client may take to send a request or to accept a part of an answer.
        largest_body: Bytes that a request's body may have.
    """

    workspace: Path
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = PORT
    read_only: bool = False
    names: tuple[str, ...] = ()
    slowest_s: float = 20.0
    largest_body: int = 1 << 20


def make_settings(
    workspace: Path,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    read_only: bool = False,
    names: tuple[str, ...] = (),
) -> StudioSettings:
    """Make settings, refusing those that would let strangers in.

    Args:
        workspace: The workspace, or any folder inside it.
        host: The address to listen at.
        port: The port to listen at; 0 picks one.
        token: The token; on this machine's own addresses one is made where none is given.
        read_only: Whether everything that would change the workspace is refused.
        names: Further host names under which browsers may ask.

    Returns:
        The settings.

    Raises:
        WrongUse: If others could reach the studio without a token, or with one that is soon guessed.
    """
    if token is None and not is_loopback(host):
        raise WrongUse(
            "a studio that other machines can reach needs a token",
            got=f"--host {host}",
            remedy=f"--token TOKEN, or the environment variable {TOKEN}",
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise WrongUse(
            "the token is too short",
            got=f"{len(token)} characters",
            expected=f"{SHORTEST_TOKEN} or more",
            remedy='choose one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    chosen = secrets.token_urlsafe(32) if token is None else token
    return StudioSettings(workspace, chosen, host, port, read_only, names)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
