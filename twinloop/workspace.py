"""A user's folder: twins, datasets, policies and reports of one robot cell, and where it stands in the loop."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from twinloop.datasets.artefacts import WORKSPACE
from twinloop.datasets.commit import write_atomically
from twinloop.datasets.layout import INFO
from twinloop.datasets.partial_folder import find_leftovers, remove_leftovers
from twinloop.datasets.query import query
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.errors import NewerFormat, TwinloopError, WorkspaceError
from twinloop.promotion.known import forget_folder
from twinloop.randomization import Uniform, default_randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.twins import Twin, save_twin
from twinloop.yaml_files import read_yaml

MARKER = WORKSPACE
FOLDERS = ("twins", "data", "policies", "reports")
SEED_CONFIG = "seed.yaml"
SCENES_CONFIG = "scenes.yaml"
FORMAT = 1


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
        """Where datasets are."""
        return self.root / "data"


@dataclass(frozen=True)
class DatasetSummary:
    """One line about a dataset; `problem` says why it cannot be read."""

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
    """Make a workspace: one folder for the twins, datasets, policies and reports of a robot cell.

    Args:
        folder: The new folder; it must not hold other files.
        twin: The twin of the cell; it is copied into the workspace with two configs to generate from: `seed.yaml`,
            in which everything varies that usually does, and `scenes.yaml`, in which only objects and targets lie elsewhere.

    Returns:
        The workspace.

    Raises:
        WrongUse: The folder is a workspace already, or holds other files.
    """
    root = Path(folder)
    if (root / MARKER).exists():
        raise WorkspaceError(f"{root} is a workspace already", remedy=f"cd {root} && twinloop status")
    place = f"twins/{twin.name}" if twin else None
    if root.exists() and not _is_free(root, place):
        raise WorkspaceError(f"{root} exists and is not empty", remedy="choose a new folder")
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    created_at = _now()
    workspace = Workspace(root, root.resolve().name, created_at, FORMAT, place)
    content: dict[str, Any] = {"format": FORMAT, "name": workspace.name, "created_at": created_at}
    if twin and place:
        save_twin(twin, root / place, overwrite=True)
        write_atomically(root / SEED_CONFIG, first_config(twin, place).encode())
        write_atomically(root / SCENES_CONFIG, scenes_config(twin, place).encode())
        content["twin"] = place
    write_atomically(root / MARKER, yaml.safe_dump(content, sort_keys=False).encode())
    forget_folder(root)
    return workspace


def _is_free(root: Path, place: str | None) -> bool:
    """Whether a folder is empty, except for what an interrupted `init_workspace` with the same twin left."""
    if not root.is_dir():
        return False
    remove_leftovers(find_leftovers(root, below=True))
    own = {root / SEED_CONFIG, root / SCENES_CONFIG} if place else set()
    files = {path for path in root.rglob("*") if not path.is_dir()} - own
    return all(place is not None and path.is_relative_to(root / place) for path in files)


def first_config(twin: Twin, place: str) -> str:
    """A generation config to start from: what usually varies in this twin."""
    config = {
        "twin": place,
        "randomization": "default",
        "rollout": {"parallel_envs": 100, "episodes_per_env": 1},
    }
    some = next(
        (v for v in default_randomization(twin).variations if isinstance(v.distribution, Uniform)), None
    )
    head = f"# What usually varies in {twin.name}; `twinloop generate {SEED_CONFIG} --explain` lists it.\n"
    if some is not None:
        words = f"{{from: default, {some.name}: {some.distribution.plain()}}}"
        head += f"# With a range of your own:  randomization: {words}\n"
    head += f"# `twinloop twin show {place}` lists everything that can vary.\n"
    return head + yaml.safe_dump(config, sort_keys=False, default_flow_style=None)


def scenes_config(twin: Twin, place: str) -> str:
    """A generation config in which only the scene varies, as the loop trains its first policy."""
    head = f"# Where objects and targets lie in training; everything else as {twin.name} has it.\n"
    described = training_scenes(twin).plain()
    return head + yaml.safe_dump({**described, "twin": place}, sort_keys=False)


def find_workspace(start: str | Path = ".") -> Workspace:
    """The workspace `start` is in, looking upwards."""
    here = Path(start).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return _load(folder)
    raise WorkspaceError(f"{here} is not inside a workspace", remedy="make one: twinloop init DIR")


def list_datasets(folder: str | Path) -> list[DatasetSummary]:
    """Every dataset at or below `folder`; one that cannot be read is listed with its problem."""
    root = Path(folder)
    if not root.exists():
        raise WorkspaceError(f"{root} does not exist")
    found = sorted(path.parent.parent for path in root.rglob(INFO) if not _hidden(path.relative_to(root)))
    return [_summary(path, root) for path in found]


def recorded_datasets(workspace: Workspace) -> list[Dataset]:
    """Every readable dataset of a workspace that holds episodes of a robot, in whichever of its folders; copies once, `data/` first."""
    infos = [path for path in workspace.root.rglob(INFO) if not _hidden(path.relative_to(workspace.root))]
    found: dict[str, Dataset] = {}
    for info in sorted(infos, key=lambda path: (not path.is_relative_to(workspace.data), str(path))):
        try:
            dataset = open_dataset(info.parents[1])
            table = dataset.provenance_table()
        except TwinloopError:
            continue
        recorded = table is not None and {"real", "standin"} & set(table.column("source").to_pylist())
        if recorded and dataset.id not in found:
            found[dataset.id] = dataset
    return list(found.values())


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
    recorded = [one for one in datasets if {"real", "standin"} & set(one.sources.split("+"))]
    if workspace.twin and recorded and not any((workspace.root / "twins").glob("*/identification.json")):
        step = f"twinloop identify --real {recorded[0].path}"
        reason = f"{recorded[0].name} was recorded on a robot, and the twin was never fitted to it"
        return Status(workspace.name, datasets, step, reason)
    unknown = [summary for summary in datasets if summary.success is None and summary.episodes]
    if unknown:
        step = f"twinloop data label {unknown[0].path} --success --by NAME EPISODE ..."
        return Status(workspace.name, datasets, step, f"outcomes in {unknown[0].name} are unknown")
    simulated = [summary for summary in datasets if summary.sources == "sim"]
    options = f"--sim {simulated[0].path}" if simulated else f"--recipe real-only --real {datasets[0].path}"
    return Status(
        workspace.name, datasets, f"twinloop train {options}", "all datasets are readable and labelled"
    )


def _load(folder: Path) -> Workspace:
    try:
        content: Any = read_yaml(folder / MARKER)
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
    return _summary_in_state(path, name, _state_of(path))


def _state_of(path: Path) -> int:
    """Another number whenever one of the files that describe a dataset has changed."""
    files = sorted(path / name for name in (path / "meta").rglob("*"))
    facts = [
        (str(file), stat.st_mtime_ns, stat.st_size) for file in files if (stat := _stat(file)) is not None
    ]
    return hash(tuple(facts))


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


@lru_cache(maxsize=512)
def _summary_in_state(path: Path, name: str, state: int) -> DatasetSummary:
    """The summary of a dataset; kept, because a studio asks for it again whenever anything changes."""
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
