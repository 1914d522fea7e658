"""How much of each chunk to carry out before the next one takes over, found in a twin.

On late hardware the next chunk is thought of before the last one shows any effect. Depending on how the delay falls between two
chunks, that is harmless or makes the arm swing until it misses; which of the two, a twin with the right delay tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from twinloop.learning.evaluate import Evaluation, compare, evaluate_in_twin
from twinloop.learning.policy import Policy
from twinloop.randomization import Randomization
from twinloop.twins import Twin

SHARES = (0.8, 0.4, 0.6)
"""What is tried besides the policy's own pace, as shares of a chunk; of two that are alike, the one named first."""

CLEAR = 0.1
"""Another pace is taken when chance alone would make it differ so from the policy's own less often than this."""

FEWEST_FAILURES = 5
"""With fewer failures at its own pace nothing could be clearly better: no other is tried."""


@dataclass(frozen=True)
class Pace:
    """So many actions of each chunk carried out, and how often the policy succeeded so."""

    n_action_steps: int
    successes: int
    episodes: int


def find_pace(
    policy: Policy,
    twin: Twin,
    randomization: Randomization | None = None,
    *,
    episodes: int = 60,
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Policy, tuple[Pace, ...]]:
    """The policy at the pace that succeeds most often in the twin, in the same scenes for each; its own unless that is clearly worse.

    Of all that was tried, the policy's own pace comes first.
    """
    own = policy.execution
    most = policy.chunk - own.inference_delay_steps - own.latency_steps
    tried = [min(max(round(share * policy.chunk), own.inference_delay_steps + 1), most) for share in SHARES]
    found: dict[int, Evaluation] = {}
    candidates = list(dict.fromkeys((own.n_action_steps, *tried)))
    for n_action_steps in candidates:

        def tell(made: int, _: int, before: int = len(found) * episodes) -> None:
            progress(before + made, len(candidates) * episodes)

        found[n_action_steps] = evaluate_in_twin(
            policy.at_pace(n_action_steps),
            twin,
            episodes=episodes,
            seed=seed,
            randomization=randomization,
            real="real" in policy.domains,
            threads=threads,
            progress=tell,
        )
        if episodes - found[own.n_action_steps].successes < FEWEST_FAILURES:
            break
    progress(len(candidates) * episodes, len(candidates) * episodes)
    best = max(found, key=lambda n_action_steps: found[n_action_steps].successes)
    if compare(found[best], found[own.n_action_steps]).p_value > CLEAR:
        best = own.n_action_steps
    paces = tuple(Pace(n_action_steps, made.successes, episodes) for n_action_steps, made in found.items())
    results = {**policy.training_record.results, "paces": [asdict(pace) for pace in paces]}
    return policy.at_pace(best).told(replace(policy.training_record, results=results)), paces
