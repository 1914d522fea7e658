"""What an identification says against itself."""

from types import SimpleNamespace

import numpy as np

from twinloop.identification.predict import Window
from twinloop.identification.reservations import find_outlying

ROWS = 200


def replayed(episodes, *, spoilt=()):
    """Recordings, their windows, and residuals of two joints: 2 mrad each, and 50 mrad of the second in spoilt episodes."""
    rng = np.random.default_rng(0)
    recordings = [SimpleNamespace(id=f"run {number}") for number in range(episodes)]
    residual = 2e-3 * rng.standard_normal((episodes, ROWS, 2))
    residual[list(spoilt), :, 1] += 0.05
    windows = [Window(number, 0, ROWS) for number in range(episodes)]
    return recordings, windows, residual.reshape(-1, 2)


def outlying(recordings, windows, residual):
    channels = [SimpleNamespace(name=name, unit="rad") for name in ("lift", "roll")]
    return find_outlying(recordings, channels, np.full(2, 1e-4), windows, residual)


def test_an_episode_that_the_model_does_not_describe_is_named_with_its_joint():
    (sentence,) = outlying(*replayed(12, spoilt=(7,)))
    assert sentence.startswith("roll: replay misses by 0.002 rad") and "run 7 (0.05" in sentence
    assert "run 6" not in sentence


def test_nothing_is_said_of_alike_episodes_or_of_too_few():
    assert outlying(*replayed(12)) == []
    assert outlying(*replayed(4, spoilt=(2,))) == []
