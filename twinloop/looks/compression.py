"""What a video's compression took away of a camera's noise: known noise is put through the same compression, and measured again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from scipy import ndimage

from twinloop.datasets.video import VideoEncoder, VideoSettings, decode
from twinloop.episode import Array, Camera
from twinloop.measure.photometry import FULL, measure_noise

STRONGER = (1.0, 1.5, 2.2, 3.3, 5.0, 8.0)
"""Times the measured noise that are tried."""
FRAMES = 16
RATE_HZ = 50.0
FAINTEST = 0.004
"""Noise, of full scale, below which compression leaves nothing to measure."""


def before_compression(frames: Array, shot: float, read: float, rng: np.random.Generator) -> float:
    """How many times stronger noise was before the frames (n, height, width, 3) became a video with our settings.

    Args:
        frames: Frames as decoded.
        shot: Shot noise that was measured in them, of full scale.
        read: Read noise that was measured in them.
        rng: Source of randomness.

    Returns:
        The factor, 1 and more.
    """
    if np.hypot(shot, read) < FAINTEST:
        return 1.0
    picked = frames[np.unique(np.linspace(0, len(frames) - 1, FRAMES).round().astype(int))]
    smooth = ndimage.median_filter(picked, (1, 5, 5, 1)).astype(np.float64)
    linear = (smooth / FULL) ** 2
    left = []
    for factor in STRONGER:
        deviation = np.sqrt((factor * shot) ** 2 * linear + (factor * read) ** 2)
        noisy = FULL * np.sqrt(np.clip(linear + deviation * rng.normal(size=linear.shape), 0.0, 1.0))
        seen = through_video(np.rint(noisy).astype(np.uint8))
        found = measure_noise(seen, [0] * len(seen))[0]
        left.append(float(np.hypot(*found)) / float(np.hypot(shot, read)))
    # What is left grows with what was there; the first factor that leaves as much as was measured is it.
    return float(np.interp(1.0, np.maximum.accumulate(left), STRONGER))


def through_video(frames: Array) -> Array:
    """Frames (n, height, width, 3) uint8 as they are read back from a dataset's video."""
    height, width = frames.shape[1:3]
    camera = Camera("camera", height, width)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.mp4"
        encoder = VideoEncoder(path, camera, RATE_HZ, VideoSettings())
        for frame in frames:
            encoder.add(frame)
        encoder.close()
        return np.stack([np.array(frame) for frame in decode(path, 0, len(frames), RATE_HZ)])
