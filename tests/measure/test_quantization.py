"""The step of an encoder, where there is one."""

import numpy as np
import pytest

from twinloop.measure.quantization import measure_resolution, resolution_of
from twinloop.measure.trace import Trace


def test_the_resolution_of_an_encoder_is_recognised_and_a_continuous_signal_has_none():
    rng = np.random.default_rng(0)
    smooth = np.sin(np.arange(2000) / 70) + rng.normal(0, 0.001, 2000)
    assert resolution_of(smooth) == 0
    for step in (0.0015, 0.02):
        assert resolution_of(np.rint(smooth / step) * step) == pytest.approx(step, rel=1e-3)
        assert resolution_of((np.rint(smooth / step) * step).astype(np.float32)) == pytest.approx(
            step, rel=1e-2
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_interval_of_a_resolution_covers_the_true_step(seed):
    rng = np.random.default_rng(seed)
    step = rng.uniform(1e-3, 3e-2)
    values = step * np.rint(np.sin(np.arange(2000) / 70 + seed) / step)
    found = measure_resolution(Trace("elbow", "rad", np.arange(2000) / 50.0, values))
    assert found.contains(step) and found.half_width < 0.02 * step and found.unit == "rad"


def test_a_continuous_signal_has_no_resolution():
    values = np.random.default_rng(0).normal(size=500)
    assert measure_resolution(Trace("elbow", "rad", np.arange(500.0), values)) is None
