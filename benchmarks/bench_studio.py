"""The studio: how soon a page can be used, how fast an episode scrubs and is labelled, and what 100,000 episodes cost."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

from benchmarks.report import ROOT, Section, Settings, Table, Target, spread
from tests.browser import CHROMIUM
from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.writer import make_dataset
from twinloop.studio.client import StudioClient
from twinloop.workspace import init_workspace

INTERACTIVE_S, PAINT_S, SCRUB_MS, LABELS_PER_MIN, WHEEL_MB = 2.0, 1.0, 50.0, 20.0, 3.0
WAIT_MS = 120_000
SCRUB = """async () => {
  const head = document.querySelector('[role=slider]'), times = [];
  for (let k = 0; k < 40; k++) {
    const began = performance.now(), before = head.getAttribute('aria-valuenow');
    window.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    while (head.getAttribute('aria-valuenow') === before && performance.now() - began < 2000)
      await new Promise(done => requestAnimationFrame(done));
    await new Promise(done => requestAnimationFrame(done));
    times.push(performance.now() - began);
  }
  return times;
}"""
"""From the key to the frame after the one in which the play head, and with it every camera and signal, has moved."""


def run(settings: Settings) -> Section:
    episodes, many = (30, 500) if settings.quick else (1000, 100_000)
    folder = Path(tempfile.mkdtemp(dir=settings.work))
    loads = [os.getloadavg()[0]]
    with_video = make_cell(folder / "video", episodes, video=True)
    large = make_cell(folder / "large", many, video=False)
    with studio(with_video) as (address, process, started), browser() as page:
        paint, interactive = measure_pages(page, address)
        scrub, per_min = measure_episode(page, address, 5 if settings.quick else 20)
        video_mb = process.memory_info().rss / 1e6
    loads.append(os.getloadavg()[0])
    with studio(large) as (address, process, _):
        latencies = measure_answers(address)
        large_mb = process.memory_info().rss / 1e6
    loads.append(os.getloadavg()[0])
    wheel, own = measure_wheel(folder)
    rows = [("from the command to an answer, s", f"{started:.1f}")]
    rows += [(f"first paint of {name}, s", spread(times, 2)) for name, times in paint.items()]
    rows += [(f"{name} can be used, s", spread(times, 2)) for name, times in interactive.items()]
    rows += [
        ("one step on the time line, ms", spread(scrub, 0)),
        ("episodes labelled by keys, per minute", f"{per_min:.0f}"),
    ]
    rows += [("memory of the server, MB", f"{video_mb:.0f}")]
    slowest_paint = max(statistics.median(times) for times in paint.values())
    slowest = max(statistics.median(times) for times in interactive.values())
    step = statistics.median(scrub)
    return Section(
        "studio",
        "The studio",
        (
            Table(f"{episodes:,} episodes with video", ("measured", "median and range"), tuple(rows)),
            Table(
                f"{many:,} episodes; memory of the server {large_mb:.0f} MB",
                ("asked for", "ms, median and range"),
                tuple((name, spread(times, 0)) for name, times in latencies.items()),
            ),
            Table("wheel", ("part", "MB"), (("all of it", f"{wheel:.2f}"), ("the studio", f"{own:.2f}"))),
        ),
        (
            Target("first paint under 1 s", f"{slowest_paint:.2f} s", slowest_paint < PAINT_S),
            Target(
                "usable under 2 s with 1,000 episodes with video", f"{slowest:.2f} s", slowest < INTERACTIVE_S
            ),
            Target("a step on the time line under 50 ms", f"{step:.0f} ms", step < SCRUB_MS),
            Target("20 episodes a minute labelled by keys", f"{per_min:.0f}", per_min >= LABELS_PER_MIN),
            Target("the wheel grows by less than 3 MB", f"{own:.2f} MB", own < WHEEL_MB),
        ),
        (
            "Chromium without a window and without a graphics card, on the machine of the server, which others used too.",
            "The labelling user is a script that waits for each next episode: an upper limit set by the studio, not by a person.",
        ),
        loads=tuple(loads),
    )


def make_cell(root: Path, episodes: int, *, video: bool) -> Path:
    """A workspace with one dataset; episodes repeat a few, so that making them costs little."""
    init_workspace(root)
    schema, rows = (WITH_CAMERA, 60) if video else (STATE_ONLY, 3)
    kept = [toy_episode(seed, rows, schema) for seed in range(20)]
    with make_dataset(root / "data/runs", schema) as writer:
        for number in range(episodes):
            writer.add(fresh(kept[number % len(kept)], number))
    return root


def fresh(episode: Any, number: int) -> Any:
    """The same episode with another id."""
    from dataclasses import replace

    return replace(episode, id=f"{number:032x}")


@contextmanager
def studio(root: Path) -> Iterator[tuple[str, psutil.Process, float]]:
    """A studio in a process of its own: its address, its process and how long it took to answer, s."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "twinloop", "studio", str(root), "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        try:
            yield json.loads(text)["address"], psutil.Process(process.pid), time.perf_counter() - began
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@contextmanager
def browser() -> Iterator[Page]:
    with sync_playwright() as playwright:
        words = ["--no-sandbox", "--disable-background-networking"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=words)
        page = opened.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(WAIT_MS)
        yield page
        opened.close()


