"""Who may ask for what: the outermost part of the studio, before anything of a request is believed.

A request passes these checks in this order: its Host is a name of this server (a page elsewhere whose name was pointed at this
machine is refused), it comes from no other site's page, it shows the token, it changes nothing where the studio is read-only,
it carries the header that no foreign form can send, and its body is small and arrives in time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import socket
import sys
import time
from collections import OrderedDict, deque
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinloop.studio.errors import Refused, answer, unexpected
from twinloop.studio.settings import StudioSettings

COOKIE = "twinloop_studio"
HEADER = "x-twinloop"
"""Sent with every change: a foreign page cannot add it without being asked first, and is then refused."""
SAFE = ("GET", "HEAD", "OPTIONS")
WRONG_TOKENS, WINDOW_S, MOST_CLIENTS = 30, 60.0, 1000
"""Wrong tokens of a client in the window after which its tokens are no longer compared for the rest of it; cookies still work."""
PUBLIC = ("/favicon.ico",)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""What a page of the studio may load: only what this server serves, no inline script and no inline style."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), usb=()",
}

log = logging.getLogger("twinloop.studio")


class Security:
    """ASGI middleware with every check; `app` sees only requests that passed."""

    def __init__(self, app: ASGIApp, settings: StudioSettings) -> None:
        self.app, self.settings = app, settings
        self._guesses = _Guesses()
        self._cookie = _cookie_of(settings.token)
        self._names = {"localhost", socket.gethostname().lower(), *(n.lower() for n in settings.names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, then hand it on or answer it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        guarded = _Guarded(receive, send, self.settings)
        try:
            redirect = self._check(scope)
            await (redirect or self.app)(scope, guarded.receive, guarded.send)
            if guarded.refusal is not None:
                await guarded.refuse(scope, guarded.refusal)
        except Refused as error:
            await guarded.refuse(scope, error)
        except (TimeoutError, ConnectionError):
            log.info("a client was too slow or has gone")
        except Exception as error:  # nobody sees a traceback; the server goes on
            if "--debug" in sys.argv:
                raise
            log.error("%s %s: unexpected %s: %s", scope["method"], scope["path"], type(error).__name__, error)
            await guarded.refuse(scope, unexpected(error))

    def _check(self, scope: Scope) -> RedirectResponse | None:
        """Raise `Refused` for what is not allowed; the answer to a first visit is a redirect that sets the cookie."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        self._require_own_name(headers)
        self._require_own_page(headers, method, path)
        if path not in PUBLIC and (redirect := self._require_token(scope, headers)) is not None:
            return redirect
        if method not in SAFE:
            if self.settings.read_only:
                remedy = "start `twinloop studio` without --read-only"
                raise Refused(403, "this studio is read-only", got=f"{method} {path}", remedy=remedy)
            if headers.get(HEADER) != "1":
                raise Refused(
                    403, "a change needs the header X-Twinloop", got=method, expected="X-Twinloop: 1"
                )
        self._require_small(headers)
        return None

    def _require_own_name(self, headers: Headers) -> None:
        """Refuse names that are not this server's: only an address, or a name that was allowed, reaches it on purpose."""
        given = headers.getlist("host")
        host = _name_in(given[0]) if len(given) == 1 else None
        if host is None or not (_is_address(host) or host in self._names):
            remedy = "open the address that `twinloop studio` printed, or start it with --name NAME"
            got = ", ".join(given)[:80] or "no Host"
            raise Refused(421, "this server has no such name", got=got, remedy=remedy)

    def _require_own_page(self, headers: Headers, method: str, path: str) -> None:
        """Refuse what another site's page asks for; the address itself may be typed, or opened from a link."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        foreign = origin is not None and origin.partition("//")[2].lower() != headers["host"].lower()
        opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate" and not _is_api(path)
        if foreign or (site not in ("same-origin", "none") and not opened):
            raise Refused(403, "another site's page may not ask the studio", got=origin or site)

    def _require_token(self, scope: Scope, headers: Headers) -> RedirectResponse | None:
        words = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_address = [value for name, value in words if name == "token" and scope["method"] == "GET"]
        others = [pair for pair in words if pair[0] != "token"]
        if hmac.compare_digest(_read_cookie(headers, cookie_name(headers)).encode(), self._cookie.encode()):
            return self._welcome(scope, others) if in_address else None
        client = scope["client"][0] if scope.get("client") else ""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_right(bearer.strip(), client):
            return None
        if in_address and self._is_right(in_address[0], client):
            return self._welcome(scope, others)
        remedy = "open the address that `twinloop studio` printed; it carries the token"
        raise Refused(401, "the studio needs its token", remedy=remedy)

    def _is_right(self, token: str, client: str) -> bool:
        """Whether this is the token: in constant time, and not at all for whoever sent too many wrong ones."""
        self._guesses.require_few(client)
        right = hmac.compare_digest(token.encode(), self.settings.token.encode())
        if not right:
            self._guesses.count(client)
        return right

    def _welcome(self, scope: Scope, words: list[tuple[str, str]]) -> RedirectResponse:
        """Give a cookie that no script reads, and take the token out of the address."""
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/\\")
        response = RedirectResponse(path + (f"?{urlencode(words)}" if words else ""), 303)
        name = cookie_name(Headers(scope=scope))
        response.set_cookie(name, self._cookie, httponly=True, samesite="strict")
        return response

    def _require_small(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.settings.largest_body:
            raise _too_large(length, self.settings.largest_body)


class _Guesses:
    """Wrong tokens by client in the last minute, of the clients that sent one last."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, client: str) -> None:
        """One more wrong token."""
        self._wrong.setdefault(client, deque(maxlen=WRONG_TOKENS)).append(time.monotonic())
        self._wrong.move_to_end(client)
        if len(self._wrong) > MOST_CLIENTS:
            self._wrong.popitem(last=False)

    def require_few(self, client: str) -> None:
        """Refuse a client that has sent too many."""
        wrong = self._wrong.get(client)
        if wrong is not None and len(wrong) == WRONG_TOKENS and time.monotonic() - wrong[0] < WINDOW_S:
            raise Refused(429, "too many wrong tokens", remedy=f"wait {WINDOW_S:.0f} s")


