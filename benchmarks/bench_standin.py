"""How often the scripted expert succeeds in the stand-in, in each shipped reality: what the loop has to win back.

Episodes are recorded as a user would, through the socket. What is recorded stays in benchmarks/work and is added to, so an
interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import open_dataset
from twinloop.robots import connected, open_robot
from twinloop.robots.controllers import ExpertController
from twinloop.robots.record import RecordingSpec, record
from twinloop.robots.standin.reality import list_realities
from twinloop.tasks import make_task
from twinloop.twins import load_twin
from twinloop.version import __version__

TWIN = "franka_pick_place"
EPISODES, QUICK_EPISODES = 60, 4
IDEAL_SUCCESS = 0.95


def run(settings: Settings) -> Section:
    wanted = QUICK_EPISODES if settings.quick else EPISODES
    rows, successes, loads = [], {}, []
    for name in list_realities():
        loads.append(os.getloadavg()[0])
        began = time.monotonic()
        out = settings.work / f"standin-{__version__}-{load_twin(TWIN).content_hash[:8]}-{name}"
        record_expert(name, out, wanted)
        ends = [(episode.outcome.success, episode.outcome.failure) for episode in open_dataset(out)][:wanted]
        done = sum(success is True for success, _ in ends)
        successes[name] = done
        low, high = interval(done, len(ends))
        rows.append(
            (
                name,
                f"{done} of {len(ends)}",
                f"{done / len(ends):.0%}",
                f"{low:.0%} to {high:.0%}",
                reasons(ends),
            )
        )
        settings.say.print(f"{name}: {done} of {len(ends)} ({time.monotonic() - began:.0f} s)")
    ideal = successes["ideal"] / wanted
    return Section(
        "standin",
        "The scripted expert in the stand-in for reality",
        (
            Table(
                f"{TWIN}, {wanted} episodes each",
                ("reality", "succeeded", "share", "95 % interval", "how the others ended"),
                tuple(rows),
            ),
        ),
        (
            Target(
                f"the expert succeeds in at least {IDEAL_SUCCESS:.0%} where nothing is wrong",
                f"{ideal:.0%} of {wanted}",
                ideal >= IDEAL_SUCCESS,
            ),
        ),
        (
            "The stand-in is another engine with hidden effects. Its numbers say something about the loop, not the world.",
        ),
        loads=tuple(loads),
    )


def record_expert(reality: str, out: Path, wanted: int) -> None:
    """Add episodes to a recording until it has as many as wanted; the scene of each follows from its number."""
    there = len(open_dataset(out)) if out.exists() else 0
    if there >= wanted:
        return
    twin = load_twin(TWIN)
    time_limit_s = make_task(twin.task, twin).time_limit_s
    robot = open_robot(f"standin:{reality}")
    with connected(robot):
        plan = RecordingSpec(episodes=wanted - there, time_limit_s=time_limit_s, first=there)
        record(robot, ExpertController(twin, twin.task, time_limit_s), out, plan, supervisor=robot)


def interval(done: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, done / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * ((share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5) / (1 + z**2 / count)
    return middle - half, middle + half


def reasons(ends: list[tuple[bool | None, str | None]]) -> str:
    """Why the others failed, most frequent first."""
    others = [reason or "unknown" for success, reason in ends if success is not True]
    counted = sorted({(others.count(reason), reason) for reason in others}, reverse=True)
    return ", ".join(f"{reason} {count}" for count, reason in counted) or "none"
