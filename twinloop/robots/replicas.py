"""Replicas of a simulated robot, which share the episodes of a series: as many at once as there are cores.

What comes out is what one robot would do, episode by episode, because only robots whose episodes do not depend on each other are replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar

from twinloop.robots.protocol import Description, Replicable, Robot, SupervisedRobot, connected

Place = TypeVar("Place")
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def replicas(robot: Robot, supervisor: object, count: int) -> Iterator[tuple[SupervisedRobot, ...]]:
    """Connected replicas of a connected robot, for the length of a `with` block.

    Args:
        robot: The robot.
        supervisor: Who supervises its trials.
        count: How many replicas.

    Yields:
        The replicas; none of a robot that cannot be replicated, whose episodes depend on each other, or whose trials something else
        supervises.
    """
    with ExitStack() as stack:
        made: list[SupervisedRobot] = []
        if supervisor is robot and isinstance(robot, Replicable) and is_independent(robot.description):
            made = [stack.enter_context(connected(robot.replicate())) for _ in range(count)]
        yield tuple(made)


def is_independent(description: Description) -> bool:
    """Whether episodes on the robot, one beside the other, are what they are one after the other."""
    return description.lockstep and description.independent_episodes


def share(
    places: Sequence[Place], work: Callable[[Place, Item], Result], items: Iterable[Item], ahead: int = 0
) -> Generator[Result, None, None]:
    """Do the work on every item, each at the first place that is free; results come in the order of the items.

    Args:
        places: Where work is done, such as robots. With a single one, nothing is begun before the last result was taken.
        work: Called with a place and an item, in threads where there are several places.
        items: What to work on.
        ahead: How many results beyond the places may be waited for at once.

    Yields:
        The results. Closing the iterator drops what has been begun, after waiting for its end.
    """
    if len(places) == 1:
        yield from (work(places[0], item) for item in items)
        return
    free: SimpleQueue[Place] = SimpleQueue()
    for place in places:
        free.put(place)

    def work_where_free(item: Item) -> Result:
        place = free.get()
        try:
            return work(place, item)
        finally:
            free.put(place)

    left = iter(items)
    pool = ThreadPoolExecutor(len(places), thread_name_prefix="replica")
    try:
        begun: list[Future[Result]] = [
            pool.submit(work_where_free, item) for item in islice(left, len(places) + ahead)
        ]
        while begun:
            yield begun.pop(0).result()
            begun += [pool.submit(work_where_free, item) for item in islice(left, 1)]
    finally:
        pool.shutdown(cancel_futures=True)
