"""Coverage-guided fuzzing of one reader: `python -m tests.fuzz.run TARGET`, with atheris where it is installed.

Without it, entries of the corpus are changed at random. Prints one line of JSON: inputs read, and the errors that escaped,
each once by where it was raised. An input that ends the process is left in the work folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

READERS = tuple(
    f"twinloop.{name}"
    for name in (
        "logs",
        "datasets",
        "yaml_files",
        "yaml_models",
        "stages",
        "randomization",
        "robots.wire",
        "twins.folder",
        "twins.model_files",
    )
)
"""Modules whose coverage guides the fuzzer; following all of them takes longer to start than to read."""


REPORT = "report.json"


class Readings:
    """Counts inputs and keeps the errors that should not have escaped."""

    def __init__(self, name: str, work: Path) -> None:
        from tests.fuzz.targets import TARGETS, call

        self._target, self._call, self._work = TARGETS[name], call, work
        self._folder = work / "folder"
        self.name, self.inputs, self.slowest_s = name, 0, 0.0
        self.problems: dict[str, str] = {}
        self._fresh()

    def _fresh(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()

    def read(self, content: bytes) -> None:
        """Read one input."""
        self.inputs += 1
        (self._work / "input").write_bytes(content)
        began = time.monotonic()
        try:
            self._call(self._target, content, self._folder)
        except Exception as error:  # noqa: BLE001 -- any other than ours is what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.problems.setdefault(
                f"{Path(last.filename).name}:{last.lineno} {type(error).__name__}: {error}"[:300],
                repr(content[:200]),
            )
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        if self.inputs % 500 == 0:
            self._fresh()
        if self.inputs % 100 == 0:
            self.save()

    def save(self) -> None:
        """Write what was found so far: libFuzzer ends the process without asking Python."""
        values = {
            "name": self.name,
            "inputs": self.inputs,
            "slowest_s": round(self.slowest_s, 2),
            "problems": self.problems,
        }
        (self._work / REPORT).write_text(json.dumps(values))


def _functions_of_readers() -> Iterator[FunctionType]:
    for name, module in list(sys.modules.items()):
        if name.startswith(READERS):
            owners = [
                module,
                *(one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name),
            ]
            for function in (one for owner in owners for one in vars(owner).values()):
                if isinstance(function, FunctionType) and function.__module__ == name:
                    yield function


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("work", type=Path, help="an empty folder")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        atheris = None
    from tests.fuzz.mutate import mutate
    from tests.fuzz.targets import seeds

    if atheris is not None:
        for function in _functions_of_readers():
            atheris.instrument_func(function)
    readings = Readings(arguments.target, arguments.work)
    (place := arguments.work / "seeds").mkdir()
    corpus = list(seeds(arguments.target, place))
    for content in corpus:
        readings.read(content)
    if atheris is None:
        rng, end = random.Random(arguments.target), time.monotonic() + arguments.seconds
        while readings.inputs < arguments.runs and time.monotonic() < end:
            readings.read(mutate(rng, corpus))
        readings.save()
        print((arguments.work / REPORT).read_text())
        return 0
    shutil.rmtree(place)
    place.mkdir()
    for number, content in enumerate(corpus):
        (place / f"{number:04d}").write_bytes(content[:4096])
    readings.save()
    sys.stdout.flush()
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        print((arguments.work / REPORT).read_text())
        return os.waitstatus_to_exitcode(status)
    options = [
        f"-runs={arguments.runs}",
        f"-max_total_time={arguments.seconds}",
        "-seed=1",
        "-max_len=4096",
        "-verbosity=0",
    ]
    os.chdir(arguments.work)  # where libFuzzer leaves an input that ends the process
    atheris.Setup([sys.argv[0], *options, str(place)], readings.read)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
