"""The video encoder on a disk that is full."""

from pathlib import Path

import numpy as np
import pytest

from tests.datasets.examples import WITH_CAMERA
from twinloop.datasets.video import VideoEncoder, VideoSettings
from twinloop.errors import DiskError

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_video_that_cannot_be_begun_is_an_error_and_can_be_closed():
    encoder = VideoEncoder(FULL, WITH_CAMERA.cameras[0], 50.0, VideoSettings())
    with pytest.raises(DiskError, match="No space left"):
        for _ in range(200):
            encoder.add(np.zeros((48, 64, 3), np.uint8))
    assert encoder.frames
    encoder.close()  # going on after a failure would end the process
