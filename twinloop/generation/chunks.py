"""Cut a run into chunks. The layout depends on the number of episodes and on cameras, never on the workers, so that the
dataset is the same, file by file, for any number of workers."""

from __future__ import annotations

CHUNK_EPISODES = 128
"""Wide enough that stepping a batch costs little more than its physics, small enough to lose little when killed."""

CAMERA_CHUNK_EPISODES = 16
"""Frames of a chunk may wait in memory together."""

MIN_CHUNK_EPISODES = 8
MAX_CHUNKS_OF_SMALL_RUN = 8
"""A small run is cut into no more chunks than this: with few episodes in a batch, Python costs more than the physics."""

CHUNKS_PER_COMMIT = 8
"""Chunks that become part of the dataset together: one data file in LeRobot's layout."""


def chunk_size(episodes: int, cameras: bool) -> int:
    """Episodes per chunk: a small run is cut finer, so that several workers can work on it."""
    most = CAMERA_CHUNK_EPISODES if cameras else CHUNK_EPISODES
    return max(MIN_CHUNK_EPISODES, min(most, -(-episodes // MAX_CHUNKS_OF_SMALL_RUN)))


def split_episodes(episodes: int, size: int) -> list[range]:
    """Episode numbers 0 ... episodes - 1 in chunks of `size`; the last one may be shorter."""
    return [range(first, min(first + size, episodes)) for first in range(0, episodes, size)]


def describe_chunk(numbers: range) -> str:
    """The chunk's episodes as text."""
    if len(numbers) == 1:
        return f"episode {numbers[0]}"
    return f"episodes {numbers[0]} to {numbers[-1]}"
