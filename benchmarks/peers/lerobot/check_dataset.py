"""Open a LeRobot v3.0 dataset with LeRobot itself and compare it with what was recorded.

    python check_dataset.py DATASET_DIR EXPECTED_NPZ

Runs inside the virtualenv made by install.sh, without network. Prints one JSON object
and exits 1 if anything differs.

EXPECTED_NPZ holds, for episode i = 0..N-1:

    episode_<i>/<feature>               the whole episode's array, (T, ...) in the stored dtype
    episode_<i>/frames/<camera>         raw RGB frames, uint8 (K, H, W, 3); at least first and last
    episode_<i>/frames/<camera>/index   their frame indexes in the episode, (K,); default: 0 and T-1
    episode_<i>/task                    (optional) the task text
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
_cache = None
if "HF_DATASETS_CACHE" not in os.environ:  # a stale cache must not answer for the files
    _cache = tempfile.TemporaryDirectory(prefix="lerobot-check-", ignore_cleanup_errors=True)
    os.environ["HF_DATASETS_CACHE"] = _cache.name
warnings.filterwarnings("ignore", message="Failed to load image Python extension")
warnings.filterwarnings("ignore", message="Cannot enable progress bars")

import numpy as np  # noqa: E402

HISTORY = 2  # states: the previous and the present one
HORIZON = 16  # actions: the present one and the following
BATCH = 8


def load_expected(path):
    """npz -> list of {"features": {name: array}, "frames": {camera: (index, frames)}, "task": str|None}."""
    episodes = {}
    with np.load(path, allow_pickle=False) as data:
        arrays = {key: data[key] for key in data.files}
    for key, value in arrays.items():
        match = re.fullmatch(r"episode_(\d+)/(.+)", key)
        if not match:
            continue
        episode = episodes.setdefault(int(match[1]), {"features": {}, "frames": {}, "task": None})
        name = match[2]
        if name == "task":
            episode["task"] = str(value)
        elif name.startswith("frames/"):
            camera = name[len("frames/") :]
            if camera.endswith("/index"):
                continue
            index = arrays.get(key + "/index")
            episode["frames"][camera] = (index, value)
        else:
            episode["features"][name] = value
    if sorted(episodes) != list(range(len(episodes))) or not episodes:
        raise SystemExit(f"{path}: episodes must be numbered 0..N-1, found {sorted(episodes)[:5]}...")
    for number in range(len(episodes)):
        episode = episodes[number]
        lengths = {len(value) for value in episode["features"].values()}
        if len(lengths) != 1:
            raise SystemExit(f"{path}: episode {number} needs features of one length, found {lengths}")
        episode["length"] = lengths.pop()
        for camera, (index, frames) in list(episode["frames"].items()):
            if index is None:
                index = np.array([0, episode["length"] - 1])
            if len(index) != len(frames):
                raise SystemExit(
                    f"{path}: episode {number} {camera}: {len(frames)} frames, {len(index)} indexes"
                )
            episode["frames"][camera] = (index.astype(int), frames)
    return [episodes[number] for number in range(len(episodes))]


class Checker:
    """Counts what was compared and keeps what differed."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.failures = []
        self.counts = {}

    def expect(self, kind, ok, message):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if not ok:
            self.failures.append(f"{kind}: {message}")
        return ok


def mean_error(a, b):
    return float(np.abs(a.astype(np.float32) - b.astype(np.float32)).mean())


def as_rgb(tensor):
    """LeRobot's float (3, H, W) in 0..1 -> float (H, W, 3) in 0..255."""
    return tensor.numpy().transpose(1, 2, 0) * 255.0


def stored_columns(dataset):
    """The rows exactly as stored: numpy arrays in the stored dtype, one per column."""
    table = dataset.hf_dataset.with_format("arrow")[:]
    columns = {}
    for name in table.column_names:
        chunk = table[name].combine_chunks()
        shape = dataset.features[name]["shape"]
        while hasattr(chunk, "storage"):
            chunk = chunk.storage
        while hasattr(chunk, "flatten") and str(chunk.type).split("<")[0] in (
            "list",
            "large_list",
            "fixed_size_list",
        ):
            chunk = chunk.flatten()
        values = (
            np.array(chunk.to_pylist())
            if str(chunk.type) == "string"
            else chunk.to_numpy(zero_copy_only=False)
        )
        columns[name] = values if tuple(shape) == (1,) else values.reshape(len(table), *shape)
    return columns


