"""Training views of a dataset: windows of history and action chunks, and transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.datasets.cache import cached_frames, cached_rows
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import UnknownName, WrongUse

Batch = dict[str, Array]


class Windows:
    """A window around every row of a dataset.

    Rows beyond the episode repeat its first or last row and are marked in `<name>_is_pad`, as in LeRobot.

    Args:
        dataset: The dataset; its signals are memory-mapped.
        offsets: For each signal or camera, the rows to return, relative to the current one. Two states of history and
            sixteen actions are `{"observation.state": range(-1, 1), "action": range(16)}`.
        decoded: Decode all frames once into a memory-mapped cache, instead of decoding on access.
        excluded: Marks rows (of the whole dataset) to skip, as if they had never been recorded.
    """

    def __init__(
        self,
        dataset: Dataset,
        offsets: Mapping[str, Sequence[int]],
        *,
        decoded: bool = False,
        excluded: Array | None = None,
    ) -> None:
        if not offsets:
            raise WrongUse("a window needs at least one signal or camera")
        signals = {s.name for s in dataset.schema.signals}
        cameras = {c.key: c.name for c in dataset.schema.cameras}
        for name, rows in offsets.items():
            if name not in signals and name not in cameras:
                raise UnknownName("signal or camera", name, signals | cameras.keys())
            if len(rows) == 0:
                raise WrongUse(f"the window of {name!r} has no rows")
        self.dataset = dataset
        self.offsets = {name: np.asarray(list(rows), np.int64) for name, rows in offsets.items()}
        self._rows = cached_rows(dataset)
        self._frames = {
            key: cached_frames(dataset, cameras[key]) for key in offsets if decoded and key in cameras
        }
        self._cameras = cameras
        starts = dataset.index.starts
        self._starts, self._ends = starts[:-1], starts[1:]
        self._kept = self._kept_before = None
        if excluded is not None and excluded.any():
            self._kept = np.flatnonzero(~excluded)
            self._kept_before = np.concatenate([[0], np.cumsum(~excluded)])
            if np.any(self._kept_before[self._ends] == self._kept_before[self._starts]):
                raise WrongUse("every row of an episode is excluded, so it has no windows")

    def __len__(self) -> int:
        return self.dataset.num_frames

    def __getitem__(self, row: int) -> Batch:
        """Return the window around one row of the dataset; each entry is (window, *shape)."""
        return {name: values[0] for name, values in self.batch(np.array([row])).items()}

    def batch(self, rows: Sequence[int] | Array) -> Batch:
        """Return the windows around several rows; each entry is (rows, window, *shape)."""
        where = np.asarray(rows, np.int64)
        if where.size and (where.min() < 0 or where.max() >= len(self)):
            raise WrongUse(
                "row outside the dataset",
                got=int(where.max()),
                expected=f"0 ... {len(self) - 1}",
            )
        episode = np.searchsorted(self._ends, where, side="right")
        first, last = self._starts[episode][:, None], self._ends[episode][:, None] - 1
        if self._kept_before is not None:  # count only rows that are kept
            where, first, last = (
                self._kept_before[where],
                self._kept_before[first],
                self._kept_before[last + 1] - 1,
            )
        out: Batch = {}
        for name, offsets in self.offsets.items():
            wanted = where[:, None] + offsets[None, :]
            taken = np.clip(wanted, first, last)
            out[name] = self._read(name, taken if self._kept is None else self._kept[taken], episode)
            out[f"{name}_is_pad"] = wanted != taken
        return out

    def _read(self, name: str, rows: Array, episode: Array) -> Array:
        if name in self._rows:
            return self._rows[name][rows]
        if name in self._frames:
            return self._frames[name][rows]
        camera = self.dataset.schema.camera(self._cameras[name])
        out = np.empty((*rows.shape, camera.height, camera.width, 3), np.uint8)
        for i, place in enumerate(episode):
            frames = self.dataset.frames_at(int(place), camera)
            inside = rows[i] - self._starts[place]
            low, high = int(inside.min()), int(inside.max())
            out[i] = frames[low : high + 1][inside - low]
        return out


@dataclass(frozen=True)
class TransitionBatch:
    """Rows of (state, action, next state); `last` marks the final transition of an episode."""

    state: Array
    action: Array
    next_state: Array
    episode: Array
    last: Array

    def __len__(self) -> int:
        return len(self.state)


class Transitions:
    """Every (state, action, next state) of a dataset, in order, indexed by number, slice or array.

    An episode of T rows has T - 1 transitions.
    """

    def __init__(self, dataset: Dataset, state: str = "observation.state", action: str = "action") -> None:
        rows = cached_rows(dataset)
        for name in (state, action):
            if name not in rows:
                raise UnknownName("signal", name, rows)
        self._state, self._action = rows[state], rows[action]
        index = dataset.index
        self._numbers = index.numbers
        self._ends = np.cumsum(index.length - 1)
        self._length = int(self._ends[-1]) if len(index) else 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, which: int | slice | Sequence[int] | Array) -> TransitionBatch:
        if isinstance(which, slice):
            chosen = np.arange(self._length)[which]
        else:
            chosen = np.atleast_1d(np.asarray(which, np.int64))
        if chosen.size and (chosen.min() < -self._length or chosen.max() >= self._length):
            raise IndexError(f"transition {int(chosen.max())} of {self._length}")
        chosen = chosen % max(self._length, 1)
        episode = np.searchsorted(self._ends, chosen, side="right")
        row = chosen + episode
        return TransitionBatch(
            self._state[row],
            self._action[row],
            self._state[row + 1],
            self._numbers[episode],
            chosen + 1 == self._ends[episode],
        )
