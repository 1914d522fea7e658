"""Noise that belongs to an environment: drawn from its own seed, whatever else is in the batch.

`draw_normal` and `draw_uniform` give a whole episode in one call, step first, so that `block[t]` is the contiguous
(N, ...) noise of step t. Each environment has its own Philox counter keyed by (seed, stream); a stream is a name such
as "encoder" that keeps the noise of two parts apart. A longer block starts with the shorter one.

Images need too many numbers for that: 128 x 128 x 3 normals cost more than the rest of a camera together. `frame_noise`
takes slices at random offsets from a bank of a million normals instead. Within a frame the noise is exactly white, and
the same pixel in two frames is independent unless their offsets coincide (1 in 2^20).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.random import Generator, Philox

from twinloop.errors import WrongUse
from twinloop.imperfect.parameters import Array

_OFFSETS = 2**20
_SLICE = 2**16
_BANK_SEED = 20_240_229


def draw_normal(seeds: Sequence[int] | Array, stream: str, steps: int, shape: tuple[int, ...] = ()) -> Array:
    """Standard normals for `steps` steps of every environment: (steps, N, *shape) float32."""
    return _draw(
        seeds, stream, (steps, *shape), lambda rng, size: rng.standard_normal(size, dtype=np.float32)
    )


def draw_uniform(seeds: Sequence[int] | Array, stream: str, steps: int, shape: tuple[int, ...] = ()) -> Array:
    """Uniforms in [0, 1) for `steps` steps of every environment: (steps, N, *shape) float32."""
    return _draw(seeds, stream, (steps, *shape), lambda rng, size: rng.random(size, dtype=np.float32))


def _draw(
    seeds: Sequence[int] | Array,
    stream: str,
    size: tuple[int, ...],
    sample: Callable[[Generator, tuple[int, ...]], Array],
) -> Array:
    keys = _seed_words(seeds)
    block = np.empty((size[0], len(keys), *size[1:]), dtype=np.float32)
    bits = Philox(key=0)
    rng = Generator(bits)
    # Re-keying one generator takes a tenth of the time of building one per environment.
    state: Any = bits.state
    state["state"]["key"][1] = _stream_word(stream)
    for i, key in enumerate(keys):
        state["state"]["key"][0] = key
        bits.state = state
        block[:, i] = sample(rng, size)
    return block


def frame_noise(
    seeds: Sequence[int] | Array, stream: str, frame: int | Array, shape: tuple[int, ...]
) -> list[Array]:
    """Standard normals for one image per environment: N arrays of `shape`, float32 and read-only.

    `frame` counts the images of the episode: one number, or (N,) when the environments are not in step.
    """
    keys = _seed_words(seeds)
    frames = np.broadcast_to(np.asarray(frame, dtype=np.uint64), keys.shape)
    size = prod(shape)
    slices = -(-size // _SLICE)
    words = _mix(_mix(keys ^ np.uint64(_stream_word(stream))) + frames)
    offsets = _mix(words[:, None] + np.arange(slices, dtype=np.uint64)) % np.uint64(_OFFSETS)
    bank = _bank()
    if slices == 1:
        return [bank[start : start + size].reshape(shape) for start in offsets[:, 0].tolist()]
    return [
        np.concatenate([bank[start : start + _SLICE] for start in starts])[:size].reshape(shape)
        for starts in offsets.tolist()
    ]


@lru_cache(maxsize=1024)
def _stream_word(stream: str) -> int:
    return int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")


@lru_cache(maxsize=1)
def _bank() -> Array:
    bank = Generator(Philox(key=_BANK_SEED)).standard_normal(_OFFSETS + _SLICE, dtype=np.float32)
    bank.flags.writeable = False
    return bank


def _seed_words(seeds: Sequence[int] | Array) -> Array:
    array = np.asarray(seeds)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise WrongUse(
            "noise needs one integer seed per environment",
            got=f"{array.dtype} of shape {array.shape}",
            expected="integers of shape (N,)",
        )
    return array.astype(np.uint64)


def _mix(words: Array) -> Array:
    """SplitMix64: every bit of the result depends on every bit of the word."""
    with np.errstate(over="ignore"):
        mixed: Array = words + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed
