"""Simulated images with the look of real ones, before a network sees them: what they show stays.

- `fourier` (Yang and Soatto 2020): the slow waves of an image, which carry light and colour, get the strength they have
  in a real image; their phases, which carry where things are, stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinloop.datasets.images import downsample
from twinloop.episode import Array
from twinloop.errors import LearnError
from twinloop.learning.config import Restyle

MOST_STYLES = 512
SHARE = 0.5
"""Of the images; the others stay as simulation drew them."""

PHOTOGRAPHS = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True, eq=False)
class Styles:
    """Real images to take the look from: (n, cameras, side, side, 3) uint8."""

    kind: Restyle
    images: Array
    band: float

    def apply(self, images: Array, rng: np.random.Generator) -> Array:
        """Some of the images (B, cameras, side, side, 3) restyled, each after a real one drawn at random."""
        chosen = np.flatnonzero(rng.random(len(images)) < SHARE)
        after = self.images[rng.integers(len(self.images), size=len(chosen))]
        made = images.copy()
        made[chosen] = fourier(images[chosen], after, self.band)
        return made


def fourier(images: Array, styles: Array, band: float) -> Array:
    """Images (..., side, side, 3) with the amplitudes of `styles` in waves of at most `band` of the sampling rate.

    Band 0 changes nothing, 0.5 takes over all amplitudes.
    """
    if band <= 0.0 or not len(images):
        return images
    mixed = fourier_exact(images.astype(np.float32), styles.astype(np.float32), band)
    return np.asarray(np.clip(np.rint(mixed), 0, 255), np.uint8)


def fourier_exact(images: Array, styles: Array, band: float) -> Array:
    """The same in real numbers, before rounding to 0 ... 255."""
    axes = (-3, -2)
    mine, theirs = np.fft.rfft2(images, axes=axes), np.fft.rfft2(styles, axes=axes)
    height, width = images.shape[-3:-1]
    slow = (np.abs(np.fft.fftfreq(height))[:, None] <= band) & (np.fft.rfftfreq(width)[None] <= band)
    phase = np.exp(1j * np.angle(mine))
    mixed = np.where(slow[..., None], np.abs(theirs) * phase, mine)
    return np.asarray(np.fft.irfft2(mixed, s=(height, width), axes=axes))


def load_photographs(folder: str | Path, side: int) -> Array:
    """Every photograph of a folder, averaged down: (n, side, side, 3)."""
    import av

    root = Path(folder)
    paths = sorted(p for p in root.glob("*") if p.suffix.lower() in PHOTOGRAPHS) if root.is_dir() else []
    if not paths:
        raise LearnError(
            f"{root} has no photographs", expected=f"a folder with {', '.join(PHOTOGRAPHS)} files"
        )
    made = []
    for path in paths[:MOST_STYLES]:
        try:
            with av.open(str(path)) as file:
                image = next(file.decode(video=0))
                made.append(downsample(image.to_ndarray(format="rgb24"), side))
        except (OSError, ValueError, IndexError, StopIteration, av.FFmpegError) as error:
            raise LearnError(f"{path} is no image that can be read") from error
    return np.stack(made)
