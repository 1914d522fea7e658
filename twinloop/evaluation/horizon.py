"""The execution horizon (`n_action_steps`): how many actions of each chunk to execute before the next chunk takes over.

With delayed hardware the next chunk is predicted before the last one has any visible effect. Depending on where the delay falls
between two chunks this is harmless or makes the arm oscillate until it misses; a twin with the right delay shows which.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from twinloop.evaluation.environment import OnProgress
from twinloop.evaluation.result import Evaluation, compare
from twinloop.evaluation.run import evaluate
from twinloop.evaluation.twin import TwinEnvironment
from twinloop.policies.networks.policy import Policy
from twinloop.randomization import Randomization
from twinloop.twins import Twin

FRACTIONS = (0.8, 0.4, 0.6)
"""Horizons tried in addition to the policy's own, as fractions of a chunk. Of two that tie, the first is taken."""

MAX_P_VALUE = 0.1
"""Another horizon replaces the policy's own when a paired test against it gives a p-value of at most this."""

MIN_FAILURES = 5
"""With fewer failures at the policy's own horizon no other could be clearly better: none is tried."""


@dataclass(frozen=True)
class Horizon:
    """An execution horizon with its successes in a number of episodes."""

    n_action_steps: int
    successes: int
    episodes: int


def find_execution_horizon(
    policy: Policy,
    twin: Twin,
    randomization: Randomization | None = None,
    *,
    episodes: int = 60,
    seed: int = 0,
    threads: int = 1,
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[Policy, tuple[Horizon, ...]]:
    """Choose the execution horizon that succeeds most often in a twin.

    Every horizon is tried in the same scenes. The policy keeps its own unless another is clearly better.

    Args:
        policy: The policy; its chunk length limits the horizons.
        twin: Where to try it; its delays should be those of the robot.
        randomization: What varies between episodes; default: `training_scenes`.
        episodes: Episodes for each horizon.
        seed: Random seed for the scenes.
        threads: Simulation threads.
        on_progress: Called with episodes done and episodes in total.

    Returns:
        The policy with the chosen horizon, and the horizons that were tried, the policy's own first.
    """
    own = policy.execution
    longest = policy.chunk - own.inference_delay_steps - own.latency_steps
    fractions = [
        min(max(round(fraction * policy.chunk), own.inference_delay_steps + 1), longest)
        for fraction in FRACTIONS
    ]
    environment = TwinEnvironment(twin, randomization, threads=threads, as_robot="real" in policy.domains)
    evaluations: dict[int, Evaluation] = {}
    candidates = list(dict.fromkeys((own.n_action_steps, *fractions)))
    for n_action_steps in candidates:

        def on_episode(done: int, _: int, before: int = len(evaluations) * episodes) -> None:
            on_progress(before + done, len(candidates) * episodes)

        evaluations[n_action_steps] = evaluate(
            policy.with_action_steps(n_action_steps),
            environment,
            episodes=episodes,
            seed=seed,
            on_progress=on_episode,
        )
        if episodes - evaluations[own.n_action_steps].successes < MIN_FAILURES:
            break
    on_progress(len(candidates) * episodes, len(candidates) * episodes)
    best = max(evaluations, key=lambda n_action_steps: evaluations[n_action_steps].successes)
    if compare(evaluations[best], evaluations[own.n_action_steps]).p_value > MAX_P_VALUE:
        best = own.n_action_steps
    horizons = tuple(Horizon(steps, one.successes, episodes) for steps, one in evaluations.items())
    results = {**policy.training_record.results, "horizons": [asdict(horizon) for horizon in horizons]}
    chosen = policy.with_action_steps(best)
    return chosen.with_training_record(replace(policy.training_record, results=results)), horizons
