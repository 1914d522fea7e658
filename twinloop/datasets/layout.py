"""The layout of a dataset on disk, and conversion of `Schema` to and from LeRobot's `meta/info.json`.

    data/chunk-000/file-000.parquet            rows of many episodes
    videos/<camera>/chunk-000/file-000.mp4     frames of many episodes, one after the other
    meta/info.json                             schema and totals, as in LeRobot v3.0
    meta/episodes/chunk-000/file-000.parquet   one row per episode: where its rows and frames are, statistics
    meta/tasks.parquet, meta/stats.json        task texts; statistics of the whole dataset
    meta/twinloop/manifest.json                the files of the dataset, with checksums; written last
    meta/twinloop/episodes/...                 one row per episode: provenance, outcome, events, origin
    meta/twinloop/labels.jsonl                 corrected outcomes: who, when, what
    meta/twinloop/generation/, twins/          the generation runs and exact twins of simulated episodes
    meta/twinloop/quality/overrides.jsonl      overridden blocking findings: who, when, why

LeRobot ignores `meta/twinloop`. Files of one commit have the same number in all four trees.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from twinloop.episode import DTYPES, RESERVED, UNITS, Camera, Schema, Signal
from twinloop.errors import DamagedDataset, NewerFormat, NoDataset, TwinloopError, first_line

CODEBASE_VERSION = "v3.0"
FILES_PER_CHUNK = 1000
DATA_FILE_MB = 100
VIDEO_FILE_MB = 200
VIDEO_FILE_S = 900.0
"""LeRobot compares times in float32 to 0.1 ms, so it cannot find frames beyond 1024 s into a file."""

INFO = "meta/info.json"
STATS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
SIDECAR = "meta/twinloop"
MANIFEST = f"{SIDECAR}/manifest.json"
LABELS = f"{SIDECAR}/labels.jsonl"
GENERATIONS = f"{SIDECAR}/generation"
TWINS = f"{SIDECAR}/twins"
INGESTS = f"{SIDECAR}/ingest"
OVERRIDES = f"{SIDECAR}/quality/overrides.jsonl"

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
SIDECAR_EPISODES_PATH = SIDECAR + "/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"

INDEX_COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns LeRobot requires in addition to the signals; `timestamp` is nominal (row / rate), `time_s` the true time."""

MAX_TEMPLATE_CHARACTERS = 1000
_FIELD = re.compile(r"\{([a-z_]+)(?::(0?[0-9]{0,2}d?))?\}")

_TIME_FEATURE = {"dtype": "float64", "shape": [1], "names": None, "units": ["s"]}


def numbered(template: str, number: int, **more: str) -> str:
    """Return the path of the file that commit `number` writes."""
    return fill_template(
        template, chunk_index=number // FILES_PER_CHUNK, file_index=number % FILES_PER_CHUNK, **more
    )


def fill_template(template: str, **values: int | str) -> str:
    """Return a path template of `meta/info.json` with its fields filled in.

    Only plain fields with a width of at most two digits are filled, such as `{file_index:03d}`: Python's own formatting
    would follow attributes and make a string of any length.

    Raises:
        DamagedDataset: The template has another field.
    """

    def fill(field: re.Match[str]) -> str:
        name, width = field[1], field[2] or ""
        if name not in values or (width and not isinstance(values[name], int)):
            raise DamagedDataset(
                f"{INFO} has an invalid path template", got=field[0], available=sorted(values)
            )
        return format(values[name], width)

    filled = _FIELD.sub(fill, template)
    if "{" in filled or "}" in filled or len(template) > MAX_TEMPLATE_CHARACTERS:
        raise DamagedDataset(
            f"{INFO} has an invalid path template",
            got=template,
            expected=f"such as {DATA_PATH}",
            available=sorted(values),
        )
    return filled


def escapes(name: str) -> bool:
    """Return whether a file name in a dataset's metadata points outside the dataset's folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\0" in name


def info_json(
    schema: Schema, *, episodes: int, frames: int, tasks: int, video_info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `meta/info.json` for a dataset with this schema and these totals."""
    features: dict[str, Any] = {}
    for signal in schema.signals:
        features[signal.name] = {
            "dtype": signal.dtype,
            "shape": list(signal.shape),
            "names": list(signal.elements) or None,
            "units": list(signal.units),
        }
    for camera in schema.cameras:
        features[camera.key] = {
            "dtype": "video",
            "shape": [camera.height, camera.width, 3],
            "names": ["height", "width", "channels"],
            "info": video_info[camera.key],
        }
    features["time_s"] = _TIME_FEATURE
    for name in INDEX_COLUMNS:
        dtype = "float32" if name == "timestamp" else "int64"
        features[name] = {"dtype": dtype, "shape": [1], "names": None}
    rate = schema.rate_hz
    return {
        "codebase_version": CODEBASE_VERSION,
        "robot_type": schema.robot_type,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "fps": int(rate) if float(rate).is_integer() else rate,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if schema.cameras else None,
        "features": features,
    }


