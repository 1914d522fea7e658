"""Every error of the studio in one shape: what was wrong, what was expected, what there is, and what to do."""

from __future__ import annotations

import errno
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from twinloop import errors
from twinloop.errors import TwinloopError

STATUS: tuple[tuple[type[TwinloopError], int], ...] = (
    (errors.UnknownName, 404),
    (errors.NoDataset, 404),
    (errors.LockedDataset, 409),
    (errors.WorkspaceError, 409),
    (errors.TamperedRecord, 409),
    (errors.GateError, 409),
    (errors.ConsentError, 403),
    (errors.MissingExtra, 501),
    (errors.DiskError, 507),
    (errors.WrongUse, 400),
    (TwinloopError, 422),
)
"""HTTP status of each kind of error; the first that fits."""


NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""What the system says of a path that names no file."""


class ErrorBody(BaseModel):
    """What went wrong: what, got, expected, available, remedy; `kind` is the name of the error's class."""

    what: str
    got: str | None = None
    expected: str | None = None
    available: list[str] | None = None
    remedy: str | None = None
    kind: str


class ErrorAnswer(BaseModel):
    """Every answer with a status of 400 or above."""

    error: ErrorBody


class Refused(TwinloopError):
    """A request that the studio refuses whatever it asks for; `status` is its HTTP status."""

    def __init__(self, status: int, what: str, **parts: Any) -> None:
        super().__init__(what, **parts)
        self.status = status


def status_of(error: TwinloopError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Refused):
        return error.status
    return next(status for kind, status in STATUS if isinstance(error, kind))


def describe(error: TwinloopError) -> dict[str, Any]:
    """An error as JSON values."""
    body = ErrorBody(
        what=error.what,
        got=error.got,
        expected=error.expected,
        available=list(error.available) if error.available is not None else None,
        remedy=error.remedy,
        kind=type(error).__name__,
    )
    return ErrorAnswer(error=body).model_dump()


def answer(error: TwinloopError, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as an HTTP answer."""
    return JSONResponse(describe(error), status_of(error), headers)


def install(app: FastAPI) -> None:
    """Make every error of an application answer in the one shape."""

    @app.exception_handler(TwinloopError)
    def _twinloop(_: Request, error: TwinloopError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    def _request(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return answer(Refused(422, f"the request's {where} cannot be used", got=first["msg"]))

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return answer(Refused(404, "there is nothing at this address", got=request.url.path), None)
        return answer(Refused(error.status_code, str(error.detail), got=request.method))

    @app.exception_handler(OSError)
    def _system(_: Request, error: OSError) -> JSONResponse:
        status = 404 if error.errno in NOT_THERE else 500
        return answer(Refused(status, error.strerror or "a file cannot be used"))


def unexpected(error: Exception) -> Refused:
    """What is told about an error that nobody expected: its type, and that it is ours."""
    remedy = "this is a bug in Twinloop; run `twinloop --debug studio` and report what the terminal shows"
    return Refused(500, f"unexpected {type(error).__name__}", remedy=remedy)