def measure_pages(page: Page, address: str) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """First paint, and until the content is there, of rooms opened anew; s."""
    base = address.partition("/?")[0]
    page.goto(address)
    page.wait_for_selector("#main h1")
    rooms = {
        "the overview": ("/overview", "#main table, #main .card"),
        "the list of episodes": (
            "/data/data%2Fruns",
            "[role=grid] [role=row] [role=gridcell], [role=row] td",
        ),
        "an episode": ("/episode/data%2Fruns/0", "[role=slider]"),
    }
    paint: dict[str, list[float]] = {name: [] for name in rooms}
    ready: dict[str, list[float]] = {name: [] for name in rooms}
    for _ in range(5):
        for name, (path, there) in rooms.items():
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(f"{base}{path}", wait_until="commit")
            page.wait_for_selector(there)
            ready[name].append(time.perf_counter() - began)
            found = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)[0] ?? null"
            )
            if found is not None:
                paint[name].append(found / 1e3)
    return {name: times for name, times in paint.items() if times}, ready


def measure_episode(page: Page, address: str, labels: int) -> tuple[list[float], float]:
    """Milliseconds for each step on the time line, and episodes labelled by keys in a minute."""
    base = address.partition("/?")[0]
    page.evaluate("localStorage.setItem('twinloop.name', 'bench')")
    page.goto(f"{base}/episode/data%2Fruns/0")
    page.wait_for_selector("[role=slider]")
    page.wait_for_timeout(1000)
    scrub = [float(one) for one in page.evaluate(SCRUB)]
    began = time.perf_counter()
    for number in range(labels):
        page.wait_for_url(f"**/{number}")
        page.wait_for_selector(f"[aria-label='Camera front of episode {number}']")
        page.keyboard.press("s")
    page.wait_for_url(f"**/{labels}")
    return scrub, 60.0 * labels / (time.perf_counter() - began)


def measure_answers(address: str) -> dict[str, list[float]]:
    """Milliseconds of answers about a large dataset; the first request of each kind, which reads the index, is listed apart."""
    data = "data/runs"
    with StudioClient(address) as client:
        total = client.list_episodes(data, limit=1).total
        asked: dict[str, Callable[[], object]] = {
            "the overview": client.read_overview,
            "datasets with counts": client.list_datasets,
            "first 100 episodes": lambda: client.list_episodes(data, limit=100),
            "100 episodes in the middle": lambda: client.list_episodes(data, offset=total // 2, limit=100),
            "failures only, sorted": lambda: client.list_episodes(
                data, outcome="failure", sort="episode", descending=True
            ),
            "what can be filtered by, with counts": lambda: client.list_facets(data),
            "SQL: success by site": lambda: client.query_data(
                "select site, avg(success::int) from episodes group by site", [data]
            ),
            "one episode": lambda: client.read_episode(data, total // 2),
        }
        return {name: [timed(ask) for _ in range(7)][1:] for name, ask in asked.items()}


def timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return 1e3 * (time.perf_counter() - began)


def measure_wheel(folder: Path) -> tuple[float, float]:
    """Size of the wheel, and of what the studio adds to it, compressed; MB."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as parts:
        own = sum(
            one.compress_size for one in parts.infolist() if one.filename.startswith("twinloop/studio/")
        )
    return wheel.stat().st_size / 1e6, own / 1e6