def check_states(check, dataset, episodes):
    columns = stored_columns(dataset)
    start = 0
    for number, episode in enumerate(episodes):
        stop = start + episode["length"]
        for name, want in episode["features"].items():
            if name not in columns:
                check.expect("states", False, f"episode {number}: feature {name} is missing")
                continue
            got = columns[name][start:stop]
            if want.ndim == 2 and want.shape[1] == 1 and got.ndim == 1:
                want = want[:, 0]
            same = got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
            if want.dtype.kind in "US":
                same = got.shape == want.shape and bool((got == want).all())
            check.expect(
                "states",
                same,
                f"episode {number} {name}: not bit for bit {want.dtype}{want.shape} as recorded (read {got.dtype}{got.shape})",
            )
        fixed = {
            "episode_index": np.full(episode["length"], number),
            "frame_index": np.arange(episode["length"]),
            "index": np.arange(start, stop),
        }
        for name, want in fixed.items():
            check.expect(
                "indexes", np.array_equal(columns[name][start:stop], want), f"episode {number} {name}"
            )
        row = dataset.meta.episodes[number]
        check.expect(
            "indexes",
            (row["episode_index"], row["length"], row["dataset_from_index"], row["dataset_to_index"])
            == (number, episode["length"], start, stop),
            f"meta/episodes row {number}",
        )
        start = stop
    check.expect("indexes", len(dataset) == start, f"{len(dataset)} frames, expected {start}")
    check.expect(
        "indexes", len(dataset.hf_dataset) == start, f"{len(dataset.hf_dataset)} rows, expected {start}"
    )
    check.expect(
        "indexes",
        dataset.num_episodes == len(episodes),
        f"{dataset.num_episodes} episodes, expected {len(episodes)}",
    )


def check_frames(check, dataset, episodes, starts):
    arguments = check.arguments
    errors, neighbour_errors, too_alike = [], [], 0
    for number, episode in enumerate(episodes):
        for camera, (index, frames) in episode["frames"].items():
            for position, frame in zip(index.tolist(), frames, strict=True):
                where = f"episode {number} {camera} frame {position}"
                try:
                    got = as_rgb(dataset[starts[number] + position][camera])
                except Exception as error:  # noqa: BLE001 - LeRobot raises many kinds
                    check.expect("frames", False, f"{where}: {type(error).__name__}: {str(error)[:200]}")
                    continue
                if not check.expect("frames", got.shape == frame.shape, f"{where}: shape {got.shape}"):
                    continue
                own = mean_error(got, frame)
                errors.append(own)
                check.expect("frames", own <= arguments.max_error, f"{where}: mean abs error {own:.2f}")
                # not a frame of the episode before or after
                rivals = []
                if position == 0 and number > 0:
                    rivals.append(episodes[number - 1]["frames"][camera][1][-1])
                if position == episode["length"] - 1 and number + 1 < len(episodes):
                    rivals.append(episodes[number + 1]["frames"][camera][1][0])
                for rival in rivals:
                    if mean_error(frame, rival) < arguments.min_gap:
                        too_alike += 1
                        continue
                    other = mean_error(got, rival)
                    neighbour_errors.append(other)
                    check.expect(
                        "frames",
                        own < 0.5 * other,
                        f"{where}: error {own:.2f}, but {other:.2f} to the neighbouring episode's frame",
                    )
                # nor another frame of the same episode
                for other_position, other_frame in zip(index.tolist(), frames, strict=True):
                    other = mean_error(got, other_frame)
                    check.expect(
                        "frames",
                        other_position == position or other >= 0.9 * own,
                        f"{where}: closer to frame {other_position} ({other:.2f}) than to its own ({own:.2f})",
                    )
    return {
        "frames_compared": len(errors),
        "frame_error_mean": round(float(np.mean(errors)), 3) if errors else None,
        "frame_error_max": round(float(np.max(errors)), 3) if errors else None,
        "neighbour_error_min": round(float(np.min(neighbour_errors)), 3) if neighbour_errors else None,
        "neighbours_too_alike": too_alike,
    }


