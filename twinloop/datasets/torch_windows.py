"""Windows of several datasets as one PyTorch dataset, sampled with given weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twinloop.datasets.windows import Windows
from twinloop.errors import MissingExtra, WrongUse

try:
    import torch
except ImportError as error:  # pragma: no cover - the tests install torch
    raise MissingExtra("training", "torch", "learn") from error

if TYPE_CHECKING:
    _Dataset = torch.utils.data.Dataset[dict[str, Any]]
    _Sampler = torch.utils.data.Sampler[int]
else:
    _Dataset = torch.utils.data.Dataset
    _Sampler = torch.utils.data.Sampler


class TorchWindows(_Dataset):
    """The windows of all sources, one source after the other; images are (window, 3, height, width) in 0 ... 1.

    A `DataLoader` fetches whole batches at once with `__getitems__`, which is much faster than single windows.
    """

    def __init__(self, sources: Sequence[Windows]) -> None:
        if not sources:
            raise WrongUse("a training set needs at least one source")
        offsets = [{name: tuple(rows) for name, rows in s.offsets.items()} for s in sources]
        if any(o != offsets[0] for o in offsets[1:]):
            raise WrongUse("all sources must give the same windows", got=offsets[1], expected=offsets[0])
        self.sources = tuple(sources)
        self.ends = np.cumsum([len(s) for s in sources])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several windows, each a dictionary of tensors; `source` is the number of its source."""
        batch = self.batch(indices)
        return [{name: values[i] for name, values in batch.items()} for i in range(len(indices))]

    def batch(self, indices: Sequence[int] | np.ndarray[Any, Any]) -> dict[str, Any]:
        """Return several windows stacked: the fast path for a training loop without workers."""
        where = np.asarray(indices, np.int64)
        source_of = np.searchsorted(self.ends, where, side="right")
        parts: dict[str, np.ndarray[Any, Any]] = {}
        for number, source in enumerate(self.sources):
            mine = np.flatnonzero(source_of == number)
            if len(mine) == 0:
                continue
            start = int(self.ends[number - 1]) if number else 0
            for name, values in source.batch(where[mine] - start).items():
                if name not in parts:
                    parts[name] = np.empty((len(where), *values.shape[1:]), values.dtype)
                parts[name][mine] = values
        tensors = {name: _tensor(values) for name, values in parts.items()}
        return tensors | {"source": torch.from_numpy(source_of)}


class WeightedSources(_Sampler):
    """Samples `count` window numbers: a source by weight, then one of its windows uniformly.

    The samples of an epoch depend only on `seed` and the epoch number.
    """

    def __init__(self, windows: TorchWindows, weights: Sequence[float], count: int, seed: int = 0) -> None:
        weight = np.asarray(weights, np.float64)
        if len(weight) != len(windows.sources) or (weight < 0).any() or weight.sum() <= 0:
            raise WrongUse(
                "sampling weights must be one non-negative number per source",
                got=list(weights),
                expected=f"{len(windows.sources)} numbers, not all zero",
            )
        empty = [i for i, source in enumerate(windows.sources) if weight[i] > 0 and len(source) == 0]
        if empty:
            raise WrongUse(
                f"source {empty[0]} has no rows but a positive weight",
                got=str(windows.sources[empty[0]].dataset.root),
            )
        self._windows = windows
        self._weight = weight / weight.sum()
        self._count = count
        self._seed = seed
        self._epoch = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng((self._seed, self._epoch))
        self._epoch += 1
        source = rng.choice(len(self._weight), self._count, p=self._weight)
        starts = np.concatenate([[0], self._windows.ends[:-1]])
        sizes = np.array([len(s) for s in self._windows.sources])
        inside = (rng.random(self._count) * sizes[source]).astype(np.int64)
        yield from (starts[source] + inside).tolist()


def _tensor(values: np.ndarray[Any, Any]) -> Any:
    tensor = torch.from_numpy(values)
    if values.dtype == np.uint8 and values.ndim == 5:
        return tensor.permute(0, 1, 4, 2, 3).float().div_(255.0)
    return tensor
