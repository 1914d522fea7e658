"""Visual: distance of images in a feature space with a two-sample test, and sharpness, noise, colour and exposure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twinloop.episode import Array, Episode
from twinloop.gap.compare import FEW
from twinloop.gap.evidence import GapEvidence
from twinloop.gap.registry import METRICS
from twinloop.gap.result import Measure, NotEvaluated, measure
from twinloop.measure.images import QUALITIES, describe, measure_qualities
from twinloop.stats.bootstrap import FEWEST, of_draws, unpaired

FRAMES = 6
"""Frames of an episode that are looked at, spread evenly."""
EPISODES = 40
PERMUTATIONS = 500
DRAWS = 500


@METRICS.register("visual")
def visual(evidence: GapEvidence) -> Iterator[Measure | NotEvaluated]:
    """Camera by camera, those that both sides have."""
    mine = [camera.name for camera in evidence.real[0].schema.cameras]
    if not mine:
        yield NotEvaluated("visual", "real episodes with camera frames")
        return
    theirs = {camera.name for camera in evidence.sim.episodes[0].schema.cameras}
    shared = [name for name in mine if name in theirs]
    if not shared:
        needs = f"simulated frames of a camera called {' or '.join(mine)}: --sim with frames, or a twin with such a camera"
        yield NotEvaluated("visual", needs)
        return
    for camera in shared:
        sides = [look(episodes, camera) for episodes in (evidence.real, evidence.sim.episodes)]
        if min(len(side[0]) for side in sides) < FEWEST:
            yield NotEvaluated("visual", f"{FEW} with frames on both sides", camera)
            continue
        yield from _camera(evidence, camera, *sides)


def _camera(
    evidence: GapEvidence, camera: str, real: tuple[Array, Array], sim: tuple[Array, Array]
) -> Iterator[Measure]:
    samples = FRAMES * (len(real[0]) + len(sim[0]))
    kernel = episode_kernel(np.concatenate([real[0], sim[0]]))
    count = len(real[0])
    distance = kernel_distance(kernel, count)
    interval = of_draws(
        distance,
        lambda rng: _redrawn(kernel, count, rng),
        min(count, len(sim[0])),
        evidence.seed("mmd", camera),
        DRAWS,
    )
    if interval is not None:
        chance = permutation_test(kernel, count, evidence.rng("permutation", camera))
        yield Measure(
            dimension="visual", name=f"feature distance, {camera}", unit="1", value=interval.value, low=interval.low,
            high=interval.high, standard_error=interval.standard_error, episodes=count, sim_episodes=len(sim[0]),
            samples=samples, against=evidence.sim.name, p_value=chance,
            about=f"squared maximum mean discrepancy of image descriptors; two-sample test p = {chance:.2g}",
        )  # fmt: skip
    for place, (name, (unit, floor, about)) in enumerate(QUALITIES.items()):
        seed = evidence.seed("quality", camera, name)
        found = unpaired(real[1][:, place], sim[1][:, place], seed, evidence.options.resamples)
        if found is not None:
            yield measure(
                "visual",
                f"{name}, {camera}",
                unit,
                found,
                against=evidence.sim.name,
                samples=samples,
                about=about,
                floor=floor,
            )


def look(episodes: Sequence[Episode], camera: str) -> tuple[Array, Array]:
    """Descriptors (episodes, frames, features) and mean qualities (episodes, qualities)."""
    places = np.unique(np.linspace(0, len(episodes) - 1, min(EPISODES, len(episodes))).round().astype(int))
    features, plain = [], []
    for episode in (episodes[place] for place in places):
        if camera not in episode.frames or not len(episode):
            continue
        rows = np.linspace(0, len(episode) - 1, FRAMES).round().astype(int)
        frames = [np.asarray(episode.frames[camera][int(row)]) for row in rows]
        features.append(np.stack([describe(frame) for frame in frames]))
        plain.append(np.mean([measure_qualities(frame) for frame in frames], axis=0))
    return np.array(features), np.array(plain)


def episode_kernel(features: Array) -> Array:
    """Mean kernel between the frames of every two episodes: Gaussian, as wide as the median distance of frames."""
    count, frames, width = features.shape
    rows = features.reshape(count * frames, width)
    scale = rows.std(axis=0)
    rows = rows / np.where(scale > 1e-9, scale, 1.0)
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2.0 * rows @ rows.T, 0.0)
    typical = float(np.median(distances[np.triu_indices(len(rows), 1)]))
    kernel = np.exp(-distances / max(typical, 1e-12))
    return np.asarray(kernel.reshape(count, frames, count, frames).mean(axis=(1, 3)))


def kernel_distance(kernel: Array, count: int, weights: tuple[Array, Array] | None = None) -> float:
    """Squared maximum mean discrepancy of the first `count` episodes and the rest; no bias: zero on average when alike.

    `weights` say how often each episode was drawn; an episode is never compared with itself, nor with its own copies.
    """
    first, second = weights or (np.ones(count), np.ones(len(kernel) - count))
    within = [
        _within(kernel[:count, :count], first),
        _within(kernel[count:, count:], second),
    ]
    across = float(first @ kernel[:count, count:] @ second) / float(first.sum() * second.sum())
    return within[0] + within[1] - 2.0 * across


def permutation_test(kernel: Array, count: int, rng: np.random.Generator) -> float:
    """How often episodes dealt out at random are as far apart."""
    seen = kernel_distance(kernel, count)
    larger = 0
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(kernel))
        larger += kernel_distance(kernel[np.ix_(order, order)], count) >= seen
    return (1 + larger) / (1 + PERMUTATIONS)


def _within(kernel: Array, weights: Array) -> float:
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0.0)
    total = float(pairs.sum())
    return float((pairs * kernel).sum()) / total if total > 0.0 else float("nan")


def _redrawn(kernel: Array, count: int, rng: np.random.Generator) -> float:
    sizes = (count, len(kernel) - count)
    drawn = [rng.multinomial(size, np.full(size, 1.0 / size)).astype(np.float64) for size in sizes]
    return kernel_distance(kernel, count, (drawn[0], drawn[1]))
