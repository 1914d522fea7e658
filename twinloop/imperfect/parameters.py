"""Parameters of the parts: what they may be, how they are checked, and how they meet a batch.

A `Value` is a number, an array (N,) with one value per environment, or an array that broadcasts against the signal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.errors import WrongUse

Array = NDArray[Any]
Value = float | Array


def check_field(
    owner: object,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    infinite: bool = False,
) -> None:
    """Refuse a field of the parameters `owner` that is not a number within its bounds."""
    value = getattr(owner, name)
    bounds = [
        text
        for bound, text in (
            (above, f"above {above}"),
            (at_least, f"at least {at_least}"),
            (at_most, f"at most {at_most}"),
        )
        if bound is not None
    ]
    expected = f"{'numbers' if infinite else 'finite numbers'} {' and '.join(bounds)}".rstrip()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise _wrong(owner, name, repr(value), expected) from None
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if above is not None:
        bad |= array <= above
    if at_least is not None:
        bad |= array < at_least
    if at_most is not None:
        bad |= array > at_most
    if bad.any():
        where = np.argwhere(bad)[0]
        at = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in where)}"
        raise _wrong(owner, name, f"{array[tuple(where)]:g}{at}", expected)


def _wrong(owner: object, name: str, got: str, expected: str) -> WrongUse:
    return WrongUse(f"{type(owner).__name__}.{name} is out of range", got=got, expected=expected)


def broadcast(value: Value, shape: tuple[int, ...]) -> Array:
    """`value` with the trailing axes it needs to broadcast against a signal of `shape` (N, ...).

    Without this, NumPy would read an array (N,) as one value per channel.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0 or array.shape == shape:
        return array
    full = array.shape + (1,) * (len(shape) - array.ndim)
    if len(full) > len(shape) or any(have not in (1, want) for have, want in zip(full, shape, strict=True)):
        raise WrongUse(
            "a parameter does not fit the batch",
            got=f"shape {array.shape}",
            expected=f"one number, ({shape[0]},), or what broadcasts against {shape}",
            remedy="give one value per environment, or (1, channels) for one value per channel",
        )
    return array.reshape(full)


def per_environment(value: Value, environments: int) -> Array:
    """`value` as an array (N,): one number per environment."""
    array = broadcast(value, (environments,))
    if array.ndim == 0:  # by far faster than broadcasting
        return np.full(environments, array)
    return np.broadcast_to(array, (environments,))


def require_noise(noise: Array | None, value: Value, what: str) -> Array | None:
    """`noise`, or an error when a parameter asks for randomness and the caller supplied none."""
    if noise is None and np.any(np.asarray(value) > 0):
        raise WrongUse(
            f"{what} is random but no noise was given",
            got="None",
            expected="one draw per environment",
            remedy="draw it with twinloop.imperfect.noise, keyed by the episode's seed",
        )
    return noise
