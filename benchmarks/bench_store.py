"""The store beside LeRobot's: writing, video, random windows, provenance queries, memory; and how each grows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import lerobot
from benchmarks.report import ROOT, Section, Settings, Table, Target, ratio, spread

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    repeats: int
    long_episodes: int  # of 200 frames
    growth: tuple[int, ...]  # episodes of 20 frames
    video_episodes: int  # of 150 frames
    video_growth: tuple[int, ...]  # episodes of 10 frames
    peer_limit_s: int  # LeRobot stops a run after this long and says how far it came
    many: int  # episodes of 10 frames for queries and memory
    few: int


FULL = Plan(2, 50, (100, 1_000, 10_000), 15, (100, 1_000, 10_000), 400, 100_000, 5_000)
QUICK = Plan(1, 10, (50, 200), 3, (20, 100), 10, 10_000, 500)
LONG, SHORT, VIDEO, TINY = 200, 20, 150, 10

VARIANTS: dict[str, tuple[str, ...]] = {
    "LeRobot as installed": (),
    "LeRobot, 4 image writer threads": ("--threads", "4"),
    "LeRobot, streaming encoding": ("--streaming",),
}


def run(settings: Settings) -> Section:
    plan = QUICK if settings.quick else FULL
    settings.say.print("LeRobot: installing if needed ...")
    missing = lerobot.install()
    bench = _Bench(settings, plan, missing is None)
    tables = [
        bench.write_state(),
        bench.write_video(),
        bench.grow_video(),
        bench.read_windows(),
        bench.ask(),
        bench.memory(),
    ]
    notes = [
        "Data: 14-d state and 7-d action, float32, at 30 Hz; images are benchmarks/scene.py. Making the data is not timed. "
        "Ours takes an episode as arrays (make_episode and add), LeRobot frame by frame (add_frame and save_episode); "
        "finishing the dataset is in the time of both.",
        f"LeRobot is stopped {plan.peer_limit_s} s into a run; where it was, the number of episodes it reached is given.",
        "Ours computes the same statistics, and checks, content ids, provenance and checksums besides.",
        "Files are in the system's cache when they are read; nothing is kept from one process to the next.",
    ]
    if missing:
        notes.insert(0, f"{missing}. Only our own numbers are given.")
    return Section(
        "store",
        "Store: datasets on disk, beside LeRobot 0.4.4",
        tuple(tables),
        tuple(bench.targets),
        tuple(notes),
        {f"{name} (LeRobot's)": number for name, number in bench.peer_versions.items()},
        tuple(bench.loads),
    )


class _Bench:
    def __init__(self, settings: Settings, plan: Plan, with_peer: bool) -> None:
        self._say = settings.say
        self._work = settings.work / ("store-quick" if settings.quick else "store")
        self._work.mkdir(exist_ok=True)
        self._plan = plan
        self._with_peer = with_peer
        self.targets: list[Target] = []
        self.peer_versions: dict[str, str] = {}
        self.loads: list[float] = []

    def write_state(self) -> Table:
        sizes = [(self._plan.long_episodes, LONG), *((episodes, SHORT) for episodes in self._plan.growth)]
        rows, ratios, flat = [], [], []
        for episodes, frames in sizes:
            words = ("--episodes", episodes, "--frames", frames)
            repeats = self._plan.repeats if episodes <= 1_000 else 1
            ours, theirs = self._pairs("write", f"state-{episodes}x{frames}", words, repeats)
            rows.append(
                (
                    f"{episodes:,} x {frames}",
                    *_compared(ours, theirs, "frames_per_s"),
                    _per_cpu(ours, theirs),
                    _tail(ours),
                    _tail(theirs),
                )
            )
            ratios += [ratio(_all(ours, "frames_per_s"), _all(theirs, "frames_per_s"))] if theirs else []
            if frames == SHORT:
                flat.append(median(_all(ours, "frames_per_s")))
        self._promise("state-only write at least 20x LeRobot", ratios, 20)
        change = flat[-1] / flat[0]
        self.targets.append(
            Target(
                f"writing does not slow down from {self._plan.growth[0]:,} to {self._plan.growth[-1]:,} episodes",
                f"{change:.2f} of the rate",
                change >= 0.8,
            )
        )
        columns = (
            "episodes x frames",
            "Twinloop frames/s",
            "LeRobot frames/s",
            "ratio",
            "per CPU second",
            "Twinloop, last tenth",
        )
        return Table("Write, state only", (*columns, "LeRobot, last tenth"), tuple(rows))

    def write_video(self) -> Table:
        words = ("--episodes", self._plan.video_episodes, "--frames", VIDEO, "--video")
        results: dict[str, list[Measurement]] = {"Twinloop": []}
        for repeat in range(min(2, self._plan.repeats)):
            results["Twinloop"].append(self._ours("write", self._path("ours", "video"), *words))
            for number, (name, options) in enumerate(VARIANTS.items() if self._with_peer else ()):
                path = self._path("lerobot", f"video-{number}")
                results.setdefault(name, []).append(self._theirs("write", path, *words, *options))
            self._say.print(f"  video write, repeat {repeat + 1}")
        paths = [
            self._path("ours", "video"),
            *(self._path("lerobot", f"video-{n}") for n in range(len(VARIANTS))),
        ]
        ours, cpu = _all(results["Twinloop"], "frames_per_s"), "frames_per_cpu_s"
        rows, ratios = [], []
        for (name, measured), path in zip(results.items(), paths, strict=False):
            rates = _all(measured, "frames_per_s")
            image = self._theirs("image", path, "--frames", VIDEO) if self._with_peer else {}
            factor = ratio(ours, rates)
            ratios += [factor] if name != "Twinloop" else []
            rows.append(
                (
                    name,
                    str(measured[0]["codec"]),
                    spread(rates),
                    f"{factor:.1f}x" if name != "Twinloop" else "",
                    f"{ratio(_all(results['Twinloop'], cpu), _all(measured, cpu)):.1f}x"
                    if name != "Twinloop"
                    else "",
                    *(_number(image, key) for key in ("psnr_db", "mean_absolute_error", "bytes_per_frame")),
                )
            )
        self._promise("128x128 video write at least 5x LeRobot, its fastest variant too", ratios, 5)
        columns = (
            "writer",
            "codec",
            "frames/s",
            "we are",
            "per CPU second",
            "PSNR, dB",
            "mean error of 255",
            "bytes/frame",
        )
        title = (
            f"Write, 128x128 video, {self._plan.video_episodes} x {VIDEO} (images decoded by LeRobot for all)"
        )
        return Table(title, columns, tuple(rows))

    def grow_video(self) -> Table:
        rows = []
        for episodes in self._plan.video_growth:
            words = ("--episodes", episodes, "--frames", TINY, "--video")
            with_peer = episodes <= 1_000
            ours, theirs = self._pairs("write", f"video-{episodes}x{TINY}", words, 1, with_peer=with_peer)
            rows.append(
                (
                    f"{episodes:,} x {TINY}",
                    *_compared(ours, theirs, "frames_per_s"),
                    _per_cpu(ours, theirs),
                    _tail(ours),
                    _tail(theirs),
                )
            )
        columns = (
            "episodes x frames",
            "Twinloop frames/s",
            "LeRobot frames/s",
            "ratio",
            "per CPU second",
            "Twinloop, last tenth",
        )
        return Table(
            "Write, 128x128 video, as episodes accumulate", (*columns, "LeRobot, last tenth"), tuple(rows)
        )

    def read_windows(self) -> Table:
        rows, ratios = [], []
        samples = 2_000 if self._plan is QUICK else 20_000
        for episodes in self._plan.growth:
            ours, theirs = [], []
            for _ in range(min(2, self._plan.repeats)):
                name = f"state-{episodes}x{SHORT}"
                ours.append(self._ours("read", self._path("ours", name), "--samples", samples))
                if self._with_peer:
                    theirs.append(self._theirs("read", self._path("lerobot", name), "--samples", 600))
            rows.append(
                (f"state, {episodes:,} episodes", *_compared(ours, theirs, "samples_per_s"), _batched(ours))
            )
            ratios += [ratio(_all(ours, "samples_per_s"), _all(theirs, "samples_per_s"))] if theirs else []
            self._say.print(f"  random windows, {episodes:,} episodes")
        self._promise("random window (16 actions, 2 states) at least 20x LeRobot", ratios, 20)
        theirs = []
        if self._with_peer:
            theirs = [self._theirs("read", self._path("lerobot", "video-0"), "--samples", 400)]
        path = self._path("ours", "video")
        frame = [self._ours("read", path, "--samples", 600, "--video")]
        rows.append(("state and frame", *_compared(frame, theirs, "samples_per_s"), _batched(frame)))
        cached = [self._ours("read", path, "--samples", samples, "--decoded")]
        rows.append(
            ("state and frame, decoded cache", *_compared(cached, theirs, "samples_per_s"), _batched(cached))
        )
        columns = (
            "random windows",
            "Twinloop samples/s",
            "LeRobot ds[i] samples/s",
            "ratio",
            "Twinloop, batches of 256",
        )
        return Table("Read random windows: 2 states, 16 actions", columns, tuple(rows))

    def ask(self) -> Table:
        path, _ = self._large()
        asked = [self._ours("query", path) for _ in range(5)]
        opened = [self._ours("open", path) for _ in range(5)]
        seconds, opening = _all(asked, "seconds"), _all(opened, "seconds")
        first = opened[0]
        self.targets += [
            Target(
                f"a provenance query over {self._plan.many:,} episodes within a second",
                f"{median(seconds):.2f} s",
                median(seconds) <= 1.0,
            ),
            Target(
                "opening a dataset does not read its frames",
                f"opened in {1e3 * median(opening):.1f} ms with its data folder moved away",
                first["episodes"] == self._plan.many,
            ),
        ]
        rows = (
            ("provenance query, new process, after imports", spread(seconds, 2) + " s"),
            ("the same with imports", spread(_all(asked, "seconds_with_imports"), 2) + " s"),
            ("open_dataset, data folder moved away", spread([1e3 * s for s in opening], 1) + " ms"),
            ("and where every episode is", spread(_all(opened, "seconds_with_index"), 2) + " s"),
            ("bytes read for that", f"{first['bytes_read']:,} (the rows are {first['data_bytes']:,})"),
        )
        return Table(f"{self._plan.many:,} episodes, {first['frames']:,} frames", ("what", "result"), rows)

    def memory(self) -> Table:
        large, written = self._large()
        small = self._path("ours", "small")
        at_small = self._ours("write", small, "--episodes", self._plan.few, "--frames", TINY)
        rows, worst = [], 0.0
        pairs = [("write", at_small, written)]
        for what, mode in (("read random windows", "read"), ("read random episodes", "read-episodes")):
            few, many = (self._ours(mode, path, "--samples", 2_000) for path in (small, large))
            pairs.append((what, few, many))
        for what, few, many in pairs:
            growth = many["peak_own_mb"] / few["peak_own_mb"]
            worst = max(worst, growth)
            rows.append((what, f"{few['peak_own_mb']:.0f}", f"{many['peak_own_mb']:.0f}", f"{growth:.2f}"))
        self.targets.append(
            Target(
                f"peak memory does not grow from {self._plan.few:,} to {self._plan.many:,} episodes",
                f"at most {worst:.2f} times",
                worst <= 1.25,
            )
        )
        columns = ("what", f"{self._plan.few:,} episodes, MB", f"{self._plan.many:,} episodes, MB", "growth")
        return Table("Peak memory of the process (without mapped files)", columns, tuple(rows))

    def _large(self) -> tuple[Path, Measurement]:
        """The dataset of many episodes, written again only when the code that writes it has changed."""
        path, note = self._path("ours", "large"), self._work / "large.json"
        sources = [*sorted((ROOT / "twinloop/datasets").glob("*.py")), ROOT / "twinloop/episode.py"]
        digest = hashlib.blake2b(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
        if note.exists() and path.exists():
            known = json.loads(note.read_text())
            if known["code"] == digest:
                return path, known
        self._say.print(f"  building {self._plan.many:,} episodes ...")
        built = self._ours("write", path, "--episodes", self._plan.many, "--frames", TINY)
        note.write_text(json.dumps(built | {"code": digest}))
        return path, built

    def _pairs(
        self, mode: str, name: str, words: tuple[object, ...], repeats: int, *, with_peer: bool = True
    ) -> tuple[list[Measurement], list[Measurement]]:
        """Ours and LeRobot in turn."""
        ours, theirs = [], []
        for _ in range(repeats):
            ours.append(self._ours(mode, self._path("ours", name), *words))
            if self._with_peer and with_peer:
                theirs.append(self._theirs(mode, self._path("lerobot", name), *words))
        self._say.print(f"  {mode} {name}")
        return ours, theirs

    def _promise(self, promise: str, ratios: list[float], wanted: float) -> None:
        if not ratios:
            self.targets.append(Target(promise, "LeRobot is not here", None))
            return
        self.targets.append(
            Target(promise, f"{min(ratios):.0f}x to {max(ratios):.0f}x", min(ratios) >= wanted)
        )

    def _path(self, who: str, name: str) -> Path:
        return self._work / f"{who}-{name}"

    def _ours(self, mode: str, path: Path, *words: object) -> Measurement:
        self.loads.append(os.getloadavg()[0])
        shutil.rmtree(path / ".cache", ignore_errors=True)
        command = [sys.executable, "-m", "benchmarks.store_worker", mode, str(path), *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        result: Measurement = json.loads(done.stdout)
        return result

    def _theirs(self, mode: str, path: Path, *words: object) -> Measurement:
        result = lerobot.run("store.py", mode, path, *words, "--limit-s", self._plan.peer_limit_s)
        self.peer_versions = result.pop("versions")
        return result


def _all(results: list[Measurement], key: str) -> list[float]:
    return [float(result[key]) for result in results]


def _compared(ours: list[Measurement], theirs: list[Measurement], key: str) -> tuple[str, str, str]:
    mine = _all(ours, key)
    if not theirs:
        return spread(mine), "", ""
    reached = theirs[0].get("stopped_at")
    other = spread(_all(theirs, key)) + (f", stopped at {reached:,} episodes" if reached else "")
    return spread(mine), other, f"{ratio(mine, _all(theirs, key)):.1f}x"


def _per_cpu(ours: list[Measurement], theirs: list[Measurement]) -> str:
    """The ratio of frames per second of processor time: what the clock would say on a machine of one's own."""
    key = "frames_per_cpu_s"
    return f"{ratio(_all(ours, key), _all(theirs, key)):.1f}x" if theirs else ""


def _tail(results: list[Measurement]) -> str:
    return spread(_all(results, "tail_frames_per_s")) if results else ""


def _batched(results: list[Measurement]) -> str:
    return spread(_all(results, "batched_samples_per_s"))


def _number(result: Measurement, key: str) -> str:
    return f"{result[key]:,.{0 if key.startswith('bytes') else 2}f}" if key in result else ""
