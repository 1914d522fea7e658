"""`python:MODULE:CLASS` and `python:FILE.py:CLASS`: a policy as a class of the user's own, in this process.

    class Reach:
        def reset(self): ...
        def infer(self, inputs): return {"actions": ...}

`reset` may also take `seed` and `task`. Each episode gets a copy of the object, unless it says `stateless = True`; with a method
`infer_batch` it is asked about many episodes at once. `metadata`, if there is one, is what the policy says of itself.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from twinloop.episode import Array
from twinloop.errors import PolicyGone, UnknownName, WrongUse, first_line
from twinloop.policies.backends.model_files import hash_bytes
from twinloop.policies.backends.protocol import BACKENDS, Backend, Inputs


class PythonPolicy:
    """An object with `reset` and `infer`; what it raises is reported with the line that raised it."""

    def __init__(self, policy: Any, name: str, fingerprint: str) -> None:
        self._policy, self._name = policy, name
        self.fingerprint = fingerprint
        self.metadata: dict[str, Any] = dict(getattr(policy, "metadata", None) or {})
        if (declared := getattr(policy, "interface_map", None)) is not None:
            self.metadata["interface_map"] = declared
        parameters = inspect.signature(policy.reset).parameters
        self._takes = [key for key in ("seed", "task") if key in parameters]

    def open_session(self) -> Backend:
        """Return itself if the policy keeps nothing between calls, else a copy."""
        if getattr(self._policy, "stateless", False):
            return self
        return type(self)(copy.deepcopy(self._policy), self._name, self.fingerprint)

    def reset(self, seed: int, task: str) -> None:
        """Begin an episode."""
        given = {"seed": seed, "task": task}
        self._call("reset", **{key: given[key] for key in self._takes})

    def infer(self, inputs: Inputs) -> Mapping[str, Array]:
        """Ask for a chunk."""
        return self._answer(self._call("infer", dict(inputs)))

    def close(self) -> None:
        """End the policy, if it has a way to."""
        if hasattr(self._policy, "close"):
            self._call("close")

    def _answer(self, answer: Any) -> dict[str, Array]:
        if not isinstance(answer, Mapping) or not answer:
            raise PolicyGone(
                f"{self._name}.infer gives no actions",
                got=type(answer).__name__,
                expected='a dictionary of arrays, such as {"actions": ...}',
            )
        return {str(name): np.asarray(values) for name, values in answer.items()}

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        try:
            return getattr(self._policy, method)(*arguments, **named)
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            raise PolicyGone(
                f"{self._name}.{method} raised {type(error).__name__}: {first_line(error)}",
                remedy=f"look at {line.filename}, line {line.lineno}",
            ) from error


class BatchedPythonPolicy(PythonPolicy):
    """An object that keeps nothing between calls and has `infer_batch`."""

    def infer_batch(self, inputs: Mapping[str, Array | list[str]]) -> Mapping[str, Array]:
        """Ask about n episodes at once."""
        return self._answer(self._call("infer_batch", dict(inputs)))


@BACKENDS.register("python")
def open_class(rest: str) -> Backend:
    """Open `python:MODULE:CLASS` or `python:FILE.py:CLASS`; importing it runs the user's own code, which is intended."""
    where, colon, name = rest.rpartition(":")
    if not colon or not where or not name:
        raise WrongUse(
            "cannot read the address of a Python policy",
            got=f"python:{rest}",
            expected="python:MODULE:CLASS or python:FILE.py:CLASS",
        )
    module = _import_file(Path(where)) if where.endswith(".py") else _import_module(where)
    made = getattr(module, name, None)
    if not callable(made):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        raise UnknownName(f"class in {where}", name, classes)
    try:
        policy = made()
    except Exception as error:
        raise PolicyGone(f"{name}() raised {type(error).__name__}: {first_line(error)}") from error
    for method in ("reset", "infer"):
        if not callable(getattr(policy, method, None)):
            raise WrongUse(
                f"{name} is no policy",
                got=f"no method {method}",
                expected="reset() and infer(inputs) -> dictionary",
            )
    batched = getattr(policy, "stateless", False) and hasattr(policy, "infer_batch")
    source = Path(module.__file__).read_bytes() if module.__file__ else b""
    kind = BatchedPythonPolicy if batched else PythonPolicy
    return kind(policy, name, f"python {name} {hash_bytes(source)}")


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that no file here takes the name of a library
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise WrongUse(f"the module {name} cannot be imported ({first_line(error)})") from error


class _SourceLoader(SourceFileLoader):
    """Writes no bytecode beside the file: the registry's folders hold what was recorded and nothing else."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0) -> None:
        """Write nothing."""


def _import_file(file: Path) -> ModuleType:
    """The module of a file, which can import what is beside it no more than any other."""
    if not file.is_file():
        raise WrongUse(f"{file} is not a file", expected="python:FILE.py:CLASS")
    known = f"twinloop_policy_{hash_bytes(file.read_bytes() + str(file.resolve()).encode())}"
    if known in sys.modules:
        return sys.modules[known]
    spec = importlib.util.spec_from_file_location(known, file, loader=_SourceLoader(known, str(file)))
    assert spec is not None and spec.loader is not None, "it is given its loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[known]
        raise WrongUse(f"{file} cannot be imported ({type(error).__name__}: {first_line(error)})") from error
    return module
