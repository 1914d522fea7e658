"""Export for GR00T: LeRobot's v2.1 layout, a file for each episode, with `meta/modality.json`.

GR00T splits one state and one action vector into named parts by `modality.json`: here, a part is a signal. What only a simulation knows
is left out, so that no policy learns from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets.columns import to_arrow
from twinloop.datasets.merge import OnProgress
from twinloop.datasets.reader import Dataset
from twinloop.datasets.stats import aggregate, feature_stats, to_json
from twinloop.datasets.video import join_videos
from twinloop.episode import Array, Episode, Schema, Signal
from twinloop.errors import DatasetError

CHUNK = 1000
DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
STATE, ACTION = "observation.state", "action"
TRUTH = ("observation.simulation", "observation.environment_state")
"""Beginnings of signals that a robot does not have."""


def write_groot(dataset: Dataset, folder: Path, on_progress: OnProgress | None = None) -> None:
    """Write a dataset in the layout that GR00T trains from.

    Args:
        dataset: The dataset; it has an `action`.
        folder: An empty folder.
        on_progress: Called with (episodes done, episodes in all).

    Raises:
        DatasetError: There is no action, or no observation that a robot has.
    """
    states, actions = _parts(dataset.schema)
    tasks: list[str] = []
    episodes, parts = [], []
    row = 0
    for done, number in enumerate(dataset.numbers):
        episode = dataset.episode(number)
        if episode.task not in tasks:
            tasks.append(episode.task)
        values = _columns(episode, states, actions, done, row, tasks.index(episode.task))
        path = folder / DATA_PATH.format(episode_chunk=done // CHUNK, episode_index=done)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({name: to_arrow(array) for name, array in values.items()}), path)
        _cut_videos(dataset, done, folder)
        stats = feature_stats({name: a.reshape(len(a), -1) for name, a in values.items()})
        parts.append(stats)
        episodes.append(
            {"episode_index": done, "tasks": [episode.task], "length": len(episode), "episode_id": episode.id}
        )
        row += len(episode)
        if on_progress:
            on_progress(done + 1, len(dataset))
    meta = folder / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    _write_lines(meta / "episodes.jsonl", episodes)
    _write_lines(meta / "tasks.jsonl", [{"task_index": i, "task": text} for i, text in enumerate(tasks)])
    each = [{"episode_index": i, "stats": to_json(stats)} for i, stats in enumerate(parts)]
    _write_lines(meta / "episodes_stats.jsonl", each)
    whole = {name: aggregate([part[name] for part in parts]) for name in (parts[0] if parts else ())}
    (meta / "stats.json").write_text(json.dumps(to_json(whole)))
    (meta / "modality.json").write_text(json.dumps(_modality(dataset.schema, states, actions), indent=4))
    info = _info(dataset, states, actions, len(episodes), row, len(tasks))
    (meta / "info.json").write_text(json.dumps(info, indent=4))


def _parts(schema: Schema) -> tuple[list[Signal], list[Signal]]:
    """Signals of the state vector and of the action vector, in the order in which they are joined."""
    actions = [signal for signal in schema.signals if signal.name == ACTION]
    states = [
        signal
        for signal in schema.signals
        if signal.name.startswith("observation.")
        and not signal.name.startswith(TRUTH)
        and np.issubdtype(np.dtype(signal.dtype), np.floating)
    ]
    states.sort(key=lambda signal: signal.name != STATE)
    if not actions or not states:
        raise DatasetError(
            "GR00T needs a state and an action",
            got=", ".join(signal.name for signal in schema.signals),
            expected=f"{ACTION} and at least one signal that begins with observation.",
        )
    return states, actions


def _joined(episode: Episode, signals: list[Signal]) -> Array:
    rows = len(episode)
    return np.concatenate([episode.signals[s.name].reshape(rows, -1) for s in signals], axis=1).astype(
        np.float32
    )


def _columns(
    episode: Episode, states: list[Signal], actions: list[Signal], number: int, first: int, task: int
) -> dict[str, Array]:
    rows = len(episode)
    return {
        STATE: _joined(episode, states),
        ACTION: _joined(episode, actions),
        "timestamp": (np.arange(rows) / episode.schema.rate_hz).astype(np.float32)[:, None],
        "frame_index": np.arange(rows)[:, None],
        "episode_index": np.full((rows, 1), number),
        "index": np.arange(first, first + rows)[:, None],
        "task_index": np.full((rows, 1), task),
        "next.done": (np.arange(rows) == rows - 1)[:, None],
    }


def _cut_videos(dataset: Dataset, place: int, folder: Path) -> None:
    """The episode's part of each video, copied without decoding."""
    for camera in dataset.schema.cameras:
        video = dataset.index.video[camera.name]
        target = folder / VIDEO_PATH.format(
            episode_chunk=place // CHUNK, episode_index=place, video_key=camera.key
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        source = dataset.file(video.files[int(video.file_of[place])])
        clip = (source, int(video.first_frame[place]), int(dataset.index.length[place]))
        join_videos([clip], target, dataset.schema.rate_hz)


def _modality(schema: Schema, states: list[Signal], actions: list[Signal]) -> dict[str, Any]:
    """Which part of the vectors is which signal, and what the cameras are called."""

    def spans(signals: list[Signal]) -> dict[str, Any]:
        found, start = {}, 0
        for signal in signals:
            found[signal.name.removeprefix("observation.")] = {"start": start, "end": start + signal.size}
            start += signal.size
        return found

    return {
        "state": spans(states),
        "action": spans(actions),
        "video": {camera.name: {"original_key": camera.key} for camera in schema.cameras},
        "annotation": {"human.task_description": {"original_key": "task_index"}},
    }


def _info(
    dataset: Dataset, states: list[Signal], actions: list[Signal], episodes: int, rows: int, tasks: int
) -> dict[str, Any]:
    def names(signals: list[Signal]) -> list[str]:
        return [
            name for s in signals for name in (s.elements or tuple(f"{s.name}.{i}" for i in range(s.size)))
        ]

    def vector(signals: list[Signal]) -> dict[str, Any]:
        return {"dtype": "float32", "shape": [sum(s.size for s in signals)], "names": names(signals)}

    features: dict[str, Any] = {STATE: vector(states), ACTION: vector(actions)}
    rate = dataset.schema.rate_hz
    for camera in dataset.schema.cameras:
        features[camera.key] = {
            "dtype": "video",
            "shape": [camera.height, camera.width, 3],
            "names": ["height", "width", "channel"],
            "info": {
                "video.fps": rate,
                "video.codec": "h264",
                "video.pix_fmt": "yuv420p",
                "has_audio": False,
            },
        }
    for name, kind in (("timestamp", "float32"), ("next.done", "bool")):
        features[name] = {"dtype": kind, "shape": [1], "names": None}
    for name in ("frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "int64", "shape": [1], "names": None}
    return {
        "codebase_version": "v2.1",
        "robot_type": dataset.schema.robot_type,
        "total_episodes": episodes,
        "total_frames": rows,
        "total_tasks": tasks,
        "total_videos": episodes * len(dataset.schema.cameras),
        "total_chunks": (episodes + CHUNK - 1) // CHUNK,
        "chunks_size": CHUNK,
        "fps": int(rate) if float(rate).is_integer() else rate,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if dataset.schema.cameras else None,
        "features": features,
    }


def _write_lines(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
