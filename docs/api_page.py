"""The text of docs/reference/api.md, made from the names that `twinloop` exports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import twinloop
from twinloop.records import Record

PAGE = Path(__file__).parent / "reference/api.md"
TOPICS = {
    "Twins": ["twins"],
    "Randomization": ["randomization"],
    "Episodes and datasets": ["episode", "datasets"],
    "Logs": ["logs"],
    "Data quality and consent": ["quality", "consent"],
    "Generation": ["tasks", "experts", "imperfect", "engines", "generation"],
    "Robots": ["robots"],
    "Measurement": ["stats", "measure"],
    "Identification": ["identification", "anchoring"],
    "Alignment of cameras": ["alignment"],
    "Gap": ["gap"],
    "Policies": ["policies", "learning"],
    "Evaluation": ["evaluation", "environments", "interchange"],
    "Cameras": ["looks"],
    "Diagnosis": ["diagnosis"],
    "Coverage": ["coverage"],
    "Anchored randomization": ["anchoring"],
    "Collection plans": ["planning"],
    "Promotion": ["promotion"],
    "Monitoring": ["monitoring"],
    "The loop": ["loop", "loop_status", "loop_result", "stages", "demo", "workspace"],
    "Studio": ["studio"],
    "Reports": ["report"],
    "Plug-ins and their tests": ["plugins", "testing"],
    "Errors": ["errors"],
}
"""Title of each section, and the packages whose exports it holds, in the order of the loop."""

HEAD = """# Python API

Everything here is a name of the package itself: `import twinloop as tl`, then `tl.load_twin(...)`. Verbs are functions,
nouns are frozen values. `make docs` writes this page from the docstrings.
"""
SECTIONS = ("Args", "Returns", "Yields", "Raises")


def exports() -> dict[str, Any]:
    """Everything exported, by its name."""
    return {name: getattr(twinloop, name) for name in twinloop.__all__ if name != "__version__"}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_topics()])


def split_docstring(item: Any) -> tuple[str, dict[str, str]]:
    """The description of a function or class, and the text of its Args, Returns and Raises."""
    text = inspect.getdoc(item) or ""
    if is_dataclass(item) and text.startswith(f"{getattr(item, '__name__', '')}("):
        text = ""  # what `dataclass` writes where there is no docstring
    parts = re.split(rf"^({'|'.join(SECTIONS)}):[ ]*\n", text, flags=re.MULTILINE)
    return parts[0].strip(), {
        title: inspect.cleandoc("\n" + body) for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _topics() -> Iterator[str]:
    homes = {name: twinloop._HOME[name].split(".")[1] for name in exports()}
    unknown = set(homes.values()) - {package for packages in TOPICS.values() for package in packages}
    if unknown:
        raise SystemExit(f"docs/api_page.py: no topic for exports of {sorted(unknown)}; add them to TOPICS")
    for topic, packages in TOPICS.items():
        here = {name: exports()[name] for name, home in homes.items() if home in packages}
        if here:
            yield f"## {topic}\n"
        for name, item in sorted(here.items(), key=lambda pair: (not inspect.isfunction(pair[1]), pair[0])):
            if inspect.isfunction(item):
                yield _function(name, item)
            elif inspect.isclass(item):
                yield _class(name, item)
            else:
                yield f"### {name}\n\n{_body(type(item))}"


def _function(name: str, function: Any) -> str:
    return "\n".join([f"### {name}", "", _signature(f"twinloop.{name}", function), "", _body(function)])


def _class(name: str, noun: type) -> str:
    lines = [f"### {name}", ""]
    lines += [_signature(f"class twinloop.{name}", noun), ""] if is_dataclass(noun) else []
    lines.append(_body(noun))
    members = {key: value for key, value in vars(noun).items() if not key.startswith("_")}
    if issubclass(noun, Record):
        members = {"as_json": noun.as_json, "save": getattr(noun, "save", None)} | members
    held = {part.name for part in fields(noun)} if is_dataclass(noun) else set()
    rows = [row for key, value in members.items() if key not in held for row in _member(key, value)]
    return "\n".join([*lines, *([*rows, ""] if rows else [])])


def _member(name: str, member: Any) -> Iterator[str]:
    function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
    summary = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    if summary and callable(function):
        is_method = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
        yield f"- `{name}{'()' if is_method else ''}`: {summary}"


def _signature(name: str, item: Any) -> str:
    signature = inspect.signature(item)
    parameters = [_parameter(part) for part in signature.parameters.values()]
    kinds = [part.kind for part in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = "" if inspect.isclass(item) else f" -> {_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) > 90:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in parameters), f"){returned}"])
    return f"```py\n{line}\n```"


def _parameter(part: inspect.Parameter) -> str:
    text = {part.VAR_POSITIONAL: "*", part.VAR_KEYWORD: "**"}.get(part.kind, "") + part.name
    if part.annotation is not part.empty:
        text += f": {_annotation(part.annotation)}"
    if part.default is not part.empty:
        plain = isinstance(part.default, int | float | str | tuple | frozenset | None)
        text += f" = {part.default!r}" if plain else " = ..."
    return text


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"^Annotated\[(.+?), (?:Field|PlainSerializer)\(.*\)\]$", r"\1", text)
    return re.sub(r"InstanceOf\[(\w+)\]", r"\1", text)  # how a field is stored is of no interest to a reader


def _body(item: Any) -> str:
    description, sections = split_docstring(item)
    lines = [description, ""]
    for title, text in sections.items():
        lines += [f"**{title}**", ""]
        if title == "Returns":
            lines += [text, ""]
        else:
            rows = re.findall(r"^(\*{0,2}\w[\w., ]*): (.*(?:\n[ ]+.*)*)", text, flags=re.MULTILINE)
            lines += [f"- `{name}`: {' '.join(explanation.split())}" for name, explanation in rows] + [""]
    return "\n".join(lines)
