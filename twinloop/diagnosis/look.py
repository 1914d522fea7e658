"""Visual: how recorded images differ from the twin's, and the twin's images with that look.

What a camera shows of a scene depends on light, table and lens. Images of how runs begin, when real and simulated cells look the
same but for that, give a mixing of the colours (light, exposure, saturation), what is darker or brighter at one place of every image
(vignetting, flare), blur and noise. What pattern covers the table is found in `pattern`. Where a camera stands is not measured: what that
costs stays unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from twinloop.diagnosis.measured import Measured, Quantity, quantity, resampled
from twinloop.diagnosis.pattern import Textured, find_textures, measure_pattern
from twinloop.episode import Actor, Array, Episode
from twinloop.experts import Reading, Setup
from twinloop.measure.images import LUMINANCE, QUALITIES, measure_qualities
from twinloop.policies.act import PolicyExpert
from twinloop.policies.protocol import PolicyLike

BEGINS_S = 1.5
"""Images up to here are compared: later a policy that fails shows other things than one that succeeds."""
FRAMES, RUNS = 5, 24
"""Images of each run, and runs (spread evenly) from which a look is found."""
BLURS_PX = (0.0, 0.4, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
SOFT_PX, LIGHT_PX = 2.0, 12.0
"""What is finer than the first is noise; where a pattern is put in by textures, light varies no faster than over the second."""
FAINT = 4.0
"""Levels by which colours differ anyway: a grey simulation is not made colourful from nothing."""
TURNS = 5
TRIED = 16
"""Images on which a blur is tried."""
NOISE = list(QUALITIES).index("noise")


@dataclass(frozen=True, eq=False)
class Look:
    """What one camera makes of an image: its colours times `mixing` (3, 3) plus `offset`, blurred, and noisy by so many levels.

    `offset` is (3,), or (height, width, 3) where a lens darkens its corners or throws light into them.
    """

    mixing: Array
    offset: Array
    blur_px: float
    noise: float

    def of(self, frames: Array, rng: np.random.Generator) -> Array:
        """Images (n, height, width, 3) with this look."""
        made = frames.astype(np.float32) @ self.mixing.T.astype(np.float32)
        if self.blur_px:
            made = ndimage.gaussian_filter(made, (0.0, self.blur_px, self.blur_px, 0.0))
        made += self.offset.astype(np.float32)
        if self.noise:
            made += rng.normal(0.0, self.noise, made.shape).astype(np.float32)
        return np.asarray(np.clip(np.rint(made), 0, 255), np.uint8)

    @property
    def content(self) -> bytes:
        """What tells this look from another."""
        parts = (self.mixing, self.offset, np.array([self.blur_px, self.noise]))
        return b"".join(np.ascontiguousarray(part, np.float64).tobytes() for part in parts)


def measure_visual(
    cameras: Sequence[str],
    real: Sequence[Episode],
    sim: Sequence[Episode],
    rows: int,
    rng: np.random.Generator,
    textured: Textured | None = None,
) -> tuple[Measured, dict[str, Look]]:
    """Compare images of how runs begin, camera by camera.

    Args:
        cameras: The cameras that the policy sees.
        real: Recorded runs.
        sim: Runs in the nominal twin, in the same scenes.
        rows: Number of draws.
        rng: Source of randomness.
        textured: Renders the twin with other textures; None for a twin that has none.

    Returns:
        What was measured, with textures (rows,) where the robot's table has another pattern, and the look of each camera whose
        images differ.
    """
    if not cameras:
        return Measured("visual", missing=("images: this policy sees none",)), {}
    quantities: list[Quantity] = []
    missing: list[str] = []
    values: dict[str, Array] = {}
    looks: dict[str, Look] = {}
    patterned: dict[str, Array] = {}
    for camera in cameras:
        mine, theirs = (
            [_begins(one, camera) for one in side if camera in one.frames] for side in (real, sim)
        )
        if reason := _not_comparable(camera, mine, theirs):
            missing.append(reason)
            continue
        qualities_found = _measure_qualities(camera, mine, theirs, rows, rng)
        pattern = measure_pattern(camera, mine, theirs, rows, rng)
        quantities += [*qualities_found, pattern]
        some = np.concatenate(mine[:: 1 + len(mine) // RUNS])
        if pattern.differs:
            patterned[camera] = some
        elif any(one.differs for one in qualities_found):
            looks[camera] = find_look(some, np.concatenate(theirs), rng)
    if patterned and textured is None:
        missing.append("another pattern of the table: needs a twin whose textures can vary")
    elif patterned and textured is not None:
        indices = find_textures(patterned, textured)
        values["texture_index"] = rng.choice(indices, rows).astype(np.float64)
        alike = textured(indices)
        for camera, frames in patterned.items():
            looks[camera] = find_look(frames, alike[camera], rng, LIGHT_PX)
    return Measured("visual", tuple(quantities), values, tuple(missing), looks=tuple(looks)), looks


def _not_comparable(camera: str, real: Sequence[Array], sim: Sequence[Array]) -> str | None:
    """Why the images of both sides cannot be compared; None where they can."""
    if len(real) < 2 or not sim:
        return (
            f"images of {camera}: need runs recorded with it, as `twinloop evaluate --robot ... --out D` does"
        )
    if real[0].shape != sim[0].shape:
        sizes = " and ".join(f"{side[0].shape[2]} x {side[0].shape[1]}" for side in (real, sim))
        return f"images of {camera}: need the size of the twin's; these are {sizes}"
    return None


def _measure_qualities(
    camera: str, real: Sequence[Array], sim: Sequence[Array], rows: int, rng: np.random.Generator
) -> list[Quantity]:
    """Sharpness, noise, brightness, contrast and colour of a camera's images, from those of each run."""
    seen = np.array([np.mean([measure_qualities(frame) for frame in frames], axis=0) for frames in real])
    usual = np.mean([measure_qualities(frame) for frames in sim for frame in frames], axis=0)
    draws = resampled(seen, rows, rng)
    return [
        quantity(f"{name}, {camera}", unit, float(usual[place]), draws[:, place], floor)
        for place, (name, (unit, floor, _)) in enumerate(QUALITIES.items())
    ]


