"""The networks: a residual trunk over the observation history, and a head that gives a chunk of actions.

A network takes raw readings and gives raw commands; scaling is part of it, so that what is exported is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twinloop.errors import MissingExtra
from twinloop.policies.interface import Normalisation

try:
    import torch as torch
    from torch import nn

    from twinloop.policies.networks.encoder import ImageEncoder
except ImportError as error:  # pragma: no cover - the tests install torch
    raise MissingExtra("learning", "torch", "learn") from error

from twinloop.policies.networks.shape import Shape
from twinloop.policies.networks.transformer import ChunkTransformer

Tensor = torch.Tensor
_ALONE = threading.RLock()


class Block(nn.Module):
    """A residual layer; with an adapter beside it, which starts as nothing."""

    def __init__(self, width: int, adapter_rank: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.adapter = Adapter(width, adapter_rank) if adapter_rank else None

    def forward(self, x: Tensor) -> Tensor:
        """Add what this layer makes of `x` (B, width)."""
        normed = self.norm(x)
        made: Tensor = self.outer(nn.functional.gelu(self.inner(normed)))
        if self.adapter is not None:
            made = made + self.adapter(normed)
        return x + made


class Adapter(nn.Module):
    """A narrow side path: few weights to move when there is little data."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank)
        self.up = nn.Linear(rank, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        """What the side path adds."""
        made: Tensor = self.up(nn.functional.gelu(self.down(x)))
        return made


class Trunk(nn.Module):
    """Scaled observations and the domain to features (B, width). The domain starts without any effect."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.enter = nn.Linear(shape.observation * shape.history, shape.width)
        self.domain = nn.Linear(1, shape.width, bias=False)
        nn.init.zeros_(self.domain.weight)
        self.images = nn.Linear(shape.images.size, shape.width, bias=False) if shape.images else None
        self.blocks = nn.Sequential(*(Block(shape.width, shape.adapter_rank) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x: Tensor, domain: Tensor, image_features: Tensor | None) -> Tensor:
        """`x` is (B, H, D) scaled, `domain` (B, 1): 0 simulated, 1 real, `image_features` the encoder's."""
        entered = self.enter(x.flatten(1)) + self.domain(domain)
        if self.images is not None:
            entered = entered + self.images(image_features)
        made: Tensor = self.norm(self.blocks(entered))
        return made


class RegressionHead(nn.Module):
    """Features to the expected chunk, by one linear map or by a transformer over stretches of it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.leave = (
            ChunkTransformer(shape.width, shape.chunk, shape.action)
            if shape.head == "transformer"
            else nn.Linear(shape.width, shape.chunk * shape.action)
        )
        self._size = (shape.chunk, shape.action)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """The chunk (B, chunk, A), scaled; a regression has no use for noise."""
        made: Tensor = self.leave(features).unflatten(1, self._size)
        return made

    def loss(self, features: Tensor, target: Tensor, valid: Tensor, noise: Tensor, when: Tensor) -> Tensor:
        """Mean absolute error over the valid rows of each chunk."""
        return _mean((self.forward(features, noise) - target).abs(), valid)


class FlowHead(nn.Module):
    """Flow matching: a velocity field that carries noise to a chunk, integrated in a few Euler steps."""

    rates: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        flat = shape.chunk * shape.action
        self.enter = nn.Linear(shape.width + flat + 8, shape.width)
        self.blocks = nn.Sequential(*(Block(shape.width, shape.adapter_rank) for _ in range(2)))
        self.leave = nn.Linear(shape.width, flat)
        self._size, self._steps = (shape.chunk, shape.action), shape.flow_steps
        self.register_buffer("rates", torch.tensor([1.0, 2.0, 4.0, 8.0]) * torch.pi / 2, persistent=False)

    def velocity(self, features: Tensor, at: Tensor, when: Tensor) -> Tensor:
        """Where chunks (B, chunk, A) at times (B, 1) move."""
        phase = when * self.rates
        x = torch.cat([features, at.flatten(1), phase.sin(), phase.cos()], dim=1)
        made: Tensor = self.leave(self.blocks(self.enter(x))).unflatten(1, self._size)
        return made

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """The chunk that this noise (B, chunk, A) flows to, scaled."""
        at = noise
        for step in range(self._steps):
            when = torch.full_like(at[:, 0, :1], step / self._steps)
            at = at + self.velocity(features, at, when) / self._steps
        return at

    def loss(self, features: Tensor, target: Tensor, valid: Tensor, noise: Tensor, when: Tensor) -> Tensor:
        """Squared error of the velocity on straight paths from noise to data."""
        along = when[:, :, None]
        at = (1.0 - along) * noise + along * target
        wrong = self.velocity(features, at, when) - (target - noise)
        return _mean(wrong.square(), valid)


class PolicyNetwork(nn.Module):
    """Raw observations to raw actions."""

    head: RegressionHead | FlowHead
    observation_mean: Tensor
    observation_scale: Tensor
    action_mean: Tensor
    action_scale: Tensor
    reading: Tensor
    read: Tensor

    def __init__(self, shape: Shape, normalisation: Normalisation) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = ImageEncoder(shape.images) if shape.images else None
        self.trunk = Trunk(shape)
        self.head = FlowHead(shape) if shape.head == "flow" else RegressionHead(shape)
        for name, values in vars(normalisation).items():
            self.register_buffer(name, torch.from_numpy(values).clone(), persistent=False)
        self.register_buffer("read", self.reading.ge(0).float(), persistent=False)

    def scaled(self, observation: Tensor) -> Tensor:
        """Raw observations (..., D) in units of their spread."""
        return ((observation - self.observation_mean) / self.observation_scale).clamp(-10.0, 10.0)

    def encode_images(self, images: Tensor | None) -> Tensor | None:
        """Features of images (B, cameras, height, width, 3), 0 to 255."""
        return None if self.encoder is None else self.encoder(images)

    def features(self, observation: Tensor, domain: Tensor, image_features: Tensor | None = None) -> Tensor:
        """The trunk's features of raw observations (B, H, D) and of the encoder's features."""
        made: Tensor = self.trunk(self.scaled(observation), domain, image_features)
        return made

    def reference(self, observation: Tensor) -> Tensor:
        """What actions are relative to: (B, 1, A)."""
        taken = observation[:, -1].index_select(1, self.reading.clamp(min=0)) * self.read
        return taken.unsqueeze(1)

    def forward(
        self, observation: Tensor, domain: Tensor, noise: Tensor, images: Tensor | None = None
    ) -> Tensor:
        """The chunk of commands (B, chunk, A)."""
        made: Tensor = self.head(self.features(observation, domain, self.encode_images(images)), noise)
        return made * self.action_scale + self.action_mean + self.reference(observation)

    def loss(
        self,
        observation: Tensor,
        domain: Tensor,
        actions: Tensor,
        valid: Tensor,
        noise: Tensor,
        when: Tensor,
        image_features: Tensor | None = None,
    ) -> Tensor:
        """How wrong the chunks are, in scaled units; `noise` and `when` (B, 1) are for heads that sample.

        `image_features` is what `encode_images` gives.
        """
        target = (actions - self.reference(observation) - self.action_mean) / self.action_scale
        return self.head.loss(self.features(observation, domain, image_features), target, valid, noise, when)

    def parts_to_move(self, finetune: str) -> list[Any]:
        """The weights that fine-tuning moves: all, the head's, or the adapters'; the domain's always."""
        if finetune == "full":
            return list(self.parameters())
        chosen = {
            name: weights
            for name, weights in self.named_parameters()
            if name.startswith("trunk.domain")
            or (name.startswith("head.") if finetune == "head" else ".adapter." in name)
        }
        return list(chosen.values())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in this thread alone: a network this small is done before others wake up, and on a busy machine they
    cost a hundred times what they bring; and what is predicted does not depend on the number of cores.

    The number of threads belongs to the process, so that two cannot compute like this at the same time.
    """
    with _ALONE:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _mean(wrong: Tensor, valid: Tensor) -> Tensor:
    weights = valid[:, :, None]
    return (wrong * weights).sum() / (weights.sum() * wrong.shape[2]).clamp(min=1.0)
