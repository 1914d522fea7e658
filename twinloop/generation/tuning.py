"""`tune_twin`: the fastest solver settings of a twin whose trajectories stay close to those of fine ones.

The reference is the twin at a quarter of its time step. The scripted expert acts in the same scenes at every setting, closed loop, so that
what differs is what generation would give. A setting is close when no outcome changes and what most episodes differ by stays within the tolerances: the median over
episodes of the joints' root mean square, and of where the object ends. The median, because an expert that sees a contact one control step later does
everything later, at any setting.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Episode
from twinloop.errors import InvalidTwin, WrongUse
from twinloop.experts import default_expert
from twinloop.generation.job import Job
from twinloop.generation.rollout import rollout
from twinloop.randomization import Randomization
from twinloop.randomization.scenes import training_scenes
from twinloop.records import SavedRecord, derived
from twinloop.twins import Twin

EPISODES = 16
JOINTS_RAD, OBJECT_M = 0.02, 0.005
"""Tolerances: what a robot repeats, and a tenth of the disc that objects are put on."""
FINER = 4
FACTORS = (1.0, 1.25, 2.0, 2.5)
"""Multiples of the twin's time step that are tried, where a control step is a whole number of them."""
TOLERANCES = (None, 1e-6)
"""The solver stops when an iteration gains less. Its number of iterations is not tried: it hardly ever needs five, and fewer lose grasps."""
REPEATS = 2
"""Each setting is timed so often, and the least is kept: other processes only ever add."""


