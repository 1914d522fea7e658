"""A small dataset as LeRobot itself writes v3.0: names in a dict, flags, tasks as a pandas index, images in the table."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

JOINTS = ["shoulder_pan.pos", "elbow_flex.pos", "gripper.pos"]
LENGTHS = (12, 9)
CAMERA = "observation.images.top"


def _feature(dtype: str, shape: list[int], names: object = None) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "names": names}


def _image(level: int) -> dict[str, object]:
    content = io.BytesIO()
    Image.fromarray(np.full((24, 32, 3), level, np.uint8)).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": f"frame-{level:06d}.png"}


def write_lerobot_v3(root: Path, *, images: bool = False) -> Path:
    """Two episodes with different tasks; with `images`, frame k of an episode has the level 10 k."""
    episode = np.repeat([0, 1], LENGTHS)
    frame = np.concatenate([np.arange(length) for length in LENGTHS])
    state = pa.FixedSizeListArray.from_arrays(
        pa.array(np.sin(frame[:, None] / 3 + np.arange(3)).astype(np.float32).reshape(-1)), 3
    )
    vector = _feature("float32", [3], {"motors": JOINTS})
    features = {"action": vector, "observation.state": vector, "next.done": _feature("bool", [1])}
    columns = {
        "action": state,
        "observation.state": state,
        "next.done": pa.array(frame == np.repeat(LENGTHS, LENGTHS) - 1),
        "timestamp": pa.array((frame / 30).astype(np.float32)),
        "frame_index": pa.array(frame),
        "episode_index": pa.array(episode),
        "index": pa.array(np.arange(len(frame))),
        "task_index": pa.array(episode),
    }
    features |= {name: _feature(str(columns[name].type), [1]) for name in list(columns)[3:]}
    features["timestamp"]["dtype"] = "float32"
    if images:
        features[CAMERA] = _feature("image", [24, 32, 3], ["height", "width", "channels"])
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        columns[CAMERA] = pa.array([_image(10 * int(k)) for k in frame], kind)
    info = {
        "codebase_version": "v3.0",
        "robot_type": "so101_follower",
        "total_episodes": 2,
        "total_frames": len(frame),
        "total_tasks": 2,
        "chunks_size": 1000,
        "fps": 30,
        "splits": {"train": "0:2"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
        "features": features,
    }
    for folder in ("data/chunk-000", "meta/episodes/chunk-000"):
        (root / folder).mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    pq.write_table(pa.table(columns), root / "data/chunk-000/file-000.parquet", row_group_size=5)
    episodes = {
        "episode_index": [0, 1],
        "tasks": [["pick"], ["place"]],
        "length": list(LENGTHS),
        "data/chunk_index": [0, 0],
        "data/file_index": [0, 0],
        "dataset_from_index": [0, LENGTHS[0]],
        "dataset_to_index": [LENGTHS[0], sum(LENGTHS)],
    }
    pq.write_table(pa.table(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    index = json.dumps({"index_columns": ["__index_level_0__"], "columns": [], "column_indexes": []})
    tasks = pa.table({"task_index": [0, 1], "__index_level_0__": ["pick", "place"]})
    pq.write_table(tasks.replace_schema_metadata({b"pandas": index.encode()}), root / "meta/tasks.parquet")
    return root
