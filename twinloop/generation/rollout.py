"""Simulate episodes side by side, behind imperfect hardware, and record them.

`_Run._control_step` is one control step of all environments: reading, command, judgement, one recorded row, physics. An environment whose episode has ended is loaded with the next one at once, so that none
idles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinloop.engines import Diverged, most_environments
from twinloop.episode import Array, Episode, Event, Provenance, Schema, content_id
from twinloop.errors import WrongUse
from twinloop.experts import Expert, ImageExpert, Setup, find_expert
from twinloop.experts.playback import MotionExpertFactory
from twinloop.experts.reading import Reading, ideal_reading
from twinloop.generation.artefacts import diverged_event, trace_row
from twinloop.generation.job import Job, describe_actor, episode_seed
from twinloop.generation.recorder import Recorder
from twinloop.generation.signals import make_schema, row_parts
from twinloop.generation.simulation import Simulation
from twinloop.randomization import draw_many, select_draw
from twinloop.randomization.numerics import ENGINE, TIME_STEP, split_numerics
from twinloop.tasks import Judgement, Task, Truth, make_cell, make_task
from twinloop.tasks.excite import Excite
from twinloop.twins import Twin, with_time_step
from twinloop.version import __version__

MAX_ENVIRONMENTS = 256
"""Environments stepped together: enough that Python costs little per environment, few enough to stay in cache."""


def episode_schema(job: Job) -> Schema:
    """The schema of every episode of a job."""
    return make_schema(make_cell(job.twin), job.cameras)


def rollout(
    job: Job, seed: int, numbers: Sequence[int], threads: int = 1, *, stills: Sequence[float] | None = None
) -> Iterator[Episode]:
    """Simulate one episode for each number, in order; an episode does not depend on the other numbers.

    With `stills`, each episode has one image per camera, rendered at that fraction of its length and repeated.
    """
    numbers = [int(number) for number in numbers]
    drawn = draw_many(job.randomization, seed, numbers) if job.randomization is not None else {}
    seeds = [episode_seed(seed, number) for number in numbers]
    return rollout_drawn(job, seeds, drawn, threads, stills=stills)


def rollout_drawn(
    job: Job,
    seeds: Sequence[int],
    drawn: Mapping[str, Any],
    threads: int = 1,
    make_expert: Callable[[Setup], Expert] | None = None,
    *,
    stills: Sequence[float] | None = None,
) -> Iterator[Episode]:
    """Simulate one episode for each seed, with the values already drawn: arrays (len(seeds),) by parameter name.

    Replay uses it: seed and draw are in an episode's provenance. `make_expert` makes an expert that is not registered,
    such as one that holds demonstrations; `job.expert` is then only its name. An expert with a method
    `parents(environment)` returns the ids of the episodes that its current one is derived from.
    """
    own, numerics = split_numerics(drawn)
    for name in own:
        job.twin.parameter(name)
    if any(len(values) != len(seeds) for values in drawn.values()):
        raise WrongUse("a draw does not fit the seeds", expected=f"{len(seeds)} values for each parameter")
    if not len(seeds):
        return iter(())
    if numerics:
        return _by_numerics(job, seeds, own, numerics, threads, make_expert, stills)
    expert = make_expert or find_expert(job.expert)
    return _Run(job, np.asarray(seeds, dtype=np.int64), drawn, threads, expert, stills).episodes()


def _by_numerics(
    job: Job,
    seeds: Sequence[int],
    own: Mapping[str, Any],
    numerics: Mapping[str, Any],
    threads: int,
    make_expert: Callable[[Setup], Expert] | None,
    stills: Sequence[float] | None,
) -> Iterator[Episode]:
    """Episodes of several engines or time steps: each group is simulated together, and the order is that of the seeds."""
    columns = {name: np.asarray(values).tolist() for name, values in numerics.items()}
    keys = list(zip(*columns.values(), strict=True))
    groups: dict[tuple[Any, ...], Iterator[Episode]] = {}
    for key in dict.fromkeys(keys):
        rows = [row for row, other in enumerate(keys) if other == key]
        chosen = dict(zip(columns, key, strict=True))
        twin = with_time_step(job.twin, chosen[TIME_STEP]) if TIME_STEP in chosen else job.twin
        groups[key] = rollout_drawn(
            replace(job, twin=twin, engine=chosen.get(ENGINE, job.engine)),
            [seeds[row] for row in rows],
            {name: np.asarray(values)[rows] for name, values in own.items()},
            threads,
            make_expert,
            stills=None if stills is None else [stills[row] for row in rows],
        )
    for key in keys:
        yield _as_drawn(next(groups[key]), job.twin, dict(zip(columns, key, strict=True)))


def _as_drawn(episode: Episode, twin: Twin, numerics: Mapping[str, float | str]) -> Episode:
    """The episode as one of `twin`, with what was drawn of its numerics."""
    origin = replace(
        episode.provenance,
        twin_version=twin.version,
        twin_hash=twin.content_hash,
        draw={**episode.provenance.draw, **numerics},
    )
    identity = content_id(
        episode.schema, episode.time_s, episode.signals, episode.events, episode.task, origin
    )
    return replace(episode, provenance=origin, id=identity)


class _Run:
    """The environments, the episodes running in them, and the queue of episodes to simulate."""

    def __init__(
        self,
        job: Job,
        seeds: Array,
        drawn: Mapping[str, Any],
        threads: int,
        make_expert: Callable[[Setup], Expert],
        stills: Sequence[float] | None = None,
    ) -> None:
        self._job, self._seeds, self._stills = job, seeds, stills
        self._drawn = {name: np.asarray(values) for name, values in drawn.items()}
        cell = self._cell = make_cell(job.twin)
        self._task: Task = make_task(job.task, job.twin)
        if isinstance(make_expert, MotionExpertFactory) and job.task == "excite":
            self._task = Excite(cell, make_expert.duration_s)
        longest = round(self._task.time_limit_s * job.twin.control_hz)
        self._steps = longest if job.max_steps is None else min(longest, job.max_steps)
        most = most_environments(job.engine) or MAX_ENVIRONMENTS
        count = self._count = min(len(seeds), most, MAX_ENVIRONMENTS)
        self._setup = Setup(cell, count, self._steps, job.expert_noise)
        self._expert = make_expert(self._setup)
        self._recorder = Recorder(cell, self._task, episode_schema(job), count, self._steps)
        self._image_expert = (
            self._expert if isinstance(self._expert, ImageExpert) and self._expert.cameras else None
        )
        expert_cameras = self._image_expert.cameras if self._image_expert else ()
        cameras = tuple(dict.fromkeys((*job.cameras, *expert_cameras)))
        self._simulation = Simulation(
            cell, self._task, job.engine, count, self._steps, self._drawn, threads, cameras
        )
        self._episode = np.full(count, -1, dtype=np.int64)
        self._next = 0

    def episodes(self) -> Iterator[Episode]:
        """Every episode, in order."""
        waiting: dict[int, Episode] = {}
        due = 0
        self._load(np.arange(self._count))
        try:
            while (self._episode >= 0).any():
                waiting.update(self._control_step())
                while due in waiting:
                    yield waiting.pop(due)
                    due += 1
        finally:
            self._simulation.close()

    def _control_step(self) -> list[tuple[int, Episode]]:
        simulation = self._simulation
        reading = simulation.sense()
        truth = simulation.truth
        if self._image_expert is not None:
            reading = replace(reading, frames=self._render_frames(self._image_expert))
        action = self._act(truth, reading)
        judged = simulation.judge()
        trace = trace_row(truth, simulation.engine.object_inertia_m2, judged.phase)
        self._recorder.row(simulation.step, row_parts(self._cell, truth, reading, action), trace)
        commands = simulation.command(action)
        running = self._episode >= 0
        simulation.step[running] += 1
        over = running & (judged.success | judged.failed | (simulation.step >= self._steps))
        finished = [self._finish(int(i), judged) for i in np.flatnonzero(over)]
        self._load(np.flatnonzero(over))
        diverged = simulation.advance(np.flatnonzero(running & ~over), commands)
        if diverged is not None:
            finished += self._give_up(diverged)
            self._load(diverged.ids)
        return finished

    def _act(self, truth: Truth, reading: Reading) -> Array:
        step = self._simulation.step
        if not self._job.expert_sees_truth:
            return self._expert.act(reading, step)
        # Servos follow their biased encoders, so an expert that knows the true positions must add the bias.
        return self._expert.act(ideal_reading(truth), step) + self._simulation.hardware.bias

    def _render_frames(self, expert: ImageExpert) -> dict[str, Array]:
        """Frames (N, height, width, 3) by camera; black for environments whose expert needs none in this step."""
        sizes = {camera.name: (camera.height, camera.width) for camera in self._cell.twin.cameras}
        frames = {name: np.zeros((self._count, *sizes[name], 3), np.uint8) for name in expert.cameras}
        for row in np.flatnonzero(expert.needs_images() & (self._episode >= 0)).tolist():
            painted = self._simulation.newest_frames(row)
            for name, frame in frames.items():
                frame[row] = painted[name]
        return frames

    def _load(self, ids: Array) -> None:
        """Begin the next episodes in the environments `ids`; those for which none is left go idle."""
        simulation = self._simulation
        self._episode[ids], simulation.step[ids] = -1, 0
        taken = ids[: max(0, len(self._seeds) - self._next)]
        if not len(taken):
            return
        numbers = np.arange(self._next, self._next + len(taken))
        self._next += len(taken)
        values = {name: column[numbers] for name, column in self._drawn.items()}
        draws = [select_draw(self._drawn, number) for number in numbers.tolist()]
        seeds = self._seeds[numbers]
        truth = simulation.begin(taken, values, draws, seeds)
        self._episode[taken] = numbers
        for name, column in self._setup.style.items():
            column[taken] = values.get(name, self._job.twin.parameter(name).nominal)
        sees_truth = self._job.expert_sees_truth
        seen = ideal_reading(truth) if sees_truth else simulation.hardware.first_reading(truth)
        self._expert.restart(taken, seen, seeds)

    def _finish(self, environment: int, judged: Judgement) -> tuple[int, Episode]:
        success = bool(judged.success[environment])
        failure = None if success else self._task.failures[int(judged.reason[environment])]
        return self._recorded(environment, success, failure, ())

    def _give_up(self, diverged: Diverged) -> list[tuple[int, Episode]]:
        episodes = []
        for row, environment in enumerate(diverged.ids.tolist()):
            time_s = float((self._simulation.step[environment] - 1) * self._cell.dt_s)
            event = diverged_event(time_s, diverged.qpos[row], diverged.qvel[row], diverged.ctrl[row])
            episodes.append(self._recorded(environment, False, "simulation_diverged", (event,)))
        return episodes

    def _recorded(
        self, environment: int, success: bool, failure: str | None, events: Sequence[Event]
    ) -> tuple[int, Episode]:
        index = int(self._episode[environment])
        length = int(self._simulation.step[environment])
        frames = {}
        if self._job.cameras:
            still = None if self._stills is None else self._stills[index]
            painted = self._simulation.frames(environment, length, still)
            frames = {name: painted[name] for name in self._job.cameras}
        episode = self._recorder.episode(
            environment,
            length,
            success=success,
            failure=failure,
            provenance=self._provenance(environment),
            more_events=events,
            frames=frames,
        )
        return index, episode

    def _provenance(self, environment: int) -> Provenance:
        job, simulation = self._job, self._simulation
        engine = simulation.engine
        parents = getattr(self._expert, "parents", None)
        return Provenance(
            source="sim",
            engine=engine.name,
            engine_version=engine.version,
            twin=job.twin.name,
            twin_version=job.twin.version,
            twin_hash=job.twin.content_hash,
            randomization=None if job.randomization is None else job.randomization.name,
            draw=simulation.draws[environment],
            seed=int(simulation.seeds[environment]),
            actor=self._expert.actor,
            actor_id=describe_actor(job),
            parents=() if parents is None else parents(environment),
            software={
                "twinloop": __version__,
                engine.name: engine.version,
                "numpy": np.__version__,
            },
        )
