"""Find angles logged within one turn, which jump from one end of it to the other."""

from __future__ import annotations

from collections.abc import Iterator

from twinloop.quality.finding import Finding
from twinloop.quality.registry import CHECKS
from twinloop.quality.view import View


@CHECKS.register("wrap")
def wrap(view: View) -> Iterator[Finding]:
    """Find angles that wrap around: they jump by a turn while the joint or object moves on."""
    for channel in view.channels:
        rows = channel.wraps
        if len(rows):
            first, turn = int(rows[0]), channel.turn
            many = f"{len(rows)} times" if len(rows) > 1 else "once"
            yield view.finding(
                "wrap",
                channel.name,
                "warning",
                (len(rows), "wraps", 0),
                f"wraps around {many}: jumps by a turn ({channel.with_unit(turn)}), first at row {first}",
                "unwrap it on ingest (`unwrap: true` in the map) or with numpy.unwrap before taking differences or "
                "resampling; identify does so for joints without limits",
                (max(first - 1, 0), int(rows[-1])),
            )
