"""Simulate chunks on the cores of this machine, in worker processes that are replaced when they die."""

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
    """Simulate every chunk in this process, one after the other."""
    for chunk, numbers in chunks.items():
        yield from write_part(work, chunk, numbers, parts, threads)


def run_in_processes(
    work: Work, chunks: Mapping[int, range], parts: Path, *, workers: int, threads: int
) -> Generator[Tick, None, None]:
    """Simulate every chunk in one of `workers` processes; they start in order and finish in any.

    A chunk whose worker dies is retried once in a new process. Closing the iterator ends the workers.
    """
    waiting = deque(chunks)
    deaths: Counter[int] = Counter()
    running: list[_Worker] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_Worker(work, parts, threads))
                running[-1].start_chunk(waiting.popleft(), chunks)
            for worker in _ready(running):
                message = worker.receive()
                if isinstance(message, Tick):
                    yield message
                    if not message.finished:
                        continue
                    if waiting:
                        worker.start_chunk(waiting.popleft(), chunks)
                    else:
                        worker.end()
                        running.remove(worker)
                elif isinstance(message, Failed):
                    raise _failure(chunks[worker.chunk], message)
                else:
                    running.remove(worker)
                    worker.end()
                    deaths[worker.chunk] += 1
                    if deaths[worker.chunk] >= ATTEMPTS:
                        raise _death(chunks[worker.chunk], worker.process.exitcode)
                    waiting.appendleft(worker.chunk)
    finally:
        for worker in running:
            worker.end()


def _ready(running: list[_Worker]) -> list[_Worker]:
    """Wait until at least one worker has sent a message or died."""
    ready = pipes.wait([worker.pipe for worker in running])
    return [worker for worker in running if worker.pipe in ready]


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

    def start_chunk(self, chunk: int, chunks: Mapping[int, range]) -> None:
        """Send the worker its next chunk; if it is already dead, `receive` notices."""
        self.chunk = chunk
        try:
            self.pipe.send((chunk, chunks[chunk]))
        except OSError:
            return

    def receive(self) -> Tick | Failed | None:
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
    """Main loop of a worker process: simulate the chunks it is sent until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    while True:
        try:
            chunk, numbers = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            last_sent_s = time.monotonic()
            for tick in write_part(work, chunk, numbers, parts, threads):
                if tick.finished or time.monotonic() - last_sent_s > TICK_EVERY_S:
                    last_sent_s = time.monotonic()
                    pipe.send(tick)
        except OSError as error:
            pipe.send(Failed(str(error), None, traceback.format_exc()))
        except Exception as error:  # noqa: BLE001  the parent reports any failure
            what, remedy = (
                (error.what, error.remedy) if isinstance(error, TwinloopError) else (repr(error), None)
            )
            pipe.send(Failed(what, remedy, traceback.format_exc()))


def _end_with_parent() -> None:
    """Exit when the parent process has ended for whatever reason: its results would be lost."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        pipes.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """What a new process inherits: numerical libraries with `threads` threads, and Ctrl-C left to the parent."""
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
        f"{describe_chunk(numbers)} could not be simulated: {failed.what}", remedy=failed.remedy
    )
    error.add_note(failed.trace)
    return error


def _death(numbers: range, exit_code: int | None) -> GenerationError:
    how = f"by signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"with code {exit_code}"
    return GenerationError(
        f"the worker simulating {describe_chunk(numbers)} died {ATTEMPTS} times, last {how}",
        remedy="if it ran out of memory, use fewer workers. In a script, call generate under "
        "`if __name__ == '__main__':`, or with workers=1, which runs in this process and shows the error",
    )
