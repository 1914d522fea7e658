"""Gymnasium spaces from a twin's schema."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from twinloop.environments.episodes import OBSERVED
from twinloop.environments.settings import Settings
from twinloop.episode import Array, Camera


def make_observation_space(settings: Settings) -> spaces.Space[Any]:
    """One box per observed signal, in its unit, and one image per camera, named as in a dataset."""
    schema = settings.schema
    boxes: dict[str, spaces.Space[Array]] = {
        signal.name: spaces.Box(-np.inf, np.inf, (signal.size,), np.float32)
        for signal in schema.signals
        if signal.name.startswith(OBSERVED)
    }
    for camera in schema.cameras:
        boxes[camera.key] = make_image_space(camera)
    return spaces.Dict(boxes)


def make_image_space(camera: Camera) -> spaces.Box:
    """Frames of a camera."""
    return spaces.Box(0, 255, (camera.height, camera.width, 3), np.uint8)


def make_action_space(settings: Settings) -> spaces.Box:
    """Position targets within the actuators' limits, or -1 to 1 for `control="delta"`."""
    cell = settings.cell
    if settings.control == "delta":
        return spaces.Box(-1.0, 1.0, (len(cell.actuators),), np.float32)
    low, high = cell.control_low.astype(np.float32), cell.control_high.astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)
