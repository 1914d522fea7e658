"""The training loop: batches from one or more datasets, averaged weights, validation, checkpoints, early stopping.

What happens at a step follows from the seed, the stage and the step's number alone, so that a run that was stopped and
resumed from a checkpoint ends with the same weights as one that was not.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch as tensor_files

from twinloop.datasets.commit import write_atomically
from twinloop.errors import LearnError
from twinloop.learning.adapt import Alignment, ramp
from twinloop.learning.config import TrainConfig
from twinloop.learning.samples import Batch, Samples, concatenate
from twinloop.policies.networks.network import PolicyNetwork, torch

AVERAGING = 0.995
"""Fraction of the old weights in the running average; the average is what is validated and kept."""

WARM_UP_STEPS = 100
VALIDATION_ROWS = 2048
LARGEST_GRADIENT = 1.0
FUSED = ("cpu", "cuda")
"""Kinds of devices on which all weights are updated in one go."""


@dataclass(frozen=True)
class Stage:
    """One part of a recipe: windows drawn by weight from `sources`, validated on held-out episodes of `judge`.

    With `adapt`, features of simulated images are aligned with those of `like`.
    """

    name: str
    sources: tuple[Samples, ...]
    weights: tuple[float, ...]
    judge: Samples
    steps: int
    rate: float
    moves: str = "full"
    like: Samples | None = None


@dataclass(frozen=True)
class Point:
    """One point of a learning curve; errors are mean losses in scaled units."""

    stage: str
    step: int
    training: float
    validation: float
    elapsed_s: float


OnValidation = Callable[[Point, int], None]
"""Called with each point of the curve, and the steps of its stage."""


class Fit:
    """One stage in progress, on the device of `network`. `best` are the weights that validated best so far."""

    def __init__(self, network: PolicyNetwork, stage: Stage, config: TrainConfig, number: int) -> None:
        self._network, self._stage, self._config, self._number = network, stage, config, number
        self._device = next(network.parameters()).device
        self._moving = network.parts_to_move(stage.moves)
        self._alignment: Alignment | None = None
        if stage.like is not None and network.shape.images is not None:
            self._alignment = Alignment(config.adapt)
            self._moving += list(self._alignment.parameters())
        self._optimizer = torch.optim.AdamW(
            self._moving,
            lr=stage.rate,
            weight_decay=config.weight_decay,
            betas=(0.9, 0.95),
            fused=self._device.type in FUSED,
        )
        self._average = copy.deepcopy(network)
        self._weights: list[torch.Tensor] = list(network.parameters())
        self._averaged: list[torch.Tensor] = list(self._average.parameters())
        self.best: Mapping[str, Any] = copy.deepcopy(network.state_dict())
        self.best_error = math.inf
        self.curve: list[Point] = []
        self.step = 0
        self._since_best = 0
        self._elapsed_s = 0.0
        rows = stage.judge.validation
        rng = np.random.default_rng((config.seed, number, 1))
        chosen = rng.permutation(len(rows))[:VALIDATION_ROWS]
        self._held_out = self._tensors(stage.judge.take(np.sort(rows[chosen])), rng)

    def run(
        self,
        on_validation: OnValidation,
        checkpoint: Path | None,
        seconds_left: float = math.inf,
        pause_at: int | None = None,
    ) -> None:
        """Train to the end or to `pause_at`; `seconds_left` bounds the time and bends the schedule so that it is used well."""
        began = time.monotonic() - self._elapsed_s
        every, losses = self._config.validate_every, []
        while self.step < self._stage.steps and self._since_best < self._config.patience:
            self._elapsed_s = time.monotonic() - began
            if self._elapsed_s >= seconds_left or self.step == pause_at:
                break
            done = max(self.step / self._stage.steps, self._elapsed_s / seconds_left)
            losses.append(self._update(done))
            self.step += 1
            if self.step % every == 0 or self.step == self._stage.steps:
                self._validate(_mean(losses), on_validation)
                losses = []
                if checkpoint is not None:
                    self.save(checkpoint)
        if losses or not self.curve:
            self._validate(_mean(losses) if losses else math.nan, on_validation)
        self._network.load_state_dict(dict(self.best))

    def _update(self, done: float) -> torch.Tensor:
        """One step; returns its loss, still on the device."""
        config, stage = self._config, self._stage
        rng = np.random.default_rng((config.seed, self._number, 2, self.step))
        warm = min(1.0, (self.step + 1) / WARM_UP_STEPS)
        for group in self._optimizer.param_groups:
            group["lr"] = stage.rate * warm * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0))))
        counts = rng.multinomial(config.batch, np.array(stage.weights) / sum(stage.weights))
        parts = [s.draw(rng, int(n)) for s, n in zip(stage.sources, counts, strict=True) if n]
        batch = concatenate(parts)
        if len(stage.sources) > 1:
            batch = _relabel_as_real(batch, config.sim_as_real_fraction, rng)
        self._network.train()
        loss = self._loss(batch, rng, done)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._moving, LARGEST_GRADIENT)
        self._optimizer.step()
        # Early on the average must not hold on to where the weights began.
        keep = min(AVERAGING, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self._averaged, self._weights, 1.0 - keep)
        kept: torch.Tensor = loss.detach()
        return kept

    def _loss(self, drawn: Batch, rng: np.random.Generator, done: float) -> Any:
        """The error of actions and, with `adapt`, the distance between features of simulated and real images."""
        network, like = self._network, self._stage.like
        batch = self._tensors(drawn, rng)
        features = network.encode_images(batch.pop("images"))
        loss = network.loss(**batch, image_features=features)
        rows = np.flatnonzero(drawn.domain[:, 0] == 0.0)
        if self._alignment is None or like is None or features is None or len(rows) < 2:
            return loss
        real, simulated = like.draw(rng, len(rows)), self._to_device(rows)
        apart = self._alignment(
            features[simulated],
            network.encode_images(self._to_device(real.images)),
            network.scaled(batch["observation"][simulated, -1]),
            network.scaled(self._to_device(real.observation[:, -1])),
        )
        return loss + self._config.adapt_weight * ramp(done) * apart

    def _validate(self, training: float, on_validation: OnValidation) -> None:
        self._average.eval()
        with torch.inference_mode():
            held_out = dict(self._held_out)
            error = float(
                self._average.loss(
                    image_features=self._average.encode_images(held_out.pop("images")), **held_out
                )
            )
        if not math.isfinite(error):
            raise LearnError(
                f"training diverged at step {self.step} of {self._stage.name}",
                got=f"a validation error of {error}",
                remedy="lower learning_rate",
            )
        point = Point(self._stage.name, self.step, training, error, round(self._elapsed_s, 2))
        self.curve.append(point)
        if error < self.best_error:
            self.best_error, self._since_best = error, 0
            self.best = copy.deepcopy(self._average.state_dict())
        else:
            self._since_best += 1
        on_validation(point, self._stage.steps)

    def _tensors(self, batch: Batch, rng: np.random.Generator) -> dict[str, Any]:
        shape = self._network.shape
        made = {name: self._to_device(values) for name, values in vars(batch).items()}
        if shape.head != "flow":  # random numbers take time, and only flows need them
            return made | {"noise": torch.empty(0), "when": torch.empty(0)}
        count = len(batch.actions)
        noise = rng.standard_normal((count, shape.chunk, shape.action), np.float32)
        when = rng.random((count, 1), np.float32)
        return made | {"noise": self._to_device(noise), "when": self._to_device(when)}

    def _to_device(self, values: Any) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)

    def save(self, path: Path) -> None:
        """Write a checkpoint: tensors, with the numbers of the run in the metadata."""
        tensors: dict[str, Any] = {}
        for part, state in (
            ("now", self._network.state_dict()),
            ("average", self._average.state_dict()),
            ("best", self.best),
            ("alignment", self._alignment.state_dict() if self._alignment else {}),
        ):
            tensors |= {f"{part}.{name}": values for name, values in state.items()}
        for index, state in self._optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": values for name, values in state.items()}
        numbers = {
            "stage": self._number,
            "step": self.step,
            "since_best": self._since_best,
            "best_error": self.best_error,
            "elapsed_s": self._elapsed_s,
            "curve": [asdict(point) for point in self.curve],
        }
        copied = {name: values.detach().to("cpu", copy=True).contiguous() for name, values in tensors.items()}
        write_atomically(path, tensor_files.save(copied, {"state": json.dumps(numbers)}))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint of this stage."""
        tensors = tensor_files.load(path.read_bytes())
        numbers = read_checkpoint_state(path)
        parts: dict[str, dict[str, Any]] = {}
        for name, values in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = values
        self._network.load_state_dict(parts["now"])
        self._average.load_state_dict(parts["average"])
        self.best = parts["best"]
        if self._alignment is not None:
            self._alignment.load_state_dict(parts.get("alignment", {}))
        state: dict[int, dict[str, Any]] = {}
        for name, values in parts.get("optimizer", {}).items():
            index, _, rest = name.partition(".")
            state.setdefault(int(index), {})[rest] = values
        self._optimizer.load_state_dict(self._optimizer.state_dict() | {"state": state})
        self.step, self._since_best = int(numbers["step"]), int(numbers["since_best"])
        self.best_error, self._elapsed_s = float(numbers["best_error"]), float(numbers["elapsed_s"])
        self.curve = [Point(**point) for point in numbers["curve"]]


def read_checkpoint_state(path: Path) -> dict[str, Any]:
    """The numbers of a checkpoint, without its tensors."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, path.stat().st_size)))
        state: dict[str, Any] = json.loads(header["__metadata__"]["state"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LearnError(
            f"the checkpoint {path} cannot be read ({error})", remedy="delete it and start again"
        ) from error
    return state


def _mean(losses: list[torch.Tensor]) -> float:
    return float(np.mean(torch.stack(losses).tolist()))


def _relabel_as_real(batch: Batch, fraction: float, rng: np.random.Generator) -> Batch:
    """The batch with a fraction of its simulated windows labelled as real: on a robot, the policy then acts on them too."""
    relabelled = (rng.random(batch.domain.shape) < fraction).astype(np.float32)
    return replace(batch, domain=np.maximum(batch.domain, relabelled))
