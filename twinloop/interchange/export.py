"""`export_twin`: the door through which a twin leaves for other people's programs. Formats register here, plug-ins too."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinloop.errors import WrongUse
from twinloop.interchange.plan import LeftOut
from twinloop.plugins import Registry
from twinloop.twins import Twin


@dataclass(frozen=True)
class ExportRequest:
    """What is to be exported: `config` is a YAML file of what varies, `out` the folder as it will be called."""

    twin: Twin
    out: Path
    config: Path | None = None
    cameras: tuple[str, ...] = ()


@dataclass(frozen=True)
class TwinExport:
    """A twin in another program's format: where it is, and what that program cannot express."""

    folder: Path
    to: str
    twin: str
    left_out: tuple[LeftOut, ...]


Writer = Callable[[ExportRequest, Path], tuple[LeftOut, ...]]
"""Writes into an empty folder, and returns what the format cannot express."""

EXPORTS: Registry[Writer] = Registry("export", "exports")


def list_exports() -> dict[str, str]:
    """Formats by name, each with its description."""
    _load_own()
    return {name: (EXPORTS.get(name).__doc__ or "").splitlines()[0] for name in EXPORTS}


def export_twin(
    twin: Twin,
    to: str,
    out: str | Path,
    *,
    randomization: str | Path | None = None,
    cameras: Sequence[str] = (),
) -> TwinExport:
    """Write a twin, its model or its randomization for another program.

    Args:
        twin: The twin.
        to: `lerobot-env` and `vla-eval` are for evaluators: the twin's task, scenes and imperfections go with it. `isaaclab`,
            `maniskill`, `mjlab` and `playground` are code that draws the randomization in those simulators; `mjcf`, `urdf` and `usd`
            are the model with the twin's values, beside a file with what the format cannot say.
        out: The folder to write; it must not exist, and appears complete or not at all.
        randomization: A YAML file of what varies between episodes, as `twinloop anchor` writes it. Default: where things lie, and
            for code `default_randomization(twin)`.
        cameras: Cameras whose images policies see; default: none.

    Returns:
        The folder, and what the other program cannot express.

    Raises:
        WrongUse: The folder exists, or there is nothing that the other program can express.
        UnknownName: There is no such format or camera.
    """
    _load_own()
    write = EXPORTS.get(to)
    folder = Path(out)
    if folder.exists():
        raise WrongUse(f"{folder} exists already", remedy="remove it, or choose another folder")
    config = None if randomization is None else Path(randomization)
    request = ExportRequest(twin, folder, config, tuple(cameras))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as staged:
        whole = Path(staged) / folder.name
        whole.mkdir()
        left_out = write(request, whole)
        shutil.move(whole, folder)
    return TwinExport(folder, to, twin.name, left_out)


def _load_own() -> None:
    """Built-in formats, which register themselves."""
    for module in ("baked", "evaluators", "randomizer", "urdf", "usd"):
        importlib.import_module(f"twinloop.interchange.{module}")
