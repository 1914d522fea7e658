"""The manifest of a dataset: its files with checksums, its id and its history."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinloop.datasets.layout import MANIFEST, escapes
from twinloop.errors import DamagedDataset, NewerFormat
from twinloop.version import __version__

FORMAT = 1


@dataclass(frozen=True)
class FileEntry:
    """Size and checksum of one file, as it was committed."""

    bytes: int
    blake2b: str


@dataclass(frozen=True)
class HistoryStep:
    """One step of a dataset's history: recorded, merged, split ... from the datasets in `sources`."""

    operation: str
    at: str
    sources: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Manifest:
    """The content of `meta/twinloop/manifest.json`.

    `next_data` and `next_video` are the numbers of the next data and video files.
    """

    dataset_id: str
    next_data: int = 0
    next_video: int = 0
    episodes: int = 0
    frames: int = 0
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    history: tuple[HistoryStep, ...] = ()
    written_by: str = __version__
    format: int = FORMAT

    @property
    def fingerprint(self) -> str:
        """A hash of all files: the dataset version that policies record."""
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(self.files):
            digest.update(f"{name} {self.files[name].blake2b}\n".encode())
        return digest.hexdigest()

    def to_bytes(self) -> bytes:
        """Return indented JSON with its own checksum, since an error here would make intact files look damaged."""
        content = asdict(self)
        return (json.dumps(content | {"checksum": _checksum(content)}, indent=1) + "\n").encode()


def new_manifest(operation: str, sources: tuple[str, ...] = (), detail: str = "") -> Manifest:
    """Return the manifest of a new dataset."""
    return Manifest(dataset_id=uuid.uuid4().hex, history=(make_step(operation, sources, detail),))


def make_step(operation: str, sources: tuple[str, ...] = (), detail: str = "") -> HistoryStep:
    """Return a step of history, dated now."""
    return HistoryStep(operation, datetime.now(UTC).isoformat(timespec="seconds"), sources, detail)


def load_manifest(root: Path) -> Manifest | None:
    """Load the manifest; None if the dataset was not written by Twinloop."""
    path = root / MANIFEST
    try:
        if not path.exists():
            return None
        content = path.read_bytes()
    except OSError as error:
        raise DamagedDataset(
            f"{path} cannot be read ({error})", remedy="run `twinloop data verify --repair`"
        ) from error
    return parse_manifest(content, str(root))


def parse_manifest(text: bytes, place: str) -> Manifest:
    """Read a manifest from its bytes; `place` is where its dataset is, for errors."""
    path = f"{place}/{MANIFEST}"
    try:
        content: dict[str, Any] = json.loads(text)
        if content["format"] > FORMAT:
            raise NewerFormat(
                f"{place} was written by Twinloop {content.get('written_by', '?')}",
                got=f"format {content['format']}",
                expected=f"format {FORMAT} or older",
                remedy="pip install --upgrade twinloop",
            )
        if content.pop("checksum", None) not in (None, _checksum(content)):
            raise ValueError("wrong checksum of the manifest itself")
        files = {name: FileEntry(**entry) for name, entry in content.pop("files").items()}
        history = tuple(HistoryStep(**{**s, "sources": tuple(s["sources"])}) for s in content.pop("history"))
        manifest = Manifest(files=files, history=history, **content)
        _check_types(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedDataset(
            f"{path} cannot be read ({error})", remedy="run `twinloop data verify --repair`"
        ) from error
    for name in manifest.files:
        if escapes(name):
            raise DamagedDataset(f"{path} lists a file outside the dataset", got=name)
    return manifest


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def _check_types(manifest: Manifest) -> None:
    for name in ("next_data", "next_video", "episodes", "frames"):
        value = getattr(manifest, name)
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} is {value!r}")
    if not isinstance(manifest.dataset_id, str) or not manifest.dataset_id:
        raise ValueError(f"dataset_id is {manifest.dataset_id!r}")
    for name, entry in manifest.files.items():
        if not isinstance(entry.bytes, int) or not isinstance(entry.blake2b, str):
            raise ValueError(f"the entry of {name} is {entry}")


def with_files(manifest: Manifest, files: Mapping[str, FileEntry], **changes: Any) -> Manifest:
    """Return a copy that also lists these files."""
    return replace(manifest, files={**manifest.files, **files}, **changes)


def file_entry(path: Path) -> FileEntry:
    """Compute size and checksum of a file, read in blocks."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return FileEntry(path.stat().st_size, digest.hexdigest())
