"""One measurement of our own store in a process of its own; the twin of peers/lerobot/store.py.

    python -m benchmarks.store_worker write OUT --episodes 50 --frames 200 [--video]
    python -m benchmarks.store_worker read  DATASET --samples 20000 [--video | --decoded]
    python -m benchmarks.store_worker query DATASET
    python -m benchmarks.store_worker open  DATASET

Prints one JSON object.
"""

from __future__ import annotations

import time

STARTED = time.perf_counter()

import argparse  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import resource  # noqa: E402
import shutil  # noqa: E402
import threading  # noqa: E402
from datetime import UTC, datetime, timedelta  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from benchmarks.scene import ACTION_SIZE, RATE_HZ, SIDE, STATE_SIZE, cpu_seconds, scene_frame, scene_rows  # noqa: E402
from twinloop.datasets.query import query  # noqa: E402
from twinloop.datasets.reader import open_dataset  # noqa: E402
from twinloop.datasets.video import VideoSettings  # noqa: E402
from twinloop.datasets.writer import make_dataset  # noqa: E402
from twinloop.episode import Camera, Provenance, Schema, Signal, make_episode  # noqa: E402

SIGNALS = (
    Signal("observation.state", (STATE_SIZE,), ("rad",)),
    Signal("action", (ACTION_SIZE,), ("rad",)),
)
CAMERA = Camera("front", SIDE, SIDE)
WINDOW = {"observation.state": range(-1, 1), "action": range(16)}
BATCH = 256
SITES = ("berlin", "lyon", "osaka", "austin")

PROVENANCE_QUERY = """
select site, twin_version, count(*) as episodes, avg(success::int) as success, avg(draw['mass_kg']) as mass_kg
from episodes
where source = 'sim' and draw['friction'] between 0.5 and 0.9 and twin_version in ('3', '4')
group by all order by all
"""


