"""Coverage: regions removed from simulated data on purpose, and data from which nothing was removed.

Real and simulated episodes are both generated, with different seeds, so that the removed region is all that differs. Shapes,
places and sizes of regions follow from the case's number alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.report import Section, Settings, Table, Target
from tests.browser import CHROMIUM, Browser
from tests.coverage.test_page import many_points
from twinloop.coverage.run import compare_samples
from twinloop.coverage.sample import DatasetSample, Points, sample_datasets
from twinloop.datasets.reader import open_dataset
from twinloop.generation.run import generate
from twinloop.randomization import load_randomization
from twinloop.report.coverage_page import write_coverage_page
from twinloop.twins import load_twin

CONFIG = {
    "randomization": {
        "environment": {
            "object_offset_x_m": [-0.1, 0.1],
            "object_offset_y_m": [-0.12, 0.12],
            "object_yaw_rad": [-0.7, 0.7],
        },
        "contact": {"object_friction": [0.4, 1.2]},
        "visual": {"light_intensity": [0.3, 1.8]},
        "object": {"object_mass_kg": [0.05, 0.3]},
    }
}
PLACES = ("object.x at the start", "object.y at the start", "object.distance at the start")
CONDITIONS = ("light_intensity", "object_friction", "object_mass_kg", "object_yaw_rad")
KINDS = ("edge", "corner", "band", "patch", "disc", "condition", "place and condition", "moments")
CASES = 20
FIRST = 100
"""Number of the first case that is reported; those before it were looked at while the search was written."""
SMALLEST, LARGEST = 0.12, 0.35
"""Share of the real data that a removed region holds."""


@dataclass(frozen=True)
class Case:
    """What was removed, and how much of it was found: shares of real points."""

    kind: str
    removed: str
    share: float
    found: float
    precision: float
    recall: float
    regions: tuple[str, ...]


def run(settings: Settings) -> Section:
    loads = [os.getloadavg()[0]]
    real, sim = sides(settings.work, quick=settings.quick)
    cases = []
    for number in range(FIRST, FIRST + (6 if settings.quick else CASES)):
        cases.append(measure(number, real, sim))
        settings.say.print(describe(cases[-1]))
    smooth = redraw(settings.work)
    nothing = [
        missing_nothing(number, real, sim) for number in range(FIRST, FIRST + (3 if settings.quick else 10))
    ]
    loads.append(os.getloadavg()[0])
    precision = float(np.mean([case.precision for case in cases]))
    recall = float(np.mean([case.recall for case in cases]))
    good = sum(case.precision >= 0.9 and case.recall >= 0.9 for case in cases)
    worst = max(share for _, share, _ in nothing)
    rows = tuple(
        (
            c.kind,
            c.removed,
            f"{c.share:.0%}",
            f"{c.precision:.2f}",
            f"{c.recall:.2f}",
            "; ".join(c.regions) or "none",
        )
        for c in cases
    )
    return Section(
        "coverage",
        "Coverage: regions removed from simulation on purpose",
        (
            Table(
                "Removed and found",
                ("kind", "removed", "real data in it", "precision", "recall", "named"),
                rows,
            ),
            Table(
                "Nothing removed",
                ("real data", "outside", "named"),
                tuple((what, f"{share:.1%}", "; ".join(names) or "none") for what, share, names in nothing),
            ),
        ),
        (
            Target(
                "precision and recall >= 0.9 over 20 removed regions",
                f"precision {precision:.3f}, recall {recall:.3f} (mean of {len(cases)}); both >= 0.9 in {good}",
                precision >= 0.9 and recall >= 0.9,
            ),
            Target("nothing missing: <= 5 % of points outside", f"at most {worst:.1%}", worst <= 0.05),
            Target("100,000 points redrawn within 33 ms (30 a second)", smooth[0], smooth[1]),
        ),
        (
            f"franka_pick_place, {len(sim)} simulated episodes and {len(real)} in the place of real ones, scripted expert with "
            "noise. Precision and recall count real moments; a region of beginnings counts all moments of its episodes. Cases "
            f"below number {FIRST} were looked at while the search was written; these were not.",
        ),
        loads=tuple(loads),
        cases=tuple(str(number) for number in range(FIRST, FIRST + len(cases))),
    )


def redraw(work: Path) -> tuple[str, bool | None]:
    """How long the map takes to draw 100,000 points anew, in a browser without a graphics card."""
    if CHROMIUM is None:
        return "not measured: no Chromium is installed", None
    page = write_coverage_page(many_points(100_000), work / "coverage-many.html")
    with Browser() as browser:
        browser.open(page)
        browser.wait_for("window.twinloopMap && twinloopMap.state.frames > 0")
        times = browser.run(
            "Array.from({length: 40}, (_, k) => { const v = twinloopMap.state.view; v.x0 += 0.001; twinloopMap.draw();"
            " return twinloopMap.state.lastDraw; }).sort((a, b) => a - b)"
        )
    median, slow = times[len(times) // 2], times[int(0.95 * len(times))]
    return f"{median:.0f} ms median, {slow:.0f} ms at the 95th percentile of 40", median <= 33.0


def sides(work: Path, *, quick: bool = False) -> tuple[DatasetSample, DatasetSample]:
    """The data, generated once."""
    sizes = (60, 150) if quick else (150, 400)
    twin = load_twin("franka_pick_place")
    randomization = load_randomization(CONFIG, twin)
    made = []
    for role, count, seed in (("real", sizes[0], 901), ("sim", sizes[1], 902)):
        out = work / f"coverage-{role}-{count}"
        if not out.exists():
            generate(twin, randomization, episodes=count, seed=seed, out=out, workers=1, expert_noise=0.2)
        made.append(open_dataset(out))
    return sample_datasets(made[0], made[1], points=10_000)


def measure(number: int, real: DatasetSample, sim: DatasetSample) -> Case:
    """Remove one region from the simulated side and look for it."""
    rng = np.random.default_rng([number, 61])
    kind = KINDS[number % len(KINDS)]
    for _ in range(1000):
        ranges, text = draw_region(kind, real, rng)
        marks = [inside(side, kind, ranges) for side in (real, sim)]
        if SMALLEST <= marks[0].mean() <= LARGEST:
            break
    truth = marks[0] if kind == "moments" else marks[0][real.moments.episode]
    kept = np.flatnonzero(~marks[1])
    reduced = without_moments(sim, marks[1]) if kind == "moments" else sim.of(kept)
    result = compare_samples(real, reduced, seed=number)
    assert result.map is not None
    found = result.map.outside
    both = float((found & truth).sum())
    return Case(
        kind,
        text,
        float(truth.mean()),
        float(found.mean()),
        both / max(found.sum(), 1),
        both / truth.sum(),
        tuple(region.name for region in result.regions),
    )


Ranges = dict[str, tuple[float, float]]


def draw_region(kind: str, real: DatasetSample, rng: np.random.Generator) -> tuple[Ranges, str]:
    """Ranges of variables, or a disc under the names of its axes, of the region's random place and size."""
    points = real.moments if kind == "moments" else real.situations
    if kind == "moments":
        names = [str(rng.choice(["object.z", "joint4.pos", "gripper.pos", "object.y", "joint2.target"]))]
    elif kind == "condition":
        names = [str(rng.choice(CONDITIONS))]
    elif kind == "place and condition":
        names = [str(rng.choice(PLACES)), str(rng.choice(CONDITIONS))]
    elif kind in ("corner", "patch", "disc"):
        names = list(PLACES[:2])
    else:
        names = [str(rng.choice(PLACES))]
    ranges: Ranges = {}
    for name in names:
        values = column(points, name)
        low, high = np.quantile(values, [0.0, 1.0])
        if kind in ("band", "patch", "disc"):
            middle, half = rng.uniform(low, high), rng.uniform(0.05, 0.35) * (high - low)
            ranges[name] = (middle - half, middle + half)
        else:
            cut = low + rng.uniform(0.1, 0.9) * (high - low)
            ranges[name] = (cut, np.inf) if rng.random() < 0.5 else (-np.inf, cut)
    text = ", ".join(f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in ranges.items())
    return ranges, f"disc in {text}" if kind == "disc" else text


