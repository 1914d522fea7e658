"""Fisher information of a motion about parameters, from batched derivatives of the simulated readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinloop.episode import Array, Schema, Signal, make_episode
from twinloop.experts.excitation import home_qpos
from twinloop.identification.predict import Predictor, Window
from twinloop.identification.problem import Noise, Problem
from twinloop.identification.recording import Recording, find_channels
from twinloop.identification.scale import PRIOR_DEVIATION, Scale, places_of
from twinloop.identification.slopes import linearize
from twinloop.identification.solve import solve
from twinloop.identification.windows import cut, find_horizon_s, start_deviation
from twinloop.tasks import Cell

USUAL_NOISE = 1e-3
"""The deviation of a position reading where the twin declares neither noise nor step."""


class Gauge:
    """Information of motions about the first `asked` of `scales`; the rest are nuisance parameters."""

    def __init__(
        self, cell: Cell, scales: Sequence[Scale], asked: int, noise: float | None, threads: int
    ) -> None:
        self._cell, self._scales, self._asked, self._threads = cell, tuple(scales), asked, threads
        count, dt_s = len(cell.actuators), cell.dt_s
        names = tuple(f"{name}.pos" for name in cell.actuators)
        schema = Schema(
            (
                Signal("observation.state", (count,), ("rad",), "float64", names),
                Signal("action", (count,), ("rad",), "float64", cell.actuators),
            ),
            cell.twin.control_hz,
        )
        nothing = np.zeros((2, count))
        blank = make_episode(
            schema, [0.0, dt_s], {"observation.state": nothing, "action": nothing}, task="excite"
        )
        self._channels = find_channels(cell, blank)
        self.noise = np.full(len(self._channels), noise or _noise_of(cell))
        self.places = places_of(self._scales, {})

    def parts(self, motions: Array) -> Array:
        """Information (N, P, P) of segments (N, T, actuators) whose start is known: they follow on one another."""
        problem = self._problem(motions, starts=False)
        linear = linearize(problem, solve(problem, self.places, endings=()))
        size = len(self._scales)
        flat = [linear.jacobian[rows].reshape(-1, size) for rows in problem.window_rows]
        return np.stack([rows.T @ rows for rows in flat])

    def whole(self, motions: Array) -> Array:
        """Information (N, P, P) of whole motions (N, T, actuators), prior included and the starts projected out."""
        made = []
        for motion in motions:
            problem = self._problem(motion[None], starts=True)
            made.append(linearize(problem, solve(problem, self.places, endings=()), central=True).information)
        return np.stack(made)

    def volume(self, information: Array) -> float:
        """Log determinant of the information about the requested parameters, the rest projected out: twice the log of 1 / volume."""
        rest = information[self._asked :, self._asked :]
        return float(np.linalg.slogdet(information)[1] - (np.linalg.slogdet(rest)[1] if rest.size else 0.0))

    def volume_of_many(self, information: Array) -> Array:
        """`volume` of (N, P, P) without prior, the prior added."""
        full = information + np.eye(len(self._scales)) / PRIOR_DEVIATION**2
        rest = full[:, self._asked :, self._asked :]
        return np.asarray(np.linalg.slogdet(full)[1] - (np.linalg.slogdet(rest)[1] if rest.size else 0.0))

    def _problem(self, motions: Array, starts: bool) -> Problem:
        """A problem whose recordings are what the nominal twin does, so that nothing is left to explain."""
        names = [scale.name for scale in self._scales]
        time_s = np.arange(motions.shape[1]) * self._cell.dt_s
        home = np.tile(home_qpos(self._cell), (len(time_s), 1))
        still = np.zeros((len(time_s), self._cell.model.nv))
        nothing = np.zeros((len(time_s), len(self._channels)))
        blank = [
            Recording(f"motion {i}", time_s, nothing, time_s, motion, home, still, {})
            for i, motion in enumerate(motions)
        ]
        windows = tuple(Window(index, 0, len(time_s)) for index in range(len(motions)))
        predictor = Predictor(self._cell, blank, self._channels, names, self._threads)
        values = {
            s.name: np.array([float(s.outward(p))]) for s, p in zip(self._scales, self.places, strict=True)
        }
        readings = predictor.residuals(values, windows)[0].reshape(len(motions), len(time_s), -1)
        predictor.recordings = tuple(
            replace(r, readings=rows) for r, rows in zip(blank, readings, strict=True)
        )
        deviation = start_deviation(predictor, self.noise)
        if starts and (horizon_s := find_horizon_s(predictor, range(len(motions)))) is not None:
            windows = cut(predictor.recordings, range(len(motions)), horizon_s)
        return Problem(
            predictor,
            self._scales,
            windows,
            Noise(self.noise, self.noise),
            deviation if starts else np.zeros_like(deviation),
            self.places,
        )


def _noise_of(cell: Cell) -> float:
    """Standard deviation of a position reading: noise, and the encoder's quantization."""
    values = cell.twin.nominal
    noise = float(values.get("encoder_noise_rad", 0.0))
    step = float(values.get("encoder_quantum_rad", 0.0))
    return float(np.hypot(noise, step / np.sqrt(12.0))) or USUAL_NOISE
