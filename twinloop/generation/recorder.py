"""Buffers for the rows of running episodes; an `Episode` is made from them when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinloop.episode import Array, Episode, Event, Frames, Provenance, Schema, make_episode
from twinloop.generation.artefacts import COLUMNS, find_artefacts
from twinloop.generation.signals import split_row
from twinloop.tasks import Cell, Task


class Recorder:
    """Buffers for `count` environments and episodes of at most `steps` control steps."""

    def __init__(self, cell: Cell, task: Task, schema: Schema, count: int, steps: int) -> None:
        self._cell, self._task, self._schema = cell, task, schema
        width = sum(signal.size for signal in schema.signals)
        self._rows = np.zeros((count, steps, width), dtype=np.float32)
        self._trace = np.zeros((count, steps, COLUMNS), dtype=np.float32)
        self._staged = np.empty((count, width), dtype=np.float32)
        self._everyone = np.arange(count)
        self._time_s = np.arange(steps) / cell.twin.control_hz
        self._gravity_m_s2 = float(np.linalg.norm(cell.model.opt.gravity))

    def row(self, step: Array, parts: Sequence[Array], trace: Array) -> None:
        """Keep one control step of all environments, each at its own step (N,)."""
        np.concatenate(parts, axis=1, out=self._staged, casting="same_kind")
        self._rows[self._everyone, step] = self._staged
        self._trace[self._everyone, step] = trace

    def episode(
        self,
        environment: int,
        length: int,
        *,
        success: bool,
        failure: str | None,
        provenance: Provenance,
        more_events: Sequence[Event] = (),
        frames: Mapping[str, Frames] | None = None,
    ) -> Episode:
        """The first `length` rows of one environment as an episode."""
        trace = self._trace[environment, :length].astype(np.float64)
        time_s = self._time_s[:length]
        events = self._events(trace, time_s) + find_artefacts(self._cell, trace, time_s, self._gravity_m_s2)
        events += more_events
        return make_episode(
            self._schema,
            time_s,
            split_row(self._schema, self._rows[environment, :length]),
            frames=frames,
            events=sorted(events, key=lambda event: event.time_s),
            success=success,
            failure=failure,
            task=self._task.text,
            provenance=provenance,
        )

    def _events(self, trace: Array, time_s: Array) -> list[Event]:
        """Phase changes, and when the object was touched, lifted off the table by the robot, and let go."""
        events = []
        phase = trace[:, 0].astype(np.int64)
        for row in (0, *(np.flatnonzero(np.diff(phase)) + 1).tolist()):
            events.append(Event(float(time_s[row]), "phase", self._task.phases[phase[row]]))
        touching = trace[:, 1] > 0.0
        held = touching & (trace[:, 2] == 0.0)
        for row in _rising(touching):
            events.append(Event(float(time_s[row]), "contact", "robot object"))
        for row in _rising(held):
            events.append(Event(float(time_s[row]), "grasp"))
        for row in _rising(~touching):
            if row and held[:row].any():
                events.append(Event(float(time_s[row]), "release"))
        return events


def _rising(flags: Array) -> list[int]:
    """Rows at which a flag goes up, the first row included."""
    before = np.concatenate([[False], flags[:-1]])
    return [int(row) for row in np.flatnonzero(flags & ~before)]
