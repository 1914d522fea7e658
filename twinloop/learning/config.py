"""How a policy is trained, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from twinloop.errors import UnknownName, WrongUse
from twinloop.policies.networks.shape import Head

Recipe = Literal["sim-only", "real-only", "pretrain-finetune", "co-train"]
Finetune = Literal["full", "head", "adapter"]
Adapt = Literal["none", "coral", "ot"]
Restyle = Literal["none", "fourier"]

STATE_OBSERVATIONS = ("observation.state", "observation.velocity", "observation.environment_state")
"""Default observations, where a dataset has them: joints, and object and target as perceived."""

MAX_SEED = 2**63 - 1

OWN_OBSERVATIONS = ("observation.state", "observation.velocity")
"""Default observations of a policy with cameras: the object is to be found in the images."""


_CHOICES = {"recipe": Recipe, "head": Head, "finetune": Finetune, "adapt": Adapt, "restyle": Restyle}
_COUNTS = (
    "width", "depth", "batch", "steps", "finetune_steps", "validate_every", "patience", "fewest_episodes", "adapter_rank",
    "flow_steps", "image_features",
)  # fmt: skip
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "mix": (lambda x: 0.0 < x < 1.0, "a fraction above 0, below 1"),
    "sim_as_real_fraction": (lambda x: 0.0 <= x < 1.0, "a fraction of 0 or more, below 1"),
    "validation": (lambda x: 0.0 < x < 0.9, "a fraction above 0, below 0.9"),
    "observation_delay_steps": (lambda x: x >= 0, "at least 0"),
    "learning_rate": (lambda x: 0.0 < x < math.inf, "a positive number"),
    "finetune_rate": (lambda x: 0.0 < x < math.inf, "a positive number"),
    "weight_decay": (lambda x: 0.0 <= x < math.inf, "a number of at least 0"),
    "adapt_weight": (lambda x: 0.0 <= x < math.inf, "a number of at least 0"),
    "restyle_band": (lambda x: 0.0 <= x <= 0.5, "a fraction of the sampling rate from 0 to 0.5"),
    "image_side": (lambda x: x >= 8, "at least 8 pixels"),
    "seed": (lambda x: 0 <= x <= MAX_SEED, f"a whole number from 0 to {MAX_SEED}"),
    **dict.fromkeys(_COUNTS, (lambda x: x >= 1, "at least 1")),
}


@dataclass(frozen=True)
class TrainConfig:
    """Every choice of a training run; a variant is `dataclasses.replace`.

    - `recipe`: which data, in which order. `mix` is the fraction of simulated windows in `co-train`; `sim_as_real_fraction` the
      fraction of those that are labelled real, so that on a robot a policy uses what only simulation covers; `finetune` says which
      weights are trained in the second half of `pretrain-finetune`.
    - `history`: control steps, relative to now, at which observations are taken. `chunk`: actions predicted at once.
      `n_action_steps`: how many of them are executed before the next prediction takes over. `inference_delay_steps`: control steps
      between an observation and the first action that can follow from it; the old chunk goes on meanwhile. `blend`: commands
      blend from one chunk to the next, see `twinloop.policies.act`. `observation_delay_steps`: training delays observations by up to
      this many steps.
    - `hold_last_action`: beyond the end of an episode that succeeded, its last command counts as demonstrated; otherwise rows beyond
      the end do not count. `drop_idle_frames`: frames in which the demonstrator pauses are dropped (see `twinloop.learning.idle`).
    - `steps`, `finetune_steps`: weight updates; training also ends after `minutes`, or when the validation error has not
      improved for `patience` validations in a row.
    - `validation`: fraction of the episodes that is held out; at least one.
    - `observations`: signals of the observation; default: `STATE_OBSERVATIONS`, or `OWN_OBSERVATIONS` with `cameras`.
    - `cameras`: their newest images are observed too, averaged down to `image_side` pixels a side and encoded as `image_features`
      numbers each. `adapt` aligns these features between simulated and real images (see `twinloop.learning.adapt`), with
      `adapt_weight`; `restyle` gives simulated images the style of real ones (see `twinloop.learning.restyle`), `restyle_band` is how
      much of it with `fourier`. With either, sim-only takes real data too, and uses its images alone.
      `vary_images` augments images at random (see `twinloop.learning.vary`).
    """

    recipe: Recipe = "sim-only"
    seed: int = 0
    mix: float = 0.9
    sim_as_real_fraction: float = 0.1
    finetune: Finetune = "full"
    head: Head = "regression"
    observations: tuple[str, ...] = ()
    cameras: tuple[str, ...] = ()
    image_side: int = 64
    image_features: int = 64
    adapt: Adapt = "none"
    adapt_weight: float = 1.0
    restyle: Restyle = "none"
    restyle_band: float = 0.02
    vary_images: bool = True
    history: tuple[int, ...] = (-5, 0)
    chunk: int = 25
    n_action_steps: int = 10
    inference_delay_steps: int = 0
    blend: bool = True
    observation_delay_steps: int = 0
    hold_last_action: bool = True
    drop_idle_frames: bool = True
    width: int = 256
    depth: int = 3
    adapter_rank: int = 16
    flow_steps: int = 5
    batch: int = 256
    steps: int = 8000
    finetune_steps: int = 2000
    learning_rate: float = 1e-3
    finetune_rate: float = 3e-4
    weight_decay: float = 1e-4
    validation: float = 0.1
    validate_every: int = 250
    patience: int = 12
    minutes: float | None = None
    fewest_episodes: int = 5

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in get_args(choices):
                raise UnknownName(name, str(getattr(self, name)), get_args(choices))
        for name, (fits, expected) in _RANGES.items():
            if not fits(getattr(self, name)):
                raise WrongUse(f"{name} is out of range", got=getattr(self, name), expected=expected)
        if not all(type(step) is int for step in self.history):
            raise WrongUse("the history counts control steps", got=self.history, expected="whole numbers")
        for name in ("observations", "cameras"):
            if not all(isinstance(word, str) for word in getattr(self, name)):
                raise WrongUse(f"{name} are names", got=getattr(self, name))
        if not self.history or max(self.history) != 0 or list(self.history) != sorted(set(self.history)):
            raise WrongUse(
                "the history must end with now, which is 0", got=self.history, expected="for example (-5, 0)"
            )
        delay = self.inference_delay_steps
        if not 0 <= delay < self.n_action_steps <= self.chunk - delay:
            raise WrongUse(
                "a chunk must last until the next one takes over",
                got=f"chunk {self.chunk}, n_action_steps {self.n_action_steps}, inference_delay_steps {delay}",
                expected="inference_delay_steps < n_action_steps <= chunk - inference_delay_steps",
            )
        minutes = self.minutes
        if minutes is not None and not (isinstance(minutes, int | float) and 0.0 < minutes < math.inf):
            raise WrongUse("training takes time", got=f"{minutes} minutes", expected="minutes above 0")
        self._check_image_options()

    def _check_image_options(self) -> None:
        for name in ("adapt", "restyle"):
            word = getattr(self, name)
            if word == "none":
                continue
            if not self.cameras:
                raise WrongUse(f"{name} is about images", got=word, remedy="name cameras: --cameras front")
            if self.recipe == "real-only":
                raise WrongUse(f"{name} is about simulated images", got="recipe real-only")
        if len(set(self.cameras)) < len(self.cameras):
            raise WrongUse("a camera is named twice", got=", ".join(self.cameras))

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the observed signals."""
        return self.observations or (OWN_OBSERVATIONS if self.cameras else STATE_OBSERVATIONS)

    @property
    def looks_at_reality(self) -> bool:
        """Whether real images are used in addition to the imitated data."""
        return self.adapt != "none" or self.restyle != "none"

    @property
    def needs(self) -> tuple[str, ...]:
        """Which data the recipe needs: `sim`, `real` or both."""
        if self.recipe == "sim-only" and self.adapt != "none":
            return ("sim", "real")
        return {"sim-only": ("sim",), "real-only": ("real",)}.get(self.recipe, ("sim", "real"))
