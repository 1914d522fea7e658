"""The reference page of the engines: what each makes of a twin, from the code, and what each was measured to keep to.

The measurements are the output of `twinloop engine check --json`, stored beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path

from twinloop.engines.differences import DIFFERENCES

PAGE = Path(__file__).parent / "reference/engines.md"
MEASURED = Path(__file__).parent / "engine-check.json"

HEAD = """# Engines

Made by `make docs`. [Use several physics engines](../how-to/engines.md) says how to use them.

## What an engine makes of a twin's parameters

By field of MuJoCo's model that a parameter writes, or element of a field. Fields that are not listed mean the same in every engine, as do all
parameters of scenes, hardware, cameras and experts. A parameter whose field is refused cannot vary in that engine; its nominal value has no effect there.

| field | engine | | |
|---|---|---|---|
"""

CHECKED = """
## What each engine keeps to

Measured by `twinloop engine check`, through the door that generation uses: limits are those of the check, which fails beyond them. Engines that compute with
32 bits have a wider limit for gravity torques. Free fall is off by g t dt / 2 = 4.9 mm with any integrator of first order at 2 ms.

"""


def page() -> str:
    """The text of docs/reference/engines.md."""
    rows = [
        f"| `{field}` | {engine} | {difference.treatment} | {difference.about} |"
        for engine, fields in DIFFERENCES.items()
        for field, difference in sorted(fields.items())
    ]
    return HEAD + "\n".join(rows) + "\n" + CHECKED + _measured() + "\n"


def _measured() -> str:
    found = json.loads(MEASURED.read_text())
    names = [one["name"] for one in next(iter(found.values()))["requirements"]]
    lines = [
        f"| requirement | unit | limit | {' | '.join(found)} |",
        f"|---|---|---{'|---' * len(found)}|",
    ]
    for place, name in enumerate(names):
        rows = [engine["requirements"][place] for engine in found.values()]
        word = "at least " if rows[0]["at_least"] else ""
        limits = (
            ""
            if len({row["limit"] for row in rows}) == 1
            else f" ({max(row['limit'] for row in rows):g} for 32 bits)"
        )
        values = " | ".join(f"{row['measured']:.2g}{'' if row['ok'] else ' (not kept)'}" for row in rows)
        limit = min(row["limit"] for row in rows)
        lines.append(f"| {name} | {rows[0]['unit']} | {word}{limit:g}{limits} | {values} |")
    return "\n".join(lines)
