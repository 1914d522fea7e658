"""A router for each room of the studio."""

from __future__ import annotations

from fastapi import APIRouter

from twinloop.studio.api import data, episodes, jobs, overview

ROUTERS: tuple[APIRouter, ...] = (
    overview.router,
    data.router,
    episodes.router,
    jobs.router,
)
"""Every room, in the order of the OpenAPI document."""
