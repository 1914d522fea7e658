"""Train a policy by a recipe: check the data, fit the scaling, run the recipe's stages, keep the weights that validated best."""

from __future__ import annotations

import json
import math
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from twinloop.learning.fit import Fit, OnValidation, Point, Stage, read_checkpoint_state
from twinloop.learning.require import require_same_interface, require_same_scale, require_trainable
from twinloop.learning.samples import Role, Samples, concatenate
from twinloop.learning.sources import make_samples, require_styles
from twinloop.learning.tracking import TrackedRun, tracked
from twinloop.policies.interface import Interface, Normalisation, fit_normalisation, make_interface
from twinloop.policies.networks.network import PolicyNetwork, torch
from twinloop.policies.networks.policy import METADATA, Policy, TrainingRecord, load_policy
from twinloop.policies.networks.shape import ImageShape, Shape
from twinloop.policies.protocol import Execution
from twinloop.version import __version__

SCALING_ROWS = 20_000
MAX_THREADS = 1024
UNFINISHED = ".training"
"""Folder inside the policy's that holds the checkpoint until training is done."""


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
    on_validation: OnValidation = lambda point, steps: None,
    log: Callable[[str], None] = lambda line: None,
) -> Policy:
    """Train a policy by imitation and write it to `out`.

    The same data, config and version give the same weights on a processor, also when training was stopped and resumed.

    Args:
        sim: Simulated dataset; the config's recipe says which of `sim` and `real` it needs.
        real: Real dataset.
        out: Folder of the new policy.
        config: Every choice of the training; default: `TrainConfig()`.
        start: Policy to fine-tune, in place of the simulated half of `pretrain-finetune`.
        photos: Folder of photographs to restyle simulated images after, instead of the real data's images.
        workspace: Where consents are looked up.
        tracking: MLflow tracking URI; default: the run is not logged.
        threads: Processor threads.
        device: `auto` (an accelerator when there is one), `cpu`, `cuda`, ...
        resume: Continue from the last checkpoint of the same run.
        pause_at: Stop the first stage after so many updates, a multiple of `validate_every`. Only a checkpoint is written, from
            which `resume` continues as if there had been no pause.
        on_validation: Called with each point of the learning curve and the steps of its stage.
        log: Called with notes before training begins.

    Returns:
        The trained policy, or the policy so far where training paused.

    Raises:
        LearnError: The data cannot be trained on, does not fit the policy to start from, or `out` holds something else.
        WrongUse: The recipe lacks a dataset, or arguments contradict each other.
    """
    config, folder = config or TrainConfig(), Path(out)
    _check_arguments(folder, config, pause_at, threads)
    torch_device = find_device(device)
    require_styles(config, real, photos, start)
    sources = _open_datasets(sim, real, config, start, Path(workspace))
    started = load_policy(start) if start is not None else None
    if started is not None:
        config = _match_config(config, started)
    interface = started.interface if started else _make_interface(sources, config)
    images = _image_shape(interface, config)
    for dataset in sources.values():
        require_same_interface(dataset, interface, config.image_side)
    for note in _list_notes(sources, interface, config):
        log(note)
    with _memory_errors(config, torch_device):
        samples = make_samples(sources, interface, config, photos)
        normalisation = started.normalisation if started else _fit_scaling(samples, interface, config)
    for source in samples.values():
        require_same_scale(source, normalisation, interface)
    run = _describe_run(config, samples, photos, started)
    torch.set_num_threads(threads)
    torch.manual_seed(config.seed)
    began = time.monotonic()
    tracking_run: AbstractContextManager[TrackedRun | None] = (
        tracked(tracking, folder.name, run) if tracking else nullcontext()
    )
    with (
        _training_folder(folder, run, resume) as checkpoint,
        _memory_errors(config, torch_device),
        tracking_run as tracker,
    ):
        network = _make_network(interface, images, normalisation, config, started).to(torch_device)
        stages = _list_stages(samples, config, started)
        curve = _run_stages(network, stages, config, checkpoint, on_validation, tracker, pause_at)
        spent = {"seconds": round(time.monotonic() - began, 1), "device": describe_device(torch_device)}
        record = _make_record(folder, config, samples, started, curve, photos, spent)
        execution = Execution(
            config.history, config.n_action_steps, config.inference_delay_steps, blend=config.blend
        )
        imitated = [role for role, source in samples.items() if source.imitated]
        domains = tuple(dict.fromkeys((*(started.domains if started else ()), *imitated)))
        policy = Policy(network.to("cpu"), interface, normalisation, execution, domains, record)
        if pause_at is not None and curve[-1].step == pause_at:
            return policy
        policy.save(folder)
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        if tracker is not None:
            tracker.finish(policy, folder)
    return policy


