"""What varies between episodes: distributions over a twin's parameters, and draws that are recorded.

randomization = load_randomization("seed.yaml")             # or make_randomization(twin, {name: Normal(...)})
values = draw(randomization, seed=1, episode_index=17)      # depends on seed, episode and name, on nothing else
arrays = draw_many(randomization, seed=1, episodes=range(1024))
rows = explain(randomization)                               # what varies, in which unit, against nominal
"""

from twinloop.randomize.config import GenerateConfig, load_config_twin, load_generate_config
from twinloop.randomize.default import default_randomization
from twinloop.randomize.distribution import (
    Categorical,
    Constant,
    Distribution,
    LogUniform,
    Mixture,
    Normal,
    Schedule,
    Uniform,
    WholeNumbers,
)
from twinloop.randomize.draw import draw, draw_many, one_of
from twinloop.randomize.load import ExplainRow, explain, load_randomization
from twinloop.randomize.notation import distribution_from
from twinloop.randomize.randomization import Correlation, Randomization, Variation, make_randomization

__all__ = [
    "Categorical",
    "Constant",
    "Correlation",
    "Distribution",
    "ExplainRow",
    "GenerateConfig",
    "LogUniform",
    "Mixture",
    "Normal",
    "Randomization",
    "Schedule",
    "Uniform",
    "Variation",
    "WholeNumbers",
    "default_randomization",
    "distribution_from",
    "draw",
    "draw_many",
    "explain",
    "load_config_twin",
    "load_generate_config",
    "load_randomization",
    "make_randomization",
    "one_of",
]