def check_windows(check, dataset, episodes, starts, state_key, action_key, cameras):
    import torch

    checked = 0
    offsets = {}
    if state_key:
        offsets[state_key] = np.arange(1 - HISTORY, 1)
    if action_key:
        offsets[action_key] = np.arange(HORIZON)
    for number, episode in enumerate(episodes):
        length = episode["length"]
        wanted = {0, 1, length // 2, length - HORIZON, length - HORIZON + 1, length - 2, length - 1}
        for position in sorted(row for row in wanted if 0 <= row < length):
            item = dataset[starts[number] + position]
            where = f"episode {number} frame {position}"
            checked += 1
            for key, delta in offsets.items():
                rows = np.clip(position + delta, 0, length - 1)
                want = torch.tensor(episode["features"][key][rows].tolist())
                got = item[key]
                if want.ndim == 2 and want.shape[1] == 1 and got.ndim == 1:
                    want = want[:, 0]
                check.expect("windows", torch.equal(got, want), f"{where} {key}: values differ")
                pad = torch.tensor((position + delta < 0) | (position + delta >= length))
                mask = item[f"{key}_is_pad"]
                check.expect(
                    "windows",
                    mask.dtype == torch.bool and torch.equal(mask, pad),
                    f"{where} {key}_is_pad: {mask.tolist()}",
                )
            for camera in cameras:
                check.expect(
                    "windows",
                    item[camera].ndim == 4 and item[camera].shape[0] == HISTORY,
                    f"{where} {camera}: shape {tuple(item[camera].shape)}",
                )
                if position == 0:
                    check.expect(
                        "windows",
                        torch.equal(item[camera][0], item[camera][1]),
                        f"{where} {camera}: padding is not the first frame",
                    )
            if episode["task"] is not None:
                check.expect("tasks", item["task"] == episode["task"], f"{where}: task {item['task']!r}")
    return {"windows_compared": checked}


def check_loader(check, dataset, state_key, action_key, cameras, max_batches):
    import torch

    generator = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=BATCH, shuffle=True, drop_last=True, generator=generator, num_workers=0
    )
    batches = 0
    for batch in loader:
        batches += 1
        if state_key:
            shape = tuple(batch[state_key].shape[:2])
            check.expect("loader", shape == (BATCH, HISTORY), f"{state_key}: {shape}")
        if action_key:
            shape = tuple(batch[action_key].shape[:2])
            check.expect("loader", shape == (BATCH, HORIZON), f"{action_key}: {shape}")
        for camera in cameras:
            shape = tuple(batch[camera].shape[:3])
            check.expect("loader", shape == (BATCH, HISTORY, 3), f"{camera}: {shape}")
        if batches >= max_batches:
            break
    check.expect("loader", batches > 0, f"no full batch of {BATCH}")
    return {"batches": batches}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", type=Path)
    parser.add_argument("expected")
    parser.add_argument(
        "--state", default="observation.state", help="feature for the two-step history window"
    )
    parser.add_argument("--action", default="action", help="feature for the 16-step action window")
    parser.add_argument(
        "--max-error", type=float, default=8.0, help="largest mean abs image error, in 0..255"
    )
    parser.add_argument(
        "--min-gap", type=float, default=4.0, help="images closer than this are not told apart"
    )
    parser.add_argument("--max-batches", type=int, default=20)
    arguments = parser.parse_args()

    episodes = load_expected(arguments.expected)
    starts = np.concatenate([[0], np.cumsum([episode["length"] for episode in episodes])]).tolist()
    check = Checker(arguments)
    summary = {
        "dataset": arguments.dataset.resolve().name,
        "episodes": len(episodes),
        "frames": starts[-1],
    }

    import lerobot
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    began = time.perf_counter()
    try:
        # LeRobot would make the directory and ask the network
        if not (arguments.dataset / "meta/info.json").is_file():
            raise FileNotFoundError("no meta/info.json there")
        dataset = LeRobotDataset("local/check", root=arguments.dataset)
        summary["open_s"] = round(time.perf_counter() - began, 3)
        cameras = list(dataset.meta.video_keys) + list(dataset.meta.image_keys)
        missing = [camera for episode in episodes for camera in episode["frames"] if camera not in cameras]
        check.expect("frames", not missing, f"no camera named {sorted(set(missing))}")
        check_states(check, dataset, episodes)
        if not missing:
            summary.update(check_frames(check, dataset, episodes, starts))
        state_key = arguments.state if arguments.state in episodes[0]["features"] else None
        action_key = arguments.action if arguments.action in episodes[0]["features"] else None
        step = 1.0 / dataset.fps
        delta = {}
        if state_key:
            delta[state_key] = [step * k for k in range(1 - HISTORY, 1)]
        if action_key:
            delta[action_key] = [step * k for k in range(HORIZON)]
        for camera in cameras:
            delta[camera] = [step * k for k in range(1 - HISTORY, 1)]
        windows = LeRobotDataset("local/check", root=arguments.dataset, delta_timestamps=delta)
        summary.update(check_windows(check, windows, episodes, starts, state_key, action_key, cameras))
        summary.update(check_loader(check, windows, state_key, action_key, cameras, arguments.max_batches))
    except Exception as error:  # noqa: BLE001 - whatever LeRobot raises is the finding
        cause = error.__cause__
        text = f"{type(error).__name__}: {str(error)[:400]}"
        if type(error).__name__ == "OfflineModeIsEnabled":
            text = "LeRobot found files missing (episodes, meta or videos) and wanted to download them"
        check.expect(
            "open", False, text + (f" <- {type(cause).__name__}: {str(cause)[-400:]}" if cause else "")
        )

    summary["checks"] = check.counts
    summary["failed"] = len(check.failures)
    summary["failures"] = check.failures[:20]
    summary["lerobot"] = lerobot.__version__
    summary["ok"] = not check.failures
    print(json.dumps(summary, indent=2))
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
