"""Growth of a dataset from a thousand to fifty thousand episodes, on disk and in object storage, and what ten million would cost."""

from __future__ import annotations

import heapq
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import twinloop as tl
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.parts import append_part
from twinloop.datasets.remote import cache_home
from twinloop.datasets.transfer import push
from twinloop.episode import Provenance, Schema, Signal, make_episode

TITLE = "Ten million episodes: growth on disk and in object storage"
SIZES, QUICK_SIZES = (1_000, 5_000, 20_000, 50_000), (500, 1_000)
PART, ROWS = 500, 50
GOAL = 10_000_000
CORE_HOUR, GPU_HOUR, GB_MONTH = 0.045, 1.20, 0.023
"""Dollars; list prices of the large providers, November 2026, for an on-demand core, a small GPU, and a month of one GB."""

SCHEMA = Schema(
    (
        Signal("observation.state", (8,), ("rad",)),
        Signal("observation.velocity", (8,), ("rad/s",)),
        Signal("action", (8,), ("rad",)),
    ),
    50.0,
    robot_type="arm",
)


@dataclass(frozen=True)
class Point:
    """What was measured at one size; times in seconds."""

    episodes: int
    join_per_s: float
    bytes: int
    table_bytes: int
    open_s: float
    episode_s: float
    query_s: float
    push_mb_s: float
    cold_s: float
    warm_s: float
    remote_episode_s: float
    remote_query_s: float


def run(settings: Settings) -> Section:
    work = settings.work / "scale"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    loads = [os.getloadavg()[0]]
    per_core, episode_bytes, spread = _measure_generation(settings, work)
    with _s3(work) as bucket:
        points = _grow(settings, work, bucket)
    loads.append(os.getloadavg()[0])
    shutil.rmtree(work, ignore_errors=True)
    first, last = points[0], points[-1]
    flat = f"{last.episode_s / first.episode_s:.2f} times as long with {last.episodes:,} as with {first.episodes:,}"
    remote = f"{last.remote_episode_s / first.remote_episode_s:.2f} times"
    join = f"{last.join_per_s / first.join_per_s:.2f} times the rate"
    targets = (
        Target(
            "one episode is read from disk as fast in a large dataset",
            flat,
            last.episode_s < 2 * first.episode_s,
        ),
        Target("and from object storage", remote, last.remote_episode_s < 2 * first.remote_episode_s),
        Target(
            "episodes are joined as fast to a large dataset", join, last.join_per_s > 0.5 * first.join_per_s
        ),
    )
    tables = (
        _growth_table(points),
        _cost_table(per_core, episode_bytes, last),
        _queue_table(per_core, spread, last.join_per_s),
    )
    notes = (
        f"Growth: episodes of {ROWS} rows of 24 numbers, joined in parts of {PART} as `generate` does; random episodes are read by a "
        "dataset that was just opened. Object storage is moto's S3 server, a process of its own on the same two cores: its times say how "
        "they grow, not what a provider's network gives.",
        "Cost: rates of generation and joining are per second of processor time, measured here with pick-and-place of the Panda without cameras; hours are of 1,000 cores. Prices "
        f"are assumptions: ${CORE_HOUR} for a core and hour, ${GB_MONTH} for a GB and month.",
        "Queue: an event for every part; workers take as long as measured, with the spread that was measured, and one writer joins parts "
        "at the rate measured at the largest size.",
    )
    return Section("scale", TITLE, tables, targets, notes, {}, tuple(loads))


def _measure_generation(settings: Settings, work: Path) -> tuple[float, float, float]:
    """Episodes a second of processor time, which others on the machine do not change, bytes of an episode, and the spread of the time of a part."""
    twin = tl.load_twin("franka_pick_place")
    count, times = (8, 2) if settings.quick else (256, 3)
    seconds = []
    for run_number in range(times):
        began = time.process_time()
        out = work / f"sim-{run_number}"
        tl.generate(twin, tl.default_randomization(twin), out=out, episodes=count, seed=run_number, workers=1)
        seconds.append(time.process_time() - began)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    settings.say.print(f"  one core: {count / statistics.median(seconds):.2f} episodes/s")
    spread = statistics.stdev(seconds) / statistics.mean(seconds)
    return count / statistics.median(seconds), size / count, spread


