"""Simulate chunks as tasks of a Ray cluster. Parts are returned as bytes, so nodes need no common disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

from twinloop.engines import DEFAULT_ENGINE
from twinloop.errors import GenerationError
from twinloop.executors import OnRay
from twinloop.generation.chunks import describe_chunk
from twinloop.generation.part import Tick, Work, part_folder, write_part
from twinloop.generation.record import this_build


def run_on_ray(
    work: Work, chunks: Mapping[int, range], parts: Path, *, address: str
) -> Generator[Tick, None, None]:
    """Simulate every chunk on the cluster at `address`; "auto" is the one this machine belongs to."""
    build = this_build()
    tasks = {chunk: (chunk, numbers, build) for chunk, numbers in chunks.items()}
    results = OnRay(address).map(make_part_bytes, work, tasks, lambda chunk: describe_chunk(chunks[chunk]))
    try:
        for chunk, (successes, files) in results:
            _unpack(files, part_folder(parts, chunk))
            yield Tick(chunk, len(chunks[chunk]), successes, finished=True)
    finally:
        results.close()


def make_part_bytes(
    work: Work, chunk: int, numbers: range, build: Mapping[str, str]
) -> tuple[int, dict[str, bytes]]:
    """Simulate one chunk on the node this runs on; returns its number of successes and the part's files."""
    require_build(build)
    successes = 0
    with tempfile.TemporaryDirectory(prefix="twinloop-part-") as folder:
        for tick in write_part(work, chunk, numbers, Path(folder), threads=1):
            successes = tick.successes
        part = part_folder(Path(folder), chunk)
        files = {str(p.relative_to(part)): p.read_bytes() for p in sorted(part.rglob("*")) if p.is_file()}
    return successes, files


def require_build(build: Mapping[str, str], engine: str = DEFAULT_ENGINE) -> None:
    """Refuse a node whose versions differ from those of the machine that asks: its results would be others."""
    here = this_build(engine)
    if here != build:
        wrong = next(name for name in sorted(build) if here.get(name) != build[name])
        raise GenerationError(
            f"a node of the cluster has another {wrong}", got=here.get(wrong), expected=build[wrong]
        )


def _unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the part's files; it appears under its name only when it is complete."""
    temporary = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    for name, content in files.items():
        path = temporary / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    temporary.rename(folder)
