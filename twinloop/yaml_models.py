"""YAML files as frozen pydantic values, with errors that name the key and the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Tag, ValidationError

from twinloop.errors import MapError
from twinloop.yaml_files import parse_yaml

MAX_BYTES = 1 << 20

Model = TypeVar("Model", bound=BaseModel)


def load_model(
    model: type[Model], source: str | Path, *, remedy: str, hints: Mapping[str, str], kind: str = "map"
) -> Model:
    """Read a file of at most `MAX_BYTES`; see `parse_model`. `remedy` says how to get such a file."""
    path = Path(source)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise MapError(f"{path} is too large for a {kind}", got=f"{path.stat().st_size} bytes")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MapError(f"the {kind} {path} cannot be read ({error})", remedy=remedy) from error
    return parse_model(model, text, path.name, hints=hints, kind=kind)


def parse_model(
    model: type[Model], text: str, name: str, *, hints: Mapping[str, str], kind: str = "map"
) -> Model:
    """Parse YAML text.

    Args:
        model: What the text describes.
        text: The YAML.
        name: What errors call it.
        hints: By key, what to write where it is missing.
        kind: What errors call such a file.

    Returns:
        The validated value.

    Raises:
        MapError: A key or value is wrong; the message names it, and the nearest right key.
    """
    try:
        content = parse_yaml(text)
    except yaml.YAMLError as error:
        raise MapError(f"{name} is not YAML ({' '.join(str(error).split())[:200]})") from error
    return validate_model(model, content, name, hints=hints, kind=kind)


def validate_model(
    model: type[Model], content: object, name: str, *, hints: Mapping[str, str], kind: str = "map"
) -> Model:
    """As `parse_model`, of plain values."""
    if not isinstance(content, dict):
        keys = ", ".join(list(model.model_fields)[:3])
        raise MapError(f"{name} is not a {kind}", got=type(content).__name__, expected=f"keys such as {keys}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _describe(error, model, name, hints, kind) from error


def format_model(value: BaseModel) -> str:
    """Format a value as YAML, without what was left at its default."""
    content = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def nearest_name(name: str, available: Sequence[str]) -> str:
    """Say that nothing has this name, what there is, and the nearest of it."""
    near = difflib.get_close_matches(name, available, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"nothing is called {name!r}, there is {', '.join(available) or 'nothing of that kind'}{hint}"


def _describe(
    error: ValidationError, model: type[BaseModel], name: str, hints: Mapping[str, str], kind: str
) -> MapError:
    # A misspelt key is also missing under its right name; report the misspelling.
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place, _ = _walk(model, first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        known = _walk(model, first["loc"][:-1])[1]
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1, cutoff=0.5)
        return MapError(
            f"{name}: {place} is not a key of a {kind}{more}",
            available=known,
            remedy=f"did you mean {near[0]!r}?" if near else None,
        )
    if first["type"] == "missing":
        return MapError(f"{name}: {place} is missing{more}", remedy=hints.get(str(first["loc"][-1])))
    message = str(first["msg"]).removeprefix("Value error, ")
    value = first.get("input")
    got = repr(value)[:80] if not isinstance(value, Mapping) else None
    return MapError(f"{name}: {place or 'it'}: {message}{more}", got=got)


def _walk(model: type[BaseModel], place: Sequence[int | str]) -> tuple[str, list[str]]:
    """A place in a value as its writer sees it, without names of kinds, and the keys that are allowed there."""
    here: Any = model
    seen: list[str] = []
    for part in place:
        here, is_kind = _enter(here, part)
        if not is_kind:
            seen.append(str(part))
    models = _models_in(here)
    return ".".join(seen), sorted({f.alias or key for m in models for key, f in m.model_fields.items()})


def _enter(here: Any, part: int | str) -> tuple[Any, bool]:
    """What is at `part` of an annotation, and whether `part` is only the name of one of its kinds."""
    if isinstance(here, type) and issubclass(here, BaseModel):
        fields = {field.alias or key: field for key, field in here.model_fields.items()}
        fields |= here.model_fields
        return (fields[str(part)].annotation if part in fields else None), False
    kinds = {
        tag.tag: kind
        for kind in _alternatives(here)
        if get_origin(kind) is Annotated
        for tag in get_args(kind)[1:]
        if isinstance(tag, Tag)
    }
    if part in kinds:
        return get_args(kinds[str(part)])[0], True
    inner = [get_args(one) for one in _alternatives(here) if get_args(one)]
    if not inner:
        models = _models_in(here)
        return _enter(models[0], part) if models else (None, False)
    arguments = [one for one in inner[0] if one is not Ellipsis]
    return arguments[-1], False


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) is Annotated and get_origin(get_args(annotation)[0]) in (Union, UnionType):
        annotation = get_args(annotation)[0]
    return list(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else [annotation]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Every model that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
