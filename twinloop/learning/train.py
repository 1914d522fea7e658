"""Train a policy by a recipe: check the data, fit the scaling, go through the recipe's stages, keep what validated best."""

from __future__ import annotations

import json
import math
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.datasets.cache import has_cached_frames
from twinloop.datasets.commit import hold_lock, write_atomically
from twinloop.datasets.images import crop_size
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.sources import list_sources, refuse_swapped_sources
from twinloop.errors import LearnError, UnknownName, WrongUse
from twinloop.learning.config import TrainConfig
from twinloop.learning.device import AUTO, describe_device, find_device
from twinloop.learning.fit import Fit, Hear, Point, Stage, checkpoint_words
from twinloop.learning.require import require_same_interface, require_same_scale, require_trainable
from twinloop.learning.samples import Role, Samples, joined
from twinloop.learning.sources import make_samples, require_styles
from twinloop.learning.tracking import tracked
from twinloop.policies.interface import Interface, Normalisation, fit_normalisation, make_interface
from twinloop.policies.network import PolicyNetwork, torch
from twinloop.policies.policy import WORDS, Policy, TrainingRecord, load_policy
from twinloop.policies.protocol import Execution
from twinloop.policies.shape import Shape, Sight
from twinloop.version import __version__

SCALING_ROWS = 20_000
MOST_THREADS = 1024
UNFINISHED = ".training"
"""Folder in the policy's own that holds the checkpoint until training is done."""


def train(
    sim: str | Path | Dataset | None = None,
    real: str | Path | Dataset | None = None,
    *,
    out: str | Path,
    config: TrainConfig | None = None,
    start: str | Path | None = None,
    photos: str | Path | None = None,
    workspace: str | Path = ".",
    tracking: str | None = None,
    threads: int = 1,
    device: str = AUTO,
    resume: bool = False,
    pause_at: int | None = None,
    hear: Hear = lambda point, steps: None,
    tell: Callable[[str], None] = lambda line: None,
) -> Policy:
    """Train a policy and write it to `out`.

    Which of `sim` and `real` are needed follows from the config's recipe. With `start`, a policy trained before takes
    the place of the simulated half of `pretrain-finetune`. `photos` is a folder of photographs to restyle simulated
    images after, instead of the real data's. `tracking` is an MLflow tracking URI; None logs nowhere.
    `device` is where it computes (see `twinloop.learning.device`); `auto` takes an accelerator when there is one.
    `resume` goes on from the last checkpoint of the same run. `workspace` is where consents are looked up.
    With `pause_at` the first stage stops after so many updates, a multiple of `validate_every`: the policy as it is then
    is given back, and only a checkpoint is written, from which `resume` goes on as if nothing had been.
    `hear` gets every validation; `tell` what a person should know before the first.
    """
    config = config or TrainConfig()
    folder = Path(out)
    _require_sense(folder, config, pause_at, threads)
    where = find_device(device)
    require_styles(config, real, photos, start)
    sources = _open(sim, real, config, start, Path(workspace))
    started = load_policy(start) if start is not None else None
    interface = started.interface if started else _interface(sources, config)
    if started is not None:
        config = _like(config, started)
    sight = _sight(interface, config)
    for dataset in sources.values():
        require_same_interface(dataset, interface, config.image_side)
    for line in (*_doubts(sources, interface), *_chores(sources, interface, config)):
        tell(line)
    with _enough_memory(config, where):
        samples = make_samples(sources, interface, config, photos)
        normalisation = started.normalisation if started else _scaling(samples, interface, config)
    for found in samples.values():
        require_same_scale(found, normalisation, interface)
    run = _run_words(config, samples, photos, started)
    checkpoint = _prepare(folder, run, resume)
    torch.set_num_threads(threads)
    torch.manual_seed(config.seed)
    began = time.monotonic()
    context = tracked(tracking, folder.name, run) if tracking else nullcontext(None)
    with _begun(checkpoint), _enough_memory(config, where), context as log:
        network = _network(interface, sight, normalisation, config, started).to(where)
        curve = _go(network, _stages(samples, config, started), config, checkpoint, hear, log, pause_at)
        network.to("cpu")
        learned = [role for role, source in samples.items() if source.imitated]
        domains = tuple(dict.fromkeys((*(started.domains if started else ()), *learned)))
        execution = Execution(
            config.history, config.n_action_steps, config.inference_delay_steps, blend=config.blend
        )
        datasets = (
            *(started.training_record.datasets if started else ()),
            *(_entry(s) for s in samples.values()),
        )
        twin = (
            started.training_record.twin
            if started and started.training_record.twin["name"]
            else _twin_of(sources.values())
        )
        spent = {"seconds": round(time.monotonic() - began, 1), "device": describe_device(where)}
        training_record = _story(folder, config, datasets, twin, curve, spent, photos)
        policy = Policy(network, interface, normalisation, execution, domains, training_record)
        if pause_at is not None and curve[-1].step == pause_at:
            return policy
        policy.save(folder)
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        if log is not None:
            log.finish(policy, folder)
    return policy


