"""Feature alignment against cases whose answer is known."""

import numpy as np
import pytest
import torch

from twinloop.learning.adapt import coral, ramp, sinkhorn, transport


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def test_coral_is_zero_for_equal_means_and_covariances_and_for_nothing_else():
    sim = normal(0, 200, 4)
    same = 2.0 * sim.mean(dim=0) - sim  # mirrored about the mean
    assert float(coral(sim, sim.flip(0))) < 1e-10
    assert float(coral(sim, same)) < 1e-6 < float((sim - same).square().mean()), (
        "other rows, the same moments"
    )
    assert float(coral(sim, sim + 1.0)) == pytest.approx(1.0, rel=1e-4), "means one apart, covariances alike"
    # Twice as wide: every entry of the covariance four times as large.
    covariance = torch.cov(sim.T)
    centred = sim - sim.mean(dim=0)
    assert float(coral(centred, 2 * centred)) == pytest.approx(
        float((3 * covariance).square().sum() / 4), rel=1e-3
    )


def test_transport_finds_a_known_permutation():
    rng = np.random.default_rng(4)
    sim = normal(5, 12, 6)
    order = rng.permutation(12)
    real = sim[order] + 0.01 * normal(6, 12, 6)
    cost = (sim[:, None] - real[None]).square().mean(dim=2)
    plan = sinkhorn(cost, smoothing=0.01, rounds=300)
    assert np.allclose(plan.sum(dim=0), 1 / 12, atol=1e-4) and np.allclose(plan.sum(dim=1), 1 / 12, atol=1e-3)
    assert plan.argmax(dim=0).tolist() == order.tolist()
    assert float((plan * cost).sum()) < 0.01 * float(cost.mean())


def test_transport_pairs_images_of_arms_at_the_same_place():
    # Features say nothing about who belongs to whom; what the robots read of themselves does.
    sim, real = torch.zeros(2, 3), torch.tensor([[1.0] * 3, [3.0] * 3])
    state = torch.tensor([[0.0], [20.0]])
    crossed = transport(torch.tensor([[1.0] * 3, [3.0] * 3]), real.flip(0), state, state)
    straight = transport(torch.tensor([[1.0] * 3, [3.0] * 3]), real, state, state)
    assert float(straight) < 1e-3 and float(crossed) == pytest.approx(4.0, rel=1e-2)
    assert float(transport(sim, real, state, state)) == pytest.approx((1 + 9) / 2, rel=1e-3)


def test_alignment_starts_from_nothing():
    assert ramp(0.0) == 0.0 and ramp(1.0) == pytest.approx(1.0, abs=1e-3) and ramp(0.2) < ramp(0.4)
