"""Where training computes: an accelerator when there is one, the processor otherwise.

A policy always acts on the processor: one small network at batch 1 is done there before a graphics card has begun.
"""

from __future__ import annotations

from twinloop.errors import WrongUse
from twinloop.policies.networks.network import torch

AUTO = "auto"


def find_device(word: str = AUTO) -> torch.device:
    """The device that a word names: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`, ...; refused where it is not to be had."""
    if word == AUTO:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(word)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise WrongUse(
            "training cannot compute there",
            got=word,
            expected=f"auto, cpu{_others()}",
            remedy="leave out --device, or see what there is: twinloop doctor",
        ) from error
    return device


def describe_device(device: torch.device) -> str:
    """What a person calls it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _others() -> str:
    if not torch.accelerator.is_available():
        return " (there is no accelerator here)"
    kind = find_device().type
    return "".join(f", {kind}:{index}" for index in range(torch.accelerator.device_count()))
