"""Ingest of MCAP with joint states at 500 Hz and H.264: speed, and memory that does not grow with the log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import ROOT, Section, Settings, Table, Target
from tests.logs import examples

SIZES_GB = (0.3, 1.2)
QUICK_SIZES_GB = (0.05, 0.2)
SPEED_GB_PER_MIN = 1.0
MEMORY_GROWTH_MB = 50.0

MAP = """
rate_hz: 30
provenance: {source: sim}
rows: {like: camera front}
episodes: {by: gaps, gap_s: 1, longest_s: 60}
signals: {observation.state: {from: /joints.position, unit: rad, method: linear, edges: hold}}
cameras: {front: {from: /camera.data}}
"""

WORKER = """
import json, resource, sys, time
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
began, spent = time.monotonic(), time.process_time()
done = ingest(sys.argv[1], sys.argv[2], parse_map(sys.argv[3]))
print(json.dumps({
    "wall_s": time.monotonic() - began,
    "cpu_s": time.process_time() - spent,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    "episodes": len(done.dataset),
    "camera": done.cameras["front"],
}))
"""


def run(settings: Settings) -> Section:
    rows, measured = [], []
    for size_gb in QUICK_SIZES_GB if settings.quick else SIZES_GB:
        log = settings.work / f"joints_and_video_{size_gb:g}GB.mcap"
        if not log.exists():
            settings.say.print(f"writing {log.name} ...")
            write_log(log, size_gb)
        got = measure(log, settings.work / "ingested")
        gigabytes = log.stat().st_size / 1e9
        got["speed"] = gigabytes / got["wall_s"] * 60
        measured.append(got)
        rows.append(
            (
                f"{gigabytes:.2f}",
                f"{got['wall_s']:.1f}",
                f"{got['cpu_s']:.1f}",
                f"{got['speed']:.1f}",
                f"{got['peak_mb']:.0f}",
                str(got["episodes"]),
                got["camera"],
            )
        )
    slowest = min(got["speed"] for got in measured)
    growth = measured[-1]["peak_mb"] - measured[0]["peak_mb"]
    return Section(
        "ingest",
        "Ingest of MCAP logs",
        (
            Table(
                "Joint states at 500 Hz, 640 x 360 H.264 at 30 Hz, Protobuf, LZ4 chunks",
                ("GB", "wall s", "CPU s", "GB/min", "peak MB", "episodes", "video"),
                tuple(rows),
            ),
        ),
        (
            Target(
                f"at least {SPEED_GB_PER_MIN:g} GB/min", f"{slowest:.1f} GB/min", slowest >= SPEED_GB_PER_MIN
            ),
            Target(
                f"peak memory grows by less than {MEMORY_GROWTH_MB:g} MB over a log four times as long",
                f"{growth:+.0f} MB",
                growth < MEMORY_GROWTH_MB,
            ),
        ),
        ("The images are noise, so that every frame is as large as a detailed one of a real camera.",),
    )


def measure(log: Path, out: Path) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-c", WORKER, log, out, MAP], capture_output=True, text=True, check=True, cwd=ROOT
    )
    shutil.rmtree(out, ignore_errors=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def write_log(path: Path, size_gb: float) -> None:
    from mcap.writer import CompressionType, Writer

    rng = np.random.default_rng(0)
    packets = examples.h264_packets(
        rng.integers(0, 255, (30, 360, 640, 3), dtype=np.uint8), keyframe_every=15
    )
    descriptor, made = examples.video_message()
    temporary = path.with_suffix(".partial")
    written, frame = 0, 0
    with temporary.open("wb") as file:
        writer = Writer(file, compression=CompressionType.LZ4)
        writer.start()
        ids = {}
        for topic, kind in (("/joints", "Joints"), ("/camera", "CompressedVideo")):
            schema = writer.register_schema(f"robot.{kind}", "protobuf", descriptor)
            ids[topic] = writer.register_channel(topic, "protobuf", schema)
        while written < size_gb * 1e9:
            stamp = examples.START_NS + frame * 33_333_333
            for step in range(16):
                body = made["Joints"](position=np.sin(np.arange(7) + frame / 30)).SerializeToString()
                writer.add_message(ids["/joints"], stamp + step * 2_000_000, body, stamp)
            body = made["CompressedVideo"](data=packets[frame % 30], format="h264").SerializeToString()
            writer.add_message(ids["/camera"], stamp, body, stamp)
            written += len(body)
            frame += 1
        writer.finish()
    temporary.rename(path)
