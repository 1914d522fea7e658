"""Check this machine: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twinloop.datasets.partial_folder import find_leftovers

State = Literal["ok", "missing", "problem"]


@dataclass(frozen=True)
class Finding:
    """The state of one component; `needed` if Twinloop does not work without it."""

    name: str
    state: State
    found: str
    remedy: str | None = None
    needed: bool = False


COMPONENTS = (
    ("mujoco", "mujoco", None, "simulation"),
    ("av", "av", None, "video"),
    ("duckdb", "duckdb", None, "queries"),
    ("pyarrow", "pyarrow", None, "datasets"),
    ("pybullet", "pybullet", "bullet", "engine bullet, the stand-in for reality"),
    ("sapien", "sapien", "physx", "engine physx, stand-ins on PhysX"),
    ("torch", "torch", "learn", "training"),
    ("h5py", "h5py", "logs", "HDF5 logs and export"),
    ("mcap", "mcap", "logs", "MCAP logs"),
    ("rosbags", "rosbags", "logs", "ROS 2 messages in logs"),
    ("cyclonedds", "cyclonedds", "ros2", "robots that speak ROS 2"),
)
"""(module, distribution, extra or None if always installed, purpose)."""


def examine(folder: Path) -> list[Finding]:
    """Check this machine, with `folder` as the data folder."""
    findings = [_python(), _cores(), _memory(), _disk(folder), *_leftovers(folder)]
    findings += [_check_component(*component) for component in COMPONENTS]
    findings.append(_rendering())
    findings.append(_training_device())
    return findings


def _python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("python", "ok", found, needed=True)


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("cores", "ok", f"{usable} usable")


def _memory() -> Finding:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError):
        return Finding("memory", "missing", "unknown")
    if total < 4:
        return Finding(
            "memory", "problem", f"{total:.1f} GiB", "use fewer workers, or a machine with 4 GiB or more"
        )
    return Finding("memory", "ok", f"{total:.1f} GiB")


def _disk(folder: Path) -> Finding:
    existing = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(existing).free / 2**30
    found = f"{free:.1f} GiB free at {existing}"
    if free < 2:
        return Finding("disk", "problem", found, "free some space or choose another folder")
    return Finding("disk", "ok", found)


def _leftovers(folder: Path) -> Iterator[Finding]:
    """What processes that were killed left at or below the data folder."""
    for one in find_leftovers(folder, below=True):
        yield Finding(
            "unfinished",
            "problem",
            f"{one.path}, {one.bytes / 1e6:.1f} MB: process {one.process} ended before {one.target} was complete",
            f"write {one.target} again (`twinloop ingest --resume` continues), "
            f"or remove it: twinloop doctor --folder {folder} --remove-unfinished",
        )


def _check_component(module: str, distribution: str, extra: str | None, purpose: str) -> Finding:
    if importlib.util.find_spec(module) is None:
        remedy = f"pip install 'twinloop[{extra}]'" if extra else "pip install --force-reinstall twinloop"
        return Finding(
            module, "missing", f"not installed; needed for {purpose}", remedy, needed=extra is None
        )
    return Finding(
        module, "ok", f"{importlib.metadata.version(distribution)} ({purpose})", needed=extra is None
    )


def _rendering() -> Finding:
    """Render one frame in a separate process: a broken graphics driver may crash it."""
    code = (
        "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size=\"1\"/></worldbody></mujoco>');"
        "d = mujoco.MjData(m); mujoco.mj_forward(m, d); r = mujoco.Renderer(m, 32, 32); r.update_scene(d); r.render(); r.close()"
    )
    backend = os.environ.get("MUJOCO_GL") or ("egl" if sys.platform == "linux" else "")
    environment = os.environ | ({"MUJOCO_GL": backend} if backend else {})
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            "rendering", "problem", str(error), "cameras will not work; datasets without cameras will"
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Finding(
            "rendering",
            "missing",
            last,
            "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri, then MUJOCO_GL=egl",
        )
    return Finding("rendering", "ok", f"one frame rendered with {backend or 'the default backend'}")


def _training_device() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding(
            "training device", "missing", "torch is not installed", "pip install 'twinloop[learn]'"
        )
    from twinloop.learning.device import describe_device, find_device

    return Finding("training device", "ok", describe_device(find_device()))
