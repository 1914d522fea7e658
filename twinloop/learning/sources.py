"""The datasets of a training run as windows: what is imitated, what is only looked at, and what gets a real look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.learning.config import TrainConfig
from twinloop.learning.restyle import MOST_STYLES, Styles, load_photographs
from twinloop.learning.samples import Role, Samples
from twinloop.policies.interface import Interface


def require_styles(config: TrainConfig, real: Any, photos: Any, start: Any) -> None:
    """Refuse adaptation without anything to adapt, or anything to adapt to."""
    if config.looks_at_reality and start is not None:
        raise WrongUse("adapt and restyle are about simulated images", got="a policy to start from")
    if config.restyle != "none" and real is None and photos is None:
        raise WrongUse("restyle needs real images", remedy="--real DATASET or --photos FOLDER")
    if photos is not None and config.restyle == "none":
        raise WrongUse("photographs are for restyling", got=str(photos), remedy="--restyle fourier")


def make_samples(
    sources: dict[Role, Dataset], interface: Interface, config: TrainConfig, photos: str | Path | None
) -> dict[Role, Samples]:
    """Windows by role; the real ones come first, because simulated images may be restyled after them."""
    found: dict[Role, Samples] = {}
    if "real" in sources:
        imitated = config.recipe != "sim-only"
        found["real"] = Samples(sources["real"], "real", interface, config, imitated=imitated)
    if "sim" in sources:
        styles = None
        if config.restyle != "none":
            styles = Styles(
                config.restyle, _styles(found.get("real"), interface, config, photos), config.restyle_band
            )
        found["sim"] = Samples(sources["sim"], "sim", interface, config, styles=styles)
    return {role: found[role] for role in sources}


def _styles(
    real: Samples | None, interface: Interface, config: TrainConfig, photos: str | Path | None
) -> Array:
    """Images to take the look from: photographs where there are some, for every camera the same; else real frames."""
    if photos is not None or real is None:
        taken = load_photographs(photos or "", config.image_side)
        return np.repeat(taken[:, None], len(interface.cameras), axis=1)
    rng = np.random.default_rng((config.seed, 29))
    count = min(len(real.training), MOST_STYLES)
    return real.take(np.sort(rng.choice(real.training, count, replace=False))).images
