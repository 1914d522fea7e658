"""Where training computes: every part of a step on one device, and words that name none are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.learning.examples import TINY, point
from twinloop.errors import WrongUse
from twinloop.learning.device import describe_device, find_device
from twinloop.learning.fit import Fit, Stage
from twinloop.learning.samples import Batch
from twinloop.learning.train import train
from twinloop.policies.interface import Normalisation
from twinloop.policies.networks.network import PolicyNetwork, Shape
from twinloop.policies.networks.shape import ImageShape

HAS_ACCELERATOR = torch.accelerator.is_available()
OBSERVATION, ACTION, SIDE = 5, 2, 8


class Windows:
    """Windows of nothing in particular, as `Samples` gives them."""

    validation = np.arange(4)

    def __init__(self, domain):
        self._domain = domain

    def take(self, rows, rng=None, with_images=True):
        return self.draw(np.random.default_rng(0), len(rows))

    def draw(self, rng, count):
        return Batch(
            rng.standard_normal((count, 2, OBSERVATION), np.float32),
            rng.standard_normal((count, TINY.chunk, ACTION), np.float32),
            np.ones((count, TINY.chunk), np.float32),
            np.full((count, 1), self._domain, np.float32),
            rng.integers(0, 255, (count, 1, SIDE, SIDE, 3), np.uint8),
        )


def fit_on(device, head, adapt):
    config = replace(TINY, head=head, cameras=("front",), adapt=adapt)
    ones = np.ones(OBSERVATION, np.float32)
    chunks = np.ones((TINY.chunk, ACTION), np.float32)
    normalisation = Normalisation(ones, ones, chunks, chunks, np.zeros(ACTION, np.int64))
    shape = Shape(OBSERVATION, 2, ACTION, TINY.chunk, 16, 1, head, 2, 0, ImageShape(1, SIDE, SIDE, SIDE, 4))
    network = PolicyNetwork(shape, normalisation).to(device)
    sim, real = Windows(0.0), Windows(1.0)
    like = real if adapt != "none" else None
    return Fit(network, Stage("co-train", (sim, real), (0.5, 0.5), real, 20, 1e-3, like=like), config, 0)


@pytest.mark.parametrize("head", ["regression", "transformer", "flow"])
@pytest.mark.parametrize("adapt", ["none", "coral", "ot"])
def test_every_part_of_a_step_is_where_the_network_is(head, adapt):
    # The meta device computes nothing, but refuses to mix with what is elsewhere, as a graphics card does.
    made = fit_on("meta", head, adapt)
    assert made._update(0.5).device.type == "meta"
    held_out = dict(made._held_out)
    seen = made._average.encode_images(held_out.pop("images"))
    assert made._average.loss(image_features=seen, **held_out).device.type == "meta"
    assert np.isfinite(float(fit_on("cpu", head, adapt)._update(0.5)))


def test_the_meta_device_would_notice_what_was_left_behind():
    made = fit_on("meta", "regression", "none")
    made._to_device = torch.from_numpy
    with pytest.raises(RuntimeError, match="device"):
        made._update(0.5)


@pytest.mark.parametrize("word", ["gpu", "cuda:99", ""])
def test_a_device_that_is_not_there_is_refused(tmp_path, word):
    data = point(tmp_path / "real")
    with pytest.raises(WrongUse, match="training cannot compute there"):
        train(real=data, out=tmp_path / "p", config=replace(TINY, recipe="real-only"), device=word)
    assert not (tmp_path / "p").exists()


@pytest.mark.skipif(HAS_ACCELERATOR, reason="there is an accelerator")
def test_without_an_accelerator_the_processor_is_taken_and_a_policy_says_so(tmp_path):
    assert find_device().type == "cpu" == describe_device(find_device("cpu"))
    made = train(real=point(tmp_path / "real"), out=tmp_path / "p", config=replace(TINY, recipe="real-only"))
    assert made.training_record.results["device"] == "cpu"


@pytest.mark.skipif(not HAS_ACCELERATOR, reason="no accelerator")
def test_an_accelerator_trains_what_the_processor_trains(tmp_path):
    data, config = point(tmp_path / "real"), replace(TINY, recipe="real-only")
    there = train(real=data, out=tmp_path / "there", config=config)
    here = train(real=data, out=tmp_path / "here", config=config, device="cpu")
    assert there.training_record.results["device"] != "cpu"
    for one, other in zip(there.network.parameters(), here.network.parameters(), strict=True):
        assert one.device.type == "cpu"
        assert torch.allclose(one, other, atol=1e-2)
