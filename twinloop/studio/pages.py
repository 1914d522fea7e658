"""The front end as files, and plain pages where there is none or where it is refused."""

from __future__ import annotations

from html import escape
from pathlib import Path

from starlette.responses import FileResponse, HTMLResponse, Response

from twinloop.studio.errors import Refused, status_of

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
HASHED_CACHE = "public, max-age=31536000, immutable"
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
"""What the front end may consist of."""


def find_page(path: str, static: Path = STATIC) -> Response:
    """A file of the front end; every address that is none of its files is a room, which the front end shows.

    Args:
        path: The address without its leading slash.
        static: The folder of the front end.

    Returns:
        The file, the front end's page, or a plain page where the front end was not built.
    """
    files = {str(file.relative_to(static)): file for file in static.rglob("*") if file.suffix in TYPES}
    if path in files:
        file = files[path]
        cache = HASHED_CACHE if path.startswith(("assets/", "chunks/")) else "no-cache"
        return FileResponse(file, media_type=TYPES[file.suffix], headers={"cache-control": cache})
    if INDEX not in files:
        return _plain_page(
            "The studio's pages are not here",
            "This installation has no built front end. The HTTP API works: /api/openapi.json describes it.",
            200,
        )
    if Path(path).suffix in TYPES:
        return _plain_page("Not found", "There is no such file.", 404)
    return FileResponse(files[INDEX], media_type="text/html", headers={"cache-control": "no-cache"})


def refused_page(error: Refused, headers: dict[str, str]) -> Response:
    """A page for somebody whose browser was refused."""
    page = _plain_page(error.what, error.remedy or "", status_of(error))
    page.headers.update(headers)
    return page


def _plain_page(title: str, text: str, status: int) -> HTMLResponse:
    return HTMLResponse(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Twinloop studio</title>"
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p></html>",
        status,
    )
