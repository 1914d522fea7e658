"""A verb and a package that share their name: `twinloop.generate(...)` is `twinloop.generate.run.generate`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(package: str) -> None:
    """Let the package be called: `twinloop.verb(...)` becomes `twinloop.verb.run.verb(...)`, imported on first use."""
    verb = package.rpartition(".")[2]

    class CallablePackage(ModuleType):
        def __call__(self, *words: Any, **named: Any) -> Any:
            return getattr(importlib.import_module(f"{package}.run"), verb)(*words, **named)

    sys.modules[package].__class__ = CallablePackage
