"""The passive expert: for twins without actuators, and to observe a scene on its own."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Actor, Array
from twinloop.experts.protocol import EXPERTS, Setup
from twinloop.experts.reading import Reading


@EXPERTS.register("passive")
class PassiveExpert:
    """Holds every actuator at its initial position."""

    actor: Actor = "unknown"

    def __init__(self, setup: Setup) -> None:
        self._hold = np.zeros((setup.count, len(setup.cell.actuators)))

    def restart(self, ids: Array, reading: Reading, seeds: Array) -> None:
        """Store the actuators' positions."""
        self._hold[ids] = reading.position[ids]

    def act(self, reading: Reading, step: Array) -> Array:
        """Hold."""
        return self._hold.copy()