def _require_sense(folder: Path, config: TrainConfig, pause_at: int | None, threads: int) -> None:
    """Refuse words that no data could make right."""
    if pause_at is not None and (pause_at < 1 or pause_at % config.validate_every):
        raise WrongUse(
            "training pauses where it validates",
            got=pause_at,
            expected=f"a multiple of {config.validate_every}",
        )
    if not 1 <= threads <= MOST_THREADS:
        raise WrongUse("training needs a thread, or a few", got=threads, expected=f"1 to {MOST_THREADS}")
    if folder.exists() and not folder.is_dir():
        raise WrongUse("a policy is a folder", got=f"the file {folder}", remedy="choose another --out")
    if (folder / WORDS).exists():
        raise LearnError(f"{folder} holds a policy already", remedy="choose another folder")


def _story(
    folder: Path,
    config: TrainConfig,
    datasets: tuple[Mapping[str, Any], ...],
    twin: Mapping[str, str | None],
    curve: Sequence[Point],
    spent: Mapping[str, Any],
    photos: str | Path | None,
) -> TrainingRecord:
    """How the policy came to be."""
    results = {
        "curve": [asdict(point) for point in curve],
        "validation": min((p.validation for p in curve if p.stage == curve[-1].stage), default=None),
        **spent,
        **({"photos": Path(photos).name} if photos else {}),
    }
    return TrainingRecord(
        name=folder.resolve().name,
        recipe=config.recipe,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        datasets=datasets,
        twin=twin,
        config=asdict(config),
        results=results,
        software={
            "twinloop": __version__,
            "torch": version("torch"),
            "python": platform.python_version(),
        },
    )


def _open(sim: Any, real: Any, config: TrainConfig, start: Any, workspace: Path) -> dict[Role, Dataset]:
    """The datasets that the recipe uses, by role; each may be trained on."""
    given: dict[Role, Any] = {"sim": sim, "real": real}
    needed = [role for role in config.needs if not (role == "sim" and start is not None)]
    if start is not None and config.recipe != "pretrain-finetune":
        raise WrongUse(
            "a policy to start from is for fine-tuning", got=config.recipe, expected="pretrain-finetune"
        )
    for role, what in given.items():
        if role in needed and what is None:
            raise WrongUse(f"the recipe {config.recipe} needs {role} data", remedy=f"--{role} DATASET")
        if role == "real" and config.looks_at_reality and what is not None:
            needed = list(dict.fromkeys((*needed, role)))
        if role not in needed and what is not None:
            raise WrongUse(
                f"the recipe {config.recipe} has no use for the {role} data", got=str(what),
                remedy=f"leave out --{role}, or choose another --recipe",
            )  # fmt: skip
    sources = {
        role: what if isinstance(what, Dataset) else open_dataset(what)
        for role, what in given.items()
        if role in needed
    }
    if len(sources) == 2:
        refuse_swapped_sources(sources["real"], sources["sim"])
        if sources["real"].root.resolve() == sources["sim"].root.resolve():
            raise WrongUse("one dataset is given as simulated and as real", got=str(sources["sim"].root))
    for dataset in sources.values():
        require_trainable(dataset, workspace)
    return sources


