"""A policy as plain files: `policy.json` describes it, `weights.safetensors` holds its weights."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from twinloop.datasets.commit import write_atomically
from twinloop.datasets.images import crop, downsample
from twinloop.episode import Array
from twinloop.errors import LearnError, MissingExtra, NewerFormat, WrongUse
from twinloop.policies.interface import Interface, Normalisation, normalisation_from_json
from twinloop.policies.networks.network import PolicyNetwork, one_thread, torch
from twinloop.policies.networks.shape import Shape
from twinloop.policies.protocol import Execution
from twinloop.version import __version__

try:
    import safetensors.torch as tensor_files
    from safetensors import SafetensorError
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtra("policies", "safetensors", "learn") from error


FORMAT = 1
METADATA = "policy.json"
WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class TrainingRecord:
    """Where a policy comes from: the datasets it saw, the twin they were made with, how it was trained.

    An entry of `datasets` has id, version, role and name, and for real data the ids of the episodes that were used, so
    that a withdrawn consent finds every policy it concerns.
    """

    name: str
    recipe: str
    created_at: str
    datasets: tuple[Mapping[str, Any], ...]
    twin: Mapping[str, str | None]
    config: Mapping[str, Any]
    results: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)


class Policy:
    """A trained network with its interface and execution: the `PolicyLike` that `train` makes.

    Its files and everything that `id` follows from never change; `predict` is a pure function. An episode's state is only the
    source of noise of heads that sample, which `reset` seeds.
    """

    concurrent = True
    """Threads may use it at the same time, each for rows of its own."""

    def __init__(
        self,
        network: PolicyNetwork,
        interface: Interface,
        normalisation: Normalisation,
        execution: Execution,
        domains: tuple[str, ...],
        training_record: TrainingRecord,
    ) -> None:
        self.network = network.eval()
        self.interface = interface
        self.normalisation = normalisation
        self.execution = execution
        self.domains = domains
        self.training_record = training_record
        self._rngs: dict[int, np.random.Generator] = {}
        self._real = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.training_record.name

    @property
    def stateless(self) -> bool:
        """Chunks depend on the observation alone: nothing is kept between calls."""
        return self.network.shape.head != "flow"

    @property
    def chunk(self) -> int:
        """Actions predicted at once."""
        return self.network.shape.chunk

    @property
    def content_hash(self) -> str:
        """The policy's id."""
        return self.id

    @property
    def id(self) -> str:
        """64 bits that follow from the weights and from how they are used."""
        digest = hashlib.blake2b(digest_size=8)
        execution = asdict(self.execution)
        for added in (
            "latency_steps",
            "blend",
        ):  # added later: without them, a policy keeps the id it had before
            if not execution[added]:
                del execution[added]
        used = {
            "interface": self.interface.as_json(),
            "normalisation": self.normalisation.as_json(),
            "execution": execution,
            "shape": _shape_json(self.network.shape),
        }
        digest.update(json.dumps(used, sort_keys=True).encode())
        for name, weights in sorted(self.network.state_dict().items()):
            digest.update(name.encode() + weights.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def image_side(self) -> int:
        """Pixels a side of what its network sees of an image; 0 without cameras."""
        images = self.network.shape.images
        return images.side if images else 0

    def images(self, frames: Mapping[str, Array]) -> Array:
        """What `predict` takes, (..., cameras, height, width, 3), from frames (..., height, width, 3) uint8 by camera.

        Of frames of another size than it learned from, the middle with the same proportions, averaged down as in training.
        """
        sizes = {camera.name: (camera.height, camera.width) for camera in self.interface.cameras}
        seen = [frames[name] for name in sizes]
        if any(frame.shape[-3:-1] != size for frame, size in zip(seen, sizes.values(), strict=True)):
            side = self.image_side
            seen = [
                downsample(crop(frame, size), side) for frame, size in zip(seen, sizes.values(), strict=True)
            ]
        return np.stack(seen, axis=-4)

    def for_latency(self, latency_s: float) -> Policy:
        """The same policy, carried out for hardware with this delay from observation to command and back."""
        steps = round(latency_s * self.interface.rate_hz) if math.isfinite(latency_s) else -1
        left = self.chunk - self.execution.n_action_steps - self.execution.inference_delay_steps
        if not 0 <= steps <= left:
            raise WrongUse(
                f"policy {self.name} cannot look ahead that far",
                got=f"{1e3 * latency_s:.0f} ms",
                expected=f"0 to {1e3 * left / self.interface.rate_hz:.0f} ms",
                remedy="train with a longer chunk, or carry out less of it",
            )
        return self._with(execution=replace(self.execution, latency_steps=steps))

    def with_name(self, name: str) -> Policy:
        """Copy the policy under another name."""
        return self._with(training_record=replace(self.training_record, name=name))

    def with_action_steps(self, n_action_steps: int) -> Policy:
        """Copy the policy with another execution horizon: so many actions of each chunk before the next one takes over."""
        own = self.execution
        longest = self.chunk - own.inference_delay_steps - own.latency_steps
        if not own.inference_delay_steps < n_action_steps <= longest:
            raise WrongUse(
                f"policy {self.name} cannot execute so much of a chunk",
                got=n_action_steps,
                expected=f"{own.inference_delay_steps + 1} to {longest} actions",
            )
        return self._with(execution=replace(own, n_action_steps=n_action_steps))

    def with_training_record(self, training_record: TrainingRecord) -> Policy:
        """Copy the policy with another training record."""
        return self._with(training_record=training_record)

    def _with(
        self, *, execution: Execution | None = None, training_record: TrainingRecord | None = None
    ) -> Policy:
        used, training_record = execution or self.execution, training_record or self.training_record
        return Policy(self.network, self.interface, self.normalisation, used, self.domains, training_record)

    def predict(
        self,
        observation: Array,
        images: Array | None = None,
        *,
        real: bool = False,
        noise: Array | None = None,
    ) -> Array:
        """Chunks of commands (N, chunk, A) for histories of observations (N, H, D), and the newest images
        (N, cameras, height, width, 3) uint8 of a policy that has cameras.

        `real` says that a robot is observed, not a simulation; it has an effect only where training distinguished the two.
        Without noise (N, chunk, A), heads that sample give the chunk of zero noise.
        """
        count, shape = len(observation), self.network.shape
        if (images is None) == bool(self.interface.cameras):
            raise WrongUse(
                f"policy {self.name} {'sees images' if images is None else 'sees no images'}",
                expected=", ".join(camera.name for camera in self.interface.cameras) or "observations alone",
            )
        if images is not None:
            self._require_size(images)
        with torch.inference_mode(), one_thread():
            made = self.network(
                torch.from_numpy(np.ascontiguousarray(observation, np.float32)),
                torch.full((count, 1), float(real and "real" in self.domains)),
                torch.zeros(count, shape.chunk, shape.action)
                if noise is None
                else torch.from_numpy(np.ascontiguousarray(noise, np.float32)),
                None if images is None else torch.from_numpy(np.ascontiguousarray(images)),
            )
        return np.asarray(made.numpy())

    def reset(self, seed: int = 0, *, real: bool = False) -> None:
        """Begin an episode; `real` says that a robot is observed, not a simulation."""
        self.reset_batch(np.array([0]), np.array([seed]), real=real)

    def infer(self, observation: Mapping[str, Array]) -> Array:
        """Predict a chunk (chunk, A) from signals (H, size), or (size,) without history, and frames by camera."""
        signals = {signal.name: len(self.execution.history) for signal in self.interface.observations}
        batch = {
            name: np.reshape(values, (1, signals[name], -1)) if name in signals else np.asarray(values)[None]
            for name, values in observation.items()
        }
        return np.asarray(self.infer_batch(batch, np.array([0]))[0])

    def reset_batch(self, rows: Array, seeds: Array, *, real: bool) -> None:
        """Begin episodes in `rows`; noise follows from their seeds."""
        self._real = real
        for row, seed in zip(rows.tolist(), np.asarray(seeds).tolist(), strict=True):
            self._rngs[row] = np.random.default_rng(int(seed))

    def infer_batch(self, observation: Mapping[str, Array], rows: Array) -> Array:
        """Predict chunks (n, chunk, A) from signals (n, H, size) and frames (n, height, width, 3)."""
        noise = None
        if self.network.shape.head == "flow":
            shape = (self.chunk, self.interface.action.size)
            noise = np.stack([self._rngs[row].standard_normal(shape, np.float32) for row in rows.tolist()])
        images = self.images(observation) if self.interface.cameras else None
        return self.predict(self.interface.vector(observation), images, real=self._real, noise=noise)

    def _require_size(self, images: Array) -> None:
        """Refuse images that the encoder cannot take."""
        first, side = self.interface.cameras[0], self.image_side
        sizes = [
            (len(self.interface.cameras), *size, 3) for size in ((first.height, first.width), (side, side))
        ]
        if images.shape[1:] not in sizes:
            raise WrongUse(
                f"policy {self.name} sees other images",
                got=images.shape,
                expected=f"(n, {', '.join(map(str, sizes[0]))})",
                remedy="policy.images(frames) makes them of what cameras give",
            )

    def save(self, folder: str | Path) -> Path:
        """Write the files; `policy.json` comes last, so that a folder that has it is whole."""
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        weights = {name: w.detach().cpu().contiguous() for name, w in self.network.state_dict().items()}
        write_atomically(root / WEIGHTS, tensor_files.save(weights))
        content = {
            "format": FORMAT,
            "id": self.id,
            "twinloop": __version__,
            **_plain(asdict(self.training_record)),
            "interface": self.interface.as_json(),
            "normalisation": self.normalisation.as_json(),
            "network": _shape_json(self.network.shape),
            "execution": asdict(self.execution),
            "domains": list(self.domains),
        }
        content["check"] = _check_sum(content)
        write_atomically(root / METADATA, (json.dumps(content, indent=1) + "\n").encode())
        return root


def load_policy(folder: str | Path) -> Policy:
    """Read a policy; nothing that is read is executed."""
    root = Path(folder)
    if not (root / METADATA).is_file():
        raise WrongUse(f"{root} is no policy", expected=f"a folder with {METADATA}", remedy="twinloop train")
    try:
        content: dict[str, Any] = json.loads((root / METADATA).read_text())
        if "foreign" in content:
            raise WrongUse(
                f"{root} holds the foreign policy {content.get('name')}, not one that Twinloop trained",
                remedy="evaluate, gate, promote and serve take it; training, export and horizons are for our own",
            )
        if content["format"] > FORMAT:
            raise NewerFormat(
                f"{root} was written by a newer Twinloop", remedy="pip install --upgrade twinloop"
            )
        if content.get("check", _check_sum(content)) != _check_sum(content):
            raise LearnError(f"{root / METADATA} was changed since it was written", remedy="train it again")
        known = str(content["id"])
        interface = TypeAdapter(Interface).validate_python(content["interface"])
        normalisation = normalisation_from_json(content["normalisation"])
        shape = TypeAdapter(Shape).validate_python(content["network"])
        execution = TypeAdapter(Execution).validate_python(content["execution"])
        training_record = TypeAdapter(TrainingRecord).validate_python(content)
        _require_keys(training_record)
        domains = tuple(content["domains"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise LearnError(f"{root / METADATA} cannot be read ({reason})", remedy="train it again") from error
    _require_consistent(root, interface, normalisation, shape)
    try:
        network = PolicyNetwork(shape, normalisation)
        network.load_state_dict(tensor_files.load((root / WEIGHTS).read_bytes()))
    except (RuntimeError, TypeError) as error:
        raise LearnError(
            f"{root / WEIGHTS} does not fit the network that {METADATA} describes: one of them was changed, or an earlier "
            "version built that network in another way",
            remedy="train it again",
        ) from error
    except (OSError, ValueError, SafetensorError) as error:
        raise LearnError(f"{root / WEIGHTS} cannot be read ({error})", remedy="train it again") from error
    policy = Policy(network, interface, normalisation, execution, domains, training_record)
    if policy.id != known:
        raise LearnError(f"{root} was changed since it was trained", got=policy.id, expected=known)
    return policy


def _require_consistent(root: Path, interface: Interface, scale: Normalisation, shape: Shape) -> None:
    """Refuse a normalisation or cameras that do not fit the network."""
    sizes = {
        "observation_mean": (interface.observation_size,),
        "observation_scale": (interface.observation_size,),
        "action_mean": (shape.chunk, interface.action.size),
        "action_scale": (shape.chunk, interface.action.size),
        "reading": (interface.action.size,),
    }
    declared = (len(interface.cameras), *((c.height, c.width) for c in interface.cameras[:1]))
    images = shape.images
    expected = (images.cameras, (images.height, images.width)) if images else (0,)
    if declared != expected:
        raise LearnError(f"the cameras of {root} do not fit its network", got=declared, expected=expected)
    for name, size in sizes.items():
        if getattr(scale, name).shape != size:
            raise LearnError(
                f"the normalisation of {root} does not fit it: {name}",
                got=getattr(scale, name).shape,
                expected=size,
                remedy="train it again",
            )


def _require_keys(record: TrainingRecord) -> None:
    """Raise KeyError where a part of the training record lacks a key that others read."""
    parts = [
        ((record.twin,), ("name", "version")),
        (record.datasets, ("id", "role", "name", "used", "version")),
        (record.results.get("curve", ()), ("stage", "step", "validation")),
    ]
    for entries, keys in parts:
        for entry in entries:
            _ = [entry[key] for key in keys]


def _check_sum(content: Mapping[str, Any]) -> str:
    """A hash of all of `policy.json` but itself."""
    rest = {name: part for name, part in content.items() if name != "check"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=8).hexdigest()


def _shape_json(shape: Shape) -> dict[str, Any]:
    """Plain values; without cameras, `images` is left out."""
    values = asdict(shape)
    if shape.images is None:
        del values["images"]
    return values


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
