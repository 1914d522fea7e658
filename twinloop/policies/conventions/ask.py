"""Ask a foreign policy about recorded rows, under any interface map, and at most once with the same inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinloop.datasets.reader import Dataset
from twinloop.episode import Array
from twinloop.policies.backends.protocol import Backend, BatchedBackend, Inputs
from twinloop.policies.mapping.interface_map import InterfaceMap, VectorInput
from twinloop.policies.mapping.mapped import MappedPolicy
from twinloop.twins import Twin


class Asker:
    """Gives the actions of a policy under a map, about rows of a dataset; frames are decoded once."""

    def __init__(self, backend: Backend, dataset: Dataset, twin: Twin | None, rows: Array) -> None:
        batched = isinstance(backend, BatchedBackend)
        self._answers = _BatchedAnswers(backend) if batched else _Answers(backend)
        self._dataset, self._twin = dataset, twin
        self._place = {row: index for index, row in enumerate(rows.tolist())}
        self._rows = rows
        self._frames: dict[str, Array] = {}

    def __call__(self, interface_map: InterfaceMap, rows: Array) -> Array:
        """Actions (n, T, A) about rows (n,), each asked as the first of an episode.

        Actions that are relative to the reading of their own step are added up: the arm is taken to be where it was sent. With the
        recorded readings instead, any small number would come close to the recorded command.
        """
        whole = confirmed(interface_map).model_copy(update={"n_action_steps": None})
        policy = MappedPolicy(self._answers, whole, self._dataset.schema, self._twin)
        history = [signal.name for signal in policy.interface.observations]
        seen = self._dataset.windows(dict.fromkeys(history, policy.execution.history)).batch(rows)
        observation: dict[str, Array] = {name: seen[name] for name in history}
        for camera in policy.interface.cameras:
            places = [self._place[row] for row in rows.tolist()]
            observation[camera.name] = self._frames_of(camera.name)[places]
        places_ = np.arange(len(rows))
        policy.reset_batch(places_, np.zeros(len(rows), np.int64), real=True)
        chunk = policy.infer_batch(observation, places_)
        return _settle(policy, chunk, {name: seen[name][:, -1] for name in history})

    def _frames_of(self, name: str) -> Array:
        """Frames (n, height, width, 3) of all rows."""
        if name not in self._frames:
            key = self._dataset.schema.camera(name).key
            self._frames[name] = self._dataset.windows({key: [0]}).batch(self._rows)[key][:, 0]
        return self._frames[name]


def _settle(policy: MappedPolicy, pending: Array, now: Mapping[str, Array]) -> Array:
    """Commands (n, T, A) of pending actions (n, T, K), from the signals now (n, size)."""
    observation = np.array(policy.interface.vector(now), np.float64)
    reading = policy.interface.readings
    commands = []
    for step in range(pending.shape[1]):
        command = policy.settle_batch(pending[:, step], observation)
        observation[:, reading[reading >= 0]] = command[:, reading >= 0]
        commands.append(command)
    return np.stack(commands, axis=1)


def confirmed(given: InterfaceMap) -> InterfaceMap:
    """The map with every guess taken as it is."""

    def without(part: Any) -> Any:
        update: dict[str, Any] = {"confidence": None}
        if isinstance(part, VectorInput):
            update["parts"] = tuple(without(one) for one in part.parts)
        return part.model_copy(update=update)

    inputs = {name: without(part) for name, part in given.inputs.items()}
    return given.model_copy(
        update={"inputs": inputs, "actions": tuple(without(part) for part in given.actions)}
    )


class _Answers:
    """A backend that keeps its answers: what does not change a policy's inputs needs no further question."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[bytes, Mapping[str, Array]] = {}
        self.metadata, self.fingerprint = backend.metadata, backend.fingerprint

    def open_session(self) -> _Answers:
        return self

    def reset(self, seed: int, task: str) -> None:
        self._seed_and_task = seed, task

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        key = _digest(inputs)
        if key not in self._known:
            self._backend.reset(*self._seed_and_task)
            self._known[key] = self._backend.infer(inputs)
        return self._known[key]

    def close(self) -> None:
        self._backend.close()


class _BatchedAnswers(_Answers):
    """The same of a backend that can be asked about many rows at once."""

    _backend: BatchedBackend

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """Answers to n rows; those that are not known yet are asked for together."""
        count = len(next(iter(inputs.values())))
        rows = [{name: values[index] for name, values in inputs.items()} for index in range(count)]
        keys = [_digest(row) for row in rows]
        unknown = list({key: index for index, key in enumerate(keys) if key not in self._known}.items())
        if unknown:
            places = [index for _, index in unknown]
            asked = {
                name: [values[i] for i in places] if isinstance(values, list) else values[places]
                for name, values in inputs.items()
            }
            answers = self._backend.infer_batch(asked)
            for row, (key, _) in enumerate(unknown):
                self._known[key] = {name: np.asarray(values)[row] for name, values in answers.items()}
        return {name: np.stack([self._known[key][name] for key in keys]) for name in self._known[keys[0]]}


def _digest(inputs: Inputs) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(inputs.items()):
        content: Any = value.encode() if isinstance(value, str) else np.ascontiguousarray(value)
        shape = "" if isinstance(value, str) else f"{content.dtype}{content.shape}"
        digest.update(f"{name}\0{shape}\0".encode())
        digest.update(content)
    return digest.digest()