def _doubts(sources: dict[Role, Dataset], interface: Interface) -> Iterator[str]:
    """Datasets that may be on the wrong side, and images that are seen in part."""
    for role, dataset in sources.items():
        found = list_sources(dataset)
        if role == "real" and found == {"sim"}:
            yield f"--real {dataset.root} is simulated throughout; it counts as real all the same"
        if role == "sim" and found and "sim" not in found:
            yield f"--sim {dataset.root} was recorded on a robot; it counts as simulated all the same"
        for camera in interface.cameras:
            theirs = dataset.schema.camera(camera.name)
            height, width = crop_size((theirs.height, theirs.width), (camera.height, camera.width))
            if (height, width) != (theirs.height, theirs.width):
                yield (
                    f"{dataset.root}: {camera.name} gives {theirs.width} x {theirs.height}, the policy sees images shaped "
                    f"like {camera.width} x {camera.height}: of these the {width} x {height} in the middle"
                )


def _chores(sources: dict[Role, Dataset], interface: Interface, config: TrainConfig) -> Iterator[str]:
    """What takes a while before training begins."""
    for dataset in sources.values():
        for camera in interface.cameras:
            if not has_cached_frames(dataset, camera.name, config.image_side, (camera.height, camera.width)):
                yield f"{dataset.root}: decoding {dataset.num_frames} images of {camera.name}, this once"


def _interface(sources: dict[Role, Dataset], config: TrainConfig) -> Interface:
    """What all sources can show: observations that one of them lacks are not used."""
    shown = [{s.name for s in dataset.schema.signals} for dataset in sources.values()]
    names = [name for name in config.signals if all(name in known for known in shown)]
    for name in config.observations:
        if name not in names:
            raise UnknownName("observation", name, sorted(set.intersection(*shown)))
    first = next(iter(sources.values()))
    return make_interface(first.schema, names or config.signals, str(first.root), config.cameras)


def _like(config: TrainConfig, started: Policy) -> TrainConfig:
    """The config with the shape of the policy that is fine-tuned."""
    shape, used = started.network.shape, started.execution
    cameras = tuple(camera.name for camera in started.interface.cameras)
    if config.cameras not in ((), cameras):
        raise WrongUse(
            f"policy {started.name} looks through other cameras",
            got=", ".join(config.cameras),
            expected=", ".join(cameras) or "none",
        )
    for name in ("chunk", "width", "depth", "head"):
        asked, mine = getattr(config, name), getattr(shape, name)
        if asked not in (mine, getattr(TrainConfig, name)):
            raise WrongUse(f"policy {started.name} has another {name}", got=asked, expected=mine)
    if shape.adapter_rank and config.adapter_rank not in (shape.adapter_rank, TrainConfig.adapter_rank):
        raise WrongUse(
            f"policy {started.name} has an adapter already",
            got=f"rank {config.adapter_rank}",
            expected=shape.adapter_rank,
        )
    kept = {
        name: getattr(used, name)
        for name in ("n_action_steps", "inference_delay_steps", "blend")
        if getattr(config, name) == getattr(TrainConfig, name)
    }
    return replace(
        config,
        history=used.history,
        chunk=shape.chunk,
        width=shape.width,
        depth=shape.depth,
        head=shape.head,
        adapter_rank=shape.adapter_rank or config.adapter_rank,
        cameras=cameras,
        image_side=shape.sight.side if shape.sight else config.image_side,
        image_features=shape.sight.features if shape.sight else config.image_features,
        **kept,
    )


