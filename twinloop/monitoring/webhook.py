"""Post JSON to a webhook: to the hosts that were named, at checked addresses, within one deadline.

Every address a name resolves to is checked, and the checked address itself is connected to, so that a second answer of
the name server cannot lead elsewhere. Proxies are not used, and of the reply only the head is read.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from twinloop.errors import WrongUse

TIMEOUT_S = 10.0
"""Longest time for one delivery: name resolution, connections, redirects and replies together."""
MAX_REDIRECTS = 3
MAX_HEAD_BYTES = 1 << 16
_KEEP_METHOD = (307, 308)
"""Redirects after which a POST stays a POST; the others would turn it into a GET, which delivers nothing."""


@dataclass(frozen=True)
class Webhook:
    """An address to post to. Hosts in `allowed` may be redirected to, and may have addresses that are not public."""

    url: str
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _split(self.url)
        object.__setattr__(self, "allowed", tuple(host.strip("[]").lower() for host in self.allowed))


class _Refused(OSError):
    """This may not be connected to."""


def post(webhook: Webhook, values: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> str | None:
    """Post values as JSON.

    Args:
        webhook: Where to.
        values: JSON values.
        timeout_s: Longest time for everything.

    Returns:
        Why they were not delivered, or None.
    """
    end_s, url, body = time.monotonic() + timeout_s, webhook.url, json.dumps(values).encode()
    try:
        for _ in range(MAX_REDIRECTS + 1):
            status, location = _post_once(_split(url), body, webhook.allowed, end_s)
            if status < 300:
                return None
            if status not in _KEEP_METHOD or not location:
                return f"the webhook answered {status}"
            url = _follow(webhook, url, location)
        return f"the webhook redirects more than {MAX_REDIRECTS} times"
    except _Refused as error:
        return str(error)
    except (http.client.HTTPException, OSError, ValueError, WrongUse) as error:
        return f"the webhook cannot be reached ({error})"


def _follow(webhook: Webhook, url: str, location: str) -> str:
    """The address a redirect leads to, if it may be followed."""
    before, after = _split(url), _split(urljoin(url, location))
    if after.hostname not in (_split(webhook.url).hostname, *webhook.allowed):
        raise _Refused(
            f"the webhook redirects to another host, {after.hostname}; if that is right: --webhook-allow {after.hostname}"
        )
    if before.scheme == "https" and after.scheme == "http":
        raise _Refused(f"the webhook redirects from https to {after.geturl()}, where all could read along")
    return after.geturl()


def _split(url: str) -> SplitResult:
    """The parts of an http or https address."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character <= " " or character == "\x7f" for character in url):
        raise WrongUse("not the address of a webhook", got=url, expected="http://... or https://...")
    if parts.username or parts.password:
        raise WrongUse("a webhook's address holds no user or password", expected="https://HOST/PATH")
    return parts


def _post_once(
    parts: SplitResult, body: bytes, allowed: tuple[str, ...], end_s: float
) -> tuple[int, str | None]:
    """Post to one address; returns the status and where it redirects to."""
    assert parts.hostname is not None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with _connect(parts.hostname, port, allowed, end_s, secure=parts.scheme == "https") as connected:
        request = http.client.HTTPConnection(parts.hostname, parts.port)
        request.sock = connected
        connected.settimeout(_left_s(end_s))  # for all that is sent
        request.request("POST", target, body, {"Content-Type": "application/json", "Connection": "close"})
        response = http.client.HTTPResponse(_Received(_read_head(connected, end_s)))  # type: ignore[arg-type]
        response.begin()
        return response.status, response.getheader("Location")


def _connect(host: str, port: int, allowed: tuple[str, ...], end_s: float, *, secure: bool) -> socket.socket:
    """Connect to the first address of a host that answers; all are checked first."""
    addresses = _resolve(host, port, end_s)
    if host not in allowed:
        for address in addresses:
            _require_public(host, address)
    failure: OSError = OSError(f"{host} has no address")
    for address in addresses:
        connected = None
        try:
            connected = socket.create_connection((address, port), _left_s(end_s))
            if not secure:
                return connected
            connected.settimeout(_left_s(end_s))  # for the whole handshake
            return ssl.create_default_context().wrap_socket(connected, server_hostname=host)
        except OSError as error:
            failure = error
            if connected is not None:
                connected.close()
    raise failure


def _resolve(host: str, port: int, end_s: float) -> list[str]:
    """Every address of a host; a name server that does not answer is left behind in its thread."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_left_s(end_s))
    if not found:
        raise TimeoutError(f"no address of {host} in time")
    if isinstance(found[0], Exception):
        raise OSError(f"{host}: {found[0]}")
    return list(dict.fromkeys(str(address[0]) for *_, address in found[0]))


def _require_public(host: str, address: str) -> None:
    """Refuse this machine, local networks, link-local addresses (clouds keep credentials there) and reserved ones."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None) or found
    if not found.is_global or found.is_multicast or found.is_reserved:
        shown = address if address == host else f"{host} is {address}, which"
        raise _Refused(f"{shown} is not a public address; if it is your own: --webhook-allow {host}")


def _read_head(connected: socket.socket, end_s: float) -> bytes:
    """The head of a reply, of bounded size and by the deadline; what follows is not read."""
    head = bytearray()
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        if len(head) > MAX_HEAD_BYTES:
            raise OSError(f"the head of its reply is longer than {MAX_HEAD_BYTES} bytes")
        connected.settimeout(_left_s(end_s))
        piece = connected.recv(4096)
        if not piece:
            break
        head += piece
    return bytes(head)


def _left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0.0:
        raise TimeoutError("no reply in time")
    return left_s


class _Received:
    """Bytes that were received, where `http.client` expects a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> BytesIO:
        """A file of the bytes."""
        return BytesIO(self._data)
