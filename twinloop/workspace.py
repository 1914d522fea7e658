"""A user's folder: twins, data sets, policies and reports of one robot cell, and where it stands in the loop."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from twinloop.dataset.commit import write_atomically
from twinloop.dataset.layout import INFO
from twinloop.dataset.query import query
from twinloop.dataset.reader import open_dataset
from twinloop.errors import NewerFormat, TwinloopError, WorkspaceError
from twinloop.twin import Twin, save_twin

MARKER = "twinloop.yaml"
FOLDERS = ("twins", "data", "policies", "reports")
SEED_CONFIG = "seed.yaml"
FORMAT = 1

FIRST_VARIATIONS = {
    "object_offset_x_m": 0.02,
    "object_offset_y_m": 0.02,
    "object_mass_kg": 0.3,
    "object_friction": 0.3,
    "action_delay_s": 0.02,
    "encoder_noise_rad": 0.001,
    "light_intensity": 0.4,
    "camera_yaw_rad": 0.05,
    "camera_pitch_rad": 0.05,
}
"""Around nominal: as a share of it, or as a half-width where nominal is zero."""


@dataclass(frozen=True)
class Workspace:
    """A folder with a `twinloop.yaml`; `twin` is the folder of its cell's twin, seen from there."""

    root: Path
    name: str
    created_at: str
    format: int = FORMAT
    twin: str | None = None

    @property
    def data(self) -> Path:
        """Where data sets are."""
        return self.root / "data"


@dataclass(frozen=True)
class DatasetSummary:
    """One line about a data set; `problem` says why it cannot be read."""

    name: str
    path: str
    episodes: int = 0
    frames: int = 0
    hours: float = 0.0
    sources: str = ""
    success: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Status:
    """Where a workspace stands, and the next step worth taking."""

    workspace: str
    datasets: tuple[DatasetSummary, ...]
    next_step: str
    reason: str


def init_workspace(folder: str | Path, twin: Twin | None = None) -> Workspace:
    """Make a workspace; an existing one, or a folder with other things in it, is left alone.

    With a twin, the workspace keeps a copy of it and gets a first config, `seed.yaml`, to generate from.
    """
    root = Path(folder)
    if (root / MARKER).exists():
        raise WorkspaceError(f"{root} is a workspace already", remedy=f"cd {root} && twinloop status")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise WorkspaceError(f"{root} exists and is not empty", remedy="choose a new folder")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    place = f"twins/{twin.name}" if twin else None
    created_at = datetime.now(UTC).isoformat(timespec="seconds")
    workspace = Workspace(root, root.resolve().name, created_at, FORMAT, place)
    content: dict[str, Any] = {"format": FORMAT, "name": workspace.name, "created_at": created_at}
    if twin and place:
        save_twin(twin, root / place)
        write_atomically(root / SEED_CONFIG, first_config(twin, place).encode())
        content["twin"] = place
    write_atomically(root / MARKER, yaml.safe_dump(content, sort_keys=False).encode())
    return workspace


def first_config(twin: Twin, place: str) -> str:
    """A generation config to start from: the usual suspects that this twin has, within its bounds."""
    varied: dict[str, Any] = {}
    for name, share in FIRST_VARIATIONS.items():
        if not twin.has(name):
            continue
        parameter = twin.parameter(name)
        nominal = float(parameter.nominal)
        spread = share if nominal == 0.0 else share * abs(nominal)
        low, high = max(nominal - spread, parameter.bounds[0]), min(nominal + spread, parameter.bounds[1])
        if low < high:
            varied.setdefault(parameter.dimension, {})[name] = [round(low, 9), round(high, 9)]
    config = {
        "twin": place,
        "randomization": varied,
        "rollout": {"parallel_envs": 100, "episodes_per_env": 1},
    }
    head = "# What varies between episodes; `twinloop twin show " + place + "` lists everything that can.\n"
    return head + yaml.safe_dump(config, sort_keys=False, default_flow_style=None)


def find_workspace(start: str | Path = ".") -> Workspace:
    """The workspace `start` is in, looking upwards."""
    here = Path(start).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return _load(folder)
    raise WorkspaceError(f"{here} is not inside a workspace", remedy="make one: twinloop init DIR")


def list_datasets(folder: str | Path) -> list[DatasetSummary]:
    """Every data set at or below `folder`; one that cannot be read is listed with its problem."""
    root = Path(folder)
    if not root.exists():
        raise WorkspaceError(f"{root} does not exist")
    found = sorted(path.parent.parent for path in root.rglob(INFO) if not _hidden(path.relative_to(root)))
    return [_summary(path, root) for path in found]


def read_status(workspace: Workspace) -> Status:
    """What stands, and what to do next."""
    datasets = tuple(list_datasets(workspace.data)) if workspace.data.exists() else ()
    broken = [summary for summary in datasets if summary.problem]
    if broken:
        step = f"twinloop data verify {broken[0].path} --repair"
        return Status(workspace.name, datasets, step, f"{broken[0].name} cannot be read: {broken[0].problem}")
    if not any(summary.episodes for summary in datasets):
        step = f"twinloop generate {SEED_CONFIG}" if workspace.twin else "write episodes into data/"
        return Status(workspace.name, datasets, step, "there is no data yet")
    unknown = [summary for summary in datasets if summary.success is None and summary.episodes]
    if unknown:
        step = f"twinloop data label {unknown[0].path} --success --by NAME EPISODE ..."
        return Status(
            workspace.name, datasets, step, f"nobody has said which episodes of {unknown[0].name} succeeded"
        )
    return Status(
        workspace.name, datasets, "collect more, or train", "all data sets are readable and labelled"
    )


def _load(folder: Path) -> Workspace:
    try:
        content: Any = yaml.safe_load((folder / MARKER).read_text())
        workspace = Workspace(
            folder,
            str(content["name"]),
            str(content["created_at"]),
            int(content["format"]),
            content.get("twin"),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise WorkspaceError(
            f"{folder / MARKER} cannot be read ({error})", expected="format, name and created_at"
        ) from error
    if workspace.format > FORMAT:
        raise NewerFormat(f"{folder} was made by a newer Twinloop", remedy="pip install --upgrade twinloop")
    return workspace


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _summary(path: Path, root: Path) -> DatasetSummary:
    name = str(path.relative_to(root)) if path != root else path.resolve().name
    try:
        dataset = open_dataset(path)
        rows = query(
            [dataset],
            "select string_agg(distinct source, '+' order by source) sources, avg(success::int) success,"
            " sum(coalesce(duration_s, 0)) as total_s from episodes",
        ).to_pylist()[0]
    except TwinloopError as error:
        return DatasetSummary(name, str(path), problem=error.what)
    seconds = rows["total_s"] or dataset.num_frames / dataset.schema.rate_hz
    return DatasetSummary(
        name,
        str(path),
        len(dataset),
        dataset.num_frames,
        seconds / 3600,
        rows["sources"] or "",
        rows["success"],
    )


def as_json(value: DatasetSummary | Status) -> dict[str, Any]:
    """Plain values for `--json`."""
    return asdict(value)