def _scaling(samples: dict[Role, Samples], interface: Interface, config: TrainConfig) -> Normalisation:
    """Fitted to what training begins with: all of `co-train`'s data, else the simulated or the only source."""
    first = list(samples.values()) if config.recipe == "co-train" else list(samples.values())[:1]
    rng = np.random.default_rng((config.seed, 23))
    batches = []
    for source in first:
        count = min(len(source.training), SCALING_ROWS)
        batches.append(source.take(np.sort(rng.choice(source.training, count, replace=False)), look=False))
    batch = joined(batches)
    with np.errstate(over="ignore", invalid="ignore"):
        made = fit_normalisation(interface, batch.observation[:, -1], batch.actions, batch.valid > 0)
    if not all(np.isfinite(values).all() for values in vars(made).values()):
        raise LearnError(
            "the data holds numbers too large to learn from",
            got=f"up to {max(float(np.abs(values).max()) for values in (batch.observation, batch.actions)):.2g}",
            remedy="find them: twinloop check DATASET",
        )
    return made


def _network(
    interface: Interface,
    sight: Sight | None,
    normalisation: Normalisation,
    config: TrainConfig,
    started: Policy | None,
) -> PolicyNetwork:
    adapts = config.recipe == "pretrain-finetune" and config.finetune == "adapter"
    rank = config.adapter_rank if adapts else started.network.shape.adapter_rank if started else 0
    shape = Shape(
        interface.observation_size,
        len(config.history),
        interface.action.size,
        config.chunk,
        config.width,
        config.depth,
        config.head,
        config.flow_steps,
        rank,
        sight,
    )
    network = PolicyNetwork(shape, normalisation)
    if started is not None:
        found = network.load_state_dict(started.network.state_dict(), strict=False)
        assert not found.unexpected_keys and all(".adapter." in key for key in found.missing_keys)
    return network


def _sight(interface: Interface, config: TrainConfig) -> Sight | None:
    if not interface.cameras:
        return None
    first = interface.cameras[0]
    if min(first.height, first.width) < config.image_side:
        raise WrongUse(
            f"images of {first.name} are smaller than image_side",
            got=f"{first.width} x {first.height}",
            remedy=f"--set image_side={min(first.height, first.width)}",
        )
    return Sight(len(interface.cameras), first.height, first.width, config.image_side, config.image_features)


def _stages(samples: dict[Role, Samples], config: TrainConfig, started: Policy | None) -> list[Stage]:
    like = samples["real"] if config.adapt != "none" else None
    if config.recipe == "co-train":
        both = (samples["sim"], samples["real"])
        weights = (config.mix, 1.0 - config.mix)
        return [
            Stage("co-train", both, weights, samples["real"], config.steps, config.learning_rate, like=like)
        ]
    if config.recipe != "pretrain-finetune":
        only = next(iter(samples.values()))
        return [Stage(only.role, (only,), (1.0,), only, config.steps, config.learning_rate, like=like)]
    stages = []
    if started is None:
        sim = samples["sim"]
        stages.append(Stage("pretrain", (sim,), (1.0,), sim, config.steps, config.learning_rate, like=like))
    real = samples["real"]
    stages.append(
        Stage("finetune", (real,), (1.0,), real, config.finetune_steps, config.finetune_rate, config.finetune)
    )
    return stages


def _go(
    network: PolicyNetwork,
    stages: Sequence[Stage],
    config: TrainConfig,
    checkpoint: Path,
    hear: Hear,
    log: Any,
    pause_at: int | None,
) -> list[Point]:
    """Every stage in turn, from the checkpoint where there is one; none after one that paused."""
    reached = int(checkpoint_words(checkpoint)["stage"]) if checkpoint.exists() else 0
    deadline = time.monotonic() + config.minutes * 60 if config.minutes else math.inf
    curve: list[Point] = []
    done = checkpoint.with_name("curve.json")
    if reached:
        curve = [Point(**point) for point in json.loads(done.read_text())]

    def told(point: Point, steps: int) -> None:
        if log is not None:
            log.point(point)
        hear(point, steps)

    for number, stage in enumerate(stages):
        if number < reached:
            continue
        fit = Fit(network, stage, config, number)
        if number == reached and checkpoint.exists():
            fit.load(checkpoint)
        left = (deadline - time.monotonic()) / (len(stages) - number)
        fit.run(told, checkpoint, left, pause_at)
        curve += fit.curve
        if pause_at == fit.step:
            return curve
        if number + 1 < len(stages):
            write_atomically(done, json.dumps([asdict(point) for point in curve]).encode())
    return curve