@dataclass(frozen=True)
class Setting:
    """Solver settings of a model; None leaves what the model has."""

    timestep_s: float
    tolerance: float | None = None

    def __str__(self) -> str:
        parts = [f"{1e3 * self.timestep_s:g} ms"]
        if self.tolerance is not None:
            parts.append(f"tolerance {self.tolerance:g}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Tried:
    """One setting: processor time per trajectory in s, and how far its trajectories are from the fine ones.

    `joints_rad` (m for sliding joints) and `object_m` are medians over episodes; `outcomes_changed` counts episodes whose outcome differs.
    """

    setting: Setting
    cpu_s: float
    joints_rad: float
    object_m: float
    outcomes_changed: int
    success: float
    close: bool


@dataclass(frozen=True)
class Tuning(SavedRecord):
    """Every setting that was tried, the twin's own first, and the fastest that is close; None if none is."""

    FILE, COMMAND = "tuning.json", "twinloop tune"

    twin: str
    twin_hash: str
    episodes: int
    seed: int
    joints_tolerance_rad: float
    object_tolerance_m: float
    reference: Setting
    tried: tuple[Tried, ...]
    chosen: Setting | None

    @derived
    def speedup(self) -> float:
        """How many times faster the chosen setting is than the twin's own; 1 if none is."""
        chosen = next((one for one in self.tried if one.setting == self.chosen), None)
        return 1.0 if chosen is None else self.tried[0].cpu_s / chosen.cpu_s


def tune_twin(
    twin: Twin,
    randomization: Randomization | None = None,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    joints_rad: float = JOINTS_RAD,
    object_m: float = OBJECT_M,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tuning:
    """Find the fastest settings of a twin whose trajectories stay close to those of fine ones.

    Args:
        twin: The twin, which has a task with a scripted expert.
        randomization: What varies between episodes; default: the twin's usual scenes.
        episodes: Episodes at each setting.
        seed: Random seed for the scenes.
        joints_rad: Tolerance of joints, in rad or m.
        object_m: Tolerance of where the object ends, in m.
        on_progress: Called with settings done and settings in total.

    Returns:
        What was tried and chosen; `apply_setting(twin, tuning.chosen)` is the twin with it.

    Raises:
        WrongUse: The twin has no task, or the expert never succeeds at fine settings.
    """
    if not twin.task:
        raise WrongUse(
            f"twin {twin.name!r} has no task whose expert could act", remedy="give it one in its twin.yaml"
        )
    scenes = (randomization or training_scenes(twin)).over(episodes)
    reference = Setting(twin.physics_dt_s / FINER)
    settings = _list_settings(twin)
    fine, _ = _simulate(apply_setting(twin, reference), scenes, episodes, seed)
    if not any(one.success for one in fine):
        raise WrongUse(
            f"the expert never succeeds in twin {twin.name!r}", got=f"{episodes} episodes at {reference}"
        )
    tried: list[Tried] = []
    for setting in settings:
        on_progress(len(tried), len(settings))
        cell = apply_setting(twin, setting)
        times, made = [], fine
        for _ in range(REPEATS):
            made, cpu_s = _simulate(cell, scenes, episodes, seed)
            times.append(cpu_s / episodes)
        tried.append(_compare(setting, min(times), fine, made, joints_rad, object_m))
    on_progress(len(settings), len(settings))
    close = [one for one in tried if one.close]
    chosen = min(close, key=lambda one: one.cpu_s).setting if close else None
    return Tuning(
        twin.name, twin.content_hash, episodes, seed, joints_rad, object_m, reference, tuple(tried), chosen
    )


def apply_setting(twin: Twin, setting: Setting) -> Twin:
    """The same cell with other solver settings, as a new version."""
    values = {"timestep": f"{setting.timestep_s!r}"}
    if setting.tolerance is not None:
        values["tolerance"] = f"{setting.tolerance!r}"
    found = re.search(r"<option\b[^>]*?(?=/?>)", twin.mjcf)
    if found is None:
        words = " ".join(f'{key}="{value}"' for key, value in values.items())
        text = re.sub(r"(<mujoco\b[^>]*>)", rf"\g<1><option {words}/>", twin.mjcf, count=1)
    else:
        option = found.group()
        for key, value in values.items():
            option = re.sub(rf"\s{key}\s*=\s*([\"'])[^\"']*\1", "", option)
            option = f'{option.rstrip()} {key}="{value}"'
        text = twin.mjcf[: found.start()] + option + twin.mjcf[found.end() :]
    made = replace(twin, mjcf=text, parent=twin.content_hash)
    made = replace(made, version=f"{twin.version.split('+')[0]}+{made.content_hash[:8]}")
    if abs(made.physics_dt_s - setting.timestep_s) > 1e-12:
        raise InvalidTwin(
            f"the settings of twin {twin.name!r} cannot be changed",
            got=made.physics_dt_s,
            expected=setting.timestep_s,
        )
    return made


def _list_settings(twin: Twin) -> list[Setting]:
    """The twin's own settings first."""
    period_s = 1.0 / twin.control_hz
    steps = [twin.physics_dt_s * factor for factor in FACTORS]
    whole = [dt_s for dt_s in steps if abs(period_s / dt_s - round(period_s / dt_s)) < 1e-6]
    return [Setting(dt_s, tolerance) for dt_s in whole for tolerance in TOLERANCES]


def _simulate(twin: Twin, scenes: Randomization, episodes: int, seed: int) -> tuple[list[Episode], float]:
    job = Job(twin, twin.task, default_expert(twin.task), scenes)
    began = time.process_time()
    made = list(rollout(job, seed, range(episodes)))
    return made, time.process_time() - began


def _compare(
    setting: Setting,
    cpu_s: float,
    fine: Sequence[Episode],
    made: Sequence[Episode],
    joints_rad: float,
    object_m: float,
) -> Tried:
    joints: list[float] = []
    ends: list[float] = []
    for one, other in zip(fine, made, strict=True):
        rows = min(len(one), len(other))
        states = [episode["observation.state"][:rows].astype(np.float64) for episode in (one, other)]
        joints.append(float(np.sqrt(np.mean((states[0] - states[1]) ** 2))))
        if "simulation.object" in one.signals:
            ends.append(
                float(np.linalg.norm(one["simulation.object"][-1, :3] - other["simulation.object"][-1, :3]))
            )
    apart, end = float(np.median(joints)), float(np.median(ends)) if ends else 0.0
    changed = sum(one.success != other.success for one, other in zip(fine, made, strict=True))
    success = sum(one.success is True for one in made) / len(made)
    close = changed == 0 and apart <= joints_rad and end <= object_m
    return Tried(setting, cpu_s, apart, end, changed, success, close)
