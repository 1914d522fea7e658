"""Frames of a recording with the joint angles of their moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array, Episode
from twinloop.errors import UnknownName, WrongUse
from twinloop.generation.motion import set_joints
from twinloop.tasks import Cell
from twinloop.tasks.place import start_at_rest

FEWEST, MOST = 5, 20
"""Frames that are fitted."""
SAMPLED_ROWS = 400
"""Rows of all episodes together from which frames are chosen."""
SLOWEST_S = 0.25
"""Readings that are further apart say nothing of speeds at a frame."""
STATE = "observation.state"


@dataclass(frozen=True)
class Frame:
    """One image (height, width, 3) uint8 and the joints then: `qpos` (nq,), its `rate` per second, `mocap` (nmocap, 3).

    `mask` (height, width) is where the robot is, if known.
    """

    episode: int
    row: int
    image: Array
    qpos: Array
    rate: Array
    mocap: Array
    mask: Array | None = None
    camera: str = ""

    @property
    def name(self) -> str:
        """How files and messages call it: episode and row."""
        return f"{self.episode}-{self.row}"

    def with_mask(self, mask: Array | None) -> Frame:
        """The frame with another mask."""
        return replace(self, mask=mask)


@dataclass(frozen=True)
class Moment:
    """A row of a recording before its image is read."""

    episode: int
    row: int
    qpos: Array
    rate: Array
    mocap: Array


def read_moments(dataset: Dataset, cell: Cell, camera: str) -> list[Moment]:
    """Rows of a dataset, spread evenly, with the joint angles that their readings say.

    Raises:
        WrongUse: There are no frames, no joint readings that the twin knows, or readings that are no numbers.
        UnknownName: The dataset has no such camera.
    """
    names = [one.name for one in dataset.schema.cameras]
    if camera not in names:
        raise UnknownName(f"camera in {dataset.place}", camera, names)
    if not dataset.num_frames:
        raise WrongUse(f"{dataset.place} has no frames", expected="at least 5 frames with joint readings")
    every = max(1, -(-dataset.num_frames // SAMPLED_ROWS))
    found = [
        moment for number in dataset.numbers for moment in _of_episode(dataset.episode(number), number, cell, every)
    ]  # fmt: skip
    if not found:
        raise WrongUse(
            f"{dataset.place} has no joint readings of twin {cell.twin.name!r}",
            got=", ".join(signal.name for signal in dataset.schema.signals),
            expected=f"{STATE} with the names of the twin's joints",
            available=cell.actuators,
        )
    return found


def _of_episode(episode: Episode, number: int, cell: Cell, every: int) -> Iterator[Moment]:
    if STATE not in episode.signals or not len(episode):
        return
    values = np.asarray(episode.signals[STATE])
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0, 0])
        raise WrongUse(
            f"episode {number}: a joint reading is not a number",
            got=f"row {row} of {STATE}",
            remedy="`twinloop data check` finds such rows; leave the episode out",
        )
    rest = start_at_rest(cell, {}, 1)
    qpos = np.tile(rest.qpos, (len(episode), 1))
    if not set_joints(cell, episode, np.arange(len(episode)), qpos):
        return
    time_s = np.asarray(episode.time_s, np.float64)
    rate = np.zeros_like(qpos)
    if len(episode) > 1 and np.median(np.diff(time_s)) < SLOWEST_S:
        rate = np.gradient(qpos, time_s, axis=0)
    for row in range(0, len(episode), every):
        yield Moment(number, row, qpos[row], rate[row], rest.mocap_pos[0])


def choose_moments(moments: Sequence[Moment], cell: Cell, count: int) -> list[Moment]:
    """Moments whose joint angles differ most from each other; between equal ones, those at rest."""
    angles = cell.positions(np.array([one.qpos for one in moments]))[:, cell.arm]
    speed = np.abs(cell.positions(np.array([one.rate for one in moments]))[:, cell.arm]).max(axis=1)
    penalty = 1.0 / (1.0 + speed / 0.5)
    chosen = [int(np.argmax(penalty))]
    away = np.linalg.norm(angles - angles[chosen[0]], axis=1)
    while len(chosen) < min(count, len(moments)):
        following = int(np.argmax(away * penalty))
        if away[following] < 1e-3:
            break
        chosen.append(following)
        away = np.minimum(away, np.linalg.norm(angles - angles[following], axis=1))
    return [moments[i] for i in chosen]


def find_moments(moments: Sequence[Moment], names: Sequence[tuple[int, int]]) -> list[Moment]:
    """The moments nearest to given episodes and rows, from which they differ by no more than half the sampling."""
    known = {(one.episode, one.row): one for one in moments}
    missing = [f"{episode}-{row}" for episode, row in names if (episode, row) not in known]
    if missing:
        raise WrongUse(
            "the recording has no such frames", got=", ".join(missing[:5]), expected="EPISODE-ROW of a frame"
        )
    return [known[one] for one in names]


def read_frames(dataset: Dataset, camera: str, moments: Sequence[Moment]) -> list[Frame]:
    """Decode the images of some moments."""
    images: dict[tuple[int, int], Array] = {}
    for episode in sorted({one.episode for one in moments}):
        rows = sorted({one.row for one in moments if one.episode == episode})
        frames = dataset.episode(episode).frames[camera]
        images |= {(episode, row): np.asarray(frames[row]) for row in rows}
    return [
        Frame(
            one.episode, one.row, images[one.episode, one.row], one.qpos, one.rate, one.mocap, camera=camera
        )
        for one in moments
    ]


def pose_spread_rad(frames: Sequence[Frame] | Sequence[Moment], cell: Cell) -> float:
    """How far the joint that moves most moves between frames."""
    angles = cell.positions(np.array([one.qpos for one in frames]))[:, cell.arm]
    return float(np.ptp(angles, axis=0).max()) if angles.size else 0.0