def _run_words(
    config: TrainConfig, samples: dict[Role, Samples], photos: str | Path | None, started: Policy | None
) -> dict[str, Any]:
    """What makes a run the same run."""
    return {
        "config": json.loads(json.dumps(asdict(config))),
        "datasets": [{k: v for k, v in _entry(s).items() if k != "episodes"} for s in samples.values()],
        "start": started.id if started else None,
        **({"photos": str(photos)} if photos else {}),
        "twinloop": __version__,
    }


def _prepare(folder: Path, run: dict[str, Any], resume: bool) -> Path:
    """The place of the checkpoint; refuses to overwrite another run or to resume a different one."""
    place = folder / UNFINISHED
    words = place / "run.json"
    if words.exists():
        if not resume:
            with _held(place):  # while somebody is at it, nobody should be told to delete it
                pass
            raise LearnError(
                f"{folder} holds an unfinished training", remedy="go on with --resume, or delete it"
            )
        before = json.loads(words.read_text())
        if before != run:
            changed = [k for k in run["config"] if before["config"].get(k) != run["config"][k]]
            raise LearnError(
                f"cannot resume {folder}: it was another run",
                got=", ".join(changed) or "other data",
                remedy="use the same data and options as before, or another folder",
            )
        return place / "checkpoint.safetensors"
    if folder.exists() and any(folder.iterdir()):
        raise LearnError(f"{folder} exists and is not empty", remedy="choose another folder")
    write_atomically(words, (json.dumps(run, indent=1) + "\n").encode())
    return place / "checkpoint.safetensors"


@contextmanager
def _begun(checkpoint: Path) -> Iterator[None]:
    """One training at a time; one that fails before its first checkpoint leaves nothing behind that would stand in the way."""
    place = checkpoint.parent
    with _held(place):
        try:
            yield
        except Exception:
            if not checkpoint.exists():
                shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    place.parent.rmdir()
            raise


def _held(place: Path) -> AbstractContextManager[None]:
    """The lock of a training."""

    def busy(holder: str) -> LearnError:
        return LearnError(
            f"{place.parent} is being trained by {holder}", remedy="wait for it, or choose another folder"
        )

    return hold_lock(place, "lock", busy)


@contextmanager
def _enough_memory(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """A network or batch that does not fit is no bug."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not re.search("out of memory|allocate", str(error)):
            raise
        raise LearnError(
            f"{describe_device(device)} has too little memory for this training",
            got=f"width {config.width}, chunk {config.chunk}, batch {config.batch}",
            remedy="make these smaller: --set batch=64"
            + ("" if device.type == "cpu" else ", or take the processor: --device cpu"),
        ) from error


def _entry(samples: Samples) -> dict[str, Any]:
    dataset = samples.dataset
    return {
        "id": dataset.id,
        "version": dataset.manifest.fingerprint if dataset.manifest else None,
        "role": samples.role,
        "name": dataset.root.resolve().name,
        "used": len(samples.places),
        "idle_fraction": round(float(samples.idle.mean()), 4),
    } | ({"episodes": samples.episodes} if samples.role == "real" and samples.episodes else {})


def _twin_of(datasets: Any) -> dict[str, str | None]:
    """The twin that the first dataset which knows one was made with."""
    for dataset in datasets:
        side = dataset.provenance_table()
        if side is not None and len(side):
            row = side.select(["twin", "twin_version", "twin_hash"]).slice(0, 1).to_pylist()[0]
            if row["twin"]:
                return {"name": row["twin"], "version": row["twin_version"], "hash": row["twin_hash"]}
    return {"name": None, "version": None, "hash": None}
