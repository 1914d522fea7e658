"""Export datasets: transitions as Parquet, episodes as HDF5 for robomimic and Isaac Lab, or a folder for LeRobot or GR00T.

Every export contains the episode ids, so that a row can be traced back to its origin.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.columns import to_arrow
from twinloop.datasets.export_groot import write_groot
from twinloop.datasets.merge import EpisodeSelection, OnProgress, copy_episodes
from twinloop.datasets.partial_folder import partial_folder
from twinloop.datasets.query import episode_rows
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.durable import replace_durably
from twinloop.episode import Episode
from twinloop.errors import DatasetError, MissingExtra, UnknownName

GYM_TYPE = 2
"""Isaac Lab's environments, in robomimic's numbering."""

Format = Literal["transitions", "hdf5", "isaaclab", "lerobot", "groot"]


def export(source: str | Path, out: str | Path, kind: str, *, on_progress: OnProgress | None = None) -> Path:
    """Export a dataset.

    Args:
        source: The dataset.
        out: The new file or folder; it appears only when it is complete.
        kind: "transitions" (Parquet), "hdf5" (robomimic's groups), "isaaclab" (the same, with Isaac Lab's states), "lerobot", or
            "groot" (LeRobot v2.1 with `meta/modality.json`).
        on_progress: Called with (episodes done, episodes in all).

    Returns:
        The path of the export.

    Raises:
        DatasetError: `out` exists, or the dataset has no transitions.
        MissingExtra: HDF5 export needs h5py.
    """
    if kind not in get_args(Format):
        raise UnknownName("export format", kind, get_args(Format))
    dataset, target = open_dataset(source), Path(out)
    if target.exists():
        raise DatasetError(f"{target} already exists", remedy="choose another name, or delete it")
    register_artefact(target, "dataset" if kind in ("lerobot", "groot") else "table", [dataset])
    if kind == "lerobot":
        copy_episodes(
            [EpisodeSelection(dataset, dataset.numbers)],
            target,
            operation="exported",
            on_progress=on_progress,
        )
        return target
    if kind == "groot":
        with partial_folder(target) as folder:
            write_groot(dataset, folder, on_progress)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        if kind == "transitions":
            _write_transitions(dataset, temporary, on_progress)
        else:
            _write_hdf5(dataset, temporary, on_progress, isaaclab=kind == "isaaclab")
        replace_durably(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _write_transitions(dataset: Dataset, path: Path, on_progress: OnProgress | None) -> None:
    """Write one row per (state, action, next state): every signal, and every observation of the next row."""
    writer: pq.ParquetWriter | None = None
    try:
        for done, number in enumerate(dataset.numbers, start=1):
            episode = dataset.episode(number)
            if len(episode) > 1:
                table = _transition_table(episode, number)
                writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
                writer.write_table(table)
            if on_progress:
                on_progress(done, len(dataset))
        if writer is None:
            raise DatasetError(
                f"{dataset.place} has no transitions", expected="an episode of two rows or more"
            )
    finally:
        if writer is not None:
            writer.close()


def _transition_table(episode: Episode, number: int) -> pa.Table:
    rows = len(episode) - 1
    columns: dict[str, pa.Array] = {
        "episode_id": pa.array([episode.id] * rows),
        "episode_index": pa.array(np.full(rows, number, np.int64)),
        "frame_index": pa.array(np.arange(rows, dtype=np.int64)),
        "time_s": pa.array(episode.time_s[:-1]),
        "source": pa.array([episode.provenance.source] * rows),
        "success": pa.array([episode.success] * rows, pa.bool_()),
        "last": pa.array(np.arange(rows) == rows - 1),
    }
    for name, values in episode.signals.items():
        columns[name] = to_arrow(values[:-1])
        if name.startswith("observation."):
            columns["next." + name.removeprefix("observation.")] = to_arrow(values[1:])
    return pa.table(columns)


def _write_hdf5(dataset: Dataset, path: Path, on_progress: OnProgress | None, *, isaaclab: bool) -> None:
    """Write groups as in robomimic: /data/demo_<n>/actions and obs/<signal>, with provenance as JSON attributes.

    `success` and `failure` are attributes where they are known; rewards and dones are not invented.
    """
    try:
        import h5py
    except ImportError as error:
        raise MissingExtra("HDF5 export", "h5py", "logs") from error
    rows = {int(row["episode_index"]): row for row in episode_rows(dataset)}
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = dataset.num_frames
        data.attrs["env_args"] = json.dumps(
            {"env_name": dataset.schema.robot_type, "type": GYM_TYPE if isaaclab else "twinloop"}
        )
        for done, number in enumerate(dataset.numbers, start=1):
            episode = dataset.episode(number)
            origin = rows[number]["origin_dataset"], rows[number]["origin_index"]
            group = data.create_group(f"demo_{number}")
            _write_hdf5_episode(group, episode, origin)
            if isaaclab:
                _write_articulation(group, episode)
            if on_progress:
                on_progress(done, len(dataset))


def _write_articulation(group: Any, episode: Episode) -> None:
    """Positions and speeds of the joints where Isaac Lab looks for them, for every row and for the first."""
    if episode.provenance.seed is not None:
        group.attrs["seed"] = episode.provenance.seed
    for signal, name in (("observation.state", "joint_position"), ("observation.velocity", "joint_velocity")):
        if signal in episode.signals:
            values = episode.signals[signal].reshape(len(episode), -1)
            for place, rows in (("states", values), ("initial_state", values[:1])):
                group.create_dataset(f"{place}/articulation/robot/{name}", data=rows, compression="gzip")


def _write_hdf5_episode(group: Any, episode: Episode, origin: tuple[str, int]) -> None:
    group.attrs["num_samples"] = len(episode)
    group.attrs["episode_id"] = episode.id
    group.attrs["task"] = episode.task
    if episode.success is not None:
        group.attrs["success"] = episode.success
    if episode.outcome.failure is not None:
        group.attrs["failure"] = episode.outcome.failure
    group.attrs["provenance"] = json.dumps(episode.provenance.as_json())
    group.attrs["origin"] = json.dumps(origin)
    group.create_dataset("time_s", data=episode.time_s)
    for name, values in episode.signals.items():
        place = "actions" if name == "action" else f"obs/{name.removeprefix('observation.')}"
        stored = group.create_dataset(place, data=values)
        stored.attrs["units"] = list(episode.schema.signal(name).units)
    for camera, frames in episode.frames.items():
        stored = group.create_dataset(
            f"obs/{camera}_image",
            shape=frames.shape,
            dtype=np.uint8,
            chunks=(1, *frames.shape[1:]),
            compression="gzip",
        )
        for row, frame in enumerate(frames):
            stored[row] = frame
