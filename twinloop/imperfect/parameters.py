"""Parameters of the hardware models: validation and broadcasting against a batch.

A `Value` is a number, an array (N,) with one value per environment, or an array that broadcasts against the signal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinloop.episode import Array as Array
from twinloop.errors import WrongUse

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
    # Parameters are made anew in every control step, and NumPy is slow on single numbers.
    if isinstance(value, float | int):
        usable = value == value if infinite else math.isfinite(value)
        if usable and not _outside(value, above, at_least, at_most):
            return
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise _wrong(owner, name, repr(value), infinite, above, at_least, at_most) from None
    bad = (np.isnan(array) if infinite else ~np.isfinite(array)) | _outside(array, above, at_least, at_most)
    if bad.any():
        where = np.argwhere(bad)[0]
        at = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in where)}"
        got = f"{array[tuple(where)]:g}{at}"
        raise _wrong(owner, name, got, infinite, above, at_least, at_most)


def _outside(value: Any, above: float | None, at_least: float | None, at_most: float | None) -> Any:
    """Whether a number, or each of an array, is outside its bounds."""
    bad: Any = False
    if above is not None:
        bad |= value <= above
    if at_least is not None:
        bad |= value < at_least
    if at_most is not None:
        bad |= value > at_most
    return bad


def _wrong(
    owner: object,
    name: str,
    got: str,
    infinite: bool,
    above: float | None,
    at_least: float | None,
    at_most: float | None,
) -> WrongUse:
    bounds = ((above, f"above {above}"), (at_least, f"at least {at_least}"), (at_most, f"at most {at_most}"))
    limits = " and ".join(text for bound, text in bounds if bound is not None)
    expected = f"{'numbers' if infinite else 'finite numbers'} {limits}".rstrip()
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
    """Return `noise`; raise if the parameter is random and no noise was given."""
    if noise is None and np.any(np.asarray(value) > 0):
        raise WrongUse(
            f"{what} is random but no noise was given",
            got="None",
            expected="one draw per environment",
            remedy="draw it with twinloop.imperfect.noise, keyed by the episode's seed",
        )
    return noise
