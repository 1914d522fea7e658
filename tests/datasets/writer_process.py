"""A process that the crash tests kill: takes orders on standard input and carries each out in a forked child.

An order is a line of JSON: `{"folder", "kind", "first", "episodes", "per_commit", "kill_at"}`. The child says its
process id, how many episodes it finds committed, and again how many are committed after each commit; the parent says how
it ended. With `kill_at`, the child kills itself right before the `kill_at`-th step that can change what is on the disk.
Forking spares each of a hundred crashes the time to import everything.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import av  # noqa: F401
import pyarrow.parquet  # noqa: F401

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.episode import Episode

SCHEMAS = {"state": STATE_ONLY, "camera": WITH_CAMERA}
STEPS = ("replace", "rename", "fsync", "unlink", "mkdir", "rmdir")


def crash_episode(seed: int, kind: str) -> Episode:
    return toy_episode(seed, rows=4 + seed % 5, schema=SCHEMAS[kind])


def kill_before_step(number: int) -> list[int]:
    steps = [0]

    def counted(original):
        def call(*arguments, **options):
            if steps[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
            steps[0] += 1
            return original(*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    return steps


def write(folder: str, kind: str, first: int, episodes: int, per_commit: int, kill_at: int | None) -> None:
    print("pid", os.getpid(), flush=True)
    # The kernel outlives a killed process, so waiting for the disk proves nothing here and only takes time.
    os.fsync = lambda _: None
    steps = kill_before_step(kill_at) if kill_at is not None else [0]
    writer = append_to(folder) if first else make_dataset(folder, SCHEMAS[kind])
    print("committed", writer.committed, flush=True)
    for seed in range(first, first + episodes):
        writer.add(crash_episode(seed, kind))
        if (seed + 1) % per_commit == 0:
            writer.commit()
            print("committed", writer.committed, flush=True)
    writer.close()
    print("steps", steps[0], flush=True)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            write(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
