"""Run a job: cut it into chunks, simulate them in workers, and append them in order to one dataset.

Each worker writes its chunk as a part under `<out>/.generating`. Finished parts are appended to the dataset in order, a
fixed number of chunks per commit, and deleted once committed. At any moment the disk holds the committed beginning of
the dataset and some finished parts. A killed run resumes from there, and its final files do not depend on the number of
workers, on Ray or on how often it was killed.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from twinloop.datasets.commit import writer_lock
from twinloop.datasets.disk_space import check_disk_space
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.partial_folder import partial_folder
from twinloop.datasets.parts import append_part
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.engines import DEFAULT_ENGINE, cannot_vary, require_engine
from twinloop.errors import DatasetError, GenerationError, WrongUse
from twinloop.experts import default_expert, find_expert
from twinloop.experts.playback import PREFIX, pinned_name
from twinloop.generation import disk
from twinloop.generation.chunks import CHUNKS_PER_COMMIT, chunk_size, split_episodes
from twinloop.generation.job import Job
from twinloop.generation.part import Tick, Work, is_complete, part_bytes, part_folder
from twinloop.generation.processes import run_here, run_in_processes, usable_cores
from twinloop.generation.record import (
    GenerationRecord,
    load_generation,
    plain_job,
    save_generation,
    this_build,
)
from twinloop.generation.rollout import episode_schema
from twinloop.randomization import (
    GenerateConfig,
    Randomization,
    load_config_twin,
    load_generate_config,
    load_randomization,
)
from twinloop.randomization.numerics import list_engines_of, without_numerics
from twinloop.twins import Twin, load_twin

PARTS = ".generating"
"""Hidden, so that a part is never listed as a dataset."""

DEFAULT_EPISODE_S = 10.0
"""Assumed length of an episode without a limit, until the first ones are finished."""


@dataclass(frozen=True)
class GenerationProgress:
    """Progress of a run. `success` is the success rate so far, from 0 to 1; `bytes_in_all` is extrapolated."""

    episodes: int
    total: int
    success: float | None
    episodes_per_s: float
    remaining_s: float
    bytes_in_all: float


OnProgress = Callable[[GenerationProgress], None]


def generate(
    source: Twin | GenerateConfig | Job | str | Path,
    randomization: Randomization | None = None,
    *,
    out: str | Path,
    episodes: int | None = None,
    seed: int | None = None,
    cameras: Sequence[str] | None = None,
    expert: str | None = None,
    expert_noise: float = 0.0,
    expert_sees_truth: bool = False,
    max_steps: int | None = None,
    engine: str = DEFAULT_ENGINE,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """Simulate episodes and write them as a dataset.

    The same seed gives the same bytes in every file that LeRobot reads, on any number of workers, on Ray or not, interrupted
    or not; what is under `meta/twinloop` differs in the id of the dataset only.

    Args:
        source: A twin or its name, a config or its YAML file, or a whole job.
        randomization: What varies from episode to episode; by default the config's, or nothing.
        out: Folder of the new dataset.
        episodes: Number of episodes; by default the config's.
        seed: Random seed for the draws; by default the config's.
        cameras: Names of the twin's cameras to record; by default the config's.
        expert: Name of the expert that acts; by default the task's.
        expert_noise: Scale of the random bumps in the expert's commanded path, without unit; at 1 up to 4 cm.
        expert_sees_truth: Give the expert the true state, while readings stay as imperfect as the hardware.
        max_steps: Longest episode in control steps.
        engine: The physics engine; `mujoco`, or another that is installed.
        workers: Processes; 1 stays in this one, None takes one per core.
        ray: Address of a Ray cluster.
        resume: Continue an unfinished run of the same config, seed and version.
        on_progress: Called with a `GenerationProgress` after each chunk.

    Returns:
        The dataset.

    Raises:
        WrongUse: The config names a parameter, camera or expert that does not exist, or `out` is not empty.
        GenerationError: A worker died twice on the same episodes, or `resume` finds another run.
    """
    work, count = make_work(
        source,
        randomization,
        episodes=episodes,
        seed=seed,
        cameras=cameras,
        expert=expert,
        expert_noise=expert_noise,
        expert_sees_truth=expert_sees_truth,
        max_steps=max_steps,
        engine=engine,
    )
    return run(work, count, out, workers=workers, ray=ray, resume=resume, on_progress=on_progress)


def make_work(
    source: Twin | GenerateConfig | Job | str | Path,
    randomization: Randomization | None = None,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    cameras: Sequence[str] | None = None,
    expert: str | None = None,
    expert_noise: float = 0.0,
    expert_sees_truth: bool = False,
    max_steps: int | None = None,
    engine: str = DEFAULT_ENGINE,
) -> tuple[Work, int]:
    """The work of a run and its number of episodes; arguments as in `generate`."""
    config = _config(source)
    count = episodes if episodes is not None else config.episodes if config else None
    if count is None:
        raise WrongUse("the number of episodes is missing", remedy="episodes=N, or a config with rollout")
    chosen = seed if seed is not None else config.seed if config else 0
    if isinstance(source, Job):
        job = source
    else:
        twin = _twin(source, config)
        if randomization is None and config is not None:
            randomization = load_for_engines(config, twin, engine)
        if cameras is None:
            cameras = config.cameras if config else ()
        job = make_job(
            twin, randomization, cameras, expert, expert_noise, expert_sees_truth, max_steps, engine
        )
    if job.randomization is not None:
        job = replace(job, randomization=job.randomization.over(count))
    return Work(job, episode_schema(job), chosen), count


def load_for_engines(config: GenerateConfig, twin: Twin, engine: str = DEFAULT_ENGINE) -> Randomization:
    """Load a config's randomization; what `default` varies beyond what the engines can vary is left out.

    Parameters that the config names itself stay, so that an engine that cannot vary them is refused.
    """
    made = load_randomization(config, twin)
    names = without_numerics(made.names)
    left = {name for one in list_engines_of(made, engine) for name in cannot_vary(one, twin, names)}
    return load_randomization(config, twin, leave_out=left) if left else made


def make_job(
    twin: Twin,
    randomization: Randomization | None = None,
    cameras: Sequence[str] = (),
    expert: str | None = None,
    expert_noise: float = 0.0,
    expert_sees_truth: bool = False,
    max_steps: int | None = None,
    engine: str = DEFAULT_ENGINE,
) -> Job:
    """Make the job for a twin's task and the task's default expert, or another `expert`; a twin without a task is excited.

    `motion:FILE` executes a recorded motion, which is excitation whatever the twin's task.
    """
    task = "excite" if not twin.task or (expert or "").startswith(PREFIX) else twin.task
    expert = pinned_name(expert or default_expert(task))
    find_expert(expert)
    varied = without_numerics(randomization.names) if randomization is not None else ()
    for one in list_engines_of(randomization, engine):
        require_engine(one, twin, varied)
    return Job(
        twin,
        task,
        expert,
        randomization,
        tuple(cameras),
        expert_noise,
        max_steps,
        expert_sees_truth,
        engine,
    )


def _twin(source: Twin | GenerateConfig | str | Path, config: GenerateConfig | None) -> Twin:
    if config is not None:
        return load_config_twin(config)
    return load_twin(source) if isinstance(source, str | Path) else source  # type: ignore[return-value]


def _config(source: object) -> GenerateConfig | None:
    if isinstance(source, GenerateConfig):
        return source
    if isinstance(source, str | Path) and Path(source).suffix in (".yaml", ".yml"):
        return load_generate_config(source)
    return None


def run(
    work: Work,
    episodes: int,
    out: str | Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    chunk_episodes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """Make episodes 0 ... `episodes` - 1 of `work` as the dataset `out`; see `generate`."""
    if episodes < 1:
        raise WrongUse("a run needs at least one episode", got=episodes)
    if workers is not None and workers < 1:
        raise WrongUse("a run needs at least one worker", got=workers)
    root = Path(out)
    work = replace(work, job=replace(work.job, twin=replace(work.job.twin)))
    size = chunk_episodes or chunk_size(episodes, bool(work.schema.cameras))
    record = GenerationRecord("", plain_job(work.job), work.seed, episodes, size, this_build(work.job.engine))
    if root.exists() and any(root.iterdir()):
        if _check_resumable(root, record, resume):
            append_to(root).close()  # finishes the last commit if it was interrupted
            shutil.rmtree(root / PARTS, ignore_errors=True)
            return open_dataset(root)
    else:
        _check_room(work, root, episodes)
        _begin(root, work, record)
    chunks = split_episodes(episodes, size)
    writer = append_to(root, commit_every_s=math.inf, schema=work.schema)
    try:
        state = _Run(root, work, chunks, writer, on_progress)
        with closing(_simulate_missing(state, workers, ray)) as ticks:
            for tick in ticks:
                state.update(tick)
    except BaseException:
        writer.discard()
        for half_written in (root / PARTS).glob("*.partial"):
            shutil.rmtree(half_written, ignore_errors=True)
        raise
    writer.close()
    shutil.rmtree(root / PARTS, ignore_errors=True)
    return open_dataset(root)


def _simulate_missing(state: _Run, workers: int | None, ray: str | None) -> Generator[Tick, None, None]:
    """Simulate the missing chunks: in this process, in worker processes or on a Ray cluster."""
    missing, parts = state.missing(), state.parts
    if ray is not None:
        from twinloop.generation.cluster import run_on_ray

        return run_on_ray(state.work, missing, parts, address=ray)
    cores = usable_cores()
    count = min(workers or cores, max(len(missing), 1))
    threads = max(1, cores // count)
    if (workers or cores) == 1:
        return run_here(state.work, missing, parts, threads)
    return run_in_processes(state.work, missing, parts, workers=count, threads=threads)


class _Run:
    """Progress of a run: committed chunks, finished parts, and the next chunk to append."""

    def __init__(
        self,
        root: Path,
        work: Work,
        chunks: Sequence[range],
        writer: DatasetWriter,
        on_progress: OnProgress | None,
    ) -> None:
        self.root = root
        self.work = work
        self.parts = root / PARTS
        self._chunks = chunks
        self._writer = writer
        self._on_progress = on_progress
        self._next = self._first_uncommitted()
        self._taken: list[Path] = []
        self._bytes = 0
        self._measured = 0
        self._ticks: dict[int, Tick] = {}
        self._before = 0
        self._started = time.monotonic()
        self._ready = self._find_parts()
        self._before = self._writer.committed + sum(len(chunks[chunk]) for chunk in self._ready)
        self._take_ready()

    def missing(self) -> dict[int, range]:
        """Chunks that are neither committed nor finished as parts, by number."""
        left = range(self._next, len(self._chunks))
        return {chunk: self._chunks[chunk] for chunk in left if chunk not in self._ready}

    def update(self, tick: Tick) -> None:
        """Record the progress of a chunk; append every finished part whose turn it is."""
        self._ticks[tick.chunk] = tick
        if tick.finished:
            self._measure(tick.chunk)
            self._ready.add(tick.chunk)
            self._take_ready()
        self._report()

    def _first_uncommitted(self) -> int:
        committed, size = self._writer.committed, len(self._chunks[0])
        chunk = -(-committed // size)
        if chunk > len(self._chunks) or committed != sum(len(c) for c in self._chunks[:chunk]):
            raise GenerationError(
                f"{self.root} has changed since the interrupted run",
                got=f"{committed} episodes",
                expected=f"whole chunks of {size}",
                remedy="generate into a new folder",
            )
        return chunk

    def _find_parts(self) -> set[int]:
        """Parts that an earlier run finished; anything else it left behind is deleted."""
        self.parts.mkdir(exist_ok=True)
        left = range(self._next, len(self._chunks))
        whole = {
            chunk for chunk in left if is_complete(part_folder(self.parts, chunk), len(self._chunks[chunk]))
        }
        keep = {part_folder(self.parts, chunk) for chunk in whole}
        for path in self.parts.iterdir():
            if path not in keep:
                shutil.rmtree(path, ignore_errors=True)
        return whole

    def _take_ready(self) -> None:
        while self._next in self._ready:
            folder = part_folder(self.parts, self._next)
            append_part(self._writer, folder)
            self._taken.append(folder)
            self._ready.remove(self._next)
            self._next += 1
            if self._next % CHUNKS_PER_COMMIT == 0 or self._next == len(self._chunks):
                self._writer.commit()
                for taken in self._taken:
                    shutil.rmtree(taken, ignore_errors=True)
                self._taken.clear()

    def _measure(self, chunk: int) -> None:
        """Check the free space against the measured size of the episodes."""
        self._bytes += part_bytes(part_folder(self.parts, chunk))
        self._measured += len(self._chunks[chunk])
        left = self._chunks[-1].stop - self._writer.episodes
        check_disk_space(
            self.root,
            left * self._bytes / self._measured,
            what=f"the remaining {left} episodes",
            remedy="free some space and continue with --resume",
            error=GenerationError,
        )

    def _report(self) -> None:
        if self._on_progress is None:
            return
        simulated = sum(tick.done for tick in self._ticks.values())
        successes = sum(tick.successes for tick in self._ticks.values())
        total = self._chunks[-1].stop
        elapsed_s = time.monotonic() - self._started
        rate = simulated / elapsed_s if elapsed_s > 0 else 0.0
        each = self._bytes / self._measured if self._measured else _expected_bytes(self.work)
        left = total - self._before - simulated
        self._on_progress(
            GenerationProgress(
                self._before + simulated,
                total,
                successes / simulated if simulated else None,
                rate,
                left / rate if rate else math.inf,
                total * each,
            )
        )


def _expected_bytes(work: Work) -> float:
    rows = work.job.max_steps or round(DEFAULT_EPISODE_S * work.schema.rate_hz)
    return disk.expected_bytes(work.schema, rows)


def _check_room(work: Work, root: Path, episodes: int) -> None:
    check_disk_space(
        root,
        episodes * _expected_bytes(work),
        what=f"{episodes} episodes",
        remedy="fewer episodes, fewer cameras, or another disk",
        error=GenerationError,
    )


def _begin(root: Path, work: Work, record: GenerationRecord) -> None:
    """Create the empty dataset with the record of its run, atomically."""
    detail = f"{record.episodes} episodes of {work.job.twin.name}, seed {record.seed}"
    with partial_folder(root) as folder:
        with make_dataset(folder, work.schema, history=("generated", (), detail)) as writer:
            record = replace(record, dataset_id=writer.dataset_id)
        save_generation(folder, record, work.job.twin)


def _check_resumable(root: Path, record: GenerationRecord, resume: bool) -> bool:
    """Refuse unless `root` holds this very run and `resume` is set; True if it is complete."""
    manifest = load_manifest(root)
    existing = load_generation(root, manifest.dataset_id) if manifest else None
    if manifest is None or existing is None:
        raise DatasetError(
            f"{root} already exists and is not a generated dataset", remedy="choose another folder"
        )
    finished = manifest.episodes >= existing.episodes
    if not finished:
        with writer_lock(root):
            pass  # raises if another process is writing
    if not resume:
        done = f"{manifest.episodes} of {existing.episodes} episodes"
        raise GenerationError(
            f"{root} already exists, {'complete' if finished else 'unfinished'} with {done}",
            remedy="choose another folder"
            if finished
            else "continue it with --resume, or choose another folder",
        )
    if difference := existing.difference(record):
        raise GenerationError(
            f"cannot continue {root}: {difference}",
            remedy="use the same config, seed and version as before, or choose another folder",
        )
    return finished
