"""What the clocks of single devices show at each row, so that drift between them can be found.

Two clocks can be compared where both were read at one moment: in logs that say when each message came in, a message's
own stamp against that; in other logs, two stamps of one row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.clocks import seconds
from twinloop.logs.cut import Raw
from twinloop.logs.log_map import Clock, LogMap

PREFIX = "clock."


def device_clocks(log_map: LogMap, raw: Callable[[str], Raw], rows_s: Array) -> dict[str, Array]:
    """Signals `clock.NAME`, (T, 1) in s from the first row on; `raw` gives a channel's samples.

    They are those the map names (`clocks`), and one for every stream on another clock channel than the rows, where
    the log also says when its messages came in.
    """
    row_clock = _row_clock(log_map)
    named = dict(log_map.clocks)
    own = {name: signal.clock for name, signal in log_map.signals.items()}
    own |= {name: camera.clock for name, camera in log_map.cameras.items() if camera.source}
    for name, given in own.items():
        clock = log_map.clock_of(given)
        if clock.channel not in (None, row_clock.channel) and raw(str(clock.channel)).time_s is not None:
            named[name] = clock
    return {
        f"{PREFIX}{name}": (_shown(name, clock, row_clock, raw, rows_s) - rows_s[0])[:, None]
        for name, clock in named.items()
    }


def _row_clock(log_map: LogMap) -> Clock:
    signal = log_map.signals.get(log_map.row_stream)
    camera = log_map.cameras.get(log_map.row_stream.removeprefix("camera "))
    return log_map.clock_of(signal.clock if signal else camera.clock if camera else None)


def _shown(name: str, clock: Clock, row_clock: Clock, raw: Callable[[str], Raw], rows_s: Array) -> Array:
    """What one clock shows at each row."""
    channel = raw(str(clock.channel))
    stamps = seconds(channel.values, clock)
    moments = rows_s
    if channel.time_s is not None:
        read_at = channel.time_s
        if row_clock.channel is not None:
            rows = raw(row_clock.channel)
            if rows.time_s is None:
                raise LogError(f"clock {name!r} and the rows were never read at one moment")
            moments = _interpolated(rows_s, seconds(rows.values, row_clock), rows.time_s)
    elif row_clock.channel is not None:
        read_at = seconds(raw(row_clock.channel).values, row_clock)[: len(stamps)]
    else:
        read_at = np.arange(len(stamps)) / row_clock.rate_hz if row_clock.rate_hz else np.zeros(0)
    if len(read_at) != len(stamps):
        raise LogError(
            f"clock {name!r} has {len(stamps)} stamps and the rows' clock {len(read_at)}, so they cannot be compared"
        )
    return _interpolated(moments, read_at, stamps)


def _interpolated(at: Array, times: Array, values: Array) -> Array:
    """Values at other times, by straight lines between samples whose time moves forward."""
    highest = np.maximum.accumulate(times)
    forward = np.concatenate([[True], highest[1:] > highest[:-1]])
    return np.asarray(np.interp(at, times[forward], values[forward]))
