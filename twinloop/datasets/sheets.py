"""Many frames of a camera in one image, for places that step through them: a grid of frames in JPEG."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array, Frames
from twinloop.errors import WrongUse

MOST_PIXELS = 2_000_000
"""Pixels of a sheet: a browser decodes it in about 10 ms, and keeps a dozen in 100 MB."""
MOST_SIDE = 400
"""Longer side of a frame in a sheet; `make_frame` gives one frame in full."""
MOST_FRAME_SIDE = 1280
QUALITY = 82


@dataclass(frozen=True)
class SheetLayout:
    """How the frames of an episode lie in sheets: `columns` times `lines` frames of `width` x `height` pixels in each."""

    frames: int
    width: int
    height: int
    columns: int
    lines: int

    @property
    def per_sheet(self) -> int:
        """Frames of a sheet."""
        return self.columns * self.lines

    @property
    def sheets(self) -> int:
        """Sheets of the episode."""
        return math.ceil(self.frames / self.per_sheet)


def sheet_layout(frames: int, height: int, width: int) -> SheetLayout:
    """How `frames` images of this size are laid out; large images are made smaller by a whole number."""
    factor = math.ceil(max(height, width) / MOST_SIDE)
    small_height, small_width = max(1, height // factor), max(1, width // factor)
    most = max(1, MOST_PIXELS // (small_height * small_width))
    columns = max(1, min(math.isqrt(most), frames))
    return SheetLayout(
        frames, small_width, small_height, columns, max(1, min(most // columns, math.ceil(frames / columns)))
    )


def make_sheet(frames: Frames, number: int) -> bytes:
    """One sheet of an episode's camera as JPEG.

    Args:
        frames: The camera's frames, shape (rows, height, width, 3).
        number: Which sheet, from 0.

    Returns:
        The JPEG; frames lie in lines from left to right, unused places are black.

    Raises:
        WrongUse: There is no such sheet.
    """
    rows, height, width = frames.shape[:3]
    layout = sheet_layout(rows, height, width)
    if not 0 <= number < layout.sheets:
        raise WrongUse("there is no such sheet", got=number, expected=f"0 to {layout.sheets - 1}")
    first = number * layout.per_sheet
    images = frames[first : min(rows, first + layout.per_sheet)]
    lines = math.ceil(len(images) / layout.columns)
    sheet = np.zeros((lines * layout.height, layout.columns * layout.width, 3), np.uint8)
    for place, image in enumerate(images):
        top, left = divmod(place, layout.columns)
        part = sheet[top * layout.height :, left * layout.width :]
        part[: layout.height, : layout.width] = shrink(image, layout.height, layout.width)
    return to_jpeg(sheet)


def make_frame(frames: Frames, row: int) -> bytes:
    """One frame as JPEG, no side longer than `MOST_FRAME_SIDE`.

    Args:
        frames: The camera's frames, shape (rows, height, width, 3).
        row: Which one, from 0.

    Returns:
        The JPEG.

    Raises:
        WrongUse: There is no such row.
    """
    rows, height, width = frames.shape[:3]
    if not 0 <= row < rows:
        raise WrongUse("there is no such frame", got=row, expected=f"0 to {rows - 1}")
    factor = math.ceil(max(height, width) / MOST_FRAME_SIDE)
    return to_jpeg(shrink(np.asarray(frames[row]), max(1, height // factor), max(1, width // factor)), 90)


def shrink(image: Array, height: int, width: int) -> Array:
    """An image (height, width, 3) of uint8 averaged down to another size."""
    if image.shape[:2] == (height, width):
        return image
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BOX))


def to_jpeg(image: Array, quality: int = QUALITY) -> bytes:
    """An image (height, width, 3) of uint8 as JPEG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
