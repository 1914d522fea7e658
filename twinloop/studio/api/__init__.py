"""A router for each room of the studio."""

from __future__ import annotations

from fastapi import APIRouter

from twinloop.studio.api import jobs, overview

ROUTERS: tuple[APIRouter, ...] = (overview.router, jobs.router)
"""Every room, in the order of the OpenAPI document."""
