"""What a map leaves open: units nobody filled in, and guesses of a proposed map that nobody has checked."""

from __future__ import annotations

import re

from twinloop.errors import MapError
from twinloop.logs.log_map import LogMap

_MARKED = re.compile(
    r"""^\s*(?:\#\s*)?["']?([^"':#]+)["']?\s*:.*\#\ confidence\ [\d.]+:.*;\ CHECK\s*$""", re.VERBOSE
)
MOST_NAMED = 4


def open_questions(log_map: LogMap, map_text: str = "") -> list[str]:
    """Every unit that is unknown without a reason, and every line of the text that still says CHECK."""
    named = {f"signals.{name}": signal for name, signal in log_map.signals.items()}
    named |= {f"constants.{name}": constant for name, constant in log_map.constants.items()}  # type: ignore[misc]
    questions = [
        f"{name}.unit is unknown"
        for name, part in named.items()
        if "unknown" in part.unit and not part.unknown_because
    ]
    for number, line in enumerate(map_text.splitlines(), start=1):
        if match := _MARKED.match(line):
            questions.append(f"line {number} ({match[1].strip()}) is an unchecked guess")
    return questions


def require_answers(questions: list[str]) -> None:
    """Refuse a map that leaves something open."""
    if not questions:
        return
    more = f" and {len(questions) - MOST_NAMED} more" if len(questions) > MOST_NAMED else ""
    raise MapError(
        f"the map leaves open what the data means: {'; '.join(questions[:MOST_NAMED])}{more}",
        remedy="fill in each unit (or say `unknown_because: REASON` beside it), correct each guess and delete its "
        "CHECK comment; --accept-guesses takes the map as it is and records that",
    )
