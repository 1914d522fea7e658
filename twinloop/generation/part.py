"""One chunk of a run as a small dataset, which gets its final name only when it is complete."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from twinloop.datasets.layout import INFO
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Episode, Schema
from twinloop.errors import DatasetError, GenerationError
from twinloop.generation.chunks import describe_chunk
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout


class Rollout(Protocol):
    """The function that simulates; see `twinloop.generation.rollout.rollout`."""

    def __call__(
        self,
        job: Job,
        seed: int,
        numbers: Sequence[int],
        threads: int = 1,
        *,
        stills: Sequence[float] | None = None,
    ) -> Iterator[Episode]:
        """Simulate one episode for each number."""
        ...


@dataclass(frozen=True)
class Work:
    """Everything a worker needs to simulate any episode of a run; `roll` is the function that does."""

    job: Job
    schema: Schema
    seed: int
    roll: Rollout = rollout


@dataclass(frozen=True)
class Tick:
    """Progress of a chunk: episodes simulated, successes among them, and whether its part is complete on disk."""

    chunk: int
    done: int
    successes: int
    finished: bool = False


def part_folder(parts: Path, chunk: int) -> Path:
    """Folder of a chunk's part."""
    return parts / f"part-{chunk:06d}"


def write_part(work: Work, chunk: int, numbers: range, parts: Path, threads: int) -> Iterator[Tick]:
    """Simulate and write one chunk, reporting progress after each episode."""
    folder = part_folder(parts, chunk)
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    done = successes = 0
    try:
        with make_dataset(temporary, work.schema, commit_every_s=math.inf) as writer:
            for episode in work.roll(work.job, work.seed, numbers, threads):
                writer.add(episode)
                done += 1
                successes += episode.success is True
                yield Tick(chunk, done, successes)
        if done != len(numbers):
            raise GenerationError(
                f"{describe_chunk(numbers)}: wrong number of episodes", got=done, expected=len(numbers)
            )
        _put(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    yield Tick(chunk, done, successes, finished=True)


def is_complete(folder: Path, episodes: int) -> bool:
    """Whether a part found on disk holds all of its chunk and none of its files was cut short."""
    try:
        manifest = load_manifest(folder)
    except DatasetError:
        return False
    if manifest is None or manifest.episodes != episodes:
        return False
    sizes = {name: folder / name for name in manifest.files}
    return all(
        path.is_file() and path.stat().st_size == manifest.files[name].bytes for name, path in sizes.items()
    )


def part_bytes(folder: Path) -> int:
    """Bytes that a part will add to the dataset."""
    manifest = load_manifest(folder)
    return sum(entry.bytes for entry in manifest.files.values()) if manifest else 0


def _put(temporary: Path, folder: Path) -> None:
    """Rename the part to its final name; an identical one that another process finished first stays."""
    try:
        temporary.rename(folder)
    except OSError:
        if not (folder / INFO).exists():
            raise