def find_look(real: Array, sim: Array, rng: np.random.Generator, light_px: float = SOFT_PX) -> Look:
    """The look of real images (n, height, width, 3) on simulated ones (m, ...); light varies no faster than over `light_px`."""
    mixing, offset = _colours(_softened(sim), _softened(real), light_px)
    wanted = np.mean([measure_qualities(frame) for frame in real], axis=0)
    fine = _detail(real)
    tried = sim[np.unique(np.linspace(0, len(sim) - 1, TRIED).round().astype(int))]
    best, least = Look(mixing, offset, 0.0, 0.0), np.inf
    for blur in BLURS_PX:
        plain = Look(mixing, offset, blur, 0.0).of(tried, rng)
        there = float(np.mean([measure_qualities(frame)[NOISE] for frame in plain]))
        more = float(np.sqrt(max(wanted[NOISE] ** 2 - there**2, 0.0)))
        # channels are noisy each by itself
        look = Look(mixing, offset, blur, more / float(np.linalg.norm(LUMINANCE)))
        apart = float(np.sum(np.log(_detail(look.of(tried, rng)) / fine) ** 2))
        if apart < least:
            best, least = look, apart
    return best


def _colours(sim: Array, real: Array, light_px: float) -> tuple[Array, Array]:
    """Linear mixing (3, 3) that gives simulated colours the real ones' covariance with the least change (Pitie and Kokaram's
    transfer), and what then has to be added (height, width, 3) because images usually show other light there.

    Light that is always at the same place is not contrast, so each is found with the other taken away.
    """
    mine = np.cov(sim.reshape(-1, 3).T) + FAINT**2 * np.eye(3)
    root = _root(mine)
    inverse = np.linalg.inv(root)
    usual, middle = np.median(real, axis=0), np.median(sim, axis=0)
    offset = np.zeros_like(usual)
    for _ in range(TURNS):
        theirs = np.cov((real - offset).reshape(-1, 3).T) + FAINT**2 * np.eye(3)
        mixing = inverse @ _root(root @ theirs @ root) @ inverse
        offset = ndimage.gaussian_filter(usual - middle @ mixing.T, (light_px, light_px, 0.0))
    return mixing, offset


def _root(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _softened(frames: Array) -> Array:
    """Images (n, height, width, 3) without what is finer than a few pixels: noise would pass for contrast."""
    return np.asarray(ndimage.gaussian_filter(frames.astype(np.float32), (0.0, SOFT_PX, SOFT_PX, 0.0)))


def _detail(frames: Array) -> Array:
    """How much each colour of images (n, height, width, 3) varies from one scale to the next coarser one: (3 scales, 3)."""
    exact = frames.astype(np.float32)
    scales = [ndimage.gaussian_filter(exact, (0.0, sigma, sigma, 0.0)) for sigma in (0.0, 1.0, 2.0, 4.0)]
    apart = [np.sqrt(np.mean((a - b) ** 2, axis=(0, 1, 2))) for a, b in itertools.pairwise(scales)]
    return np.array(apart) + 1e-3


def with_look(
    frames: Mapping[str, Array], looks: Mapping[str, Look], which: Array, rng: np.random.Generator
) -> dict[str, Array]:
    """Images by camera (N, height, width, 3), those marked in `which` (N,) with the camera's look."""
    made = dict(frames)
    for camera, look in looks.items():
        if camera in made and which.any():
            changed = made[camera].copy()
            changed[which] = look.of(changed[which], rng)
            made[camera] = changed
    return made


class RestyledPolicy:
    """A policy that sees simulated images with the recorded look, in the episodes (E,) marked in `restyled`."""

    actor: Actor = "policy"

    def __init__(self, policy: PolicyLike, setup: Setup, looks: Mapping[str, Look], restyled: Array) -> None:
        self._policy = PolicyExpert(policy, setup)
        self.cameras = self._policy.cameras
        self._camera_looks, self._restyled = looks, restyled
        self._rng = np.random.default_rng(0)
        self._next = 0
        self._now = np.zeros(setup.count, dtype=bool)

    def needs_images(self) -> Array:
        """Which environments (N,) the next `act` needs images of."""
        return self._policy.needs_images()

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """New episodes begin in the environments `ids`, in the order of `restyled`."""
        self._now[ids] = self._restyled[self._next : self._next + len(ids)]
        self._next += len(ids)
        self._policy.restart(ids, reading, seeds)

    def act(self, reading: Reading, step: Array) -> Array:
        """Commands (N, actuators) for readings whose images are restyled."""
        frames = with_look(reading.frames, self._camera_looks, self._now & self.needs_images(), self._rng)
        return self._policy.act(replace(reading, frames=frames), step)


def _begins(episode: Episode, camera: str) -> Array:
    """A few images of how an episode begins: (FRAMES, height, width, 3)."""
    last = int(np.searchsorted(episode.time_s, episode.time_s[0] + BEGINS_S)) - 1
    rows = np.linspace(0, min(last, len(episode.time_s) - 1), FRAMES).round().astype(int)
    return np.stack([np.asarray(episode.frames[camera][int(row)]) for row in rows])
