"""Generation beside the raw engine: the same scenes, draws and actions, stepped by `mujoco.batch` and nothing else.

Ours randomizes, passes commands and readings through imperfect hardware, decides phases and success, flags artefacts and
writes a data set; the raw engine only steps. Both use one thread of one process, and processor time is compared, so that
other work on the machine does not enter.
"""

from __future__ import annotations

import shutil
import statistics
import time

import mujoco
import mujoco.batch
import numpy as np

from benchmarks.report import Section, Settings, Table, Target, spread
from twinloop.dataset.writer import make_dataset
from twinloop.experts import expert_for
from twinloop.generate.job import Job
from twinloop.generate.rollout import episode_schema, rollout
from twinloop.randomize import draw_many, load_randomization
from twinloop.twin import BatchWriter, initial_state, load_twin

TWIN = "franka_pick_place"
SEED = 1
LEAST = 0.80
BLUEPRINT_EPISODES_PER_S = 780_000 / (11 * 3600)
"""GR00T blueprint as published: 780,000 trajectories in 11 hours."""

USUAL = {
    "physics": {
        "object_mass_kg": [0.05, 0.4],
        "friction_coefficient": [0.2, 1.1],
        "object_position_noise_cm": [-2, 2],
        "action_delay_ms": [0, 60],
        "encoder_noise_rad": [0, 0.002],
    }
}


def run(settings: Settings) -> Section:
    episodes, repeats = (32, 1) if settings.quick else (256, 3)
    rows, targets = [], []
    for title, expert in (("expert picks and places", None), ("random actions in contact", "random")):
        settings.say.print(f"{title}: {episodes} episodes, {repeats} times ...")
        measured = [measure(settings, expert, episodes) for _ in range(repeats)]
        ours = [m["steps"] / m["ours_s"] for m in measured]
        raw = [m["steps"] / m["raw_s"] for m in measured]
        share = statistics.median(m["raw_s"] / m["ours_s"] for m in measured)
        rate = statistics.median(episodes / m["ours_s"] for m in measured)
        rows.append(
            (title, spread(ours), spread(raw), f"{share:.2f}", f"{rate:.1f}", f"{measured[0]['success']:.0%}")
        )
        targets.append(
            Target(f"{title}: at least {LEAST:.2f} of raw stepping", f"{share:.2f}", share >= LEAST)
        )
        if expert is None:
            hours = 204_800 / rate / 3600
            note = (
                f"At {rate:.1f} episodes/s per core the 204,800 episodes of the usual config take {hours:.1f} core hours; "
                f"the GR00T blueprint's published rate is {BLUEPRINT_EPISODES_PER_S:.1f}/s on its cluster."
            )
    columns = ("run", "ours, physics steps/s", "raw mujoco.batch, steps/s", "share", "episodes/s", "success")
    return Section(
        "generate",
        "Generation, state only, beside raw mujoco.batch",
        (Table("One thread, per second of processor time", columns, tuple(rows)),),
        tuple(targets),
        (
            note,
            f"Scene: {TWIN}, {episodes} episodes with draws of mass, friction, place, delay and encoder noise.",
        ),
    )


def measure(settings: Settings, expert: str | None, episodes: int) -> dict[str, float]:
    twin = load_twin(TWIN)
    randomization = load_randomization({"name": "usual", "twin": TWIN, "randomization": USUAL})
    job = Job(twin, twin.task, expert or expert_for(twin.task), randomization)
    out = settings.work / "generated"
    shutil.rmtree(out, ignore_errors=True)
    began = time.process_time()
    made = []
    with make_dataset(out, episode_schema(job)) as writer:
        for episode in rollout(job, SEED, range(episodes), 1):
            writer.add(episode)
            made.append((episode["action"], episode.success))
    ours_s = time.process_time() - began
    steps, raw_s = raw_stepping(job, [action for action, _ in made])
    return {
        "ours_s": ours_s,
        "raw_s": raw_s,
        "steps": steps,
        "success": float(np.mean([bool(s) for _, s in made])),
    }


def raw_stepping(job: Job, actions: list[np.ndarray]) -> tuple[int, float]:
    """Steps, and the processor time of stepping the same scenes with the recorded actions."""
    twin, count = job.twin, len(actions)
    batch = mujoco.batch.Batch(twin.make_model(), count, 1)
    drawn = draw_many(job.randomization, SEED, range(count))
    start = initial_state(twin, drawn, count)
    in_model = {name: values for name, values in drawn.items() if name in twin.patch.names("model")}
    BatchWriter(twin.patch, batch, tuple(in_model)).write(in_model)
    control = batch.bind("ctrl")
    batch.bind("qpos")[:] = start.qpos
    batch.bind("mocap_pos")[:] = start.mocap_pos
    control[:] = start.ctrl
    lengths = np.array([len(action) for action in actions])
    longest = int(lengths.max())
    held = [np.concatenate([a, np.repeat(a[-1:], longest - len(a), 0)]) for a in actions]
    commands = np.stack(held, axis=1).astype(float)
    began, steps = time.process_time(), 0
    for row in range(longest - 1):
        running = np.flatnonzero(lengths - 1 > row)
        control[running] = commands[row][running]
        batch.step(running, nstep=twin.substeps)
        steps += len(running)
    return steps * twin.substeps, time.process_time() - began
