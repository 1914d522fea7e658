"""A foreign policy as one of ours: a backend speaks its words, an interface map says what they mean for our robot."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array, Schema
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies.backends.protocol import Backend
from twinloop.policies.interface import Interface
from twinloop.policies.mapping.decode import ActionDecoder, At, read_output, resample
from twinloop.policies.mapping.elements import STATE
from twinloop.policies.mapping.encode import InputEncoder, Observed
from twinloop.policies.mapping.fingerprint import (
    Fingerprint,
    hash_fingerprint,
    require_same,
    take_fingerprint,
)
from twinloop.policies.mapping.interface_map import InterfaceMap
from twinloop.policies.protocol import Execution, PartlyGone, PolicyLike
from twinloop.twins import Twin

MAX_GONE = 3
"""Episodes of one call that may get no answer before the others are not asked about any more."""

MAX_CHUNK = 4096
"""Actions of one answer; more is a mistake."""


@dataclass
class _Episode:
    """What one episode remembers: its conversation, the policy's last action (P,), our last command and first reading (A,)."""

    session: Backend
    last_action: Array
    before: Array | None = None
    first: Array | None = None


class MappedPolicy:
    """A foreign policy that acts on our robot: a `PolicyLike` for one episode or many.

    Args:
        backend: The policy in its own words.
        interface_map: What its inputs and outputs mean.
        schema: Signals, cameras and rate of our robot.
        twin: The robot's twin, for poses and the gripper's range.

    Raises:
        MapError: The map does not fit the robot or the policy, or has guesses that nobody has confirmed.
        PolicyGone: The policy does not answer, or not with actions.
    """

    def __init__(
        self, backend: Backend, interface_map: InterfaceMap, schema: Schema, twin: Twin | None = None
    ) -> None:
        self.backend, self.map, self.schema, self.twin = backend, interface_map, schema, twin
        self.name = interface_map.name or name_address(interface_map.policy)
        interface_map.require_confirmed(f"the map of {self.name}")
        self._encoder = InputEncoder(interface_map, schema, twin)
        self._decoder = ActionDecoder(interface_map, schema, twin)
        self.interface = _make_interface(self._encoder, self._decoder, schema)
        self._ratio = schema.rate_hz / (interface_map.rate_hz or schema.rate_hz)
        if self._ratio != 1.0 and self._decoder.waiting:
            raise WrongUse(
                "actions relative to the reading of their own step cannot be resampled",
                got=f"{interface_map.rate_hz:g} Hz, the robot {schema.rate_hz:g} Hz",
                expected="the same rate",
            )
        self._task, self.asked_s = "", 0.0
        self._known_id: str | None = None
        self._episodes: dict[int, _Episode] = {}
        history = len(interface_map.history)
        self.fingerprint: Fingerprint = take_fingerprint(
            backend, self._encoder, self.interface, history, self._decoder.size, self._read_answer
        )
        self.execution = self._make_execution(self.fingerprint.chunk)

    @property
    def id(self) -> str:
        """64 bits that follow from the policy's own fingerprint, its answers to the probe, and the map."""
        return self._known_id or hash_fingerprint(self.fingerprint, self.map)

    @property
    def content_hash(self) -> str:
        """The policy's id."""
        return self.id

    @property
    def twin_name(self) -> str | None:
        """Name or folder of the twin that it was mapped for."""
        return self.map.twin or (self.twin.name if self.twin else None)

    @property
    def pending_size(self) -> int:
        """Numbers of an action before it is settled: ours, then those that wait for the reading of their own step."""
        return self._decoder.pending_size

    def require_unchanged(self) -> None:
        """Ask the probe again.

        Raises:
            PolicyGone: The policy is another one than when it was opened.
        """
        history = len(self.map.history)
        now = take_fingerprint(
            self.backend, self._encoder, self.interface, history, self._decoder.size, self._read_answer
        )
        require_same(self.fingerprint, now, self.name)

    def set_task(self, text: str) -> None:
        """Say what the episodes that begin from now on are about."""
        self._task = text

    def for_latency(self, latency_s: float) -> MappedPolicy:
        """The same policy, carried out for hardware with this delay from observation to command and back."""
        steps = round(latency_s * self.interface.rate_hz) if math.isfinite(latency_s) else -1
        own = self.execution
        left = self._chunk() - own.n_action_steps - own.inference_delay_steps
        if not 0 <= steps <= left:
            raise WrongUse(
                f"policy {self.name} cannot look ahead that far",
                got=f"{1e3 * latency_s:.0f} ms",
                expected=f"0 to {1e3 * left / self.interface.rate_hz:.0f} ms",
                remedy="carry out less of each chunk: n_action_steps in the map",
            )
        return self._copy(execution=replace(own, latency_steps=steps))

    def with_name(self, name: str) -> MappedPolicy:
        """Copy the policy under another name."""
        return self._copy(name=name)

    def reset(self, seed: int = 0) -> None:
        """Begin an episode."""
        self.reset_batch(np.array([0]), np.array([seed]), real=False)

    def infer(self, observation: Mapping[str, Array]) -> Array:
        """Predict a chunk (T, K) from signals (H, size), or (size,) without history, and frames by camera."""
        signals = {signal.name for signal in self.interface.observations}
        history = len(self.execution.history)
        batch = {
            name: np.reshape(values, (1, history, -1)) if name in signals else np.asarray(values)[None]
            for name, values in observation.items()
        }
        return np.asarray(self.infer_batch(batch, np.array([0]))[0])

    def reset_batch(self, rows: Array, seeds: Array, *, real: bool) -> None:
        """Begin episodes in `rows`, each in a conversation of its own."""
        for row, seed in zip(np.asarray(rows).tolist(), np.asarray(seeds).tolist(), strict=True):
            known = self._episodes.get(row)
            session = known.session if known else self.backend.open_session()
            session.reset(int(seed), self._task)
            self._episodes[row] = _Episode(session, np.zeros(self._decoder.size))

    def infer_batch(self, observation: Mapping[str, Array], rows: Array) -> Array:
        """Predict chunks (n, T, K) from signals (n, H, size) and frames (n, height, width, 3) of `rows` (n,)."""
        episodes = [self._episodes[row] for row in np.asarray(rows).tolist()]
        observed = Observed(
            {name: observation[name] for name in self._encoder.signals},
            {name: observation[name] for name in self._encoder.cameras},
            [self._task] * len(episodes),
            np.stack([episode.last_action for episode in episodes]),
        )
        raw, gone = self._ask(episodes, self._encoder.encode(observed))
        raw = raw[:, self.map.chunk_offset :]
        at = self._at(episodes, observation)
        answered = [index for index in range(len(episodes)) if index not in gone]
        chunk = np.zeros((*raw.shape[:2], self._decoder.pending_size))
        chunk[answered] = self._decoder.decode(raw[answered], at.rows(answered))
        last = min(self.map.n_action_steps or raw.shape[1], raw.shape[1]) - 1
        for index, episode in enumerate(episodes):
            episode.last_action = raw[index, last]
            episode.before = chunk[index, last, : self._decoder.action.size]
        made = resample(chunk, self._ratio, self._decoder.steps)
        if gone:
            raise PartlyGone(gone, made)
        return made

    def settle_batch(self, pending: Array, observation: Array) -> Array:
        """Turn pending actions (n, K) into commands (n, A), given the observations (n, D) of their step."""
        reading = None
        if self._decoder.waiting:
            reading = self._decoder.read(self.interface.split(observation)[STATE])
        return self._decoder.settle(pending, reading)

    def close(self) -> None:
        """End the conversations."""
        for episode in self._episodes.values():
            episode.session.close()
        self.backend.close()

    def as_known(self, fingerprint: Fingerprint, known_id: str, latency_steps: int) -> MappedPolicy:
        """The same policy by the fingerprint and id that it was kept under: answers that differ by rounding are the same answers."""
        copied = self._copy(execution=replace(self.execution, latency_steps=latency_steps))
        copied.fingerprint, copied._known_id = fingerprint, known_id
        return copied

    def save(self, folder: str | Path) -> Path:
        """Write its map, fingerprint and file into a folder, which `open_policy` opens."""
        from twinloop.policies.mapping.kept import save_mapped

        return save_mapped(self, folder)

    def _copy(self, *, execution: Execution | None = None, name: str | None = None) -> MappedPolicy:
        copied = object.__new__(MappedPolicy)
        vars(copied).update(vars(self), _episodes={})
        copied.execution, copied.name = execution or self.execution, name or self.name
        return copied

    def _chunk(self) -> int:
        """Actions of a chunk at the robot's rate."""
        left = self.fingerprint.chunk - self.map.chunk_offset
        return left if self._ratio == 1.0 else max(1, int(left * self._ratio + 1e-9))

    def _make_execution(self, chunk: int) -> Execution:
        """How chunks of this many actions are executed, in the robot's steps."""
        left = chunk - self.map.chunk_offset
        steps = self.map.n_action_steps or left
        if left < 1 or steps > left:
            raise WrongUse(
                f"policy {self.name} does not give so many actions",
                got=f"chunks of {chunk}",
                expected=f"{self.map.chunk_offset + steps} or more",
                remedy="correct n_action_steps and chunk_offset in the map",
            )
        history = tuple(round(step * self._ratio) for step in self.map.history)
        if len(set(history)) < len(history):
            raise WrongUse(
                "the history of the map has two steps at the same time of the robot",
                got=f"{self.map.history} at {self.map.rate_hz:g} Hz",
                expected=f"steps at {self.schema.rate_hz:g} Hz that differ",
            )
        n_action_steps = min(max(1, round(steps * self._ratio)), self._chunk())
        return Execution(history=history, n_action_steps=n_action_steps)

    def _at(self, episodes: list[_Episode], observation: Mapping[str, Array]) -> At:
        """Where the episodes are; zeros where the map has no use for it."""
        size = self._decoder.action.size
        if not self._decoder.needs_reading:
            nothing = np.zeros((len(episodes), size))
            return At(nothing, nothing, nothing)
        reading = self._decoder.read(observation[STATE][:, -1])
        for episode, now in zip(episodes, reading, strict=True):
            episode.first = now if episode.first is None else episode.first
        before = [now if e.before is None else e.before for e, now in zip(episodes, reading, strict=True)]
        first = [e.first for e in episodes]
        return At(reading, np.stack(before), np.stack([np.asarray(one) for one in first]))

    def _ask(self, episodes: list[_Episode], inputs: Mapping[str, Any]) -> tuple[Array, dict[int, str]]:
        """Chunks (n, T, P), and why there is none where it is zero: asked for at once where the policy can, else one by one."""
        began = time.perf_counter()
        raw = np.zeros((len(episodes), self.fingerprint.chunk, self._decoder.size))
        gone: dict[int, PolicyGone] = {}
        batched = getattr(self.backend, "infer_batch", None) if len(episodes) > 1 else None
        answers = batched(inputs) if batched is not None else None
        for index, episode in enumerate(episodes):
            try:
                if answers is not None:
                    answer: Mapping[str, Array] = {n: np.asarray(v)[index] for n, v in answers.items()}
                else:
                    answer = episode.session.infer({name: values[index] for name, values in inputs.items()})
                raw[index] = self._require_length(self._read_answer(answer))
            except PolicyGone as error:
                gone[index] = error
                if len(gone) == len(episodes) or len(gone) >= MAX_GONE:
                    raise
        self.asked_s += time.perf_counter() - began
        return raw, {index: error.what for index, error in gone.items()}

    def _require_length(self, raw: Array) -> Array:
        if len(raw) != self.fingerprint.chunk:
            raise PolicyGone(
                f"policy {self.name} gave a chunk of another length",
                got=len(raw),
                expected=self.fingerprint.chunk,
            )
        return raw

    def _read_answer(self, answer: Mapping[str, Array]) -> Array:
        """The actions (T, P) of one answer, refused where they are no actions."""
        parts = [_as_rows(values, self.name) for values in read_output(answer, self.map)]
        if len({len(part) for part in parts}) > 1:
            raise PolicyGone(
                f"policy {self.name} gives outputs of different lengths", got=[part.shape for part in parts]
            )
        raw = np.concatenate(parts, axis=1)
        if raw.shape[1] != self._decoder.size or not 1 <= len(raw) <= MAX_CHUNK:
            raise PolicyGone(
                f"policy {self.name} gives other actions than the map says",
                got=f"{len(raw)} of {raw.shape[1]} numbers",
                expected=f"{self._decoder.size} numbers each",
                remedy="correct `actions` in the map; - {ignore: N} leaves numbers out",
            )
        if not np.isfinite(raw).all():
            raise PolicyGone(
                f"policy {self.name} gave numbers that are not finite",
                got=f"{int((~np.isfinite(raw)).sum())} of {raw.size}",
                remedy="look at its inputs and normalisation",
            )
        return raw


