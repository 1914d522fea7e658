"""Camera frames as a policy wants them: cropped, padded or stretched to its size, in its channels, layout and range."""

from __future__ import annotations

import numpy as np
from PIL import Image

from twinloop.datasets.images import crop
from twinloop.episode import Array
from twinloop.policies.mapping.interface_map import ImageInput

MAX_PIXEL = 255


def convert_frames(frames: Array, wanted: ImageInput) -> Array:
    """Convert frames to what a policy is given.

    Args:
        frames: RGB (n, height, width, 3) uint8.
        wanted: Size, fit, channels, layout, range and normalisation.

    Returns:
        (n, height, width, 3), or (n, 3, height, width) with layout chw; uint8, or float32 where a range or a mean is given.
    """
    if wanted.size is not None:
        frames = _resize(frames, wanted.size, wanted.fit)
    if wanted.channels == "bgr":
        frames = frames[..., ::-1]
    frames = _normalise(frames, wanted)
    if wanted.layout == "chw":
        frames = np.moveaxis(frames, -1, -3)
    return np.ascontiguousarray(frames)


def _resize(frames: Array, size: tuple[int, int], fit: str) -> Array:
    """Frames of this height and width; bilinear, averaged where they get smaller."""
    if frames.shape[-3:-1] == size:
        return frames
    if fit == "pad":
        return _pad(frames, size)
    if fit == "crop":
        frames = crop(frames, size)
    return np.stack([_stretch(frame, size) for frame in frames])


def _pad(frames: Array, size: tuple[int, int]) -> Array:
    """All of each frame in the middle of black bars."""
    tall, wide = frames.shape[-3:-1]
    scale = min(size[0] / tall, size[1] / wide)
    height, width = max(1, round(tall * scale)), max(1, round(wide * scale))
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    padded = np.zeros((len(frames), *size, 3), np.uint8)
    for index, frame in enumerate(frames):
        padded[index, top : top + height, left : left + width] = _stretch(frame, (height, width))
    return padded


def _stretch(frame: Array, size: tuple[int, int]) -> Array:
    if frame.shape[:2] == size:
        return frame
    image = Image.fromarray(np.ascontiguousarray(frame))
    return np.asarray(image.resize((size[1], size[0]), Image.Resampling.BILINEAR))


def _normalise(frames: Array, wanted: ImageInput) -> Array:
    """Pixels in the wanted range, then without mean and spread; uint8 as they are where nothing is wanted."""
    if wanted.value_range is None and wanted.mean is None and wanted.std is None:
        return frames
    low, high = wanted.value_range or (0.0, 1.0)
    scaled = np.asarray(frames, np.float32) * np.float32((high - low) / MAX_PIXEL) + np.float32(low)
    mean, std = (np.array(v or d, np.float32) for v, d in ((wanted.mean, (0.0,)), (wanted.std, (1.0,))))
    return np.asarray((scaled - mean) / std, np.float32)
