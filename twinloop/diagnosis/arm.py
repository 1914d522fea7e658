"""Latency and actuation: how the arm follows its commands, on the robot and in the twin, measured alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinloop.diagnosis.evidence import Run, RunEvidence
from twinloop.diagnosis.follow import ArmResponse, measure_arm
from twinloop.diagnosis.measured import Measured, Quantity, quantity, set_draws
from twinloop.episode import Array
from twinloop.measure.noise import noise_of
from twinloop.measure.tracker import measure_tracker_delay
from twinloop.stats.bootstrap import resampled_means
from twinloop.tasks import Cell
from twinloop.twins import Twin
from twinloop.twins.declare import to_identifier
from twinloop.twins.hardware import load_names

NEEDS_EFFORT = "needs observation.effort of a position servo"
MOST_RUNS = 10
"""Runs whose commands are compared with what came of them: more add little."""


def follow_both(real: RunEvidence, sim: RunEvidence) -> tuple[ArmResponse | None, ArmResponse | None]:
    """The robot's following and the twin's."""
    runs = (*real.others, *real.runs)[:MOST_RUNS]
    usual = measure_arm(sim.cell, sim.runs[:4])
    return measure_arm(real.cell, runs, usual), usual


def measure_latency(
    real: RunEvidence,
    sim: RunEvidence,
    both: tuple[ArmResponse | None, ArmResponse | None],
    rows: int,
    rng: np.random.Generator,
) -> Measured:
    """The delay of the loop, its jitter, repeated readings, and how much later the object is seen than the arm."""
    twin = real.twin
    quantities: list[Quantity] = []
    values: dict[str, Array] = {}
    missing: list[str] = []
    following, nominal = both
    if following is None or nominal is None:
        missing.append(f"command to response: {NEEDS_EFFORT}")
    elif twin.has("action_delay_s"):
        own = _nominal(twin, "action_delay_s") + _nominal(twin, "observation_delay_s")
        draws = own + resampled_means(following.delay_s, rows, rng) - float(np.median(nominal.delay_s))
        found = quantity("loop delay", "s", own, draws, 0.004)
        if found.differs:
            draws = draws + _unseen_delay_s(real, rows, rng)
            found = replace(quantity("loop delay", "s", own, draws, 0.0), differs=True)
            set_draws(values, twin, "action_delay_s", draws - _nominal(twin, "observation_delay_s"))
        quantities.append(found)
        jitter = np.sqrt(np.maximum(following.jitter_s**2 - float(np.median(nominal.jitter_s)) ** 2, 0.0))
        clean = float(np.median(following.backlash_rad)) == 0.0
        spread = resampled_means(jitter, rows, rng)
        found = quantity("jitter of the delay", "s", 0.0, spread, 0.006)
        quantities.append(found)
        if found.differs and clean:
            set_draws(values, twin, "action_jitter_s", spread)
    repeats = np.array([_repeated(run, real.cell) for run in real.all])
    draws = resampled_means(repeats, rows, rng)
    found = quantity("repeated readings", "1", 0.0, draws, 0.02)
    quantities.append(found)
    if found.differs:
        set_draws(values, twin, "observation_drop_probability", draws)
    seen, usual = _tracker_delays(real.all), _tracker_delays(sim.runs)
    if len(seen) == 0:
        missing.append("delay of the perceived object: needs runs that carry it")
    else:
        draws = resampled_means(seen, rows, rng) - (float(np.mean(usual)) if len(usual) else 0.0)
        found = quantity("further delay of the perceived object", "s", 0.0, draws, 0.02)
        quantities.append(found)
        if found.differs and found.real > 0.0:
            set_draws(values, twin, "object_pose_delay_s", draws)
    return Measured("latency", tuple(quantities), values, tuple(missing))


def measure_actuation(
    real: RunEvidence,
    both: tuple[ArmResponse | None, ArmResponse | None],
    rows: int,
    rng: np.random.Generator,
) -> Measured:
    """Gains, friction, steady loads and backlash of the joints, and how hard the gripper presses."""
    following, nominal = both
    if following is None or nominal is None:
        return Measured("actuation", missing=(f"gains, friction and loads: {NEEDS_EFFORT}",))
    twin, cell = real.twin, real.cell
    quantities: list[Quantity] = []
    values: dict[str, Array] = {}
    ratio = np.median(following.time_constant_s / np.median(nominal.time_constant_s, axis=0), axis=1)
    draws = resampled_means(ratio, rows, rng)
    found = quantity("damping over stiffness, relative", "1", 1.0, draws, 0.15)
    quantities.append(found)
    if found.differs:
        set_draws(values, twin, "servo_damping_scale", draws)
    draws = resampled_means(following.backlash_rad, rows, rng)
    # Commands that tremble by more than the backlash hide it, and what joints make of them passes for a little of it.
    trembles = [float(np.mean(noise_of(run.action[:, cell.arm], quiet=True))) for run in real.all]
    found = quantity("backlash of the gears", "rad", 0.0, draws, max(0.0015, float(np.median(trembles))))
    quantities.append(found)
    if found.differs:
        for joint in (cell.actuators[index] for index in cell.arm if cell.turning[index]):
            set_draws(values, twin, f"{to_identifier(joint)}_backlash_rad", draws)
    if float(np.median(following.backlash_rad)) == 0.0:
        _efforts(cell, following, nominal, rows, rng, quantities, values)
    if cell.gripper is not None:
        _grip(real, cell, following, nominal, rows, rng, quantities, values)
    return Measured("actuation", tuple(quantities), values)


def _efforts(
    cell: Cell,
    following: ArmResponse,
    nominal: ArmResponse,
    rows: int,
    rng: np.random.Generator,
    quantities: list[Quantity],
    values: dict[str, Array],
) -> None:
    """Friction and steady loads beyond the twin's own, as fractions of what each joint can give."""
    count = len(following.delay_s)
    usual = nominal.solve_effort(np.arange(len(nominal.delay_s)))
    picks = rng.integers(0, count, (rows, count))
    drawn = np.stack([following.solve_effort(p) for p in picks]) - usual
    limit = np.maximum(np.abs(np.asarray(cell.model.actuator_forcerange))[cell.arm].max(axis=1), 1e-9)
    home = np.array([_home(cell, index) for index in cell.arm])
    for which, label, share in ((0, "dry friction", 0.06), (3, "steady load", 0.04)):
        numbers = drawn[:, :, which] + (drawn[:, :, 4] * home if which == 3 else 0.0)
        middle = np.median(numbers, axis=0) / limit
        worst = int(np.argmax(np.abs(middle)))
        name = f"{label} of {cell.actuators[cell.arm[worst]]}, fraction of its limit"
        found = quantity(name, "1", 0.0, numbers[:, worst] / limit[worst], share)
        quantities.append(found)
        if not found.differs or (which == 0 and found.real < 0.0):
            continue
        for column, index in enumerate(cell.arm):
            joint = cell.actuators[index]
            if which == 0:
                parameter = f"{to_identifier(joint)}_friction_nm"
                own = _nominal(cell.twin, parameter)
                set_draws(values, cell.twin, parameter, own + drawn[:, column, 0])
            else:
                for name, coefficient in zip(load_names(joint), (3, 4), strict=True):
                    set_draws(values, cell.twin, name, drawn[:, column, coefficient])


