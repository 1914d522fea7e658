"""`onnx:FILE`: a policy as an ONNX model, as mjlab, Isaac Lab and other trainers export it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from twinloop.episode import Array
from twinloop.errors import MissingExtra, PolicyGone, WrongUse, first_line
from twinloop.policies.backends.model_files import hash_bytes, read_model_file, require_inputs
from twinloop.policies.backends.protocol import BACKENDS, Backend, Inputs
from twinloop.yaml_files import parse_yaml, read_yaml

IO_DESCRIPTORS = "IO_descriptors.yaml"
"""What Isaac Lab writes beside an exported policy: the terms of its observation, with joints, scales and offsets."""

MAX_DESCRIPTORS_BYTES = 1 << 20
MAX_METADATA_CHARACTERS = 1 << 20

NUMBERS = ("joint_stiffness", "joint_damping", "default_joint_pos", "action_scale")
"""Entries of mjlab's metadata that are lists of numbers; others with commas are lists of names."""

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


class OnnxPolicy:
    """A model of one episode at a time. Outputs `NAME_out` are fed back as inputs `NAME_in`: the memory of recurrent policies."""

    def __init__(self, path: Path, model: Any, content: bytes) -> None:
        self._path, self._model = path, model
        self._inputs = {one.name: one for one in model.get_inputs()}
        self._outputs = {one.name: one for one in model.get_outputs()}
        self._memory_of = {
            name: f"{name.removesuffix('_in')}_out"
            for name in self._inputs
            if name.endswith("_in") and f"{name.removesuffix('_in')}_out" in self._outputs
        }
        self._memory: dict[str, Array] = {}
        self.fingerprint = f"onnx {hash_bytes(content)}"
        self.metadata = _read_metadata(path, self)

    def open_session(self) -> Backend:
        """Return a copy with a memory of its own; itself where there is none."""
        if not self._memory_of:
            return self
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), _memory={})
        return copied

    def reset(self, seed: int, task: str) -> None:
        """Forget the last episode."""
        self._memory = {}

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Run the model on arrays without a batch axis."""
        wanted = [name for name in self._inputs if name not in self._memory_of]
        require_inputs(inputs, wanted, f"the model {self._path}")
        fed = {name: self._as_input(name, inputs[name], 1) for name in wanted}
        fed |= {name: self._memory.get(name, self._zeros(name)) for name in self._memory_of}
        answer = self._run(fed)
        self._memory = {name: answer.pop(out) for name, out in self._memory_of.items()}
        ranks = {name: len(one.shape) for name, one in self._outputs.items()}
        return {n: v[0] if v.ndim == ranks[n] > 1 and len(v) == 1 else v for n, v in answer.items()}

    def close(self) -> None:
        """Nothing to end."""

    @property
    def shapes(self) -> dict[str, dict[str, Any]]:
        """Shapes and types of inputs and outputs; axes of any length are names."""
        return {
            kind: {
                name: {"shape": list(one.shape), "type": one.type}
                for name, one in ports.items()
                if name not in self._memory_of and name not in self._memory_of.values()
            }
            for kind, ports in (("inputs", self._inputs), ("outputs", self._outputs))
        }

    def _run(self, fed: Mapping[str, Array]) -> dict[str, Array]:
        try:
            made = self._model.run(list(self._outputs), dict(fed))
        except Exception as error:  # onnxruntime has a class of its own for each kind
            given = ", ".join(f"{name} {value.shape}" for name, value in fed.items())
            raise PolicyGone(
                f"the model {self._path} does not run ({first_line(error)})", got=given
            ) from error
        return dict(zip(self._outputs, made, strict=True))

    def _as_input(self, name: str, value: Any, count: int) -> Array:
        """An array of the model's type; with a batch axis where the model has one."""
        port = self._inputs[name]
        kind = _TYPES.get(port.type)
        if kind is None:
            raise WrongUse(
                f"input {name} of the model {self._path} has a type that is not supported", got=port.type
            )
        values = np.asarray(value)
        if values.ndim == len(port.shape) - 1 and count == 1:
            values = values[None]
        if kind is np.str_:
            return np.asarray(values, object)
        return np.ascontiguousarray(values.astype(kind, copy=False))

    def _zeros(self, name: str) -> Array:
        port = self._inputs[name]
        shape = [side if isinstance(side, int) else 1 for side in port.shape]
        return np.zeros(shape, _TYPES.get(port.type, np.float32))


class BatchedOnnxPolicy(OnnxPolicy):
    """A model without memory, whose inputs and outputs all have a first axis of any length."""

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """Run the model on arrays with a first axis of n episodes."""
        require_inputs(inputs, list(self._inputs), f"the model {self._path}")
        return self._run({name: self._as_input(name, inputs[name], 0) for name in self._inputs})


@BACKENDS.register("onnx")
def open_onnx(rest: str) -> Backend:
    """Open `onnx:FILE`: a model in one file, run by ONNX Runtime on the processor."""
    path = Path(rest)
    content = read_model_file(path, "an ONNX model: onnx:FILE")
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("onnx: policies", "onnxruntime", "policies") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        model = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class of its own for each kind
        raise WrongUse(
            f"{path} is no ONNX model that can be run ({first_line(error)})",
            remedy="if its weights are in another file, save it as one: onnx.save(model, FILE, save_as_external_data=False)",
        ) from error
    found = OnnxPolicy(path, model, content)
    ports = [*model.get_inputs(), *model.get_outputs()]
    free = all(one.shape and not isinstance(one.shape[0], int) for one in ports)
    return BatchedOnnxPolicy(path, model, content) if free and not found._memory_of else found


def _read_metadata(path: Path, policy: OnnxPolicy) -> dict[str, Any]:
    """What the file says of itself, and Isaac Lab's descriptors beside it."""
    entries = policy._model.get_modelmeta().custom_metadata_map
    found: dict[str, Any] = dict(policy.shapes)
    for name, text in entries.items():
        if len(text) <= MAX_METADATA_CHARACTERS:
            found[name] = _parse_map(path, text) if name == "interface_map" else _parse_entry(name, text)
    descriptors = path.with_name(IO_DESCRIPTORS)
    if descriptors.is_file() and descriptors.stat().st_size <= MAX_DESCRIPTORS_BYTES:
        try:
            found["io_descriptors"] = read_yaml(descriptors)
        except (OSError, yaml.YAMLError) as error:
            raise WrongUse(f"{descriptors} cannot be read ({first_line(error)})") from error
    return found


def _parse_map(path: Path, text: str) -> Any:
    """An interface map that the file declares, as YAML."""
    try:
        return parse_yaml(text)
    except yaml.YAMLError as error:
        raise WrongUse(f"the interface_map of {path} is not YAML ({first_line(error)})") from error


def _parse_entry(name: str, text: str) -> Any:
    """A list of numbers or names from text with commas, as mjlab writes it; other text as it is."""
    parts = [part.strip() for part in text.split(",")]
    if name in NUMBERS:
        try:
            return [float(part) for part in parts]
        except ValueError:
            return text
    return parts if len(parts) > 1 or name.endswith("_names") else text
