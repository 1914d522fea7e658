"""A coverage's map on disk: `coverage_map.npz` beside `coverage.json`, so that the map can be looked at and selected from later."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import TypeAdapter, ValidationError

from twinloop.coverage.result import Coverage, CoverageMap
from twinloop.coverage.sample import Points, SampledEpisodes
from twinloop.coverage.variables import Variable
from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import DamagedDataset, WrongUse
from twinloop.records import find_records

FILE = "coverage_map.npz"
FORMAT = 1
MAX_BYTES = 1 << 29
"""The arrays of 2 x 1,000,000 points of 32 variables take half of it."""
COMMAND = "twinloop coverage --out FOLDER"
SIDES: tuple[Literal["real", "sim"], ...] = ("real", "sim")
LEVELS: tuple[Literal["moments", "situations"], ...] = ("moments", "situations")


@dataclass(frozen=True)
class _Side:
    """What the file says in words about one dataset."""

    name: str
    dataset_id: str
    numbers: tuple[int, ...]
    success: tuple[bool | None, ...]
    failure: tuple[str | None, ...]
    conditions: Mapping[str, tuple[str | None, ...]]
    twin: str | None
    moments: tuple[Variable, ...]
    situations: tuple[Variable, ...]


@dataclass(frozen=True)
class _Words:
    """Everything in the file that is not an array."""

    real: _Side
    sim: _Side
    regions: int
    format: int = field(default=FORMAT)


_ADAPTER = TypeAdapter(_Words)


def save_coverage(
    coverage: Coverage, folder: str | Path, datasets: tuple[Dataset, Dataset] | None = None
) -> Path:
    """Write a coverage and its map into a folder.

    Args:
        coverage: What `measure_coverage` found.
        folder: Where to; it is made where it does not exist.
        datasets: Real and simulated, for the ledger of artefacts: the map holds values of their episodes.

    Returns:
        The folder.

    Raises:
        WrongUse: The coverage was loaded without its map.
    """
    if coverage.map is None:
        raise WrongUse("a coverage that was loaded has no map", remedy=f"measure it again: {COMMAND}")
    root = Path(folder)
    register_artefact(root / FILE, "table", datasets or ())
    root.mkdir(parents=True, exist_ok=True)
    write_atomically(root / FILE, _encode(coverage.map))
    coverage.save(root)
    return root


def find_coverages(workspace: str | Path) -> list[Path]:
    """Find the coverages below a folder.

    Args:
        workspace: The workspace, or any folder.

    Returns:
        Their folders, the newest first; one that was written before maps were kept has none.
    """
    return [path.parent for path in find_records(workspace, Coverage.FILE)]


def load_coverage_map(folder: str | Path) -> CoverageMap:
    """Read the map that `save_coverage` wrote.

    Args:
        folder: The folder, or the file `coverage_map.npz` itself.

    Returns:
        Both datasets as points, their places on the map, and which of them lie in which region.

    Raises:
        WrongUse: There is no map.
        DamagedDataset: The file is not what `save_coverage` writes.
    """
    file = Path(folder) if Path(folder).suffix == ".npz" else Path(folder) / FILE
    if not file.is_file():
        raise WrongUse(f"{file} does not exist", expected="a coverage with its map", remedy=COMMAND)
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(one.file_size for one in archive.infolist())
        if size > MAX_BYTES:
            raise DamagedDataset(
                f"{file} is too large for a map", got=f"{size} bytes", expected=f"at most {MAX_BYTES}"
            )
        with np.load(file, allow_pickle=False) as arrays:
            return _decode(dict(arrays))
    except (
        OSError,
        ValueError,
        KeyError,
        IndexError,
        EOFError,
        zipfile.BadZipFile,
        ValidationError,
    ) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DamagedDataset(
            f"{file} is not the map of a coverage ({reason})", remedy=f"write it again: {COMMAND}"
        ) from error


def _encode(points: CoverageMap) -> bytes:
    arrays: dict[str, Array] = {"score": points.score.astype(np.float32)}
    for side, places in (("real", points.real_places), ("sim", points.sim_places)):
        arrays[f"{side}_places"] = places.astype(np.float32)
        sample: SampledEpisodes = getattr(points, side)
        for level in LEVELS:
            named: Points = getattr(sample, level)
            arrays[f"{side}_{level}"] = named.values.astype(np.float64)
            arrays[f"{side}_{level}_episode"] = named.episode.astype(np.uint32)
            arrays[f"{side}_{level}_frame"] = named.frame.astype(np.uint32)
    arrays["inside"] = np.array(points.inside, dtype=bool).reshape(len(points.inside), len(points.score))
    words = _Words(_words_of(points.real), _words_of(points.sim), len(points.inside))
    arrays["words"] = np.frombuffer(json.dumps(asdict(words)).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _words_of(side: SampledEpisodes) -> _Side:
    return _Side(
        side.name, side.dataset_id, side.numbers, side.success, side.failure, side.conditions, side.twin,
        side.moments.variables, side.situations.variables,
    )  # fmt: skip


def _decode(arrays: Mapping[str, Array]) -> CoverageMap:
    """The map in these arrays; raises ValueError or KeyError where they contradict each other."""
    words = _ADAPTER.validate_json(arrays["words"].tobytes())
    if words.format != FORMAT:
        raise ValueError(f"format {words.format}, expected {FORMAT}")
    real, sim = (_sample(getattr(words, side), side, arrays) for side in SIDES)
    count, others = len(real.moments.values), len(sim.moments.values)
    _require(arrays["real_places"], (count, 2), "real_places")
    _require(arrays["sim_places"], (others, 2), "sim_places")
    _require(arrays["score"], (count,), "score")
    _require(arrays["inside"], (words.regions, count), "inside")
    return CoverageMap(
        real,
        sim,
        arrays["real_places"].astype(np.float64),
        arrays["sim_places"].astype(np.float64),
        arrays["score"].astype(np.float64),
        tuple(np.asarray(row, dtype=bool) for row in arrays["inside"]),
    )


def _sample(words: _Side, side: str, arrays: Mapping[str, Array]) -> SampledEpisodes:
    episodes = len(words.numbers)
    for named in (words.success, words.failure, *words.conditions.values()):
        if len(named) != episodes:
            raise ValueError(f"{side}: outcomes or labels of {len(named)} of {episodes} episodes")
    plain: dict[str, Any] = {
        name: getattr(words, name)
        for name in ("name", "dataset_id", "numbers", "success", "failure", "conditions", "twin")
    }
    return SampledEpisodes(
        **plain,
        moments=_points(f"{side}_moments", words.moments, episodes, arrays),
        situations=_points(f"{side}_situations", words.situations, episodes, arrays),
    )


def _points(name: str, variables: tuple[Variable, ...], episodes: int, arrays: Mapping[str, Array]) -> Points:
    values, episode, frame = arrays[name], arrays[f"{name}_episode"], arrays[f"{name}_frame"]
    _require(values, (len(values), len(variables)), name)
    _require(episode, (len(values),), f"{name}_episode")
    _require(frame, (len(values),), f"{name}_frame")
    if values.dtype != np.float64 or episode.dtype != np.uint32 or frame.dtype != np.uint32:
        raise ValueError(f"{name}: numbers of another type")
    if len(episode) and int(episode.max()) >= episodes:
        raise ValueError(f"{name}: a point of episode {int(episode.max())} of {episodes}")
    return Points(variables, values, episode.astype(np.int64), frame.astype(np.int64))


def _require(values: Array, shape: tuple[int, ...], name: str) -> None:
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, expected {shape}")
