"""A tiny training config, and demonstrations by a fake robot of two joints."""

from dataclasses import replace

import av

from twinloop.datasets.reader import open_dataset
from twinloop.learning.config import TrainConfig
from twinloop.robots import SafetyEnvelope, connected, declared_limits
from twinloop.robots.controllers import OperatorController
from twinloop.robots.record import RecordingSpec, record
from twinloop.testing.robots import FakeRobot

TINY = TrainConfig(
    width=16,
    depth=1,
    steps=20,
    finetune_steps=10,
    batch=16,
    validate_every=5,
    chunk=6,
    n_action_steps=3,
    patience=99,
)


class Standin(FakeRobot):
    """A fake robot that says it is no real one, so that whoever operates it is no person either."""

    @property
    def description(self):
        return replace(super().description, standin=True)


def point(out, episodes=8, robot=None, operator="person-7", **more):
    """Demonstrations of pointing, by whoever is beside a fake robot."""
    fake = robot or Standin()
    plan = RecordingSpec(episodes=episodes, time_limit_s=1.0, task="point at it", operator=operator, **more)
    with connected(fake):
        arm = SafetyEnvelope(fake, declared_limits(fake.description))
        record(arm, OperatorController(fake, operator), out, plan, supervisor=fake)
    return open_dataset(out)


def photograph(path, image):
    """Write an image (height, width, 3) uint8 as PNG."""
    codec = av.CodecContext.create("png", "w")
    codec.height, codec.width = image.shape[:2]
    codec.pix_fmt, codec.framerate = "rgb24", 1
    frame = av.VideoFrame.from_ndarray(image, format="rgb24")
    path.write_bytes(b"".join(bytes(packet) for packet in codec.encode(frame)))
