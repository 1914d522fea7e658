"""The path so far on one page: a workspace, a data set out of the twin, questions to it, and checks of it.

`twinloop demo` runs this on embedded defaults; each stage is one library function that a user can call alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinloop.dataset.query import query
from twinloop.dataset.rewrite import split
from twinloop.dataset.verify import verify
from twinloop.generate.replay import replay
from twinloop.generate.run import ProgressCallback, make_work, run
from twinloop.quality.check import check_dataset
from twinloop.report.episode_picture import draw_episode
from twinloop.twin import load_twin
from twinloop.workspace import init_workspace

TWIN = "franka_pick_place"
REPLAYED = 4

BY_MASS = """
select case when draw['object_mass_kg'] < 0.1 then 'lighter than nominal' else 'heavier than nominal' end as cube,
       count(*) as episodes, round(100 * avg(success::int), 1) as success_percent,
       round(avg(duration_s), 2) as mean_duration_s
from episodes group by cube order by cube
"""


@dataclass(frozen=True)
class Demo:
    """What the demo made and found."""

    dataset: Path
    picture: Path
    episodes: int
    frames: int
    success: float
    replayed_same: int
    replayed: int
    intact: bool
    blocking_findings: int
    lag_ms: float | None
    by_mass: tuple[dict[str, Any], ...]
    parts: dict[str, int]


def run_demo(
    out: Path,
    *,
    episodes: int = 64,
    seed: int = 1,
    workers: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    progress: ProgressCallback | None = None,
) -> Demo:
    """Make a workspace in `out` and take the twin's data through every stage there is."""
    say(f"workspace {out} with the twin {TWIN}")
    workspace = init_workspace(out, load_twin(TWIN))
    say(f"generating {episodes} randomized pick-and-place episodes with one 128 x 128 camera")
    work, count = make_work(out / "seed.yaml", episodes=episodes, seed=seed, cameras=("front",))
    dataset = run(work, count, workspace.data / "sim-v1", workers=workers, progress=progress)
    say(f"making {REPLAYED} of them again from their provenance")
    numbers = dataset.numbers[:: max(1, len(dataset) // REPLAYED)][:REPLAYED]
    same = sum(replay(dataset, number).same for number in numbers)
    say("checking files and signals")
    intact = verify(dataset.root).ok
    quality = check_dataset(dataset)
    say("asking which cubes were harder, splitting into train and test")
    by_mass = tuple(query([dataset], BY_MASS).to_pylist())
    parts = split(dataset.root, workspace.data / "sim-v1-split", {"train": 0.8, "test": 0.2}, seed=seed)
    picture = workspace.root / "reports" / "episode-0.png"
    draw_episode(dataset.episode(0), picture, title="sim-v1 #0")
    lags = [measured.value for measured in quality.measurements if measured.quantity == "lag"]
    success = query([dataset], "select avg(success::int) as share from episodes").to_pylist()[0]["share"]
    return Demo(
        dataset=dataset.root,
        picture=picture,
        episodes=len(dataset),
        frames=dataset.num_frames,
        success=float(success),
        replayed_same=same,
        replayed=len(numbers),
        intact=intact,
        blocking_findings=len(quality.blocking),
        lag_ms=sorted(lags)[len(lags) // 2] if lags else None,
        by_mass=by_mass,
        parts={name: len(part) for name, part in parts.items()},
    )
