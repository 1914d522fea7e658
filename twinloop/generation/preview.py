"""Preview a run before simulating it: a contact sheet of randomized frames and a short video."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinloop.datasets.artefacts import register_artefact
from twinloop.datasets.video import VideoEncoder, VideoSettings
from twinloop.episode import Array, Camera, Episode
from twinloop.errors import WrongUse
from twinloop.generation.caption import GROUND, describe_draws, paint_caption
from twinloop.generation.part import Work

EPISODES = 12
COLUMNS = 4
VIDEO_EPISODES = 4
VIDEO_S = 8.0
MOMENTS = tuple((position % COLUMNS + 1) / COLUMNS for position in range(EPISODES))
"""Time of each tile as a fraction of its episode: the sheet shows all phases of the motion."""


def write_preview(work: Work, out: str | Path, *, threads: int = 1) -> tuple[Path, Path]:
    """Write a contact sheet (.png) of a run's first episodes to `out`, and a video (.mp4) of the same name.

    The sheet has one tile per episode, cameras side by side, at a time that differs between episodes so that the sheet
    covers the whole motion; the caption gives the outcome and the most unusual draws. The video shows the first episodes
    side by side.
    """
    if not work.schema.cameras:
        raise WrongUse("a preview needs a camera", remedy="--cameras NAME or --cameras all")
    sheet = Path(out).with_suffix(".png")
    episodes = [
        *work.roll(work.job, work.seed, range(VIDEO_EPISODES), threads),
        *work.roll(
            work.job, work.seed, range(VIDEO_EPISODES, EPISODES), threads, stills=MOMENTS[VIDEO_EPISODES:]
        ),
    ]
    register_artefact(sheet, "image", episodes)
    register_artefact(sheet.with_suffix(".mp4"), "video", episodes[:VIDEO_EPISODES])
    sheet.parent.mkdir(parents=True, exist_ok=True)
    _save_plot(contact_sheet(episodes, describe_draws(work.job.twin, episodes)), sheet)
    return sheet, _write_video(episodes[:VIDEO_EPISODES], sheet.with_suffix(".mp4"))


def contact_sheet(episodes: list[Episode], captions: list[list[str]]) -> Array:
    """One tile per episode, cameras side by side over a caption: (height, width, 3) uint8."""
    tiles = []
    for position, (episode, lines) in enumerate(zip(episodes, captions, strict=True)):
        row = round((len(episode) - 1) * MOMENTS[position])
        image = _side_by_side([episode.frames[c.name][row] for c in episode.schema.cameras])
        tiles.append(np.concatenate([image, paint_caption(lines, image.shape[1])]))
    return _grid(tiles, COLUMNS)


def _write_video(episodes: list[Episode], path: Path) -> Path:
    schema = episodes[0].schema
    frames = [{camera.name: episode.frames[camera.name] for camera in schema.cameras} for episode in episodes]
    rows = min(max(len(episode) for episode in episodes), round(VIDEO_S * schema.rate_hz))

    def image(row: int) -> Array:
        tiles = [
            _side_by_side([frames[i][camera.name][min(row, len(episode) - 1)] for camera in schema.cameras])
            for i, episode in enumerate(episodes)
        ]
        return _grid(tiles, 2)

    height, width, _ = image(0).shape
    encoder = VideoEncoder(path, Camera("preview", height, width), schema.rate_hz, VideoSettings(crf=23))
    try:
        for row in range(rows):
            encoder.add(image(row))
    finally:
        encoder.close()
    return path


def _side_by_side(images: list[Array]) -> Array:
    """Images of one moment in a row, the smaller ones on a dark ground."""
    height = max(len(image) for image in images)
    padded = [np.pad(p, ((0, height - len(p)), (0, 0), (0, 0)), constant_values=GROUND) for p in images]
    return np.concatenate(padded, axis=1)


def _grid(tiles: list[Array], columns: int, gap: int = 4) -> Array:
    height, width = (max(tile.shape[axis] for tile in tiles) for axis in (0, 1))
    rows = -(-len(tiles) // columns)
    sheet = np.full((rows * (height + gap), columns * (width + gap), 3), GROUND, np.uint8)
    for position, tile in enumerate(tiles):
        top, left = position // columns * (height + gap), position % columns * (width + gap)
        sheet[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return sheet[: sheet.shape[0] // 2 * 2, : sheet.shape[1] // 2 * 2]


def _save_plot(pixels: Array, path: Path) -> None:
    from matplotlib import image

    image.imsave(path, pixels)
