"""`StudioClient`: the library over HTTP, for scripts: every operation of a running studio as a method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from twinloop.errors import TwinloopError, WrongUse
from twinloop.studio.operations import Operations

TIMEOUT_S = 60.0
_adapter = cache(TypeAdapter)


class StudioError(TwinloopError):
    """What a studio refused or could not do; `status` is its HTTP status, `kind` the name of its error."""

    def __init__(self, status: int, kind: str, what: str, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.status, self.kind = status, kind


class StudioClient(Operations):
    """A running studio; use it as a context, or close it."""

    def __init__(self, address: str, token: str | None = None) -> None:
        """Prepare to ask a studio.

        Args:
            address: What `twinloop studio` printed; its token may be part of it.
            token: The token, if it is not.

        Raises:
            WrongUse: If there is no token.
        """
        parts = urlsplit(address)
        given = token or (parse_qs(parts.query).get("token") or [""])[0]
        if not given or not parts.netloc:
            raise WrongUse(
                "a studio needs its address and its token", expected="what `twinloop studio` printed"
            )
        headers = {"authorization": f"Bearer {given}", "x-twinloop": "1"}
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        self._client = httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT_S)

    def __enter__(self) -> StudioClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def watch_events(self) -> Iterator[dict[str, str]]:
        """Changes as they happen: `{"type": "job", "id"}` and `{"type": "workspace", "part"}`; ends with the studio.

        Yields:
            One event after the other.

        Raises:
            StudioError: If the studio refuses.
            TwinloopError: If it cannot be reached.
        """
        try:
            with self._client.stream(
                "GET", "/api/events", timeout=httpx.Timeout(TIMEOUT_S, read=None)
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refused(answer)
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line.removeprefix("data: "))
        except httpx.HTTPError as error:
            raise _unreachable(self._client, error) from error

    def _send(
        self, method: str, path: str, kind: Any, words: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        asked = {name: value for name, value in (words or {}).items() if value is not None}
        sent = None if body is None else {n: v for n, v in to_jsonable_python(body).items() if v is not None}
        try:
            answer = self._client.request(method, path, params=to_jsonable_python(asked), json=sent)
        except httpx.HTTPError as error:
            raise _unreachable(self._client, error) from error
        if answer.is_error or answer.is_redirect:
            raise _refused(answer)
        return answer.content if kind is bytes else _adapter(kind).validate_json(answer.content)


def _unreachable(client: httpx.Client, error: httpx.HTTPError) -> TwinloopError:
    return TwinloopError(
        f"the studio at {client.base_url} does not answer",
        got=str(error) or type(error).__name__,
        remedy="start it: twinloop studio WORKSPACE",
    )


def _refused(answer: httpx.Response) -> StudioError:
    """The studio's error as one of ours."""
    try:
        found = answer.json()["error"]
        parts = {name: found.get(name) for name in ("got", "expected", "available", "remedy")}
        return StudioError(answer.status_code, str(found["kind"]), str(found["what"]), **parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        what = f"the studio answered with status {answer.status_code}"
        return StudioError(answer.status_code, "StudioError", what, got=answer.text[:200])
