"""A router for each room of the studio."""

from __future__ import annotations

from fastapi import APIRouter

from twinloop.studio.api import (
    coverage,
    data,
    episodes,
    gap,
    gate,
    identify,
    jobs,
    monitor,
    operate,
    overview,
    people,
    plan,
    policies,
    twins,
)

ROUTERS: tuple[APIRouter, ...] = (
    overview.router,
    data.router,
    episodes.router,
    twins.router,
    identify.router,
    gap.router,
    coverage.router,
    plan.router,
    policies.router,
    gate.router,
    monitor.router,
    people.router,
    jobs.router,
    operate.router,
)
"""Every room, in the order of the OpenAPI document."""
