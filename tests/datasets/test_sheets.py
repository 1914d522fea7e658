"""Frames of a camera in sheets, and small images of episodes."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from tests.datasets.examples import WITH_CAMERA, toy_episode, toy_frames
from twinloop.datasets.sheets import MOST_PIXELS, make_frame, make_sheet, sheet_layout
from twinloop.datasets.sketch import HEIGHT, draw_sketch
from twinloop.episode import Camera
from twinloop.errors import WrongUse


@pytest.mark.parametrize("size", [(48, 64), (480, 640), (2160, 3840), (3, 5)])
@pytest.mark.parametrize("frames", [1, 7, 400])
def test_every_frame_has_one_place_and_sheets_stay_small(size, frames):
    layout = sheet_layout(frames, *size)
    assert layout.sheets * layout.per_sheet >= frames > (layout.sheets - 1) * layout.per_sheet
    assert layout.per_sheet * layout.width * layout.height <= max(MOST_PIXELS, layout.width * layout.height)


def test_a_frame_is_where_the_layout_says():
    frames = toy_frames(4, 30, Camera("front", 48, 64))
    layout = sheet_layout(30, 48, 64)
    sheet = np.asarray(Image.open(io.BytesIO(make_sheet(frames, 0))))
    for row in (0, 5, 29):
        down, across = divmod(row, layout.columns)
        shown = sheet[48 * down : 48 * down + 48, 64 * across : 64 * across + 64]
        assert np.abs(shown.astype(int) - frames[row].astype(int)).mean() < 8
    with pytest.raises(WrongUse, match="no such sheet"):
        make_sheet(frames, 1)


def test_a_frame_is_shown_in_full():
    frames = toy_frames(4, 3, Camera("front", 48, 64))
    shown = np.asarray(Image.open(io.BytesIO(make_frame(frames, 2))))
    assert shown.shape == (48, 64, 3) and np.abs(shown.astype(int) - frames[2].astype(int)).mean() < 6
    assert Image.open(io.BytesIO(make_frame(np.zeros((1, 1440, 2560, 3), np.uint8), 0))).size == (1280, 720)
    with pytest.raises(WrongUse, match="no such frame"):
        make_frame(frames, 3)


def test_an_episode_is_drawn_by_its_camera_or_its_motion():
    image, kind = draw_sketch(toy_episode(1, schema=WITH_CAMERA))
    assert kind == "image/jpeg" and Image.open(io.BytesIO(image)).size == (75, HEIGHT)
    drawing, kind = draw_sketch(toy_episode(1))
    assert kind == "image/svg+xml" and len(ElementTree.fromstring(drawing)) == 6