def _check_arguments(folder: Path, config: TrainConfig, pause_at: int | None, threads: int) -> None:
    if pause_at is not None and (pause_at < 1 or pause_at % config.validate_every):
        raise WrongUse(
            "training pauses where it validates",
            got=pause_at,
            expected=f"a multiple of {config.validate_every}",
        )
    if not 1 <= threads <= MAX_THREADS:
        raise WrongUse("training needs a thread, or a few", got=threads, expected=f"1 to {MAX_THREADS}")
    if folder.exists() and not folder.is_dir():
        raise WrongUse("a policy is a folder", got=f"the file {folder}", remedy="choose another --out")
    if (folder / METADATA).exists():
        shutil.rmtree(
            folder / UNFINISHED, ignore_errors=True
        )  # a crash may leave it beside the finished policy
        raise LearnError(f"{folder} holds a policy already", remedy="choose another folder")


def _make_record(
    folder: Path,
    config: TrainConfig,
    samples: dict[Role, Samples],
    started: Policy | None,
    curve: Sequence[Point],
    photos: str | Path | None,
    spent: Mapping[str, Any],
) -> TrainingRecord:
    """The training record; a fine-tuned policy keeps the datasets and the twin of the policy it started from."""
    before = started.training_record if started else None
    datasets = tuple(_describe_source(source) for source in samples.values())
    last = [point.validation for point in curve if point.stage == curve[-1].stage]
    return TrainingRecord(
        name=folder.resolve().name,
        recipe=config.recipe,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        datasets=(*before.datasets, *datasets) if before else datasets,
        twin=before.twin if before and before.twin["name"] else _find_twin(samples.values()),
        config=asdict(config),
        results={
            "curve": [asdict(point) for point in curve],
            "validation": min(last, default=None),
            **spent,
            **({"photos": Path(photos).name} if photos else {}),
        },
        software={
            "twinloop": __version__,
            "torch": version("torch"),
            "python": platform.python_version(),
        },
    )


def _open_datasets(
    sim: Any, real: Any, config: TrainConfig, start: Any, workspace: Path
) -> dict[Role, Dataset]:
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


def _list_notes(sources: dict[Role, Dataset], interface: Interface, config: TrainConfig) -> Iterator[str]:
    """Datasets that may be on the wrong side, images of which a part is used, and images that are decoded first."""
    for role, dataset in sources.items():
        found = list_sources(dataset)
        if role == "real" and found == {"sim"}:
            yield f"--real {dataset.place} is simulated throughout; it counts as real all the same"
        if role == "sim" and found and "sim" not in found:
            yield f"--sim {dataset.place} was recorded on a robot; it counts as simulated all the same"
        for camera in interface.cameras:
            theirs = dataset.schema.camera(camera.name)
            height, width = crop_size((theirs.height, theirs.width), (camera.height, camera.width))
            if (height, width) != (theirs.height, theirs.width):
                yield (
                    f"{dataset.place}: {camera.name} gives {theirs.width} x {theirs.height}, the policy sees images shaped "
                    f"like {camera.width} x {camera.height}: of these the {width} x {height} in the middle"
                )
            if not has_cached_frames(dataset, camera.name, config.image_side, (camera.height, camera.width)):
                yield f"{dataset.place}: decoding {dataset.num_frames} images of {camera.name}, this once"


def _make_interface(sources: dict[Role, Dataset], config: TrainConfig) -> Interface:
    """Signals that all sources have; observations that one of them lacks are not used."""
    known = [{s.name for s in dataset.schema.signals} for dataset in sources.values()]
    names = [name for name in config.signals if all(name in one for one in known)]
    for name in config.observations:
        if name not in names:
            raise UnknownName("observation", name, sorted(set.intersection(*known)))
    first = next(iter(sources.values()))
    return make_interface(first.schema, names or config.signals, str(first.root), config.cameras)


