"""One named, bounded quantity of a twin, and the places it is written to.

A parameter's stage is where its value is applied:

- `model`: fields of the MuJoCo model (`twinloop.twins.patch`)
- `scene`: initial state and disturbances of an episode (`twinloop.twins.scene`, tasks)
- `appearance`: lights, textures and camera poses of the rendered model (`twinloop.twins.appearance`)
- `imperfect`: delay, backlash, noise, lens ... (`twinloop.engines.hardware`)
- `actor`: the demonstrator's style (experts)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast, get_args

from twinloop.episode import UNITS
from twinloop.errors import InvalidTwin, UnknownName

Dimension = Literal[
    "contact", "visual", "sensing", "object", "environment", "human", "actuation", "latency", "numerics"
]
Stage = Literal["model", "scene", "appearance", "imperfect", "actor"]
Rule = Literal["set", "scale", "add"]

DIMENSIONS: tuple[str, ...] = get_args(Dimension)
STAGES: tuple[str, ...] = get_args(Stage)

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Target:
    """Elements of one MuJoCo model field, and how a parameter's value reaches them.

    With value v and the field as compiled f, the rules are

    - `set`:   offset + factor * v
    - `scale`: f * (v / reference) ** power, where reference is the value the MJCF was written for
    - `add`:   f + factor * v

    Several parameters may share an element: sets come first, then scales, then additions, always on the compiled
    field, so that applying twice is applying once. `objects` are names of the kind the field is about (`geom_` geoms,
    `body_` bodies, `dof_` and `jnt_` joints ...); `index` picks elements of a row, all when empty.
    """

    field: str
    objects: tuple[str, ...] = ()
    index: tuple[int, ...] = ()
    rule: Rule = "set"
    factor: float = 1.0
    offset: float = 0.0
    reference: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise UnknownName(f"rule for field {self.field!r}", self.rule, get_args(Rule))
        if self.rule == "scale" and self.reference == 0.0:
            raise InvalidTwin(
                f"target {self.field!r} scales by a reference of zero", expected="a reference != 0"
            )


@dataclass(frozen=True)
class Parameter:
    """A named quantity with nominal value, bounds, unit and gap dimension.

    A parameter that takes a word instead of a number has `choices` and no bounds; `whole` marks integers.
    """

    name: str
    nominal: float | str
    bounds: tuple[float, float] = (-math.inf, math.inf)
    unit: str = "1"
    dimension: Dimension = "object"
    stage: Stage = "model"
    description: str = ""
    targets: tuple[Target, ...] = ()
    choices: tuple[str, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        where = f"parameter {self.name!r}"
        if not _NAME.fullmatch(self.name):
            raise InvalidTwin(
                f"{where} cannot be used as a name", expected="lower case letters, digits and '_'"
            )
        if self.unit not in UNITS:
            raise UnknownName(f"unit (for {where})", self.unit, UNITS)
        if self.dimension not in DIMENSIONS:
            raise UnknownName(f"gap dimension (for {where})", self.dimension, DIMENSIONS)
        if self.stage not in STAGES:
            raise UnknownName(f"stage (for {where})", self.stage, STAGES)
        if not self.choices and not self.bounds[0] <= self.bounds[1]:
            raise InvalidTwin(f"{where}: bounds are reversed", got=self.bounds)
        if self.targets and self.stage not in ("model", "appearance"):
            raise InvalidTwin(f"{where}: a parameter of stage {self.stage!r} cannot have targets")
        if self.targets and self.choices:
            raise InvalidTwin(f"{where}: a parameter with choices cannot have targets")
        self.check(self.nominal)

    def in_unit(self, text: str) -> str:
        """`text` followed by the unit; dimensionless quantities have none."""
        return text if self.unit == "1" else f"{text} {self.unit}"

    def format(self, value: float | str) -> str:
        """`value` with its unit."""
        return value if isinstance(value, str) else self.in_unit(f"{value:g}")

    def check(self, value: float | str) -> None:
        """Raise unless `value` is a valid value of this parameter."""
        where = f"parameter {self.name!r}"
        if self.choices:
            if value not in self.choices:
                raise UnknownName(f"value of {where}", str(value), self.choices)
            return
        if isinstance(value, str) or not math.isfinite(value):
            raise InvalidTwin(f"{where}: not a finite number", got=repr(value))
        low, high = self.bounds
        if not low <= value <= high:
            raise InvalidTwin(
                f"{where}: value outside its bounds",
                got=self.format(value),
                expected=self.in_unit(f"{low:g} to {high:g}"),
                remedy="use a value inside the bounds, or a twin whose bounds are wider",
            )
        if self.whole and value != round(value):
            raise InvalidTwin(f"{where}: takes whole numbers", got=f"{value:g}")


def model_parameter(
    name: str,
    nominal: float,
    bounds: tuple[float, float],
    unit: str,
    dimension: Dimension,
    description: str,
    *targets: Target,
) -> Parameter:
    """A parameter that is written into fields of the MuJoCo model."""
    return Parameter(name, nominal, bounds, unit, dimension, "model", description, targets)


def plain(parameter: Parameter) -> dict[str, Any]:
    """The parameter as plain YAML values, without defaults."""
    kept = _without_defaults(parameter)
    if "targets" in kept:
        kept["targets"] = [_without_defaults(target) for target in parameter.targets]
    return kept


def from_plain(values: dict[str, Any]) -> Parameter:
    """The parameter that `plain` described."""
    known = dict(values)
    known["targets"] = tuple(_build(Target, dict(t)) for t in known.pop("targets", ()))
    bounds = known.get("bounds", (0.0, 0.0))
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise InvalidTwin("bounds are two numbers", got=bounds, expected="[low, high]")
    if not known.get("choices"):
        known |= {name: _read_numbers(known[name]) for name in ("nominal", "bounds") if name in known}
    return _build(Parameter, known)


def _read_numbers(value: Any) -> Any:
    """Numbers as YAML reads them; it takes 1e-3, without a point, for text."""
    if isinstance(value, list | tuple):
        return [_read_numbers(part) for part in value]
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError as error:
        raise InvalidTwin("not a number", got=repr(value)) from error


def _without_defaults(record: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for part in fields(record):
        value = getattr(record, part.name)
        if part.name in ("name", "nominal", "unit", "dimension", "stage") or value != part.default:
            kept[part.name] = list(value) if isinstance(value, tuple) else value
    return kept


def _build(kind: type[T], values: dict[str, Any]) -> T:
    names = [part.name for part in fields(cast(Any, kind))]
    for name in values:
        if name not in names:
            raise UnknownName(f"field of a {kind.__name__.lower()}", name, names)
    missing = {"Parameter": "name nominal", "Target": "field"}[kind.__name__].split()
    for name in missing:
        if name not in values:
            raise InvalidTwin(f"a {kind.__name__.lower()} without {name!r}", got=values)
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
