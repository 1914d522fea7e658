"""The fault-injecting layer of `disk.c` from Python: build it, start a process under it, arm it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
IS_AVAILABLE = sys.platform == "linux" and COMPILER is not None

RECORD, IO_ERROR, FULL_DISK, SHORT_WRITE = "R", "E", "N", "S"
KINDS = {IO_ERROR: "I/O error", FULL_DISK: "full disk", SHORT_WRITE: "short write"}


@dataclass(frozen=True)
class Counts:
    """Calls of the C library below the folder: all that may fail, those that take space, writes; and changes not seen."""

    calls: int
    space: int
    writes: int
    unseen: int

    def of(self, kind: str) -> int:
        """How many calls a fault of this kind can strike."""
        return {IO_ERROR: self.calls, FULL_DISK: self.space, SHORT_WRITE: self.writes}[kind]


def build(folder: Path) -> Path:
    """Compile the layer into a folder."""
    assert COMPILER is not None
    library = folder / "disk.so"
    words = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    subprocess.run(words, check=True)
    return library


def run(library: Path, module: str, *words: object) -> str:
    """Run a Python module under the layer; returns what it prints."""
    return _run(library, "-m", module, *map(str, words))


def run_program(library: Path, text: str) -> str:
    """Run a program under the layer; returns what it prints."""
    return _run(library, "-c", text)


def _run(library: Path, *words: str) -> str:
    environment = os.environ | {"LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


class Layer:
    """The layer under this process; does nothing where the process was not started under one."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None) if "disk.so" in os.environ.pop("LD_PRELOAD", "") else None

    def arm(self, folder: Path, kind: str, at: int = -1, trace: int = -1) -> None:
        """Let the `at`-th call below a folder fail, or record every change in the file descriptor `trace`."""
        assert self._library is not None, "the process was not started under the layer"
        path = os.fsencode(folder.resolve())
        self._library.faults_arm(path, ord(kind), ctypes.c_long(at), ctypes.c_int(trace))

    def disarm(self) -> None:
        """Let everything pass."""
        if self._library is not None:
            self._library.faults_disarm()

    def counts(self) -> Counts:
        """The calls since `arm`."""
        assert self._library is not None
        numbers = (ctypes.c_long * 4)()
        self._library.faults_counts(numbers)
        return Counts(*numbers)

    def mark(self, text: str) -> None:
        """Record that from here on `text` must hold, whatever happens."""
        if self._library is not None:
            self._library.faults_mark(text.encode())


layer = Layer()
