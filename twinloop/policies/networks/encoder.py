"""Image encoder: a compact convolutional network for each camera, ending in a spatial softmax (Levine et al. 2016).

Images enter at the camera's size and are averaged down inside, so that an exported policy is complete. The spatial softmax gives
the place of each channel in the image, the channel's mean how much of it there is.
"""

from __future__ import annotations

import torch
from torch import nn

from twinloop.datasets.images import area_weights
from twinloop.policies.networks.shape import ImageShape

Tensor = torch.Tensor

CHANNELS = (16, 32, 48, 32)
GROUPS = 8
"""Groups of channels that are normalised together; without group normalisation a small encoder finds a small object on a patterned
table late or never."""


class CameraEncoder(nn.Module):
    """Images of one camera (B, 3, side, side) to features (B, F)."""

    across: Tensor
    down: Tensor

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        first, second, third, last = CHANNELS
        self.layers = nn.Sequential(
            *_layer(3, first, 5, stride=2),
            *_layer(first, second, 3, stride=2),
            *_layer(second, third, 3),
            *_layer(third, third, 3, dilation=2),
            nn.Conv2d(third, last, 1),
        )
        self.leave = nn.Linear(3 * last, shape.features)
        self.norm = nn.LayerNorm(shape.features)
        places = torch.linspace(-1.0, 1.0, _halved(_halved(shape.side)))
        down, across = torch.meshgrid(places, places, indexing="ij")
        self.register_buffer("across", across.reshape(-1, 1), persistent=False)
        self.register_buffer("down", down.reshape(-1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Where each channel is strongest and how strong it is, mixed."""
        maps = self.layers(images).flatten(2)
        where = maps.softmax(dim=2)
        parts = [(where @ self.across)[..., 0], (where @ self.down)[..., 0], maps.relu().mean(dim=2)]
        made: Tensor = self.norm(self.leave(torch.cat(parts, dim=1)))
        return made


class ImageEncoder(nn.Module):
    """Images (B, cameras, height, width, 3), 0 to 255, to features (B, cameras * F); one `CameraEncoder` for each camera."""

    rows: Tensor
    columns: Tensor

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self._side = shape.side
        self.cameras = nn.ModuleList(CameraEncoder(shape) for _ in range(shape.cameras))
        rows, columns = area_weights(shape.height, shape.side), area_weights(shape.width, shape.side)
        self.register_buffer("rows", torch.from_numpy(rows), persistent=False)
        self.register_buffer("columns", torch.from_numpy(columns.T.copy()), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images that have been averaged down before, as training keeps them, are taken as they are."""
        planes = images.float().permute(0, 1, 4, 2, 3)
        if tuple(planes.shape[-2:]) != (self._side, self._side):
            planes = (self.rows @ planes @ self.columns).round()
        planes = planes / 127.5 - 1.0
        seen = [encode(planes[:, index]) for index, encode in enumerate(self.cameras)]
        return torch.cat(seen, dim=1)


def _layer(entering: int, leaving: int, kernel: int, stride: int = 1, dilation: int = 1) -> list[nn.Module]:
    padding = dilation * (kernel // 2)
    return [
        nn.Conv2d(entering, leaving, kernel, stride, padding, dilation),
        nn.GroupNorm(GROUPS, leaving),
        nn.ReLU(),
    ]


def _halved(size: int) -> int:
    """What a convolution of stride two leaves."""
    return (size + 1) // 2