def _match_config(config: TrainConfig, started: Policy) -> TrainConfig:
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
        image_side=shape.images.side if shape.images else config.image_side,
        image_features=shape.images.features if shape.images else config.image_features,
        **kept,
    )


def _fit_scaling(samples: dict[Role, Samples], interface: Interface, config: TrainConfig) -> Normalisation:
    """Fitted to what training begins with: all of `co-train`'s data, else the simulated or the only source."""
    first = list(samples.values()) if config.recipe == "co-train" else list(samples.values())[:1]
    rng = np.random.default_rng((config.seed, 23))
    batches = []
    for source in first:
        count = min(len(source.training), SCALING_ROWS)
        batches.append(
            source.take(np.sort(rng.choice(source.training, count, replace=False)), with_images=False)
        )
    batch = concatenate(batches)
    with np.errstate(over="ignore", invalid="ignore"):
        made = fit_normalisation(interface, batch.observation[:, -1], batch.actions, batch.valid > 0)
    if not all(np.isfinite(values).all() for values in vars(made).values()):
        raise LearnError(
            "the data holds numbers too large to learn from",
            got=f"up to {max(float(np.abs(values).max()) for values in (batch.observation, batch.actions)):.2g}",
            remedy="find them: twinloop check DATASET",
        )
    return made


def _make_network(
    interface: Interface,
    images: ImageShape | None,
    normalisation: Normalisation,
    config: TrainConfig,
    started: Policy | None,
) -> PolicyNetwork:
    adapts = config.recipe == "pretrain-finetune" and config.finetune == "adapter"
    shape = Shape(
        observation=interface.observation_size,
        history=len(config.history),
        action=interface.action.size,
        chunk=config.chunk,
        width=config.width,
        depth=config.depth,
        head=config.head,
        flow_steps=config.flow_steps,
        adapter_rank=config.adapter_rank if adapts else started.network.shape.adapter_rank if started else 0,
        images=images,
    )
    network = PolicyNetwork(shape, normalisation)
    if started is not None:
        found = network.load_state_dict(started.network.state_dict(), strict=False)
        assert not found.unexpected_keys and all(".adapter." in key for key in found.missing_keys)
    return network


def _image_shape(interface: Interface, config: TrainConfig) -> ImageShape | None:
    if not interface.cameras:
        return None
    first = interface.cameras[0]
    if min(first.height, first.width) < config.image_side:
        raise WrongUse(
            f"images of {first.name} are smaller than image_side",
            got=f"{first.width} x {first.height}",
            remedy=f"--set image_side={min(first.height, first.width)}",
        )
    count = len(interface.cameras)
    return ImageShape(count, first.height, first.width, config.image_side, config.image_features)


def _list_stages(samples: dict[Role, Samples], config: TrainConfig, started: Policy | None) -> list[Stage]:
    """The stages of the recipe, in order."""
    like = samples["real"] if config.adapt != "none" else None

    def learn(name: str, *sources: Samples, weights: tuple[float, ...] = (1.0,)) -> Stage:
        return Stage(name, sources, weights, sources[-1], config.steps, config.learning_rate, like=like)

    if config.recipe == "co-train":
        return [learn("co-train", samples["sim"], samples["real"], weights=(config.mix, 1.0 - config.mix))]
    if config.recipe != "pretrain-finetune":
        only = next(iter(samples.values()))
        return [learn(only.role, only)]
    real = (samples["real"],)
    finetune = Stage(
        "finetune", real, (1.0,), real[0], config.finetune_steps, config.finetune_rate, config.finetune
    )
    return [finetune] if started else [learn("pretrain", samples["sim"]), finetune]


