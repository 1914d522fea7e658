"""Readings of device clocks at each row, from which drift between clocks can be measured.

Two clocks can be compared where both were read at the same moment: in logs with receive times, a message's own stamp
and its receive time; in other logs, two stamps of the same row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinloop.episode import Array
from twinloop.errors import LogError
from twinloop.logs.clocks import to_seconds
from twinloop.logs.log_map import Clock, LogMap
from twinloop.logs.reader import Block

PREFIX = "clock."


def device_clocks(log_map: LogMap, raw: Callable[[str], Block], rows_s: Array) -> dict[str, Array]:
    """Return signals `clock.NAME`, (T, 1) in s since the first row; `raw` returns a channel's samples.

    There is one for each clock in the map (`clocks`), and one for every stream with another clock channel than the
    rows, if the log has receive times.
    """
    row_clock = _row_clock(log_map)
    named = dict(log_map.clocks)
    own = {name: signal.clock for name, signal in log_map.signals.items()}
    own |= {name: camera.clock for name, camera in log_map.cameras.items() if camera.source}
    for name, own_clock in own.items():
        clock = log_map.clock_of(own_clock)
        if clock.channel not in (None, row_clock.channel) and raw(str(clock.channel)).time_s is not None:
            named[name] = clock
    return {
        f"{PREFIX}{name}": (_read_clock(name, clock, row_clock, raw, rows_s) - rows_s[0])[:, None]
        for name, clock in named.items()
    }


def _row_clock(log_map: LogMap) -> Clock:
    signal = log_map.signals.get(log_map.row_stream)
    camera = log_map.cameras.get(log_map.row_stream.removeprefix("camera "))
    return log_map.clock_of(signal.clock if signal else camera.clock if camera else None)


def _read_clock(
    name: str, clock: Clock, row_clock: Clock, raw: Callable[[str], Block], rows_s: Array
) -> Array:
    """Return the reading of one clock at each row."""
    channel = raw(str(clock.channel))
    stamps = to_seconds(channel.values, clock)
    moments = rows_s
    if channel.time_s is not None:
        read_at = channel.time_s
        if row_clock.channel is not None:
            rows = raw(row_clock.channel)
            if rows.time_s is None:
                raise LogError(f"clock {name!r} and the rows' clock have no readings at a common time")
            moments = _interpolate(rows_s, to_seconds(rows.values, row_clock), rows.time_s)
    elif row_clock.channel is not None:
        read_at = to_seconds(raw(row_clock.channel).values, row_clock)[: len(stamps)]
    else:
        read_at = np.arange(len(stamps)) / row_clock.rate_hz if row_clock.rate_hz else np.zeros(0)
    if len(read_at) != len(stamps):
        raise LogError(
            f"clock {name!r} has {len(stamps)} stamps and the rows' clock {len(read_at)}, so they cannot be compared"
        )
    return _interpolate(moments, read_at, stamps)


def _interpolate(at: Array, times: Array, values: Array) -> Array:
    """Interpolate linearly between samples whose time increases."""
    highest = np.maximum.accumulate(times)
    forward = np.concatenate([[True], highest[1:] > highest[:-1]])
    return np.asarray(np.interp(at, times[forward], values[forward]))
