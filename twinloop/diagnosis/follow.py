"""How an arm follows its commands, run by run: delay, gains, backlash, friction, loads and the gripper's effort.

Every number is per run, so that the spread between runs is known; what a servo does by its nature is the same in the twin's
runs, measured in the same way, and is taken off there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.diagnosis.evidence import Run
from twinloop.episode import Array
from twinloop.measure.friction import EDGE_ROWS, EffortEquations, effort_equations, solve_effort
from twinloop.measure.saturation import measure_effort_limit
from twinloop.measure.servo import measure_servo
from twinloop.measure.trace import Trace
from twinloop.tasks import Cell

FEWEST_ROWS = 40


@dataclass(frozen=True, eq=False)
class ArmResponse:
    """Per run (R,): delay and its jitter, backlash in rad, the gripper's largest effort (nan where it never pressed); per run
    and joint (R, J): damping over stiffness. `equations` are those of what effort it takes to move and to stand still.
    """

    delay_s: Array
    jitter_s: Array
    time_constant_s: Array
    backlash_rad: Array
    equations: EffortEquations
    gripper_effort: Array

    def solve_effort(self, picks: Array) -> Array:
        """Friction, viscosity, inertia, load and its slope of each joint (J, 5), over the runs `picks`."""
        square, right = (part[picks].sum(axis=0) for part in self.equations)
        return np.stack(solve_effort(EffortEquations(square, right)), axis=1)


def measure_arm(cell: Cell, runs: tuple[Run, ...], usual: ArmResponse | None = None) -> ArmResponse | None:
    """What every run with effort readings says about the arm; None when there is none.

    Unless other time constants explain a run much better, they are those of `usual`.
    """
    usual_s = None if usual is None else np.median(usual.time_constant_s, axis=0)
    usable = [run for run in runs if run.effort is not None and len(run) >= FEWEST_ROWS]
    if not usable:
        return None
    servos, equations, efforts = [], [], []
    for run in usable:
        joints = [make_trace(cell, run, index) for index in cell.arm]
        servos.append(measure_servo(joints, usual_s))
        free = ~run.holding & (np.arange(len(run)) > EDGE_ROWS)
        each = [effort_equations(joint, free) for joint in joints]
        equations.append([np.stack(part) for part in zip(*each, strict=True)])
        efforts.append(_gripper_effort(cell, run))
    squares, rights = (np.stack(part) for part in zip(*equations, strict=True))
    return ArmResponse(
        delay_s=np.array([servo.delay_s for servo in servos]),
        jitter_s=np.array([servo.jitter_s for servo in servos]),
        time_constant_s=np.stack([servo.time_constant_s for servo in servos]),
        backlash_rad=np.array([servo.backlash for servo in servos]),
        equations=EffortEquations(squares, rights),
        gripper_effort=np.array(efforts),
    )


def make_trace(cell: Cell, run: Run, index: int) -> Trace:
    """One actuator of a run as a trace."""
    return Trace(
        cell.actuators[index],
        "rad" if cell.turning[index] else "m",
        run.time_s,
        run.position[:, index],
        run.action[:, index],
        run.velocity[:, index],
        None if run.effort is None else run.effort[:, index],
    )


def _gripper_effort(cell: Cell, run: Run) -> float:
    if cell.gripper is None:
        return float("nan")
    stiffness = float(cell.model.actuator_gainprm[cell.gripper, 0])
    limit = float(np.abs(cell.model.actuator_forcerange[cell.gripper]).max())
    effort = measure_effort_limit(make_trace(cell, run, cell.gripper), stiffness, limit)
    return float("nan") if effort is None else effort