def load_info(root: Path) -> dict[str, Any]:
    """Read and check `meta/info.json`."""
    path = root / INFO
    try:
        if not root.exists():
            raise NoDataset(
                f"{root} does not exist", remedy="check the path; `twinloop data ls FOLDER` lists datasets"
            )
        if not path.is_file():
            raise NoDataset(
                f"{root} is not a dataset",
                expected=f"a folder with {INFO}",
                remedy="`twinloop data ls FOLDER` lists datasets; `twinloop ingest` converts logs",
            )
        content = path.read_bytes()
    except OSError as error:
        raise NoDataset(f"{root} cannot be opened ({error.strerror or error})") from error
    try:
        info = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedDataset(
            f"{path} is not JSON ({error})", remedy="restore it from a copy of the dataset"
        ) from error
    if not isinstance(info, dict):
        raise DamagedDataset(f"{path} is not a JSON object", got=type(info).__name__)
    for key, kind in (("codebase_version", str), ("fps", (int, float)), ("features", dict)):
        if not isinstance(info.get(key), kind):
            raise DamagedDataset(
                f"{path}: bad {key!r}", got=repr(info.get(key)), expected=f"{key} as LeRobot writes it"
            )
    version = info["codebase_version"]
    if version not in ("v2.0", "v2.1", "v3.0"):
        raise NewerFormat(
            f"{root} has layout {version!r}",
            expected="LeRobot v2.0, v2.1 or v3.0",
            remedy="upgrade Twinloop or convert it",
        )
    return info


def schema_from_info(info: Mapping[str, Any]) -> tuple[Schema, dict[str, str]]:
    """Return the schema, and why features are skipped (name to reason); a foreign column is never an error."""
    signals, cameras, skipped = [], [], {}
    for name, feature in info["features"].items():
        if name in RESERVED:
            continue
        try:
            if not isinstance(feature, dict) or "dtype" not in feature:
                skipped[name] = "it is not described as a feature"
            elif feature["dtype"] == "video":
                cameras.append(_camera(name, feature))
            elif feature["dtype"] in DTYPES:
                signals.append(_signal(name, feature))
            elif feature["dtype"] == "image":
                skipped[name] = "its images are inside the tables; `twinloop ingest` converts them to video"
            else:
                skipped[name] = f"its type {feature['dtype']!r} is not a number or a video"
        except (TwinloopError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            skipped[name] = first_line(error)
    if not signals:
        raise DamagedDataset(f"{INFO} declares no readable signal", got=", ".join(skipped) or "no features")
    robot_type = info.get("robot_type")
    try:
        schema = Schema(
            tuple(signals),
            float(info["fps"]),
            tuple(cameras),
            "unknown" if robot_type is None else str(robot_type),
        )
    except (TwinloopError, OverflowError) as error:
        raise DamagedDataset(f"{INFO}: {error}") from error
    return schema, skipped


def _signal(name: str, feature: Mapping[str, Any]) -> Signal:
    shape = tuple(int(size) for size in feature["shape"]) or (1,)
    size = math.prod(shape)
    units = tuple(feature.get("units") or ("unknown",))
    if not all(unit in UNITS for unit in units) or len(units) not in (1, size):
        units = ("unknown",)
    return Signal(name, shape, units, feature["dtype"], _element_names(feature.get("names"), size))


def _element_names(names: Any, size: int) -> tuple[str, ...]:
    """Return the element names; published LeRobot datasets use a list, a list of lists, or a dict of one list."""
    while isinstance(names, dict) and len(names) == 1:
        names = next(iter(names.values()))
    while isinstance(names, list) and len(names) == 1 and isinstance(names[0], list):
        names = names[0]
    if isinstance(names, list) and len(names) == size and all(isinstance(n, str) for n in names):
        return tuple(names)
    return ()


def _camera(name: str, feature: Mapping[str, Any]) -> Camera:
    if not name.startswith("observation.images."):
        raise ValueError("a video that is not called observation.images.*")
    sizes = list(feature["shape"])
    axes = list(feature.get("names") or ["height", "width", "channels"])
    if sizes and axes and axes[0].startswith("channel"):
        sizes = [*sizes[1:], sizes[0]]
    if len(sizes) != 3 or sizes[2] != 3:
        raise ValueError(f"its shape {sizes} is not height x width x 3")
    return Camera(name.removeprefix("observation.images."), int(sizes[0]), int(sizes[1]))
