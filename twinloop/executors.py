"""Where independent pieces of work are done: in this process, or as tasks of a Ray cluster. Results depend on neither.

Ray retries a task when its worker or node dies. Ray controls access: set RAY_AUTH_MODE=token and one RAY_AUTH_TOKEN on all nodes,
because a cluster listens on every interface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from twinloop.errors import GenerationError, MissingExtra, TwinloopError

RETRIES = 3
"""How often Ray may retry a task whose worker or node died."""

WAIT_S = 5.0
"""The cluster may grow or shrink: its size is read again at least this often."""

AHEAD = 2
"""Tasks for each core that are handed to the cluster at once, so that results that wait stay few."""


class Executor(Protocol):
    """Does pieces of work that know nothing of each other."""

    def map(
        self,
        function: Callable[..., Any],
        shared: Any,
        tasks: Mapping[int, tuple[Any, ...]],
        describe: Callable[[int], str],
    ) -> Iterator[tuple[int, Any]]:
        """Call `function(shared, *arguments)` for every task, and yield (key, result) as they finish, in any order.

        Args:
            function: A function of a module, since another machine has to find it.
            shared: What all tasks need; it is sent once.
            tasks: Arguments by key.
            describe: What a key stands for, for errors.
        """


@dataclass(frozen=True)
class Here:
    """One task after the other, in this process."""

    def map(
        self,
        function: Callable[..., Any],
        shared: Any,
        tasks: Mapping[int, tuple[Any, ...]],
        describe: Callable[[int], str],
    ) -> Iterator[tuple[int, Any]]:
        """Call the function for every task, in order."""
        for key, arguments in tasks.items():
            yield key, function(shared, *arguments)


@dataclass(frozen=True)
class OnRay:
    """Tasks of the Ray cluster at `address`; "auto" is the one this machine belongs to. A lost node costs time only."""

    address: str = "auto"

    def map(
        self,
        function: Callable[..., Any],
        shared: Any,
        tasks: Mapping[int, tuple[Any, ...]],
        describe: Callable[[int], str],
    ) -> Generator[tuple[int, Any], None, None]:
        """Call the function for every task on a core of the cluster; closing the iterator cancels what runs."""
        with _connected(self.address) as ray:
            task = ray.remote(num_cpus=1, max_retries=RETRIES)(function)
            sent = ray.put(shared)
            waiting: deque[int] = deque(tasks)
            running: dict[Any, int] = {}
            try:
                while waiting or running:
                    room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
                    while waiting and len(running) < room:
                        key = waiting.popleft()
                        running[task.remote(sent, *tasks[key])] = key
                    finished, _ = ray.wait(list(running), timeout=WAIT_S)
                    for reference in finished:
                        key = running.pop(reference)
                        yield key, _result(ray, reference, describe(key))
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


@contextmanager
def _connected(address: str) -> Generator[Any, None, None]:
    """Ray, connected to the cluster; an existing connection is used and left open."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("--ray", "ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise GenerationError(
            f"no Ray cluster answers at {address!r}",
            got=str(error).splitlines()[0],
            remedy="start one with `ray start --head`, and set the same RAY_AUTH_TOKEN here as there",
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _result(ray: Any, reference: Any, what: str) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        reason = cause.what if isinstance(cause, TwinloopError) else repr(cause)
        raise GenerationError(
            f"{what} could not be simulated: {reason}",
            remedy=cause.remedy if isinstance(cause, TwinloopError) else None,
        ) from error
    except ray.exceptions.RayError as error:
        raise GenerationError(
            f"{what} could not be simulated on the cluster in {RETRIES + 1} attempts",
            got=str(error).splitlines()[0],
            remedy="look at the cluster, then continue with --resume",
        ) from error