def _grip(
    real: RunEvidence,
    cell: Cell,
    following: ArmResponse,
    nominal: ArmResponse,
    rows: int,
    rng: np.random.Generator,
    quantities: list[Quantity],
    values: dict[str, Array],
) -> None:
    pressed = following.gripper_effort[np.isfinite(following.gripper_effort)]
    usual = nominal.gripper_effort[np.isfinite(nominal.gripper_effort)]
    if not len(pressed) or not len(usual):
        return
    own = float(np.median(usual))
    draws = resampled_means(pressed, rows, rng)
    found = quantity("largest force of the gripper", "1", own, draws, 0.1 * own)
    quantities.append(found)
    gripper = cell.actuators[cell.gripper] if cell.gripper is not None else ""
    for suffix in ("n", "nm"):
        name = f"{to_identifier(gripper)}_force_limit_{suffix}"
        if found.differs and found.real < own:
            set_draws(values, real.twin, name, draws)


def _unseen_delay_s(real: RunEvidence, rows: int, rng: np.random.Generator) -> Array:
    """How much later than it shows a command may arrive (rows,): readings are taken once in a control step.

    A command that arrives right after a reading and one that arrives right before the next look alike.
    """
    step_s = 1.0 / real.twin.control_hz
    return rng.uniform(0.0, step_s, rows) - _nominal(real.twin, "action_delay_s") % step_s


def _repeated(run: Run, cell: Cell) -> float:
    """Fraction of rows that repeat the row before exactly, while the arm is commanded to move."""
    same = np.all(run.position[1:] == run.position[:-1], axis=1)
    commanded = np.abs(run.action[1:, cell.arm] - run.position[1:, cell.arm]).max(axis=1) > 0.02
    return float(np.mean(same[commanded])) if commanded.any() else 0.0


def _tracker_delays(runs: tuple[Run, ...]) -> Array:
    """How much later (runs,) than the arm's reading the perceived object moves while it is carried."""
    found = [measure_tracker_delay(run.track) for run in runs if run.track is not None]
    return np.array([delay_s for delay_s in found if delay_s is not None])


def _home(cell: Cell, actuator: int) -> float:
    joint = int(np.flatnonzero(np.asarray(cell.model.jnt_qposadr) == cell.qpos_addresses[actuator, 0])[0])
    return float(cell.twin.home.get(cell.model.joint(joint).name, 0.0))


def _nominal(twin: Twin, name: str) -> float:
    return float(twin.parameter(name).nominal) if twin.has(name) else 0.0
