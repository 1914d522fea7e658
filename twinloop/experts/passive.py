"""PassiveExpert acts: for twins without actuators, and to watch what a scene does on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.episode import Actor
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading

Array = NDArray[Any]


@EXPERTS.register("passive")
class PassiveExpert:
    """Commands every actuator to stay where the episode found it."""

    actor: Actor = "unknown"

    def __init__(self, setup: Setup) -> None:
        self._hold = np.zeros((setup.count, len(setup.cell.actuators)))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Remember where the actuators are."""
        self._hold[ids] = reading.position[ids]

    def act(self, reading: Reading, step: Array) -> Array:
        """Stay."""
        return self._hold.copy()
