"""Data quality on real recordings: what is found of faults put into them, what is blocked of clean ones, and lag.

Recordings are divided by a hash of their names: limits may be set on one half, and the verdict is read off the other.
Needs the real recordings (TWINLOOP_REAL_DATA, default ../shared/real).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from benchmarks.report import Section, Settings, Table, Target
from tests.quality import recordings
from tests.quality.faults import FAULTS, Fault, delayed
from twinloop.datasets.reader import open_dataset
from twinloop.episode import Camera, Episode
from twinloop.quality import settings as quality_settings
from twinloop.quality.check import check_episode
from twinloop.quality.finding import Finding, Measurement, QualityReport
from twinloop.quality.response import measurements
from twinloop.quality.view import View

SIZES = ("at the limit", "beyond it", "gross")
TITLE = "Data quality on real recordings"
Recordings = dict[str, list[tuple[str, Episode]]]


CAMERA_DRAWS = 10
"""Few recordings have a camera, so each gets its fault at this many places."""


def run(settings: Settings) -> Section:
    if not recordings.present():
        missing = f"not measured: no recordings in {recordings.REAL}; set TWINLOOP_REAL_DATA"
        return Section("quality", TITLE, (), (Target("recall of every fault >= 95 %", missing, None),))
    loads = [os.getloadavg()[0]]
    sources = load(every=6 if settings.quick else 1)
    setting, reporting = halves(sources)
    counts = [sum(map(len, half.values())) for half in (setting, reporting)]
    settings.say.print(f"{counts[0]} recordings to set limits on, {counts[1]} to report on")
    clean, clean_target = measure_clean(setting, reporting)
    recall, recall_target = measure_recall(setting, reporting, settings.say.print)
    lag, lag_targets = measure_lag(reporting["so101"])
    loads.append(os.getloadavg()[0])
    notes = (
        f"The {counts[0] + counts[1]} recordings are divided by the first bit of a hash of their names. Every verdict is "
        f"that of the reporting half ({counts[1]}); the setting half ({counts[0]}) is where a limit may be changed. The "
        "division is younger than the checks, which were written with all of these recordings at hand, so it guards "
        "what is changed from now on; recordings of the same hardware and of the same kind are in both halves.",
        "A fault counts as found when the right check names it, in the right channel. Recordings in which the check "
        "speaks before the fault is put in are left out, and so are those to which the fault does not apply "
        "(no command, no motion, too short).",
        f"Each size is what docs/how-to/quality.md promises to find, or more. Seeds are fixed. Only five recordings have a "
        f"camera, so a camera's fault is put into each at {CAMERA_DRAWS} places.",
    )
    return Section(
        "quality",
        TITLE,
        (recall, clean, *lag),
        (recall_target, clean_target, *lag_targets),
        notes,
        loads=tuple(loads),
    )


def halves(sources: Recordings) -> tuple[Recordings, Recordings]:
    """Recordings to set limits on, and recordings to report on; which is which depends on names alone."""

    def reported(name: str, recording: str) -> bool:
        return bool(hashlib.sha256(f"{name}/{recording}".encode()).digest()[0] & 0x80)

    return tuple(  # type: ignore[return-value]
        {
            name: [(label, episode) for label, episode in members if reported(name, label) is second]
            for name, members in sources.items()
        }
        for second in (False, True)
    )


def load(every: int) -> Recordings:
    """All recordings, or every so many of them."""
    makers: dict[str, Callable[[], Iterator[tuple[str, Episode]]]] = {
        "so101": recordings.so101,
        "quanser": recordings.quanser,
        "servo_pendulum": recordings.servo_pendulum,
        "simple_pendulum": recordings.simple_pendulum,
        "double_pendulum": recordings.double_pendulum,
        "cube_toss": recordings.cube_tosses,
        "g1_demos": demonstrations,
    }
    return {name: list(make())[::every] for name, make in makers.items()}


def demonstrations() -> Iterator[tuple[str, Episode]]:
    """Teleoperated demonstrations with a head camera, images at a quarter of their size."""
    dataset = open_dataset(recordings.REAL / "g1_demos")
    for number in dataset.numbers:
        episode = dataset.episode(number)
        small = {name: np.stack([f[::4, ::4] for f in frames]) for name, frames in episode.frames.items()}
        cameras = tuple(Camera(name, *frames.shape[1:3]) for name, frames in small.items())
        yield (
            f"demonstration {number}",
            replace(episode, frames=small, schema=replace(episode.schema, cameras=cameras)),
        )


def measure_clean(setting: Recordings, reporting: Recordings) -> tuple[Table, Target]:
    rows, blocked_in_all, in_all = [], 0, 0
    for name, episodes in reporting.items():
        others = [_blocked(check_episode(episode)) for _, episode in setting[name]]
        findings = [check_episode(episode) for _, episode in episodes]
        blocked = sum(map(_blocked, findings))
        warned = sum(any(f.severity == "warning" for f in found) for found in findings)
        codes = sorted({f.code for found in findings for f in found if f.severity == "warning"})
        rows.append(
            (
                name,
                f"{sum(others)} of {len(others)}",
                f"{blocked} of {len(episodes)}",
                str(warned),
                ", ".join(codes),
            )
        )
        blocked_in_all, in_all = blocked_in_all + blocked, in_all + len(episodes)
    share = blocked_in_all / in_all
    table = Table(
        "Recordings as they are",
        ("set", "blocked, setting half", "blocked, reporting half", "with warnings", "of"),
        tuple(rows),
    )
    measured = f"{blocked_in_all} of {in_all} ({share:.1%})"
    return table, Target("at most 5 % of clean recordings blocked", measured, share <= 0.05)


def _blocked(findings: list[Finding]) -> bool:
    return any(finding.severity == "blocking" for finding in findings)


def measure_recall(
    setting: Recordings, reporting: Recordings, say: Callable[[str], None]
) -> tuple[Table, Target]:
    rows, shares = [], {}
    for kind, fault in FAULTS.items():
        counts = [recall(fault, size, reporting) for size in range(3)]
        other = recall(fault, 0, setting)
        shares[kind] = counts[0][0] / counts[0][1] if counts[0][1] else float("nan")
        cells = [f"{fault.sizes[size]}: {_share(count)}" for size, count in enumerate(counts)]
        say(f"{kind}: {', '.join(cells)}; at the limit in the setting half {_share(other)}")
        rows.append((kind, fault.code, *cells, _share(other)))
    worst = min(shares, key=lambda kind: shares[kind] if shares[kind] == shares[kind] else -1.0)
    table = Table("Faults found", ("fault", "check", *SIZES, "at the limit, setting half"), tuple(rows))
    measured = f"worst: {worst}, {shares[worst]:.1%}"
    return table, Target(
        "recall of every fault at its detection limit >= 95 %", measured, shares[worst] >= 0.95
    )


def recall(fault: Fault, size: int, sources: Recordings) -> tuple[int, int]:
    """In how many recordings the fault is found, and into how many it could be put."""
    found = tried = 0
    for number, episode in enumerate(episode for members in sources.values() for _, episode in members):
        for draw in range(CAMERA_DRAWS if "camera" in fault.code else 1):
            faulty = fault.inject(episode, size, np.random.default_rng([number, size, draw]))
            if faulty is None:
                break
            only = replace(faulty.settings, checks=(fault.code,))

            def speaks(about: Episode, only=only, channel=faulty.channel) -> bool:
                return any(channel in (None, f.channel) for f in check_episode(about, only))

            if fault.code != "low_rate" and speaks(episode):
                break
            tried += 1
            found += speaks(faulty.episode)
    return found, tried


def _share(count: tuple[int, int]) -> str:
    found, tried = count
    return f"{found}/{tried} ({found / tried:.1%})" if tried else "nowhere to put it"


def measure_lag(motions: list[tuple[str, Episode]]) -> tuple[list[Table], list[Target]]:
    apart_ms, moved_ms, measured = [], [], []
    for _, episode in motions:
        view = View(episode, quality_settings.Settings())
        measured += list(measurements(view))
        late = View(delayed(episode, 0.137), quality_settings.Settings())
        for pair in view.pairs:
            following = view.following.get(pair.response.name)
            if following is None:
                continue
            delay = following.delay
            grid_s = lag_on_a_grid(episode.time_s, pair.command.values, pair.response.values)
            if 0 < grid_s < 0.999:
                apart_ms.append(1000 * abs(delay.value - grid_s))
            if pair.response.name in late.following:
                later = late.following[pair.response.name].delay
                moved_ms.append(1000 * abs(later.value - delay.value - 0.137))
    report = QualityReport("so101", "", "", "any", len(motions), (), tuple(measured))
    pooled: list[Measurement] = report.pooled("lag")
    per_joint = tuple((m.channel, f"{m.value:.0f} ± {m.uncertainty:.0f}") for m in pooled)
    compared = (
        ("against correlation on a 1 ms grid", str(len(apart_ms)), *_spread(apart_ms)),
        ("against 137 ms put in", str(len(moved_ms)), *_spread(moved_ms)),
    )
    tables = [
        Table("so101: lag of each joint, all motions together, ms", ("joint", "lag"), per_joint),
        Table(
            "so101: error of the lag, ms", ("", "joints and motions", "median", "95 %", "largest"), compared
        ),
    ]
    largest = f"largest error {max(moved_ms):.1f} ms of {len(moved_ms)}"
    return tables, [Target("137 ms put into so101 recordings found within 5 ms", largest, max(moved_ms) <= 5)]


def lag_on_a_grid(time_s: np.ndarray, command: np.ndarray, response: np.ndarray) -> float:
    """The lag of the highest correlation among 0, 1, 2 ... 1000 ms, by brute force."""
    scores = []
    for lag_s in np.arange(0, 1.0005, 0.001):
        inside = time_s - lag_s >= time_s[0]
        sent, got = np.interp(time_s[inside] - lag_s, time_s, command), response[inside]
        sent, got = sent - sent.mean(), got - got.mean()
        scores.append(sent @ got / np.sqrt((sent @ sent) * (got @ got)))
    return 0.001 * int(np.argmax(scores))


def _spread(values: list[float]) -> tuple[str, str, str]:
    return tuple(f"{np.percentile(values, q):.2f}" for q in (50, 95, 100)) if values else ("-", "-", "-")
