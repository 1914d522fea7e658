"""What varies between episodes: distributions over a twin's parameters, and draws that are recorded.

randomization = load_randomization("seed.yaml")             # or make_randomization(twin, {name: Normal(...)})
values = draw(randomization, seed=1, episode_index=17)      # depends on seed, episode and name, on nothing else
arrays = draw_many(randomization, seed=1, episodes=range(1024))
rows = explain(randomization)                               # what varies, in which unit, against nominal
"""

from twinloop.randomization.config import GenerateConfig, load_config_twin, load_generate_config
from twinloop.randomization.default import default_randomization
from twinloop.randomization.distribution import (
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
from twinloop.randomization.draw import draw, draw_many, select_draw
from twinloop.randomization.load import ExplainRow, explain, load_randomization
from twinloop.randomization.notation import distribution_from
from twinloop.randomization.randomization import Correlation, Randomization, Variation, make_randomization

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
    "select_draw",
]