def _grow(settings: Settings, work: Path, bucket: str) -> list[Point]:
    part, whole = work / "part", work / "whole"
    rng = np.random.default_rng(0)
    with tl.make_dataset(part, SCHEMA) as writer:
        for number in range(PART):
            writer.add(_make_episode(rng, number))
    with tl.make_dataset(whole, SCHEMA):
        pass
    points: list[Point] = []
    for size in QUICK_SIZES if settings.quick else SIZES:
        before = points[-1].episodes if points else 0
        began = time.process_time()
        with tl.append_to(whole, commit_every_s=1e9) as writer:
            for _ in range((size - before) // PART):
                append_part(writer, part)
        join = (size - before) / (time.process_time() - began)
        points.append(_measure(whole, f"{bucket}/whole", size, join))
        settings.say.print(f"  {points[-1]}")
    return points


def _make_episode(rng: np.random.Generator, number: int) -> tl.Episode:
    signals = {s.name: rng.normal(size=(ROWS, 8)).astype(np.float32) for s in SCHEMA.signals}
    origin = Provenance(source="sim", seed=number, draw={"mass_kg": float(rng.uniform(0.1, 0.4))})
    return make_episode(SCHEMA, np.arange(ROWS) / 50.0, signals, provenance=origin, success=bool(number % 2))


def _measure(whole: Path, address: str, size: int, join: float) -> Point:
    began = time.monotonic()
    sent = push(whole, address)
    push_s = time.monotonic() - began
    rng = np.random.default_rng(1)
    sql = "select success, count(*) as n, avg(draw['mass_kg']) as mass from episodes group by success"

    def read(place: str | Path, count: int) -> float:
        dataset = tl.open_dataset(place)
        len(dataset.index)
        numbers = rng.integers(0, size, count)
        return _timed(lambda: [dataset.episode(int(n)).signals["action"] for n in numbers]) / count

    def open_whole(place: str | Path) -> float:
        return _timed(lambda: len(tl.open_dataset(place).index))

    shutil.rmtree(cache_home(), ignore_errors=True)
    cold = open_whole(address)
    files = [path for path in whole.rglob("*") if path.is_file()]
    return Point(
        size, join, sum(path.stat().st_size for path in files),
        sum(path.stat().st_size for path in files if "meta" in path.parts),
        statistics.median(open_whole(whole) for _ in range(3)),
        statistics.median(read(whole, 50) for _ in range(3)),
        statistics.median(_timed(lambda: tl.query([whole], sql)) for _ in range(3)),
        sent.bytes / 1e6 / push_s,
        cold,
        statistics.median(open_whole(address) for _ in range(3)),
        statistics.median(read(address, 20) for _ in range(3)),
        statistics.median(_timed(lambda: tl.query([address], sql)) for _ in range(3)),
    )  # fmt: skip


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _growth_table(points: list[Point]) -> Table:
    columns = (
        "episodes", "joined, 1/s", "MB", "of it tables", "open, ms", "one episode, ms", "query, ms",
        "push, MB/s", "S3: first open, ms", "open again, ms", "one episode, ms", "query, ms",
    )  # fmt: skip
    rows = tuple(
        (
            f"{p.episodes:,}", f"{p.join_per_s:,.0f}", f"{p.bytes / 1e6:.0f}", f"{p.table_bytes / 1e6:.0f}",
            *(f"{1e3 * s:.1f}" for s in (p.open_s, p.episode_s, p.query_s)), f"{p.push_mb_s:.0f}",
            *(f"{1e3 * s:.1f}" for s in (p.cold_s, p.warm_s, p.remote_episode_s, p.remote_query_s)),
        )
        for p in points
    )  # fmt: skip
    return Table("Growth", columns, rows)


def _cost_table(per_core: float, episode_bytes: float, last: Point) -> Table:
    """Hours, dollars and bytes of ten million episodes."""
    core_hours = GOAL / per_core / 3600
    data_gb = GOAL * episode_bytes / 1e9
    table_gb = GOAL * last.table_bytes / last.episodes / 1e9
    rows = (
        ("generate, core hours", f"{core_hours:,.0f}", f"{core_hours / 1000:.1f} h on 1,000 cores", f"${core_hours * CORE_HOUR:,.0f}"),
        ("join, one writer", f"{GOAL / last.join_per_s / 3600:.1f} h", f"{last.join_per_s:,.0f} episodes/s", f"${GOAL / last.join_per_s / 3600 * CORE_HOUR:.2f}"),
        ("keep rows", f"{data_gb:,.0f} GB", f"{episode_bytes / 1e3:.0f} kB an episode", f"${data_gb * GB_MONTH:,.0f} a month"),
        ("of it tables that opening fetches", f"{table_gb:.1f} GB", f"{1e3 * table_gb * 1e9 / GOAL / 1e3:.0f} B an episode", ""),
        ("index in memory and time to open", f"{GOAL * last.open_s / last.episodes:.0f} s", "grows with episodes", ""),
    )  # fmt: skip
    return Table(f"{GOAL:,} episodes", ("step", "in all", "from", "dollars"), rows)


def _queue_table(per_core: float, spread: float, join_per_s: float) -> Table:
    """Workers and one writer, event by event: where more cores stop helping."""
    rows = []
    for cores in (10, 100, 300, 1_000, 3_000):
        rate, busy = _simulate(cores, per_core, spread, join_per_s)
        rows.append((f"{cores:,}", f"{cores * per_core:,.0f}", f"{rate:,.0f}", f"{100 * busy:.0f} %"))
    columns = ("cores", "episodes/s that they make", "episodes/s that are joined", "writer busy")
    return Table("One writer, simulated", columns, tuple(rows))


def _simulate(cores: int, per_core: float, spread: float, join_per_s: float) -> tuple[float, float]:
    """Episodes a second that arrive, and the fraction of time that the writer is busy, over an hour; workers wait for no one, but no
    more than two finished parts of each wait for the writer."""
    rng, part = np.random.default_rng(cores), 250
    ready = [(float(t), worker) for worker, t in enumerate(rng.uniform(0, part / per_core, cores))]
    heapq.heapify(ready)
    free, joined, busy, horizon = 0.0, 0, 0.0, 3600.0
    while ready:
        done, worker = heapq.heappop(ready)
        start = max(done, free)
        free = start + part / join_per_s
        if free > horizon:
            break
        joined, busy = joined + part, busy + part / join_per_s
        lag = max(0.0, start - done - part / per_core)
        heapq.heappush(ready, (done + lag + part / per_core * max(0.1, rng.normal(1.0, spread)), worker))
    return joined / horizon, busy / horizon


@contextmanager
def _s3(work: Path) -> Iterator[str]:
    """A bucket of an S3 server on this machine, with keys in the environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    kept = dict(os.environ)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address, "XDG_CACHE_HOME": str(work / "cache"),
    }  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{address}/moto-api/").close()
                    break
                except OSError:
                    time.sleep(0.05)
            urllib.request.urlopen(urllib.request.Request(f"{address}/bench", method="PUT")).close()
            yield "s3://bench"
        finally:
            server.terminate()
            os.environ.clear()
            os.environ.update(kept)
