"""Operate: the page of whoever stands beside the robot of `twinloop operate`: what comes next, the live camera, and the stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from twinloop.studio.errors import Refused
from twinloop.supervision.desk import Desk, RobotState
from twinloop.supervision.trial import FINDINGS, SEVERITIES, Action, ActionKind, TrialState
from twinloop.supervision.view import as_jpeg, as_png

LOOK_S = 0.5
"""The longest time between two messages to a page, with what the robot does."""
NOTHING = TrialState()

router = APIRouter(prefix="/api/operate", tags=["operate"])
CameraName = Annotated[str, Path(max_length=100)]


class Operation(BaseModel):
    """What the page shows: the person's trial, the robot, and where things go, in m."""

    trial: TrialState
    robot: RobotState | None
    places: dict[str, tuple[float, float]]
    severities: tuple[str, ...] = SEVERITIES
    findings: tuple[str, ...] = FINDINGS


class Press(BaseModel):
    """What the person did."""

    kind: ActionKind
    failure: str | None = None
    phase: str | None = None
    severity: str | None = None
    note: str | None = None


class Motion(BaseModel):
    """Which keys are held: fractions of full speed along x, y, z and about the vertical, and whether the gripper is closed."""

    motion: list[Annotated[float, Field(ge=-1.0, le=1.0)]] = Field(min_length=4, max_length=4)
    closed: bool = False


def _desk(request: Request) -> Desk:
    desk: Desk | None = request.app.state.desk
    if desk is None:
        raise Refused(
            404,
            "this studio has no robot",
            remedy="twinloop operate --robot ADDRESS serves this page beside a robot",
        )
    return desk


def _operation(desk: Desk) -> Operation:
    trial = desk.person.state if desk.person is not None else NOTHING
    return Operation(trial=trial, robot=desk.robot_state(), places=desk.places())


@router.get("", operation_id="read_operation")
def read_operation(request: Request) -> Operation:
    """What the page shows now."""
    return _operation(_desk(request))


@router.get("/events", operation_id="operation_events")
async def operation_events(request: Request) -> StreamingResponse:
    """The same whenever it changes, and twice a second."""
    desk = _desk(request)

    def wait(changed: int) -> Operation:
        if desk.person is not None:
            desk.person.wait_for_change(changed, LOOK_S)
        return _operation(desk)

    async def stream() -> AsyncIterator[str]:
        yield "retry: 500\n\n"
        now = await asyncio.to_thread(_operation, desk)
        while True:
            yield f"data: {now.model_dump_json()}\n\n"
            if desk.person is None:
                await asyncio.sleep(LOOK_S)
            now = await asyncio.to_thread(wait, now.trial.changed)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@router.post("/press", operation_id="press")
def press(request: Request, what: Press) -> Operation:
    """A button or key of the person; a stop holds the robot before this answers."""
    desk = _desk(request)
    desk.press(Action(what.kind, what.failure, what.phase, what.severity, what.note))
    trial = desk.person.state if desk.person is not None else NOTHING
    return Operation(trial=trial, robot=None, places={})


@router.post("/drive", operation_id="drive", status_code=204)
def drive(request: Request, held: Motion) -> None:
    """The keys that drive the robot; to be repeated at least three times a second."""
    _desk(request).drive(held.motion, held.closed)


@router.get("/camera/{camera}", operation_id="read_camera", response_class=Response)
def read_camera(request: Request, camera: CameraName) -> Response:
    """The live image of a camera, JPEG."""
    return Response(
        as_jpeg(_desk(request).look(camera)), media_type="image/jpeg", headers={"cache-control": "no-store"}
    )


@router.get("/ghost/{camera}", operation_id="read_ghost", response_class=Response)
def read_ghost(request: Request, camera: CameraName) -> Response:
    """What the twin's camera sees of the wanted scene, PNG."""
    return Response(
        as_png(_desk(request).ghost(camera)), media_type="image/png", headers={"cache-control": "no-store"}
    )
