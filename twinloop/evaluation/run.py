"""`evaluate`: how often a policy succeeds, in a twin or on a robot.

The scene of an episode follows from the seed and its number alone, so that every policy that is evaluated with the same
seed meets the same scenes, and two of them can be compared trial by trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twinloop.errors import WrongUse
from twinloop.evaluation.environment import Environment, OnProgress
from twinloop.evaluation.result import Evaluation
from twinloop.evaluation.robot import RobotEnvironment
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.protocol import PolicyLike
from twinloop.robots.protocol import Robot, connected, open_robot
from twinloop.twins import Twin, load_twin

Where = Environment | Twin | Robot | str | Path
"""A twin, a connected robot, an environment with settings of its own, the name or folder of a twin, or a robot's address."""


def evaluate(
    policy: PolicyLike,
    where: Where,
    *,
    episodes: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Evaluation:
    """Measure how often a policy succeeds.

    Args:
        policy: A `Policy`, or anything else that implements `PolicyLike`.
        where: A twin, its name or its folder; a connected robot, or the address of one (`standin:severe`); or an environment
            with settings: `TwinEnvironment`, `RobotEnvironment`.
        episodes: Trials; default: 200 in a twin, 50 on a robot, or one for each scene that the environment lists.
        seed: Random seed for the scenes in a twin; the number of the first scene on a robot.
        out: Folder of the dataset that keeps the episodes; default: none are kept.
        on_progress: Called with trials done and trials in total.

    Returns:
        The trials, with their success rate.

    Raises:
        LearnError: The policy does not fit the twin or robot.
        WrongUse: There is nothing to try, or nothing that judges an episode.
    """
    return evaluate_in_turns([policy], where, episodes=episodes, seed=seed, out=out, on_progress=on_progress)[
        0
    ]


def evaluate_in_turns(
    policies: Sequence[PolicyLike],
    where: Where,
    *,
    episodes: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> list[Evaluation]:
    """Measure how often each of several policies succeeds, in the same scenes; on a robot they take turns in every scene.

    Args:
        policies: Policies with different ids.
        where: As in `evaluate`.
        episodes: Trials of each policy.
        seed: As in `evaluate`.
        out: Folder with one dataset for each policy, under its name; of a single policy, the dataset itself.
        on_progress: Called with trials done and trials of all policies in total.

    Returns:
        One evaluation for each policy, in their order.

    Raises:
        WrongUse: A policy is named twice, or there is nothing to try.
    """
    if len({policy.id for policy in policies}) < len(policies):
        raise WrongUse("a policy is named twice", got=", ".join(policy.name for policy in policies))
    folder = None if out is None else Path(out)
    with _open_environment(where) as environment:
        return environment.try_policies(policies, episodes, seed, folder, on_progress)


@contextmanager
def _open_environment(where: Where) -> Iterator[Environment]:
    """The environment that `where` names; an address is connected for as long as it is used."""
    if isinstance(where, Environment):
        yield where
    elif isinstance(where, Twin):
        yield TwinEnvironment(where)
    elif isinstance(where, str) and ":" in where and not Path(where).exists():
        with connected(open_robot(where)) as robot:
            yield RobotEnvironment(robot)
    elif isinstance(where, str | Path):
        yield TwinEnvironment(load_twin(where))
    else:
        yield RobotEnvironment(where)
