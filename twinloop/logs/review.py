"""Find what is not reviewed in a map: unknown units without a reason, and guesses still marked CHECK."""

from __future__ import annotations

import re

from twinloop.errors import MapError
from twinloop.logs.log_map import LogMap

_MARKED = re.compile(
    r"""^\s*(?:\#\s*)?["']?([^"':#]+)["']?\s*:.*\#\ confidence\ [\d.]+:.*;\ CHECK\s*$""", re.VERBOSE
)
MAX_NAMED = 4


def find_unreviewed(log_map: LogMap, map_text: str = "") -> list[str]:
    """List every unknown unit without a reason, and every line of the text still marked CHECK."""
    named = {f"signals.{name}": signal for name, signal in log_map.signals.items()}
    named |= {f"constants.{name}": constant for name, constant in log_map.constants.items()}  # type: ignore[misc]
    unreviewed = [
        f"{name}.unit is unknown"
        for name, part in named.items()
        if "unknown" in part.unit and not part.unknown_because
    ]
    for number, line in enumerate(map_text.splitlines(), start=1):
        if match := _MARKED.match(line):
            unreviewed.append(f"line {number} ({match[1].strip()}) is an unreviewed guess")
    return unreviewed


def require_reviewed(unreviewed: list[str]) -> None:
    """Raise `MapError` if anything is not reviewed."""
    if not unreviewed:
        return
    more = f" and {len(unreviewed) - MAX_NAMED} more" if len(unreviewed) > MAX_NAMED else ""
    raise MapError(
        f"the map is not reviewed: {'; '.join(unreviewed[:MAX_NAMED])}{more}",
        remedy="fill in each unit (or add `unknown_because: REASON`), correct each guess and delete its CHECK "
        "comment; --accept-guesses uses the map as it is and records that",
    )
