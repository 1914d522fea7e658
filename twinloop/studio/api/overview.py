"""Overview: where the workspace stands, and what to do next."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from twinloop import overview
from twinloop.overview import Overview
from twinloop.studio.context import CurrentSettings, CurrentWorkspace
from twinloop.version import __version__

router = APIRouter(prefix="/api/overview", tags=["overview"])


class Studio(BaseModel):
    """What this studio is."""

    version: str
    workspace: str
    read_only: bool


@router.get("", operation_id="read_overview")
def read_overview(workspace: CurrentWorkspace) -> Overview:
    """Where the workspace stands, as `twinloop status` says."""
    return overview.read_overview(workspace)


@router.get("/studio", operation_id="read_studio")
def read_studio(workspace: CurrentWorkspace, settings: CurrentSettings) -> Studio:
    """What this studio is: version, workspace, and whether it may change anything."""
    return Studio(version=__version__, workspace=workspace.name, read_only=settings.read_only)
