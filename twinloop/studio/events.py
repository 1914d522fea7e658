"""What changes in the workspace, as server-sent events: one watcher for all browsers, which then ask for what they show."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

EVERY_S = 0.5
"""How often the workspace is looked at while somebody listens."""
QUIET_S = 15.0
"""Seconds after which a comment keeps a quiet connection open."""
DEPTH = 3
"""Folders below the workspace that are looked at."""
MOST_FOLDERS = 2000
MOST_WAITING = 100
"""Events that a slow browser may be behind before older ones are dropped."""
JOBS = "jobs"
JOB_FILES = ("job.json", "progress.jsonl", "log.txt")

router = APIRouter(prefix="/api/events", tags=["events"])

Event = dict[str, str]
State = dict[str, int]


class Watcher:
    """Looks at the workspace while somebody listens, and tells every listener what changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listeners: set[asyncio.Queue[Event]] = set()
        self._task: asyncio.Task[None] | None = None

    async def listen(self) -> AsyncIterator[Event | None]:
        """Events as they happen; None where nothing happened for a while."""
        queue: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), QUIET_S)
                except TimeoutError:
                    yield None
        finally:
            self._listeners.discard(queue)

    async def _watch(self) -> None:
        before = await asyncio.to_thread(read_state, self._root)
        while self._listeners:
            await asyncio.sleep(EVERY_S)
            now = await asyncio.to_thread(read_state, self._root)
            for event in changes(before, now):
                self._tell(event)
            before = now

    def _tell(self, event: Event) -> None:
        for queue in self._listeners:
            if queue.full():
                with suppress(asyncio.QueueEmpty):
                    queue.get_nowait()
            queue.put_nowait(event)


def read_state(root: Path) -> State:
    """When each folder near the top of the workspace, and each job, last changed; in ns since 1970."""
    state: State = {}
    for folder in _folders(root, DEPTH):
        if len(state) >= MOST_FOLDERS:
            break
        names = JOB_FILES if folder.parent.name == JOBS else ()
        for path in (folder, *(folder / name for name in names)):
            with suppress(OSError):
                state[str(path.relative_to(root))] = path.stat().st_mtime_ns
    return state


def changes(before: State, now: State) -> list[Event]:
    """One event for each part of the workspace that differs: a job by its id, anything else by its folder at the top."""
    places = {place for place in before.keys() | now.keys() if before.get(place) != now.get(place)}
    jobs = {place.split("/")[1] for place in places if place.startswith(f"{JOBS}/")}
    parts = {place.split("/")[0] for place in places if not place.startswith(JOBS)}
    found: list[Event] = [{"type": "job", "id": name} for name in sorted(jobs)]
    return found + [{"type": "workspace", "part": part} for part in sorted(parts)]


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    """The folder and those below it; hidden ones and links are left out."""
    yield folder
    if depth:
        with suppress(OSError), os.scandir(folder) as entries:
            names = [
                e.name for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")
            ]
            for name in sorted(names):
                yield from _folders(folder / name, depth - 1)


@router.get("", operation_id="watch_events")
async def events(request: Request) -> StreamingResponse:
    """Changes of jobs (`{"type": "job", "id"}`) and of the workspace (`{"type": "workspace", "part"}`) as they happen."""
    watcher: Watcher = request.app.state.watcher

    async def stream() -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        async for event in watcher.listen():
            yield ": still here\n\n" if event is None else f"data: {json.dumps(event)}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
