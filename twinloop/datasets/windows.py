"""Training views of a dataset: windows of history and action chunks, and (state, action, next state) transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.datasets.cache import cached_frames, cached_rows
from twinloop.datasets.reader import Dataset
from twinloop.datasets.video import VideoFrames
from twinloop.episode import Array
from twinloop.errors import UnknownName, WrongUse

Batch = dict[str, Array]


class Windows:
    """A window around every row of a dataset.

    `offsets` says which rows, relative to the current one, to take of each signal or camera: two states of history and
    sixteen actions are `{"observation.state": range(-1, 1), "action": range(16)}`. Rows beyond the episode repeat its
    first or last one and are marked in `<name>_is_pad`, as in LeRobot.

    With `decoded=True` frames are decoded once into a memory-mapped cache; otherwise each is decoded when asked for.
    Rows marked in `left_out` (rows of the dataset,) are passed over, as if they had never been recorded.
    """

    def __init__(
        self,
        dataset: Dataset,
        offsets: Mapping[str, Sequence[int]],
        *,
        decoded: bool = False,
        left_out: Array | None = None,
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
        self._kept = self._passed = None
        if left_out is not None and left_out.any():
            self._kept = np.flatnonzero(~left_out)
            self._passed = np.concatenate([[0], np.cumsum(~left_out)])
            if np.any(self._passed[self._ends] == self._passed[self._starts]):
                raise WrongUse("an episode with every row left out has no windows")

    def __len__(self) -> int:
        return self.dataset.num_frames

    def __getitem__(self, row: int) -> Batch:
        """The window around one row of the dataset; each entry is (window, *shape)."""
        return {name: values[0] for name, values in self.batch(np.array([row])).items()}

    def batch(self, rows: Sequence[int] | Array) -> Batch:
        """The windows around several rows; each entry is (rows, window, *shape)."""
        where = np.asarray(rows, np.int64)
        if where.size and (where.min() < 0 or where.max() >= len(self)):
            raise WrongUse(
                "a window was asked for outside the dataset",
                got=int(where.max()),
                expected=f"0 ... {len(self) - 1}",
            )
        episode = np.searchsorted(self._ends, where, side="right")
        first, last = self._starts[episode][:, None], self._ends[episode][:, None] - 1
        if self._passed is not None:  # counted in rows that are kept
            where, first, last = self._passed[where], self._passed[first], self._passed[last + 1] - 1
        out: Batch = {}
        for name, offsets in self.offsets.items():
            wanted = where[:, None] + offsets[None, :]
            taken = np.clip(wanted, first, last)
            out[name] = self._take(name, taken if self._kept is None else self._kept[taken], episode)
            out[f"{name}_is_pad"] = wanted != taken
        return out

    def _take(self, name: str, rows: Array, episode: Array) -> Array:
        if name in self._rows:
            return self._rows[name][rows]
        if name in self._frames:
            return self._frames[name][rows]
        index, video = self.dataset.index, self.dataset.index.video[self._cameras[name]]
        spec = self.dataset.schema.camera(self._cameras[name])
        out = np.empty((*rows.shape, spec.height, spec.width, 3), np.uint8)
        for i, place in enumerate(episode):
            frames = VideoFrames(
                self.dataset.root / video.files[int(video.file_of[place])],
                int(video.first_frame[place]),
                int(index.length[place]),
                spec.height,
                spec.width,
                self.dataset.schema.rate_hz,
            )
            inside = rows[i] - self._starts[place]
            low, high = int(inside.min()), int(inside.max())
            out[i] = frames[low : high + 1][inside - low]
        return out


@dataclass(frozen=True)
class TransitionBatch:
    """Some (state, action, next state) rows; `last` marks the final transition of an episode."""

    state: Array
    action: Array
    next_state: Array
    episode: Array
    last: Array

    def __len__(self) -> int:
        return len(self.state)


class Transitions:
    """Every (state, action, next state) of a dataset, in order; index it with a number, slice or array of numbers.

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
