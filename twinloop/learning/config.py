"""How a policy is trained, as one frozen value, and the words for the recipes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from twinloop.errors import UnknownName, WrongUse
from twinloop.policies.shape import Head

Recipe = Literal["sim-only", "real-only", "pretrain-finetune", "co-train"]
Finetune = Literal["full", "head", "adapter"]
Adapt = Literal["none", "coral", "ot", "adversarial"]
Restyle = Literal["none", "fourier", "histogram"]

STATE_OBSERVATIONS = ("observation.state", "observation.velocity", "observation.environment_state")
"""What a policy sees by default, where a dataset has it: joints, and object and target as perceived."""

MOST_SEED = 2**63 - 1

OWN_OBSERVATIONS = ("observation.state", "observation.velocity")
"""The same for a policy with cameras: where the object is, it must see for itself."""


@dataclass(frozen=True)
class TrainConfig:
    """Every choice of a training run; a variant is `dataclasses.replace`.

    - `recipe`: which data, in which order. `mix` is the share of simulated windows in `co-train`; `sim_as_real_fraction` the share of those that are
      shown as if they were real, so that on a robot a policy does what only simulation showed; `finetune` says which weights move
      in the second half of `pretrain-finetune`.
    - `history`: control steps, relative to now, at which observations are taken. `chunk`: actions predicted at once.
      `n_action_steps`: how many of them are carried out before the next prediction takes over. `inference_delay_steps`: control steps
      that pass between an observation and the first action that can follow from it; the old chunk is carried out
      meanwhile. `blend`: one chunk goes over into the next little by little, see `twinloop.policies.act`. `observation_delay_steps`: training
      pretends that observations are up to this many steps old.
    - `hold_last_action`: beyond the end of an episode that succeeded, its last command goes on; otherwise what lies beyond counts for
      nothing. `drop_idle_frames`: frames in which the demonstrator pauses are dropped (see `twinloop.learning.idle`).
    - `steps`, `finetune_steps`: weight updates; training also ends after `minutes`, or when the validation error has not
      improved for `patience` validations in a row.
    - `validation`: share of the episodes that is held out; at least one.
    - `observations`: signals it sees; none named are `STATE_OBSERVATIONS`, or `OWN_OBSERVATIONS` with `cameras`.
    - `cameras`: whose newest image it sees too, averaged down to `image_side` pixels a side, as `image_features`
      numbers each. `adapt` aligns these numbers between simulated and real images (see `twinloop.learning.adapt`), with
      `adapt_weight`; `restyle` gives simulated images a real look (see `twinloop.learning.restyle`), `restyle_band` is how
      much of it with `fourier`. With either, sim-only takes real data too, and looks at its images alone.
      `vary_images` gives images another look at every turn (see `twinloop.learning.vary`).
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
        words = (
            ("recipe", Recipe),
            ("head", Head),
            ("finetune", Finetune),
            ("adapt", Adapt),
            ("restyle", Restyle),
        )
        for name, choices in words:
            if getattr(self, name) not in get_args(choices):
                raise UnknownName(name, str(getattr(self, name)), get_args(choices))
        if not 0.0 < self.mix < 1.0:
            raise WrongUse("the mix is a share of simulated data", got=self.mix, expected="above 0, below 1")
        if not 0.0 <= self.sim_as_real_fraction < 1.0:
            raise WrongUse(
                "sim_as_real_fraction is a fraction of simulated data",
                got=self.sim_as_real_fraction,
                expected="0 or more, below 1",
            )
        if not all(type(step) is int for step in self.history):
            raise WrongUse("the history counts control steps", got=self.history, expected="whole numbers")
        for name in ("observations", "cameras"):
            if not all(isinstance(word, str) for word in getattr(self, name)):
                raise WrongUse(f"{name} are names", got=getattr(self, name))
        if not self.history or max(self.history) != 0 or list(self.history) != sorted(set(self.history)):
            raise WrongUse(
                "the history must end with now, which is 0", got=self.history, expected="for example (-5, 0)"
            )
        if (
            not 0
            <= self.inference_delay_steps
            < self.n_action_steps
            <= self.chunk - self.inference_delay_steps
        ):
            raise WrongUse(
                "a chunk must last until the next one takes over",
                got=f"chunk {self.chunk}, n_action_steps {self.n_action_steps}, inference_delay_steps {self.inference_delay_steps}",
                expected="inference_delay_steps < n_action_steps <= chunk - inference_delay_steps",
            )
        counts = ("width", "depth", "batch", "steps", "finetune_steps", "validate_every", "patience")
        for name in (*counts, "fewest_episodes", "adapter_rank", "flow_steps"):
            if getattr(self, name) < 1:
                raise WrongUse(f"{name} must be at least 1", got=getattr(self, name))
        if not 0.0 < self.validation < 0.9 or self.observation_delay_steps < 0:
            raise WrongUse(
                "validation is a share and observation_delay_steps a count",
                got=(self.validation, self.observation_delay_steps),
            )
        for name in ("learning_rate", "finetune_rate"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise WrongUse(f"{name} is a positive number", got=getattr(self, name))
        if not 0.0 <= self.weight_decay < math.inf:
            raise WrongUse("weight_decay is not negative", got=self.weight_decay)
        minutes = self.minutes
        if minutes is not None and not (isinstance(minutes, int | float) and 0.0 < minutes < math.inf):
            raise WrongUse("training takes time", got=f"{minutes} minutes", expected="minutes above 0")
        if not 0 <= self.seed <= MOST_SEED:
            raise WrongUse(
                "a seed is a whole number from 0 on", got=self.seed, expected=f"at most {MOST_SEED}"
            )
        self._require_sight()

    def _require_sight(self) -> None:
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
        if self.image_side < 8 or self.image_features < 1 or not 0.0 <= self.adapt_weight < math.inf:
            raise WrongUse(
                "image_side is at least 8, image_features at least 1 and adapt_weight not negative",
                got=(self.image_side, self.image_features, self.adapt_weight),
            )
        if not 0.0 <= self.restyle_band <= 0.5:
            raise WrongUse(
                "restyle_band is a share of the sampling rate", got=self.restyle_band, expected="0 to 0.5"
            )

    @property
    def signals(self) -> tuple[str, ...]:
        """The observations by name, the usual ones included."""
        return self.observations or (OWN_OBSERVATIONS if self.cameras else STATE_OBSERVATIONS)

    @property
    def looks_at_reality(self) -> bool:
        """Whether real images are looked at besides what is learned from."""
        return self.adapt != "none" or self.restyle != "none"

    @property
    def needs(self) -> tuple[str, ...]:
        """Which data the recipe needs: `sim`, `real` or both."""
        if self.recipe == "sim-only" and self.adapt != "none":
            return ("sim", "real")
        return {"sim-only": ("sim",), "real-only": ("real",)}.get(self.recipe, ("sim", "real"))
