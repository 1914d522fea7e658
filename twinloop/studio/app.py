"""The studio as an ASGI application: every room, the front end, one shape of errors, behind `Security`."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response

from twinloop.studio import errors, events
from twinloop.studio.api import ROUTERS
from twinloop.studio.errors import ErrorAnswer, Refused
from twinloop.studio.pages import find_page
from twinloop.studio.security import Security
from twinloop.studio.settings import StudioSettings
from twinloop.supervision.desk import Desk
from twinloop.version import __version__
from twinloop.workspace import find_workspace


def make_app(settings: StudioSettings, desk: Desk | None = None) -> FastAPI:
    """Put the studio of a workspace together.

    Args:
        settings: What is served, and to whom.
        desk: The robot that the operator page is about; None: none.

    Returns:
        The application.

    Raises:
        WorkspaceError: If there is no workspace.
    """
    workspace = find_workspace(settings.workspace)
    app = FastAPI(
        title="Twinloop studio",
        version=__version__,
        description="The library in JSON. Changes need the header `X-Twinloop: 1`; everything needs the token.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses={"4XX": {"model": ErrorAnswer, "description": "What was wrong, and what to do."}},
    )
    app.state.settings = settings
    app.state.desk = desk
    app.state.watcher = events.Watcher(workspace.root)
    errors.install(app)
    for router in (*ROUTERS, events.router):
        app.include_router(router)

    @app.get("/{path:path}", include_in_schema=False)
    def front_end(path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise Refused(404, "there is nothing at this address", got=f"/{path}")
        return find_page(path)

    app.add_middleware(Security, settings=settings)
    return app
