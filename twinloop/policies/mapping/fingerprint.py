"""Who a foreign policy is: what it says of itself, and what it answers to a fixed set of observations.

A server may be started again with other weights under the same address. Its answers to the probe tell; they are compared with some
tolerance, because graphics cards round differently from call to call. A policy that draws its answers at random is known by what it
says of itself and by how far its answers lie apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyChanged
from twinloop.policies.backends.protocol import Backend
from twinloop.policies.interface import Interface
from twinloop.policies.mapping.encode import InputEncoder, Observed
from twinloop.policies.mapping.interface_map import InterfaceMap

PROBES = 3
"""Observations of the probe; the first is asked about twice."""

SEED = 20_250_101
SPREAD = 0.1
"""Readings of the probe are drawn around zero with this deviation."""

SAME = 1e-3
"""Answers within this fraction of their spread are the same: rounding is far below, other weights are far above."""

RANDOM_FACTOR = 4.0
"""Answers of a policy that draws at random may lie this many times as far apart as two of its answers did."""


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What a policy says of itself, its answers (probes, T, P), and how far two answers to the first probe lie apart."""

    backend: str
    answers: Array
    apart: float

    @property
    def chunk(self) -> int:
        """Actions of one answer."""
        return int(self.answers.shape[1])

    @property
    def random(self) -> bool:
        """Whether the policy answers differently each time."""
        return self.apart > SAME


def take_fingerprint(
    backend: Backend,
    encoder: InputEncoder,
    interface: Interface,
    history: int,
    size: int,
    read_answer: Callable[[Mapping[str, Array]], Array],
) -> Fingerprint:
    """Ask a policy about the probe.

    Args:
        backend: The policy.
        encoder: Makes its inputs.
        interface: The signals and cameras that the probe is drawn for.
        history: Steps of history.
        size: Numbers of one action.
        read_answer: Checks an answer and returns its actions (T, P).

    Returns:
        The fingerprint.

    Raises:
        PolicyGone: The policy does not answer, or not with actions.
    """
    inputs = encoder.encode(_draw_probe(interface, history, size))
    session = backend.open_session()
    answers = []
    for index in (0, *range(PROBES)):
        session.reset(SEED, "")
        asked = {name: values[index] for name, values in inputs.items()}
        answers.append(read_answer(session.infer(asked)))
    if session is not backend:
        session.close()
    if len({len(answer) for answer in answers}) > 1:
        raise PolicyChanged(
            "the policy gives chunks of different lengths", got=[len(answer) for answer in answers]
        )
    return Fingerprint(backend.fingerprint, np.stack(answers[1:]), _distance(answers[0], answers[1]))


def hash_fingerprint(fingerprint: Fingerprint, interface_map: InterfaceMap) -> str:
    """64 bits of a fingerprint and of what the map says, whatever the policy's address is."""
    content = interface_map.model_dump(mode="json", by_alias=True, exclude={"policy", "name", "twin"})
    digest = hashlib.blake2b(digest_size=8)
    digest.update(fingerprint.backend.encode())
    digest.update(json.dumps(content, sort_keys=True).encode())
    digest.update(repr(fingerprint.answers.shape[1:]).encode())
    if not fingerprint.random:
        digest.update(_rounded(fingerprint.answers).tobytes())
    return digest.hexdigest()


def require_same(before: Fingerprint, now: Fingerprint, name: str) -> None:
    """Refuse a policy whose fingerprint has changed.

    Raises:
        PolicyChanged: It says something else of itself, or answers differently.
    """
    reason = None
    if now.backend != before.backend:
        reason = "it says something else of itself"
    elif now.answers.shape != before.answers.shape:
        reason = f"its chunks are {now.answers.shape[1:]} instead of {before.answers.shape[1:]}"
    else:
        allowed = RANDOM_FACTOR * max(before.apart, now.apart) if before.random else SAME
        away = _distance(now.answers, before.answers)
        if away > allowed:
            reason = f"its answers to the same observations differ by {100 * away:.2g} % of their size"
    if reason:
        raise PolicyChanged(
            f"policy {name} is not the one that this began with: {reason}",
            remedy="start the same policy again, or begin anew with the other one",
        )


def _draw_probe(interface: Interface, history: int, size: int) -> Observed:
    rng = np.random.default_rng(SEED)
    signals = {
        signal.name: rng.normal(0.0, SPREAD, (PROBES, history, signal.size)).astype(np.float32)
        for signal in interface.observations
    }
    frames = {
        camera.name: rng.integers(0, 256, (PROBES, camera.height, camera.width, 3), dtype=np.uint8)
        for camera in interface.cameras
    }
    return Observed(signals, frames, ["pick up the object"] * PROBES, np.zeros((PROBES, size)))


def _distance(one: Array, other: Array) -> float:
    """How far two sets of answers lie apart, as a fraction of their size."""
    if one.shape != other.shape:
        return float("inf")
    size = max(float(np.sqrt(np.mean(one**2))), float(np.sqrt(np.mean(other**2))), 1e-9)
    return float(np.sqrt(np.mean((one - other) ** 2))) / size


def _rounded(answers: Array) -> Array:
    """A few numbers that sum the answers up, coarse enough that rounding hardly ever changes them."""
    rng = np.random.default_rng(SEED)
    flat = answers.reshape(-1)
    size = max(float(np.abs(flat).max()), 1e-9)
    exponent = np.floor(np.log10(size))
    projected = rng.normal(0.0, 1.0, (4, flat.size)) @ (flat / 10.0**exponent) / np.sqrt(flat.size)
    return np.asarray(np.rint(projected * 100), np.int64)
