"""Windows to learn from: those of the episodes that succeeded, split by episode into training and validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from twinloop.datasets.cache import cached_rows
from twinloop.datasets.outcomes import known_outcomes
from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import LearnError
from twinloop.learning.config import TrainConfig
from twinloop.learning.idle import find_idle_frames
from twinloop.learning.images import Images
from twinloop.learning.restyle import Styles
from twinloop.learning.vary import varied
from twinloop.policies.interface import Interface

Role = Literal["sim", "real"]


@dataclass(frozen=True)
class Batch:
    """Windows: observations (B, H, D), actions (B, chunk, A), whether each row exists (B, chunk), domain (B, 1).

    `images` (B, cameras, side, side, 3) are the newest of each camera.
    """

    observation: Array
    actions: Array
    valid: Array
    domain: Array
    images: Array


def concatenate(parts: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return parts[0] if len(parts) == 1 else Batch(*(np.concatenate(column) for column in columns))


class Samples:
    """The windows of one dataset, as simulated or as real ones.

    Where only its images are looked at (`imitated` False), episodes that failed serve as well. `styles` are what
    training images are restyled after. Idle frames are dropped where the config says so. Beyond the end of an episode that
    succeeded, its last command counts as demonstrated; where the outcome is not recorded, rows beyond the end do not count.
    """

    def __init__(
        self,
        dataset: Dataset,
        role: Role,
        interface: Interface,
        config: TrainConfig,
        *,
        imitated: bool = True,
        styles: Styles | None = None,
    ) -> None:
        self.dataset, self.role, self.imitated, self._styles = dataset, role, imitated, styles
        self._vary = config.vary_images
        self.places = usable_episodes(dataset, config.fewest_episodes, imitated)
        self._interface, self._observation_delay_steps = interface, config.observation_delay_steps
        names = [signal.name for signal in interface.observations]
        offsets: dict[str, Any] = dict.fromkeys(names, config.history)
        starts = dataset.index.starts
        self.idle = np.zeros(int(starts[-1]), dtype=bool)
        if config.drop_idle_frames and imitated:
            commands = np.asarray(cached_rows(dataset)[interface.action.name])
            self.idle = find_idle_frames(commands, starts, interface.rate_hz)
        offsets[interface.action.name] = range(config.chunk)
        self._windows = dataset.windows(offsets, excluded=self.idle)
        self._images = Images(dataset, interface.cameras, config.image_side)
        self._start_of_row = np.repeat(starts[:-1], dataset.index.length)
        ends_well = np.array([success is True for success in known_outcomes(dataset)], dtype=bool)
        self._holds = np.repeat(ends_well & config.hold_last_action, dataset.index.length)
        order = np.random.default_rng((config.seed, 17)).permutation(self.places)
        held = max(1, round(config.validation * len(order)))
        self.training, self.validation = (
            rows[~self.idle[rows]] for rows in (_rows(starts, order[held:]), _rows(starts, order[:held]))
        )

    @property
    def episodes(self) -> list[str]:
        """Ids of the episodes that are used; none for foreign data, which has no ids of its own."""
        side = self.dataset.provenance_table()
        if side is None:
            return []
        names = side.column("episode_id").to_pylist()
        return [str(names[place]) for place in self.places]

    def draw(self, rng: np.random.Generator, count: int) -> Batch:
        """Some training windows, evenly."""
        return self.take(self.training[rng.integers(len(self.training), size=count)], rng)

    def take(self, rows: Array, rng: np.random.Generator | None = None, with_images: bool = True) -> Batch:
        """The windows around these rows; with `rng`, observed up to `observation_delay_steps` late, restyled and varied."""
        name = self._interface.action.name
        seen_rows = rows
        seen = now = self._windows.batch(rows)
        if rng is not None and self._observation_delay_steps:
            late = rng.integers(self._observation_delay_steps + 1, size=len(rows))
            seen_rows = np.maximum(rows - late, self._start_of_row[rows])
            seen = self._windows.batch(seen_rows)
        images = self._images.take(seen_rows if with_images else rows[:0])
        if rng is not None and self._styles is not None:
            images = self._styles.apply(images, rng)
        if rng is not None and self._vary:
            images = varied(images, rng)
        return Batch(
            self._interface.vector(seen),
            np.asarray(now[name], np.float32),
            (~now[f"{name}_is_pad"] | self._holds[rows][:, None]).astype(np.float32),
            np.full((len(rows), 1), float(self.role == "real"), np.float32),
            images,
        )


def usable_episodes(dataset: Dataset, fewest: int, imitated: bool = True) -> list[int]:
    """Places of the episodes to learn from: those that succeeded, or all where no outcome is recorded or nothing is imitated.

    Refuses data in which nothing succeeded, and too little of it.
    """
    outcomes = known_outcomes(dataset) if imitated else [None] * len(dataset)
    succeeded = [place for place, success in enumerate(outcomes) if success is True]
    if not succeeded:
        if any(success is False for success in outcomes):
            raise LearnError(
                f"no episode of {dataset.place} succeeded: there is nothing to imitate",
                got=f"{sum(s is False for s in outcomes)} failures of {len(outcomes)} episodes",
                remedy="record or generate successful ones, or label them: twinloop data label",
            )
        succeeded = list(range(len(outcomes)))
    if len(succeeded) < fewest:
        raise LearnError(
            f"{dataset.place} has too few episodes to learn from",
            got=f"{len(succeeded)} usable of {len(outcomes)}",
            expected=f"at least {fewest}",
            remedy="record more, or lower fewest_episodes if you know what you do",
        )
    return succeeded


def _rows(starts: Array, places: Array) -> Array:
    """Every row of these episodes, in order."""
    return np.concatenate([np.arange(starts[p], starts[p + 1]) for p in sorted(places)])
