"""The record stored with generated episodes so that each can be regenerated: the job, the exact twin, the build.

    meta/twinloop/generation/<dataset id>.json    the job, seed, number of episodes and build; its own checksum
    meta/twinloop/twins/<content hash>/            the twin as a folder

The record is written before the first episode. An episode's origin (dataset id and number, kept through merge and
split) leads to its record, and both folders travel with the episodes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from twinloop.datasets.layout import GENERATIONS, TWINS
from twinloop.engines import DEFAULT_ENGINE, ENGINES
from twinloop.errors import GenerationError, TwinloopError
from twinloop.generation.job import Job
from twinloop.randomization import load_randomization
from twinloop.records import SavedRecord, derived, load_record, read_json, save_record
from twinloop.twins import Twin, load_twin, save_twin
from twinloop.version import __version__


@dataclass(frozen=True)
class GenerationRecord(SavedRecord):
    """One run of `generate`, before it starts."""

    COMMAND = "twinloop generate"

    dataset_id: str
    job: Mapping[str, Any]
    seed: int
    episodes: int
    chunk_episodes: int
    build: Mapping[str, str] = field(default_factory=dict)

    @derived
    def content_hash(self) -> str:
        """A 128-bit hash of everything but the dataset's id."""
        words = asdict(self) | {"format": self.FORMAT}
        del words["dataset_id"]
        return hashlib.blake2b(json.dumps(words, sort_keys=True).encode(), digest_size=16).hexdigest()

    def difference(self, other: GenerationRecord) -> str | None:
        """The first difference between `other` and this run as text, or None when they are the same."""
        for name in ("job", "build"):
            mine, theirs = getattr(self, name), getattr(other, name)
            for key in sorted(mine.keys() | theirs.keys()):
                if mine.get(key) != theirs.get(key):
                    return f"{_label(key)}: got {_short(theirs.get(key))}, expected {_short(mine.get(key))}"
        for name in ("seed", "episodes", "chunk_episodes"):
            if getattr(self, name) != getattr(other, name):
                return f"{_label(name)}: got {getattr(other, name)}, expected {getattr(self, name)}"
        return None


def this_build(engine: str = DEFAULT_ENGINE) -> dict[str, str]:
    """Versions that may change the bits of an episode of this engine."""
    own, _ = getattr(ENGINES.get(engine), "needs", None) or ("", "")
    packages = ["mujoco", "numpy", "scipy", *([own] if own else [])]
    libraries = {name: importlib.metadata.version(name) for name in packages}
    machine = f"{platform.system()} {platform.machine()}"
    return {"twinloop": __version__, **libraries, "platform": machine}


def plain_job(job: Job) -> dict[str, Any]:
    """The job as JSON values; the twin by its content hash."""
    return {
        "twin": job.twin.name,
        "twin_version": job.twin.version,
        "twin_hash": job.twin.content_hash,
        "task": job.task,
        "expert": job.expert,
        "randomization": job.randomization.plain() if job.randomization else None,
        "cameras": list(job.cameras),
        "expert_noise": float(job.expert_noise),
        "max_steps": job.max_steps,
        "expert_sees_truth": job.expert_sees_truth,
        **({"engine": job.engine} if job.engine != DEFAULT_ENGINE else {}),
    }


def save_generation(root: Path, record: GenerationRecord, twin: Twin) -> None:
    """Store the run and its exact twin in the dataset at `root`."""
    folder = root / TWINS / twin.content_hash
    if not folder.exists():
        save_twin(twin, folder)
    save_record(record, _path(root, record.dataset_id))


def load_generation(root: Path, dataset_id: str) -> GenerationRecord | None:
    """The run that generated the dataset `dataset_id`, or None if it is not recorded."""
    path = _path(root, dataset_id)
    if not path.is_file():
        return None
    record = load_record(GenerationRecord, path)
    recorded = read_json(path, "a record of generation").get("content_hash")
    if record.content_hash != recorded:
        raise GenerationError(f"{path} was edited", got=record.content_hash, expected=recorded)
    return record


def recorded_job(root: Path, record: GenerationRecord) -> Job:
    """The job as it ran, with the twin stored in the dataset or the same one from the library."""
    words = dict(record.job)
    twin = find_stored_twin(root, words["twin_hash"], words["twin"])
    randomization = words["randomization"]
    return Job(
        twin,
        words["task"],
        words["expert"],
        load_randomization(randomization, twin) if randomization else None,
        tuple(words["cameras"]),
        words["expert_noise"],
        words["max_steps"],
        words.get("expert_sees_truth", False),
        words.get("engine", DEFAULT_ENGINE),
    )


def find_stored_twin(root: Path, content_hash: str, name: str) -> Twin:
    """The twin with this content hash: stored in the dataset, or the registered one if it has not changed."""
    folder = root / TWINS / content_hash
    if folder.is_dir():
        stored = load_twin(folder)
        if stored.content_hash != content_hash:
            raise GenerationError(
                f"{folder} was edited after the episodes were generated",
                got=stored.content_hash,
                expected=content_hash,
            )
        return stored
    try:
        twin = load_twin(name)
    except TwinloopError:
        twin = None
    if twin is None or twin.content_hash != content_hash:
        raise GenerationError(
            f"the twin {name!r} of these episodes is not stored in {root}",
            got=f"{twin.content_hash} in the library" if twin else "none in the library",
            expected=content_hash,
            remedy="name its folder: --twin FOLDER",
        )
    return twin


def _path(root: Path, dataset_id: str) -> Path:
    return root / GENERATIONS / f"{dataset_id}.json"


def _label(key: str) -> str:
    return key.replace("_", " ")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
