"""Real frames of one camera, and the joint states at which they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.datasets.video import VideoFrames
from twinloop.episode import Array, Episode
from twinloop.generation.motion import recorded_states
from twinloop.tasks import Cell

RUNS, FRAMES = 12, 6
"""Runs, spread evenly over the recordings, and frames of each that are looked at."""
FEWEST_RUNS = 2


@dataclass(frozen=True, eq=False)
class LookEvidence:
    """Frames (n, height, width, 3), joint states `qpos` (n, nq) and `mocap` (n, nmocap, 3), and the run (n,) of each.

    `placed` says whether the recordings say where the object was, `compressed` whether the frames were stored as a video.
    """

    camera: str
    frames: Array
    qpos: Array
    mocap: Array
    runs: Array
    placed: bool
    compressed: bool


def read_look_evidence(cell: Cell, episodes: Sequence[Episode], camera: str) -> LookEvidence | str:
    """Frames of one camera from recorded episodes; a sentence where they cannot be compared with the twin's."""
    seen = [episode for episode in episodes if camera in episode.frames and len(episode) > 1]
    if len(seen) < FEWEST_RUNS:
        return (
            f"images of {camera}: need runs recorded with it, as `twinloop evaluate --robot ... --out D` does"
        )
    declared = next(c for c in cell.twin.cameras if c.name == camera)
    size = np.asarray(seen[0].frames[camera][0]).shape
    if size != (declared.height, declared.width, 3):
        return (
            f"images of {camera}: need the size of the twin's, {declared.width} x {declared.height}; "
            f"these are {size[1]} x {size[0]}"
        )
    compressed = isinstance(seen[0].frames[camera], VideoFrames)
    picked = np.unique(np.linspace(0, len(seen) - 1, min(RUNS, len(seen))).round().astype(int))
    frames, qpos, mocap, runs, placed = [], [], [], [], True
    for run, episode in enumerate(seen[index] for index in picked):
        rows = np.unique(np.linspace(0, len(episode) - 1, FRAMES).round().astype(int))
        states = recorded_states(cell, episode, rows)
        if not states.jointed:
            return f"images of {camera}: need the joints' positions beside them"
        qpos.append(states.qpos)
        mocap.append(states.mocap)
        placed &= states.placed
        frames.append(np.stack([np.asarray(episode.frames[camera][int(row)]) for row in rows]))
        runs += [run] * len(rows)
    return LookEvidence(
        camera,
        np.concatenate(frames),
        np.concatenate(qpos),
        np.concatenate(mocap),
        np.array(runs),
        placed,
        compressed,
    )