def explain_no_success(policy: PolicyLike) -> str | None:
    """What to look at first where a policy never succeeds in its own twin; None for policies of ours, which say what they mean."""
    if not isinstance(policy, MappedPolicy):
        return None
    return (
        f"{policy.name} never succeeds in its twin: its map may misread its inputs or its actions. "
        f"twinloop policy check MAP.yaml --dataset DEMONSTRATIONS compares {policy.map.policy} with recorded actions"
    )


def name_address(address: str) -> str:
    """A name for the policy at an address: its file or class, or the scheme."""
    scheme, _, rest = address.partition(":")
    if "//" in rest:
        return scheme
    last = rest.replace("\\", "/").rsplit("/", 1)[-1]
    file, colon, inside = last.rpartition(":")
    name = inside if colon and inside else last
    return name.rsplit(".", 1)[0].replace("@", "-") or file or scheme


def _make_interface(encoder: InputEncoder, decoder: ActionDecoder, schema: Schema) -> Interface:
    """What the policy sees of our robot."""
    wanted = set(encoder.signals)
    if decoder.needs_reading or not wanted:
        wanted.add(STATE)
    signals = tuple(signal for signal in schema.signals if signal.name in wanted)
    if not signals:
        raise WrongUse(
            "the robot has no signal that the policy could act on",
            got=", ".join(s.name for s in schema.signals),
            expected=", ".join(sorted(wanted)),
        )
    cameras = tuple(schema.camera(name) for name in encoder.cameras)
    return Interface(signals, decoder.action, schema.rate_hz, schema.robot_type, cameras)


def _as_rows(values: Array, name: str) -> Array:
    """Numbers (T, k) from (T, k), or from (k,) of a policy that gives one action."""
    if values.dtype.kind not in "fiub" or values.ndim not in (1, 2):
        raise PolicyGone(
            f"policy {name} gives something else than actions",
            got=f"{values.dtype} of shape {values.shape}",
            expected="numbers (actions, size)",
        )
    return np.asarray(np.atleast_2d(values), np.float64)
