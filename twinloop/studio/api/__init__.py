"""A router for each room of the studio."""

from __future__ import annotations

from fastapi import APIRouter

from twinloop.studio.api import (
    coverage,
    data,
    episodes,
    gate,
    jobs,
    monitor,
    overview,
    people,
    plan,
    policies,
)

ROUTERS: tuple[APIRouter, ...] = (
    overview.router,
    data.router,
    episodes.router,
    coverage.router,
    plan.router,
    policies.router,
    gate.router,
    monitor.router,
    people.router,
    jobs.router,
)
"""Every room, in the order of the OpenAPI document."""