def _run_stages(
    network: PolicyNetwork,
    stages: Sequence[Stage],
    config: TrainConfig,
    checkpoint: Path,
    on_validation: OnValidation,
    tracker: TrackedRun | None,
    pause_at: int | None,
) -> list[Point]:
    """Run every stage in turn, from the checkpoint where there is one; none after one that paused."""
    reached = int(read_checkpoint_state(checkpoint)["stage"]) if checkpoint.exists() else 0
    deadline = time.monotonic() + config.minutes * 60 if config.minutes else math.inf
    finished = checkpoint.with_name("curve.json")
    curve = [Point(**point) for point in json.loads(finished.read_text())] if reached else []

    def on_point(point: Point, steps: int) -> None:
        if tracker is not None:
            tracker.point(point)
        on_validation(point, steps)

    for number, stage in enumerate(stages[reached:], start=reached):
        fit = Fit(network, stage, config, number)
        if number == reached and checkpoint.exists():
            fit.load(checkpoint)
        seconds_left = (deadline - time.monotonic()) / (len(stages) - number)
        fit.run(on_point, checkpoint, seconds_left, pause_at)
        curve += fit.curve
        if pause_at == fit.step:
            return curve
        if number + 1 < len(stages):
            write_atomically(finished, json.dumps([asdict(point) for point in curve]).encode())
    return curve


def _describe_run(
    config: TrainConfig, samples: dict[Role, Samples], photos: str | Path | None, started: Policy | None
) -> dict[str, Any]:
    """What makes a run the same run."""
    sources = [_describe_source(source) for source in samples.values()]
    return {
        "config": json.loads(json.dumps(asdict(config))),
        "datasets": [{k: v for k, v in source.items() if k != "episodes"} for source in sources],
        "start": started.id if started else None,
        **({"photos": str(photos)} if photos else {}),
        "twinloop": __version__,
    }


@contextmanager
def _training_folder(folder: Path, run: dict[str, Any], resume: bool) -> Iterator[Path]:
    """The place of the checkpoint, locked; refuses to overwrite another run or to resume a different one.

    A training that fails before its first checkpoint leaves nothing behind.
    """
    unfinished = folder / UNFINISHED
    description, checkpoint = unfinished / "run.json", unfinished / "checkpoint.safetensors"
    if not description.exists():
        if folder.exists() and any(folder.iterdir()):
            raise LearnError(f"{folder} exists and is not empty", remedy="choose another folder")
        write_atomically(description, (json.dumps(run, indent=1) + "\n").encode())
    elif not resume:
        with _lock(unfinished):  # a training that is running must not be reported as one to delete
            pass
        raise LearnError(f"{folder} holds an unfinished training", remedy="go on with --resume, or delete it")
    elif (before := json.loads(description.read_text())) != run:
        changed = [k for k in run["config"] if before["config"].get(k) != run["config"][k]]
        raise LearnError(
            f"cannot resume {folder}: it was another run",
            got=", ".join(changed) or "other data",
            remedy="use the same data and options as before, or another folder",
        )
    with _lock(unfinished):
        try:
            yield checkpoint
        except Exception:
            if not checkpoint.exists():
                shutil.rmtree(unfinished, ignore_errors=True)
                with suppress(OSError):
                    folder.rmdir()
            raise


def _lock(unfinished: Path) -> AbstractContextManager[None]:
    def busy(holder: str) -> LearnError:
        return LearnError(
            f"{unfinished.parent} is being trained by {holder}",
            remedy="wait for it, or choose another folder",
        )

    return hold_lock(unfinished, "lock", busy)


@contextmanager
def _memory_errors(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Report a network or batch that does not fit into memory as an error of the user."""
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


def _describe_source(samples: Samples) -> dict[str, Any]:
    dataset = samples.dataset
    return {
        "id": dataset.id,
        "version": dataset.manifest.fingerprint if dataset.manifest else None,
        "role": samples.role,
        "name": dataset.root.resolve().name,
        "used": len(samples.places),
        "idle_fraction": round(float(samples.idle.mean()), 4),
    } | ({"episodes": samples.episodes} if samples.role == "real" and samples.episodes else {})


def _find_twin(sources: Iterable[Samples]) -> dict[str, str | None]:
    """The twin of the first dataset that names the twin it was made with."""
    for source in sources:
        side = source.dataset.provenance_table()
        if side is not None and len(side):
            row = side.select(["twin", "twin_version", "twin_hash"]).slice(0, 1).to_pylist()[0]
            if row["twin"]:
                return {"name": row["twin"], "version": row["twin_version"], "hash": row["twin_hash"]}
    return {"name": None, "version": None, "hash": None}
