"""With and without OpenCV, camera effects give the same frames but for a level here and there."""

import numpy as np
import pytest
from scipy import ndimage

from twinloop.imperfect import camera, compiled
from twinloop.imperfect.camera import CameraEffects, Sensor
from twinloop.imperfect.flare import Flare
from twinloop.imperfect.lens import Lens
from twinloop.imperfect.shutter import Shutter


@pytest.mark.skipif(not compiled.available(), reason="OpenCV is not installed")
def test_frames_are_the_same_without_opencv(monkeypatch):
    rng = np.random.default_rng(0)
    smooth = ndimage.gaussian_filter(rng.uniform(0, 255, (3, 64, 64, 3)), (0, 3, 3, 0))
    frames = np.clip(4.0 * (smooth - 127.0) + 127.0, 0, 255).astype(np.uint8)
    velocity = rng.normal(0.0, 200.0, (3, 2))
    effects = CameraEffects(
        Lens(k1=-0.12, vignetting=0.5),
        Shutter(0.01, 0.01 / 64),
        Flare(0.2),
        Sensor(exposure=1.2, colour_saturation=0.7, white_balance=np.array([[1.1, 1.0, 0.8]])),
    )

    def captured():
        return camera.capture(camera.make_tables(effects, 1, 64, 64), frames, velocity).astype(int)

    with_opencv = captured()
    monkeypatch.setattr(compiled, "cv2", None)
    apart = np.abs(captured() - with_opencv)
    assert apart.max() <= 6 and apart.mean() < 0.5
