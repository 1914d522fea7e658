"""A rollout without physics: instant, or slow, or deadly, as a test needs it; and a run to be killed from outside."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from twinloop.episode import Camera, Episode, Event, Provenance, Schema, Signal, make_episode
from twinloop.generation.job import Job, episode_seed
from twinloop.generation.part import Work
from twinloop.randomization import Uniform, draw, make_randomization
from twinloop.twins import load_twin

SCHEMA = Schema(
    (Signal("observation.state", (4,), ("rad",)), Signal("action", (2,), ("rad",))), 50.0, robot_type="fake"
)
WITH_CAMERA = replace(SCHEMA, cameras=(Camera("front", 16, 24),))


def fake_job(cameras: tuple[str, ...] = ()) -> Job:
    twin = load_twin("servo_pendulum")
    first = next(p for p in twin.parameters if not p.choices and not p.whole)
    randomization = make_randomization(twin, {first.name: Uniform(*first.bounds)}, name="fake")
    return Job(twin, "fake", "fake", randomization, cameras)


def fake_work(seed: int = 1, cameras: bool = False, **behaviour: object) -> Work:
    job = fake_job(("front",) if cameras else ())
    return Work(job, WITH_CAMERA if cameras else SCHEMA, seed, partial(fake_rollout, **behaviour))


def fake_rollout(
    job: Job,
    seed: int,
    numbers: Sequence[int],
    threads: int = 1,
    *,
    pause_s: float = 0.0,
    die_at: int = -1,
    die_marker: str = "",
    raise_at: int = -1,
    leave_out: int = -1,
    stills: Sequence[float] | None = None,
) -> Iterator[Episode]:
    for number in numbers:
        time.sleep(pause_s)
        if number == die_at and not (die_marker and Path(die_marker).exists()):
            if die_marker:
                Path(die_marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == raise_at:
            raise RuntimeError("the arm fell off")
        if number != leave_out:
            yield fake_episode(job, seed, number)


def fake_episode(job: Job, seed: int, number: int) -> Episode:
    rng = np.random.default_rng(episode_seed(seed, number))
    rows = int(rng.integers(10, 30))
    schema = WITH_CAMERA if job.cameras else SCHEMA
    frames = {
        camera.name: rng.integers(0, 255, (rows, camera.height, camera.width, 3), np.uint8)
        for camera in schema.cameras
    }
    assert job.randomization
    provenance = Provenance(
        source="sim",
        engine="fake",
        twin=job.twin.name,
        twin_hash=job.twin.content_hash,
        randomization=job.randomization.name,
        draw=draw(job.randomization, seed, number),
        seed=episode_seed(seed, number),
        actor="expert",
    )
    return make_episode(
        schema,
        np.arange(rows) / 50.0,
        {"observation.state": rng.normal(size=(rows, 4)), "action": rng.normal(size=(rows, 2))},
        frames=frames,
        events=(Event(0.1, "contact"),),
        success=number % 5 != 0,
        failure="dropped" if number % 5 == 0 else None,
        task="swing" if number % 7 else "hold",
        provenance=provenance,
    )


def main() -> None:
    """`python -m tests.generate.fakes OUT EPISODES WORKERS PAUSE_S [resume]`: a run in a process group of its own."""
    from twinloop.generation.run import run

    out, episodes, workers, pause_s = sys.argv[1:5]
    run(
        fake_work(pause_s=float(pause_s)),
        int(episodes),
        out,
        workers=int(workers),
        resume="resume" in sys.argv,
        chunk_episodes=4,
    )


if __name__ == "__main__":
    main()