class _Guarded:
    """Both directions of one request: bodies that stay small, clients that keep up, headers on every answer."""

    def __init__(self, receive: Receive, send: Send, settings: StudioSettings) -> None:
        self._receive, self._send, self._settings = receive, send, settings
        self._size, self._complete, self._answered = 0, False, False
        self._deadline: float | None = None
        self.refusal: Refused | None = None
        self._refusing = False

    async def receive(self) -> Message:
        """The next part of the body; waits without a limit only for the client to go away."""
        if self._complete:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._settings.slowest_s
        try:
            message = await asyncio.wait_for(self._receive(), self._deadline - now)
        except TimeoutError as error:
            raise self._refuse(Refused(408, "the request did not arrive in time")) from error
        self._size += len(message.get("body", b""))
        if self._size > self._settings.largest_body:
            raise self._refuse(_too_large(str(self._size), self._settings.largest_body))
        self._complete = not message.get("more_body", False)
        return message

    def _refuse(self, error: Refused) -> Refused:
        """Keep the refusal: what reads a body may make another error of it."""
        self.refusal = error
        return error

    async def send(self, message: Message) -> None:
        """One part of the answer; a client that does not take it in time is left."""
        if self.refusal is not None and not self._refusing:
            return
        if message["type"] == "http.response.start":
            self._answered = True
            headers = MutableHeaders(scope=message)
            own = headers.get("content-security-policy")  # a report's page brings one with hashes
            for name, value in HEADERS.items():
                headers[name] = value
            if own is not None:
                headers["content-security-policy"] = f"{own}; frame-ancestors 'none'"
            headers.setdefault("cache-control", "no-store")
        await asyncio.wait_for(self._send(message), self._settings.slowest_s)

    async def refuse(self, scope: Scope, error: Refused) -> None:
        """Answer with an error, unless an answer has begun; the connection is closed with the rest of the body unread."""
        if self._answered:
            return
        self._refusing = True
        headers = {} if self._complete else {"connection": "close"}
        if scope["path"].startswith("/api/") or scope["method"] not in SAFE:
            await answer(error, headers)(scope, self.receive, self.send)
            return
        from twinloop.studio.pages import refused_page

        await refused_page(error, headers)(scope, self.receive, self.send)


def _too_large(got: str, largest: int) -> Refused:
    return Refused(413, "the request is too large", got=f"{got[:20]} bytes", expected=f"at most {largest}")


def _cookie_of(token: str) -> str:
    """What a browser keeps in place of the token: the same after a restart with the same token, which does not follow from it."""
    return hashlib.scrypt(token.encode(), salt=b"twinloop studio cookie", n=2**14, r=8, p=1, dklen=32).hex()


def cookie_name(headers: Headers) -> str:
    """The name of the cookie: cookies are shared by all ports of a host, so it names the port."""
    return f"{COOKIE}_{urlsplit('//' + headers['host']).port or 80}"


def _is_api(path: str) -> bool:
    return path.startswith("/api/")


def _name_in(host: str) -> str | None:
    """The name in a Host header; None where it is more than a name and perhaps a port, which another parser might read otherwise."""
    if not host or set(host) & set("/\\@?# \t,%"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _read_cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
