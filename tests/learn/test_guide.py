"""Asking for what only pictures can tell."""

from __future__ import annotations

import torch

from twinloop.learn.guide import Guide


def sample(seed, count=4000):
    """Readings, what pictures tell, and what is known: both together, the readings' part with a product of two."""
    rng = torch.Generator().manual_seed(seed)
    readings, pictures = torch.randn(count, 3, generator=rng), torch.randn(count, 2, generator=rng)
    given_away = torch.stack([readings[:, 0] + 0.5 * readings[:, 1] * readings[:, 2], readings[:, 1]], dim=1)
    return readings, pictures, given_away + 0.3 * pictures


def test_what_readings_give_away_is_not_asked_for():
    guide = Guide(8, *sample(0)[::2])
    readings, pictures, known = sample(1)
    wanted = 0.3 * pictures / sample(0)[2].std(dim=0, correction=0)
    assert (guide.beyond(readings, known) - wanted).square().mean().sqrt() < 0.02


def test_features_that_tell_it_cost_nothing_and_others_do():
    readings, pictures, known = sample(0)
    guide = Guide(2, readings, known)
    with torch.no_grad():
        guide.tell.weight.copy_(torch.diag(0.3 / guide.scale))
        guide.tell.bias.zero_()
    assert guide(pictures, readings, known).item() < 0.01
    assert guide(pictures.flip(0), readings, known).item() > 0.1


def test_rows_about_which_nothing_is_known_do_not_count():
    readings, pictures, known = sample(0, 50)
    guide = Guide(2, readings, known)
    hidden = known.clone()
    hidden[::2] = torch.nan
    assert torch.equal(guide(pictures, readings, hidden), guide(pictures[1::2], readings[1::2], known[1::2]))
    nothing = guide(pictures, readings, torch.full_like(known, torch.nan))
    assert nothing.item() == 0.0
    nothing.backward()


def test_readings_that_never_move_give_nothing_away():
    _, _, known = sample(0, 60)
    guide = Guide(2, torch.zeros(60, 3), known)
    assert torch.allclose(guide.beyond(torch.zeros(60, 3), known).mean(dim=0), torch.zeros(2), atol=1e-2)
