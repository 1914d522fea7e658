"""Render a report from its Jinja2 template into one self-contained HTML file.

Texts come from files of others, so every value is escaped, and the page carries a Content-Security-Policy under which
a browser loads nothing and runs only the scripts of this package, by their hashes. The policy is the same for all
pages: a page that is shown inside another one obeys both.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from twinloop.datasets.artefacts import Shown, register_artefact
from twinloop.datasets.commit import write_atomically
from twinloop.version import __version__

PACKAGE = "twinloop.report"
SCRIPTS = ("coverage_map.js", "loop.js")
STYLES = ("style.css",)
_INVISIBLE = (
    *range(9), 11, 12, *range(14, 32), *range(127, 160), 0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F),
    *range(0x2060, 0x2070), 0xFEFF,
)  # fmt: skip
_VISIBLE = {code: f"\\u{code:04x}" for code in _INVISIBLE}
NOTHING = 1e-12
"""Below this a number is rounding error, whatever its unit."""


def write_page(path: str | Path, template: str, *, shows: Iterable[Shown], **context: Any) -> Path:
    """Render a template and write the page; missing folders are created.

    Args:
        path: The HTML file to write.
        template: Name of a file in `twinloop/report/templates`.
        shows: Whose rows and frames it shows, for the ledger of artefacts; nothing if it shows only statistics.
        context: Values of the template's variables; a missing one is an error.

    Returns:
        The path of the page.
    """
    target = Path(path)
    register_artefact(target, "page", shows)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, render(template, **context).encode())
    return target


def render(template: str, **context: Any) -> str:
    """The page as text; every value is escaped."""
    return _ENVIRONMENT.get_template(template).render(**context)


def read_asset(name: str) -> Markup:
    """A style sheet or script of the package, to be inlined."""
    return Markup((files(PACKAGE) / "assets" / name).read_text())


@cache
def content_security_policy() -> str:
    """The policy of every page. Style attributes are free: they place bars and colour charts, and can load nothing."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash_asset, SCRIPTS)),
        "style-src-elem": " ".join(map(_hash_asset, STYLES)),
        "style-src-attr": "'unsafe-inline'",
        "img-src": "data:",
        "media-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash_asset(name: str) -> str:
    digest = hashlib.sha256(read_asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def show_controls(value: Any) -> str:
    """A value as text; its invisible characters, such as those that turn the direction of writing, are written out."""
    text = value if isinstance(value, str) else str(value)  # not of Markup, which would be escaped again
    return text if text.isascii() and text.isprintable() else text.translate(_VISIBLE)


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with significant digits, and an exponent only if very small or large; a dash for None."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < NOTHING:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_percent(value: float | None, decimals: int = 0) -> str:
    """A fraction in percent; a dash for None."""
    return "–" if value is None else f"{100.0 * value:.{decimals}f} %"


def format_unit(unit: str | None) -> str:
    """The unit as printed after a number; empty for a dimensionless one."""
    return "" if unit in (None, "1") else str(unit)


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural where needed."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


_ENVIRONMENT = Environment(
    autoescape=True,
    undefined=StrictUndefined,
    loader=PackageLoader(PACKAGE),
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=show_controls,
)
_ENVIRONMENT.filters |= {
    "number": format_number,
    "percent": format_percent,
    "unit": format_unit,
    "count": count,
}
_ENVIRONMENT.globals |= {
    "asset": read_asset,
    "content_security_policy": content_security_policy,
    "version": __version__,
}
