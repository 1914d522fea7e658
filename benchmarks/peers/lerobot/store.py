"""What LeRobot's own store does, through its documented recording and reading interface.

    python store.py write   OUT --episodes 50 --frames 200 [--video [--threads 4 | --streaming]]
    python store.py read    DATASET --samples 1000 [--video]
    python store.py image DATASET --frames 150

Runs inside the virtualenv made by install.sh, without network; prints one JSON object.

- `write` is LeRobotDataset.create, add_frame, save_episode, finalize with a 14-d float32 state, a 7-d float32 action
  and, with --video, one 128x128 camera. Making the data is not timed.
- `read` takes random ds[i] with two states and sixteen actions, and with --video the frame of the present row.
- `image` decodes frames of any LeRobot v3.0 dataset of these scenes and compares them with the raw images.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("SVT_LOG", "1")
_cache = None
if "HF_DATASETS_CACHE" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="lerobot-store-", ignore_cleanup_errors=True)
    os.environ["HF_DATASETS_CACHE"] = _cache.name
warnings.filterwarnings("ignore", message="Failed to load image Python extension")
warnings.filterwarnings("ignore", message="Cannot enable progress bars")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np  # noqa: E402

from benchmarks.scene import (  # noqa: E402
    ACTION_SIZE,
    RATE_HZ,
    SIDE,
    STATE_SIZE,
    cpu_seconds,
    image_error,
    scene_frame,
    scene_rows,
)

STATE, ACTION, CAMERA = "observation.state", "action", "observation.images.front"
SHOWN = 150  # frames compared by `image`


def features(video: bool) -> dict:
    spec = {
        STATE: {"dtype": "float32", "shape": (STATE_SIZE,), "names": [f"s{i}" for i in range(STATE_SIZE)]},
        ACTION: {"dtype": "float32", "shape": (ACTION_SIZE,), "names": [f"a{i}" for i in range(ACTION_SIZE)]},
    }
    if video:
        spec[CAMERA] = {
            "dtype": "video",
            "shape": (SIDE, SIDE, 3),
            "names": ["height", "width", "channels"],
        }
    return spec


def make_frames(episode: int, length: int, video: bool) -> list[dict]:
    states, actions = scene_rows(episode, length)
    frames = []
    for row in range(length):
        frame = {STATE: states[row], ACTION: actions[row], "task": "move the shapes"}
        if video:
            frame[CAMERA] = scene_frame(episode, row)
        frames.append(frame)
    return frames


def write(arguments: argparse.Namespace) -> dict:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    shutil.rmtree(arguments.dataset, ignore_errors=True)
    options = {}
    if arguments.threads:
        options["image_writer_threads"] = arguments.threads
    if arguments.streaming:
        options["streaming_encoding"] = True
        options["encoder_queue_maxsize"] = max(30, arguments.frames + 1)  # no frame may be dropped
    dataset = LeRobotDataset.create(
        "local/bench",
        fps=RATE_HZ,
        features=features(arguments.video),
        root=arguments.dataset,
        robot_type="bench",
        use_videos=arguments.video,
        **options,
    )
    spent, cpu = [], 0.0
    for episode in range(arguments.episodes):
        frames = make_frames(episode, arguments.frames, arguments.video)
        began, before = time.perf_counter(), cpu_seconds()
        for frame in frames:
            dataset.add_frame(frame)
        dataset.save_episode()
        spent.append(time.perf_counter() - began)
        cpu += cpu_seconds() - before
        if sum(spent) > arguments.limit_s:
            break
    began, before = time.perf_counter(), cpu_seconds()
    dataset.finalize()
    spent[-1] += time.perf_counter() - began
    cpu += cpu_seconds() - before
    tail = max(1, len(spent) // 10)
    result = {
        "stopped_at": len(spent) if len(spent) < arguments.episodes else None,
        "frames_per_s": len(spent) * arguments.frames / sum(spent),
        "frames_per_cpu_s": len(spent) * arguments.frames / cpu,
        "tail_frames_per_s": tail * arguments.frames / sum(spent[-tail:]),
        "bytes": sum(path.stat().st_size for path in arguments.dataset.rglob("*") if path.is_file()),
    }
    if arguments.video:
        result["codec"] = codec_settings()
    return result


def codec_settings() -> str:
    from lerobot.datasets import video_utils

    parameters = inspect.signature(video_utils.encode_video_frames).parameters
    codec, keyframe_every, crf, preset = (
        parameters[name].default for name in ("vcodec", "g", "crf", "preset")
    )
    options = video_utils._get_codec_options(codec, keyframe_every, crf, preset)
    return " ".join([codec, *(f"{name}={value}" for name, value in options.items())])


def read(arguments: argparse.Namespace) -> dict:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    step = 1.0 / RATE_HZ
    window = {STATE: [-step, 0.0], ACTION: [step * k for k in range(16)]}
    began = time.perf_counter()
    dataset = LeRobotDataset("local/bench", root=arguments.dataset, delta_timestamps=window)
    open_s = time.perf_counter() - began
    order = np.random.default_rng(0).integers(0, len(dataset), size=arguments.samples).tolist()
    for index in order[:5]:
        dataset[index]
    began = time.perf_counter()
    for index in order:
        item = dataset[index]
    seconds = time.perf_counter() - began
    assert item[STATE].shape == (2, STATE_SIZE) and item[ACTION].shape == (16, ACTION_SIZE)
    return {"samples_per_s": len(order) / seconds, "open_s": open_s}


def image(arguments: argparse.Namespace) -> dict:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/bench", root=arguments.dataset)
    decoded, raw = [], []
    for index in np.unique(np.linspace(0, len(dataset) - 1, SHOWN).astype(int)).tolist():
        decoded.append(dataset[index][CAMERA].numpy().transpose(1, 2, 0) * 255.0)
        raw.append(scene_frame(*divmod(index, arguments.frames)))
    bytes_of_video = sum(path.stat().st_size for path in arguments.dataset.rglob("*.mp4"))
    return image_error(decoded, raw) | {"bytes_per_frame": bytes_of_video / len(dataset)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=["write", "read", "image"])
    parser.add_argument("dataset", type=Path, help="dataset folder; `write` replaces it")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--frames", type=int, default=200, help="frames per episode")
    parser.add_argument("--samples", type=int, default=1000, help="random reads")
    parser.add_argument("--video", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="image writer threads; lerobot-record uses 4")
    parser.add_argument("--streaming", action="store_true", help="encode while recording")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="stop writing after so many seconds")
    arguments = parser.parse_args()

    import av
    import lerobot
    import torch

    result = {"write": write, "read": read, "image": image}[arguments.mode](arguments)
    result["versions"] = {"lerobot": lerobot.__version__, "torch": torch.__version__, "av": av.__version__}
    result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
