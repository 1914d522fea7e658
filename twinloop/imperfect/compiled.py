"""Moving pixels about by OpenCV where it is installed (extra `cameras`), otherwise by NumPy and SciPy, which takes twice as long.

OpenCV interpolates in steps of 1/32 pixel, so that frames differ by a level here and there between the two.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from twinloop.episode import Array

cv2: Any
try:
    cv2 = importlib.import_module("cv2")
except ImportError:
    cv2 = None


def available() -> bool:
    """Whether OpenCV is installed."""
    return cv2 is not None


def remap(image: Array, columns: Array, rows: Array) -> Array:
    """The image (height, width, 3) float32 whose pixels show the places `columns` and `rows` (height, width) float32 of the given one."""
    return np.asarray(cv2.remap(image, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


def convolve(image: Array, weights: dict[tuple[int, int], float]) -> Array:
    """The image averaged over moves (down, across) with these weights, which are the same for a move and its opposite."""
    down = max(abs(move[0]) for move in weights)
    across = max(abs(move[1]) for move in weights)
    kernel = np.zeros((2 * down + 1, 2 * across + 1), np.float32)
    for move, weight in weights.items():
        kernel[down + move[0], across + move[1]] = weight
    return np.asarray(cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REPLICATE))


def shear(image: Array, across_px: float, down_px: float) -> Array:
    """The image whose row r shows what was r times (across, down) pixels to the left and above."""
    height, width = image.shape[:2]
    matrix: Any = np.array([[1.0, -across_px, 0.0], [0.0, 1.0 - down_px, 0.0]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(image, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    )


def transform(image: Array, colour: Array) -> Array:
    """Colours of the image (height, width, 3) float32 times the matrix (3, 3)."""
    return np.asarray(cv2.transform(image, colour))


def encode(image: Array, frame: Array) -> None:
    """Roots of the image's light, which is changed on the way, rounded and cut to 0 ... 255, written into `frame` (uint8)."""
    np.maximum(image, 0.0, out=image)
    cv2.sqrt(image, image)
    frame[...] = cv2.convertScaleAbs(image)
