"""Chunks on the cores of this machine: worker processes that are started fresh, watched, and replaced when they die."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection as pipes
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

from twinloop.errors import GenerationError, TwinloopError
from twinloop.generation.chunks import describe_chunk
from twinloop.generation.part import Tick, Work, write_part

ATTEMPTS = 2
"""How often a chunk is tried when its worker dies."""

TICK_EVERY_S = 0.2

_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Failed:
    """A chunk that raised instead of finishing."""

    what: str
    remedy: str | None
    trace: str


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(
    work: Work, chunks: Mapping[int, range], parts: Path, threads: int
) -> Generator[Tick, None, None]:
    """Every chunk in this process, one after the other."""
    for chunk, numbers in chunks.items():
        yield from write_part(work, chunk, numbers, parts, threads)


def run_in_processes(
    work: Work, chunks: Mapping[int, range], parts: Path, *, workers: int, threads: int
) -> Generator[Tick, None, None]:
    """Every chunk in one of `workers` processes, started in order, finished in any.

    A chunk whose worker dies is tried once more in a new one; closing the iterator ends the workers.
    """
    waiting = deque(chunks)
    deaths: Counter[int] = Counter()
    crew: list[_Worker] = []
    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                crew.append(_Worker(work, parts, threads))
                crew[-1].give(waiting.popleft(), chunks)
            for worker in _ready(crew):
                message = worker.hear()
                if isinstance(message, Tick):
                    yield message
                    if not message.finished:
                        continue
                    if waiting:
                        worker.give(waiting.popleft(), chunks)
                    else:
                        worker.end()
                        crew.remove(worker)
                elif isinstance(message, Failed):
                    raise _failure(chunks[worker.chunk], message)
                else:
                    crew.remove(worker)
                    worker.end()
                    deaths[worker.chunk] += 1
                    if deaths[worker.chunk] >= ATTEMPTS:
                        raise _death(chunks[worker.chunk], worker.process.exitcode)
                    waiting.appendleft(worker.chunk)
    finally:
        for worker in crew:
            worker.end()


def _ready(crew: list[_Worker]) -> list[_Worker]:
    heard = pipes.wait([worker.pipe for worker in crew])
    return [worker for worker in crew if worker.pipe in heard]


class _Worker:
    """One worker process, as its parent sees it."""

    def __init__(self, work: Work, parts: Path, threads: int) -> None:
        context = get_context("spawn")
        self.chunk = -1
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, work, parts, threads), daemon=True
        )
        with _environment(threads):
            self.process.start()
        theirs.close()

    def give(self, chunk: int, chunks: Mapping[int, range]) -> None:
        """Hand over the next chunk; a worker that is dead already is noticed when it is heard."""
        self.chunk = chunk
        try:
            self.pipe.send((chunk, chunks[chunk]))
        except OSError:
            return

    def hear(self) -> Tick | Failed | None:
        """The next message; None when the worker is dead."""
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return message if isinstance(message, Tick | Failed) else None

    def end(self) -> None:
        """End the process and wait until it is gone."""
        self.pipe.close()
        self.process.terminate()
        self.process.join(5.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(pipe: Connection, work: Work, parts: Path, threads: int) -> None:
    """What a worker process does: chunk after chunk until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    while True:
        try:
            chunk, numbers = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            said = time.monotonic()
            for tick in write_part(work, chunk, numbers, parts, threads):
                if tick.finished or time.monotonic() - said > TICK_EVERY_S:
                    said = time.monotonic()
                    pipe.send(tick)
        except OSError as error:
            pipe.send(Failed(str(error), None, traceback.format_exc()))
        except Exception as error:  # noqa: BLE001  whatever it is, the parent must hear of it
            what, remedy = (
                (error.what, error.remedy) if isinstance(error, TwinloopError) else (repr(error), None)
            )
            pipe.send(Failed(what, remedy, traceback.format_exc()))


def _end_with_parent() -> None:
    """Leave when the parent is gone, however it went: nobody would take what is still being made."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        pipes.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """What a new process inherits: libraries with `threads` threads, and a Ctrl-C that is the parent's business."""
    resource_tracker.ensure_running()  # it would unblock Ctrl-C if it were started together with the process
    before = {name: os.environ.get(name) for name in _THREAD_SETTINGS}
    os.environ.update(dict.fromkeys(_THREAD_SETTINGS, str(threads)))
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _failure(numbers: range, failed: Failed) -> GenerationError:
    error = GenerationError(
        f"{describe_chunk(numbers)} could not be made: {failed.what}", remedy=failed.remedy
    )
    error.add_note(failed.trace)
    return error


def _death(numbers: range, exit_code: int | None) -> GenerationError:
    how = f"by signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"with code {exit_code}"
    return GenerationError(
        f"the worker making {describe_chunk(numbers)} died {ATTEMPTS} times, last {how}",
        remedy="out of memory? use fewer workers. In a script, call generate under `if __name__ == '__main__':`, "
        "or with workers=1, which stays in this process and shows what happens",
    )
