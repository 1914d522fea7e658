"""Render a report from its Jinja2 template into one self-contained HTML file."""

from __future__ import annotations

import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from twinloop.datasets.commit import write_atomically
from twinloop.version import __version__

PACKAGE = "twinloop.report"
NOTHING = 1e-12
"""Below this a number is rounding error, whatever its unit."""


def write_page(path: str | Path, template: str, **context: Any) -> Path:
    """Render a template and write the page; missing folders are created.

    Args:
        path: The HTML file to write.
        template: Name of a file in `twinloop/report/templates`.
        context: Values of the template's variables; a missing one is an error.

    Returns:
        The path of the page.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, render(template, **context).encode())
    return target


def render(template: str, **context: Any) -> str:
    """The page as text; every value is escaped."""
    return _ENVIRONMENT.get_template(template).render(**context)


def read_asset(name: str) -> Markup:
    """A style sheet or script of the package, to be inlined."""
    return Markup((files(PACKAGE) / "assets" / name).read_text())


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
)
_ENVIRONMENT.filters |= {
    "number": format_number,
    "percent": format_percent,
    "unit": format_unit,
    "count": count,
}
_ENVIRONMENT.globals |= {"asset": read_asset, "version": __version__}