class AnonymousMemory:
    """Peak memory of this process that is its own; file pages that are merely mapped belong to the system's cache."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            self._look()

    def _look(self) -> None:
        status = Path("/proc/self/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found, "no RssAnon in /proc/self/status"
        self.peak_mb = max(self.peak_mb, int(found[1]) / 1024)

    def stop(self) -> float:
        self._look()
        self._done.set()
        self._thread.join()
        return self.peak_mb


def make_provenance(episode: int) -> Provenance:
    """A simulated origin that differs from episode to episode, as a generated dataset has it."""
    rng = np.random.default_rng(episode)
    return Provenance(
        source="sim" if episode % 10 else "real",
        engine="mujoco",
        engine_version="3.17.0",
        twin="franka_pick_place",
        twin_version=str(1 + episode % 7),
        randomization="wide",
        draw={
            "mass_kg": float(rng.uniform(0.05, 0.4)),
            "friction": float(rng.uniform(0.2, 1.1)),
            "texture": f"wood_{episode % 200}",
        },
        seed=episode,
        actor="expert",
        site=SITES[episode % len(SITES)],
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=episode),
    )


def write(arguments: argparse.Namespace) -> dict:
    shutil.rmtree(arguments.dataset, ignore_errors=True)
    cameras = (CAMERA,) if arguments.video else ()
    schema = Schema(SIGNALS, float(RATE_HZ), cameras, "bench")
    settings = VideoSettings()
    time_s = np.arange(arguments.frames) / RATE_HZ
    spent, cpu = [], 0.0
    with make_dataset(arguments.dataset, schema, video=settings) as writer:
        for number in range(arguments.episodes):
            states, actions = scene_rows(number, arguments.frames)
            frames = {}
            if arguments.video:
                frames = {CAMERA.name: np.stack([scene_frame(number, t) for t in range(arguments.frames)])}
            provenance = make_provenance(number)
            began, before = time.perf_counter(), cpu_seconds()
            episode = make_episode(
                schema,
                time_s,
                {"observation.state": states, "action": actions},
                frames=frames,
                success=number % 5 != 0,
                task="move the shapes",
                provenance=provenance,
            )
            writer.add(episode)
            spent.append(time.perf_counter() - began)
            cpu += cpu_seconds() - before
        began, before = time.perf_counter(), cpu_seconds()
    spent[-1] += time.perf_counter() - began
    cpu += cpu_seconds() - before
    tail = max(1, arguments.episodes // 10)
    return {
        "frames_per_s": arguments.episodes * arguments.frames / sum(spent),
        "frames_per_cpu_s": arguments.episodes * arguments.frames / cpu,
        "tail_frames_per_s": tail * arguments.frames / sum(spent[-tail:]),
        "bytes": sum(path.stat().st_size for path in arguments.dataset.rglob("*") if path.is_file()),
        "codec": f"{settings.codec} crf={settings.crf} preset={settings.preset} tune={settings.tune} "
        f"g={settings.keyframe_every}",
    }


def read(arguments: argparse.Namespace) -> dict:
    window = dict(WINDOW)
    if arguments.video or arguments.decoded:
        window[CAMERA.key] = range(1)
    began = time.perf_counter()
    windows = open_dataset(arguments.dataset).windows(window, decoded=arguments.decoded)
    open_s = time.perf_counter() - began
    order = np.random.default_rng(0).integers(0, len(windows), size=arguments.samples)
    for row in order[:5].tolist():
        windows[row]
    began = time.perf_counter()
    for row in order.tolist():
        item = windows[row]
    seconds = time.perf_counter() - began
    assert item["observation.state"].shape == (2, STATE_SIZE) and item["action"].shape == (16, ACTION_SIZE)
    began = time.perf_counter()
    for start in range(0, len(order), BATCH):
        windows.batch(order[start : start + BATCH])
    batched = time.perf_counter() - began
    return {
        "samples_per_s": len(order) / seconds,
        "batched_samples_per_s": len(order) / batched,
        "open_s": open_s,
    }


def read_episodes(arguments: argparse.Namespace) -> dict:
    dataset = open_dataset(arguments.dataset)
    order = np.random.default_rng(0).integers(0, len(dataset), size=arguments.samples)
    began = time.perf_counter()
    for number in order.tolist():
        dataset.episode(number)
    return {"episodes_per_s": len(order) / (time.perf_counter() - began)}


def run_query(arguments: argparse.Namespace) -> dict:
    began = time.perf_counter()
    rows = query([arguments.dataset], PROVENANCE_QUERY).num_rows
    ended = time.perf_counter()
    return {"seconds": ended - began, "seconds_with_imports": ended - STARTED, "rows": rows}


def open_without_data(arguments: argparse.Namespace) -> dict:
    """Open the dataset while its rows are somewhere else: it cannot have read them."""
    data, hidden = arguments.dataset / "data", arguments.dataset / "hidden"
    data.rename(hidden)
    try:
        began = time.perf_counter()
        dataset = open_dataset(arguments.dataset)
        opened = time.perf_counter() - began
        before = _bytes_read()
        episodes, frames = len(dataset), dataset.num_frames
        longest = int(dataset.index.length.max())
        indexed = time.perf_counter() - began
        read_bytes = _bytes_read() - before
    finally:
        hidden.rename(data)
    return {
        "seconds": opened,
        "seconds_with_index": indexed,
        "episodes": episodes,
        "frames": frames,
        "longest": longest,
        "bytes_read": read_bytes,
        "data_bytes": sum(path.stat().st_size for path in data.rglob("*.parquet")),
    }


def _bytes_read() -> int:
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found, "no rchar in /proc/self/io"
    return int(found[1])


MODES = {
    "write": write,
    "read": read,
    "read-episodes": read_episodes,
    "query": run_query,
    "open": open_without_data,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("dataset", type=Path, help="dataset folder; `write` replaces it")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--frames", type=int, default=200, help="frames per episode")
    parser.add_argument("--samples", type=int, default=20_000, help="random reads")
    parser.add_argument("--video", action="store_true")
    parser.add_argument("--decoded", action="store_true", help="read frames from the decoded cache")
    arguments = parser.parse_args()
    memory = AnonymousMemory() if arguments.mode != "query" else None
    result = MODES[arguments.mode](arguments)
    if memory:
        result["peak_own_mb"] = memory.stop()
    result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
