"""Values that maps share, those of logs and those of foreign policies: names, units, numbers, and the models that hold them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from twinloop.errors import UnknownName
from twinloop.logs.units import LOG_UNITS, known_unit
from twinloop.yaml_models import nearest_name


class MapPart(BaseModel):
    """A part of a map: frozen, without unknown keys, written by its aliases."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


def _as_unit(value: Any) -> Any:
    try:
        return known_unit(str(value))
    except UnknownName as error:
        raise ValueError(
            nearest_name(str(value), sorted(LOG_UNITS)).replace("nothing", "no unit", 1)
        ) from error


def _require_not_zero(values: tuple[float, ...]) -> tuple[float, ...]:
    if 0.0 in values:
        raise ValueError("a factor of 0 would erase the signal")
    return values


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Unit = Annotated[str, BeforeValidator(_as_unit)]
Units = Annotated[tuple[Unit, ...], BeforeValidator(_as_list), Field(min_length=1)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_list), Field(min_length=1)]
Factors = Annotated[Numbers, AfterValidator(_require_not_zero)]
