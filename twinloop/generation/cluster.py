"""Simulate chunks as tasks of a Ray cluster. Parts are returned as bytes, so nodes need no common disk.

Ray retries a task when its worker or node dies. Ray controls access: set RAY_AUTH_MODE=token and one
RAY_AUTH_TOKEN on all nodes, because a cluster listens on every interface.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.errors import GenerationError, MissingExtra, TwinloopError
from twinloop.generation.chunks import describe_chunk
from twinloop.generation.part import Tick, Work, part_folder, write_part
from twinloop.generation.record import this_build

RETRIES = 3
"""How often Ray may retry a chunk whose worker or node died."""

WAIT_S = 5.0
"""The cluster may grow or shrink: its size is read again at least this often."""


def run_on_ray(
    work: Work, chunks: Mapping[int, range], parts: Path, *, address: str
) -> Generator[Tick, None, None]:
    """Simulate every chunk on the cluster at `address`; "auto" is the one this machine belongs to."""
    with _connected(address) as ray:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(make_part_bytes)
        shared, build = ray.put(work), this_build()
        waiting = deque(chunks)
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                room = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
                while waiting and len(running) < room:
                    chunk = waiting.popleft()
                    running[task.remote(shared, chunk, chunks[chunk], build)] = chunk
                finished, _ = ray.wait(list(running), timeout=WAIT_S)
                for reference in finished:
                    chunk = running.pop(reference)
                    successes, files = _result(ray, reference, chunks[chunk])
                    _unpack(files, part_folder(parts, chunk))
                    yield Tick(chunk, len(chunks[chunk]), successes, finished=True)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def make_part_bytes(
    work: Work, chunk: int, numbers: range, build: Mapping[str, str]
) -> tuple[int, dict[str, bytes]]:
    """Simulate one chunk on the node this runs on; returns its number of successes and the part's files."""
    here = this_build()
    if here != build:
        wrong = next(name for name in sorted(build) if here.get(name) != build[name])
        raise GenerationError(
            f"a node of the cluster has another {wrong}", got=here.get(wrong), expected=build[wrong]
        )
    successes = 0
    with tempfile.TemporaryDirectory(prefix="twinloop-part-") as folder:
        for tick in write_part(work, chunk, numbers, Path(folder), threads=1):
            successes = tick.successes
        part = part_folder(Path(folder), chunk)
        files = {str(p.relative_to(part)): p.read_bytes() for p in sorted(part.rglob("*")) if p.is_file()}
    return successes, files


@contextmanager
def _connected(address: str) -> Generator[Any, None, None]:
    """Ray, connected to the cluster; an existing connection is used and left open."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise GenerationError(
            f"no Ray cluster answers at {address!r}",
            got=str(error).splitlines()[0],
            remedy="start one with `ray start --head`, and set the same RAY_AUTH_TOKEN here as there",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _result(ray: Any, reference: Any, numbers: range) -> tuple[int, dict[str, bytes]]:
    try:
        successes, files = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        what = cause.what if isinstance(cause, TwinloopError) else repr(cause)
        raise GenerationError(
            f"{describe_chunk(numbers)} could not be simulated: {what}",
            remedy=cause.remedy if isinstance(cause, TwinloopError) else None,
        ) from error
    except ray.exceptions.RayError as error:
        raise GenerationError(
            f"{describe_chunk(numbers)} could not be simulated on the cluster in {RETRIES + 1} attempts",
            got=str(error).splitlines()[0],
            remedy="look at the cluster, then continue with --resume",
        ) from error
    return int(successes), files


def _unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the part's files; it appears under its name only when it is complete."""
    temporary = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    for name, content in files.items():
        path = temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    temporary.rename(folder)
