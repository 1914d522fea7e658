"""How long a policy thinks: measured, and charged in simulations, where time stands still meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.policies.interface import Interface
from twinloop.policies.protocol import PolicyLike

MEASURED = 10
"""Inferences that are timed, after one that warms the policy up."""

MAX_DELAY_S = 60.0
"""A policy that thinks longer cannot control anything."""

_SEED = 7_041
"""Keeps the draws of delays apart from everything else that follows from an episode's seed."""


@dataclass(frozen=True)
class Latency:
    """Inference times in seconds, of which each chunk is charged one, drawn at random; a single one is charged every time."""

    delays_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.delays_s or not all(0.0 <= delay <= MAX_DELAY_S for delay in self.delays_s):
            raise WrongUse(
                "these inference times cannot be charged",
                got=self.delays_s[:5],
                expected=f"0 to {MAX_DELAY_S:g} s",
            )

    @property
    def median_s(self) -> float:
        """The time that half of the inferences take."""
        return float(np.median(self.delays_s))

    def source(self, seed: int) -> np.random.Generator:
        """The random numbers that an episode's delays are drawn with."""
        return np.random.default_rng((_SEED, int(seed)))

    def draw_steps(self, rng: np.random.Generator, rate_hz: float) -> int:
        """Control steps until a chunk that is asked for now is ready."""
        return math.ceil(self.delays_s[int(rng.integers(len(self.delays_s)))] * rate_hz - 1e-9)


Charged = Latency | Mapping[str, Latency]
"""What every policy is charged, or each by its id."""


def charged_to(policy: PolicyLike, latency: Charged | None) -> Latency | None:
    """What a policy is charged; None if it answers at once."""
    return latency.get(policy.id) if isinstance(latency, Mapping) else latency


def measure_latency(policy: PolicyLike, count: int = MEASURED, seed: int = 0) -> Latency:
    """Time a policy's inference, one episode at a time; of a remote policy with the way there and back.

    Args:
        policy: The policy.
        count: Number of inferences.
        seed: Random seed for the observations.

    Returns:
        The times.
    """
    history = len(policy.execution.history)
    drawn = draw_observations(policy.interface, history, count + 1, seed)
    signals = {signal.name for signal in policy.interface.observations}
    policy.reset(seed)
    times = []
    for index in range(count + 1):
        one = {n: v[index, 0] if history == 1 and n in signals else v[index] for n, v in drawn.items()}
        began = time.perf_counter()
        policy.infer(one)
        times.append(round(time.perf_counter() - began, 6))
    return Latency(tuple(times[1:]))


def draw_observations(interface: Interface, history: int, count: int, seed: int = 0) -> dict[str, Array]:
    """Draw observations as `infer_batch` gets them: signals (count, history, size), frames (count, height, width, 3)."""
    rng = np.random.default_rng(seed)
    signals = {
        signal.name: rng.normal(0.0, 0.1, (count, history, signal.size)).astype(np.float32)
        for signal in interface.observations
    }
    frames = {
        camera.name: rng.integers(0, 256, (count, camera.height, camera.width, 3), dtype=np.uint8)
        for camera in interface.cameras
    }
    return signals | frames
