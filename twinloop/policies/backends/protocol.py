"""The door for other people's policies: a server, a file or a class, spoken to in its own words.

A backend knows nothing of our signals, units or robots: it takes a dictionary of arrays and text under the names that the policy
itself uses, and gives a dictionary of arrays. An `InterfaceMap` says what those names mean, and `MappedPolicy` puts the two together
into a `PolicyLike`. Whatever comes back from a backend is checked before it reaches a robot; nothing that it sends is executed.

An address is SCHEME:REST, for example `openpi:ws://127.0.0.1:8000`; `open_backend` finds the scheme among built-ins and plug-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from twinloop.episode import Array
from twinloop.errors import WrongUse
from twinloop.plugins import Registry

Inputs = Mapping[str, Array | str]
"""What a policy is asked with: by the policy's own names, arrays without a batch axis, or text."""


class Backend(Protocol):
    """A policy in its own words: one conversation about one episode at a time."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the policy says of itself (names, shapes, rates, gains), as plain values; empty if it says nothing."""

    @property
    def fingerprint(self) -> str:
        """Hash of the file, or of the server's metadata: the policy's answers to a probe are added by `MappedPolicy`."""

    def open_session(self) -> Backend:
        """Return a backend for another episode side by side with this one; itself if the policy keeps nothing between calls."""

    def reset(self, seed: int, task: str) -> None:
        """Begin an episode of this task: forget the last one; randomness follows from `seed` where the policy allows it."""

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Ask for a chunk.

        Args:
            inputs: By the policy's own names.

        Returns:
            Arrays by the policy's own names; actions are (T, A).

        Raises:
            PolicyGone: The policy cannot be reached, took too long, or answered with something else than arrays. The trial is void.
        """

    def close(self) -> None:
        """End the conversation; calling it twice is allowed."""


@runtime_checkable
class BatchedBackend(Backend, Protocol):
    """A backend that keeps nothing between calls and can be asked about many episodes at once."""

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """As `infer`, with a first axis of n episodes in every array that goes in and comes out."""


MakeBackend = Callable[[str], Backend]

BACKENDS: Registry[MakeBackend] = Registry("policy address", "policies")


def open_backend(address: str) -> Backend:
    """Open the policy at an address.

    Args:
        address: SCHEME:REST, for example "openpi:ws://127.0.0.1:8000", "onnx:walk.onnx" or "python:my_package.policies:Reach".

    Returns:
        The policy, ready to be asked.

    Raises:
        UnknownName: No backend is registered for the scheme.
        PolicyGone: The policy cannot be reached.
    """
    scheme, colon, rest = address.partition(":")
    if not colon or not rest:
        raise WrongUse(
            "a policy's address needs a scheme", got=address, expected="SCHEME:ADDRESS", available=BACKENDS.names(),
            remedy="for example openpi:ws://127.0.0.1:8000 or onnx:policy.onnx",
        )  # fmt: skip
    return BACKENDS.get(scheme)(rest)