def inside(side: DatasetSample, kind: str, ranges: Ranges) -> np.ndarray:
    """Which episodes, or moments, the region holds."""
    points = side.moments if kind == "moments" else side.situations
    if kind == "disc":
        parts = [
            (2.0 * (column(points, name) - low) / (high - low) - 1.0) ** 2
            for name, (low, high) in ranges.items()
        ]
        return np.sum(parts, axis=0) < 1.0
    marks = [(column(points, n) > low) & (column(points, n) < high) for n, (low, high) in ranges.items()]
    return np.logical_and.reduce(marks)


def column(points: Points, name: str) -> np.ndarray:
    return points.values[:, [variable.name for variable in points.variables].index(name)]


def without_moments(side: DatasetSample, removed: np.ndarray) -> DatasetSample:
    """The side without some of its moments."""
    m = side.moments
    kept = ~removed
    moments = Points(m.variables, m.values[kept], m.episode[kept], m.frame[kept])
    return replace(side, moments=moments, raw=side.raw[kept])


def missing_nothing(
    number: int, real: DatasetSample, sim: DatasetSample
) -> tuple[str, float, tuple[str, ...]]:
    """Real episodes as they are, another part of them each time, or only those from one narrow place."""
    rng = np.random.default_rng([number, 67])
    narrow = number % 2 == 1
    if narrow:
        x, y = (column(real.situations, name) for name in PLACES[:2])
        middle = rng.integers(len(real))
        chosen = np.flatnonzero(np.hypot(x - x[middle], y - y[middle]) < 0.04)
    else:
        chosen = rng.choice(len(real), int(rng.integers(len(real) // 3, len(real))), replace=False)
    part = rng.choice(len(sim), int(rng.integers(len(sim) // 2, len(sim))), replace=False)
    result = compare_samples(real.of(chosen), sim.of(part), seed=number)
    what = f"{len(chosen)} episodes{', all within 4 cm' if narrow else ''}; {len(part)} simulated"
    return what, result.outside, tuple(region.name for region in result.regions)


def describe(case: Case) -> str:
    return (
        f"{case.kind}: {case.removed} ({case.share:.0%}): precision {case.precision:.2f}, recall {case.recall:.2f}; "
        + ("; ".join(case.regions) or "none")
    )
