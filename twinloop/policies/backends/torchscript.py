"""`torchscript:FILE`: a policy as TorchScript, as `torch.jit.save` writes it.

A TorchScript file is a program in a small language, not a pickle of Python objects: loading it runs no Python. But the language can
write and read files (`torch.save`, `torch.from_file`) and call other machines, and loading may already run it. A file whose program
names one of these is refused, and what is loaded is what was looked at, packed anew.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import MissingExtra, PolicyGone, WrongUse, first_line
from twinloop.policies.backends.model_files import (
    MAX_MODEL_BYTES,
    hash_bytes,
    read_model_file,
    require_inputs,
)
from twinloop.policies.backends.protocol import BACKENDS, Backend, Inputs

FORBIDDEN = re.compile(r"\b(save|from_file|rpc_\w+|load_tensor|_test)\b")
"""Operators that reach beyond the model's own memory."""

NAMESPACE = re.compile(r"\bops\s*\.\s*(\w+)")
ALLOWED_NAMESPACES = frozenset(
    {"aten", "prim", "prims", "quantized", "torchvision", "mkldnn", "mkldnn_prepacked"}
)


class TorchScriptPolicy:
    """A scripted module; arguments of `forward` are its inputs, with a batch axis of one.

    A module with a method `reset` keeps something between calls: every episode then has a module of its own.
    """

    def __init__(self, path: Path, module: Any, packed: bytes, fingerprint: str) -> None:
        self._path, self._module, self._packed = path, module, packed
        self.fingerprint = fingerprint
        arguments = module.forward.schema.arguments[1:]
        self._arguments = [one.name for one in arguments if not one.has_default_value()]
        self.metadata: Mapping[str, Any] = {"inputs": {name: {} for name in self._arguments}}

    def open_session(self) -> Backend:
        """Return itself if the module keeps nothing between calls, else the module loaded again."""
        if not hasattr(self._module, "reset"):
            return self
        return TorchScriptPolicy(self._path, _load(self._packed, self._path), self._packed, self.fingerprint)

    def reset(self, seed: int, task: str) -> None:
        """Forget the last episode, if the module has something to forget."""
        if hasattr(self._module, "reset"):
            self._run(self._module.reset)

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Run the module on arrays without a batch axis."""
        import torch

        require_inputs(inputs, self._arguments, f"the module {self._path}")
        given = [torch.from_numpy(np.array(inputs[name])[None]) for name in self._arguments]
        answer = self._run(self._module, *given)
        return {name: values[0] for name, values in _name_outputs(answer, self._path).items()}

    def close(self) -> None:
        """Nothing to end."""

    def _run(self, function: Any, *arguments: Any) -> Any:
        import torch

        try:
            with torch.inference_mode():
                return function(*arguments)
        except Exception as error:
            shapes = ", ".join(str(tuple(one.shape)) for one in arguments)
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            raise PolicyGone(
                f"the module {self._path} does not run ({reason})", got=shapes or None
            ) from error


@BACKENDS.register("torchscript")
def open_torchscript(rest: str) -> Backend:
    """Open `torchscript:FILE`, after a look at its program."""
    path = Path(rest)
    content = read_model_file(path, "a TorchScript module: torchscript:FILE")
    packed = _pack_anew(content, path)
    return TorchScriptPolicy(path, _load(packed, path), packed, f"torchscript {hash_bytes(content)}")


def _load(packed: bytes, path: Path) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torchscript: policies", "torch", "learn") from error
    try:
        load: Any = torch.jit.load
        return load(io.BytesIO(packed), map_location="cpu").eval()
    except RuntimeError as error:
        raise WrongUse(f"{path} is no TorchScript module ({first_line(error)})") from error


def _pack_anew(content: bytes, path: Path) -> bytes:
    """The archive with the parts that were looked at and nothing else, uncompressed."""
    packed = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(packed, "w") as taken:
            members = given.infolist()
            if sum(member.file_size for member in members) > MAX_MODEL_BYTES:
                raise WrongUse(f"{path} is too large", expected=f"{MAX_MODEL_BYTES} bytes or fewer")
            if len({member.filename for member in members}) < len(members):
                raise WrongUse(f"{path} has two parts of the same name")
            for member in members:
                part = given.read(member)
                if member.filename.endswith(".py"):
                    _require_harmless(part.decode(), path)
                taken.writestr(member.filename, part)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, RuntimeError) as error:
        raise WrongUse(
            f"{path} is no TorchScript module ({first_line(error)})",
            expected="a file that torch.jit.save wrote",
        ) from error
    return packed.getvalue()


def _require_harmless(program: str, path: Path) -> None:
    found = FORBIDDEN.search(program)
    strange = [name for name in NAMESPACE.findall(program) if name not in ALLOWED_NAMESPACES]
    if found or strange:
        raise WrongUse(
            f"{path} is a program that does more than compute",
            got=found.group(0) if found else f"ops.{strange[0]}",
            expected="a module that neither reads nor writes files nor calls other machines",
            remedy="export it without that, or as ONNX",
        )


def _name_outputs(answer: Any, path: Path) -> dict[str, Array]:
    """Tensors by name: those of a dictionary by its keys, one alone is `actions`, several are numbered."""
    import torch

    if isinstance(answer, torch.Tensor):
        answer = {"actions": answer}
    elif isinstance(answer, tuple | list):
        answer = {f"output_{number}": one for number, one in enumerate(answer)}
    if not isinstance(answer, dict) or not all(isinstance(one, torch.Tensor) for one in answer.values()):
        raise PolicyGone(
            f"the module {path} gives no tensors",
            got=type(answer).__name__,
            expected="a tensor, several, or a dictionary",
        )
    for one in answer.values():
        if one.ndim < 2 or len(one) != 1:
            raise PolicyGone(
                f"the module {path} gives no batch of one",
                got=tuple(one.shape),
                expected="(1, actions, size) or (1, size)",
            )
    return {str(name): one.detach().cpu().numpy() for name, one in answer.items()}
