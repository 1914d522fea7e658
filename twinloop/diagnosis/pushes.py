"""What moves an untouched object: pushes at random times, or wind."""

from __future__ import annotations

import numpy as np

from twinloop.diagnosis.evidence import Run, RunEvidence
from twinloop.diagnosis.measured import Quantity, quantity, set_draws
from twinloop.engines.disturbance import PUSH_S
from twinloop.episode import Array
from twinloop.measure.noise import noise_of

ONE_WAY = 0.8
"""Objects that set off in directions this alike are blown, not pushed."""
ONSET_S = 0.1


def measure_pushes(
    real: RunEvidence,
    of_run: Array,
    rng: np.random.Generator,
    quantities: list[Quantity],
    values: dict[str, Array],
) -> None:
    """Wind where untouched objects all slide one way; else pushes, at the rate and with the speeds that were observed."""
    rows, twin, count = len(of_run), real.twin, len(real.runs)
    seen, watched_s = [], 0.0
    for run in real.runs:
        moved, until_s = _moved_alone(run)
        watched_s += until_s
        if moved is not None:
            seen.append(moved)
    fraction = np.full(rows, len(seen) / count)
    quantities.append(quantity("untouched objects that move", "1", 0.0, fraction, 0.05))
    if len(seen) < 2:
        return
    speed = np.array(seen)
    size = np.linalg.norm(speed, axis=1)
    gravity = abs(float(real.cell.model.opt.gravity[2]))
    friction = float(twin.parameter("object_friction").nominal) if twin.has("object_friction") else 0.5
    one_way = float(np.linalg.norm(np.mean(speed / size[:, None], axis=0))) > ONE_WAY
    pick = rng.integers(0, len(seen), rows)
    if one_way and len(seen) > 3:
        pull = speed / size[:, None] * (friction * gravity + size[:, None] / ONSET_S)
        there = rng.random(rows) < len(seen) / count
        for axis, name in enumerate(("wind_x_m_s2", "wind_y_m_s2")):
            set_draws(values, twin, name, np.where(there, pull[pick, axis], 0.0))
    elif twin.has("push_force_n"):
        mass = float(twin.parameter("object_mass_kg").nominal) if twin.has("object_mass_kg") else 0.1
        rate = rng.gamma(len(seen) + 0.5, 1.0, rows) / max(watched_s, 1e-9)
        quantities.append(quantity("pushes of the object", "Hz", 0.0, rate, 0.01))
        set_draws(values, twin, "push_time_s", rng.exponential(1.0, rows) / rate)
        set_draws(values, twin, "push_direction_rad", rng.uniform(-np.pi, np.pi, rows))
        set_draws(values, twin, "push_force_n", mass * (size[pick] / PUSH_S + friction * gravity))


def _moved_alone(run: Run) -> tuple[Array | None, float]:
    """The speed (2,) with which an untouched object set off, None where it did not; and how long it was watched till then."""
    if run.place is None or run.apart.sum() < 15:
        return None, 0.0
    flat, time_s = run.place[run.apart, :2], run.time_s[run.apart]
    limit = 0.004 + 5.0 * float(np.max(noise_of(flat, quiet=True)))
    moved = np.linalg.norm(flat - np.median(flat[:8], axis=0), axis=1) > limit
    first = int(np.argmax(moved))
    if not moved.any() or moved[first:].mean() < 0.5:
        return None, float(time_s[-1] - time_s[0])
    last = min(int(np.searchsorted(time_s, time_s[first] + ONSET_S)), len(time_s) - 1)
    before = max(first - 1, 0)
    speed = (flat[last] - flat[before]) / max(time_s[last] - time_s[before], 1e-3)
    return speed + 1e-9, float(time_s[first] - time_s[0])
