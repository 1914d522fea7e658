"""Numerics as a dimension: the physics engine and its time step, drawn for each episode like any parameter.

They are no parameters of a twin, because they say how it is simulated and not what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from twinloop.errors import InvalidRandomization
from twinloop.randomization.distribution import Categorical, Constant, Distribution
from twinloop.randomization.notation import distribution_from
from twinloop.twins import Parameter, Twin

if TYPE_CHECKING:
    from twinloop.randomization.randomization import Randomization

ENGINE, TIME_STEP = "engine", "timestep_s"
NUMERICS = (ENGINE, TIME_STEP)
"""Keys of a randomization, and of draws, that say how an episode is simulated."""
DEFAULT_ENGINE = "mujoco"
STEPS_S = (1e-5, 0.02)


def describe_numerics(twin: Twin, name: str, described: Any) -> tuple[Parameter, Distribution]:
    """The parameter and its distribution that a config describes under `engine` or `timestep_s`: one value, or several to choose from.

    Raises:
        InvalidRandomization: A control step is not a whole number of these time steps, or it is no choice.
    """
    numbers = isinstance(described, list | tuple) and all(
        isinstance(value, int | float) for value in described
    )
    chosen: Distribution = (
        Categorical(tuple(float(value) for value in described)) if numbers else distribution_from(described)
    )
    if not isinstance(chosen, Categorical | Constant):
        raise InvalidRandomization(
            f"{name} is not a choice", got=repr(described), expected="a value, or a list"
        )
    values = chosen.values if isinstance(chosen, Categorical) else (chosen.value,)
    if name == ENGINE:
        words = tuple(str(value) for value in values)
        choices = tuple(sorted({DEFAULT_ENGINE, *words}))
        text = "the physics engine"
        parameter = Parameter(name, DEFAULT_ENGINE, (0.0, 0.0), "1", "numerics", "scene", text, (), choices)
        return parameter, chosen
    for value in values:
        require_time_step(twin, value)
    text = "the physics time step"
    return Parameter(name, twin.physics_dt_s, STEPS_S, "s", "numerics", "scene", text), chosen


def require_time_step(twin: Twin, value: float | str) -> None:
    """Refuse a time step of which a control step is not a whole number.

    Raises:
        InvalidRandomization: It is not.
    """
    period_s = 1.0 / twin.control_hz
    fits = not isinstance(value, str) and STEPS_S[0] <= value <= STEPS_S[1]
    steps = period_s / float(value) if fits else 0.0
    if steps < 1.0 - 1e-9 or abs(steps - round(steps)) > 1e-6:
        raise InvalidRandomization(
            f"{TIME_STEP}: a control step of twin {twin.name!r} is not a whole number of physics steps",
            got=value,
            expected=f"{period_s:g} s, or a whole fraction of it, within {STEPS_S[0]:g} to {STEPS_S[1]:g} s",
        )


def list_engines_of(randomization: Randomization | None, otherwise: str) -> tuple[str, ...]:
    """The engines that a randomization draws from; `otherwise` if it says nothing about them."""
    for variation in randomization.variations if randomization is not None else ():
        if variation.name == ENGINE:
            drawn = variation.distribution
            values = drawn.values if isinstance(drawn, Categorical) else (getattr(drawn, "value", otherwise),)
            return tuple(dict.fromkeys(str(value) for value in values))
    return (otherwise,)


def without_numerics(names: Iterable[str]) -> list[str]:
    """Those of the names that are parameters of a twin."""
    return [name for name in names if name not in NUMERICS]


def split_numerics(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The twin's own parameters of a draw, and how it is simulated."""
    own = {name: value for name, value in values.items() if name not in NUMERICS}
    return own, {name: value for name, value in values.items() if name in NUMERICS}
