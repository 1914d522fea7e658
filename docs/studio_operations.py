"""Write the typed operations of `StudioClient` from the studio's routes: `make docs`. A test fails when they are out of date."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

FILE = Path(__file__).parent.parent / "twinloop/studio/operations.py"
HEAD = '''"""Every operation of the studio as a method; made from its routes by `make docs`."""

from __future__ import annotations

from typing import Any, Literal

{imports}


class Operations:
    """One method for each operation of the HTTP API; `StudioClient` sends them."""

    def _send(
        self, method: str, path: str, kind: Any, words: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        raise NotImplementedError
'''
NOTHING: Any = object()


def text() -> str:
    """The module, formatted."""
    imports: dict[str, str] = {}
    methods = [_method(route, imports) for route in routes()]
    lines = [f"from {module} import {name}" for name, module in sorted(imports.items())]
    module = HEAD.format(imports="\n".join(lines)) + "\n".join(methods)
    for words in (("check", "--fix", "--quiet", "--select", "I,F401"), ("format",)):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(FILE), "-"]
        module = subprocess.run(command, input=module, capture_output=True, text=True, check=True).stdout
    return module


def routes() -> Iterator[Any]:
    """The routes of every room."""
    from twinloop.studio.api import ROUTERS

    for router in ROUTERS:
        yield from router.routes


def _method(route: Any, imports: dict[str, str]) -> str:
    (verb,) = route.methods
    path = [_parameter(one, imports) for one in route.dependant.path_params]
    asked = [_parameter(one, imports) for one in route.dependant.query_params]
    body = _body(route, imports)
    ordered = sorted((*path, *asked, *body), key=lambda one: one[2] is not NOTHING)
    signature = ["self", *(f"{name}: {kind}" + _default(value) for name, kind, value in ordered)]
    binary = route.response_model is None
    returned = "bytes" if binary else _name(route.response_model, imports)
    address = re.sub(r"{(\w+)(?::\w+)?}", r"{_quoted(\1)}", route.path)
    words = ", ".join(f'"{name}": {name}' for name, *_ in asked)
    sent = ", ".join(f'"{name}": {name}' for name, *_ in body)
    call = [f'"{verb}"', f'{"f" if path else ""}"{address}"', "bytes" if binary else returned]
    call += [f"{{{words}}}"] if words else ["None"] if sent else []
    call += [f"{{{sent}}}"] if sent else []
    if path:
        imports["quote as _quoted"] = "urllib.parse"
    first = cleandoc(route.endpoint.__doc__).splitlines()[0]
    return (
        f"\n    def {route.operation_id}({', '.join(signature)}) -> {returned}:\n"
        f'        """{first}"""\n'
        f"        answer: {returned} = self._send({', '.join(call)})\n"
        "        return answer\n"
    )


def _body(route: Any, imports: dict[str, str]) -> list[tuple[str, str, Any]]:
    """The fields of what is sent, each an argument."""
    if route.body_field is None:
        return []
    model = next(
        (one for one in _parts(route.body_field.field_info.annotation) if isinstance(one, type)), None
    )
    assert model is not None and issubclass(model, BaseModel), f"{route.operation_id}: its body is no model"
    return [_field(name, field, imports) for name, field in model.model_fields.items()]


def _parts(kind: Any) -> tuple[Any, ...]:
    return tuple(one for one in get_args(kind) if one is not type(None)) or (kind,)


def _parameter(one: Any, imports: dict[str, str]) -> tuple[str, str, Any]:
    return _field(one.name, one.field_info, imports)


def _field(name: str, field: Any, imports: dict[str, str]) -> tuple[str, str, Any]:
    kind = _name(field.annotation, imports)
    if field.is_required():
        return name, kind, NOTHING
    if field.default_factory is not None:
        return name, f"{kind} | None", None
    plain = field.default is None or isinstance(field.default, str | int | float | tuple)
    if not plain:
        return name, f"{kind} | None", None
    return name, kind, field.default


def _default(value: Any) -> str:
    return "" if value is NOTHING else f" = {value!r}"


def _name(kind: Any, imports: dict[str, str]) -> str:
    """A type as it is written; what it needs is added to the imports."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is None or kind is type(None):
        return "None"
    if kind is Any or kind is ...:
        return "Any" if kind is Any else "..."
    if origin is Literal:
        return f"Literal[{', '.join(repr(one) for one in arguments)}]"
    if origin in (Union, types.UnionType):
        return " | ".join(_name(one, imports) for one in arguments)
    if hasattr(kind, "__metadata__"):
        return _name(arguments[0], imports)
    if origin is not None:
        return f"{_name(origin, imports)}[{', '.join(_name(one, imports) for one in arguments)}]"
    generic = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    if generic.get("origin") is not None:
        return f"{_name(generic['origin'], imports)}[{', '.join(_name(one, imports) for one in generic['args'])}]"
    if kind.__module__ != "builtins":
        module = imports.setdefault(kind.__name__, kind.__module__)
        if module != kind.__module__:
            alias = f"{kind.__module__.rpartition('.')[2].title().replace('_', '')}{kind.__name__}"
            imports[f"{kind.__name__} as {alias}"] = kind.__module__
            return alias
    return str(kind.__name__)
