"""Coverage-guided fuzzing of one reader: `python -m tests.fuzz.run TARGET`, with atheris where it is installed.

Without it, entries of the corpus are changed at random. Prints one line of JSON: inputs read, and the errors that escaped,
each once by where it was raised. An input that ends the process is left in the work folder.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import shutil
import sys
import time
import traceback
from pathlib import Path


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

    def report(self) -> None:
        """Print what was found."""
        values = {
            "name": self.name,
            "inputs": self.inputs,
            "slowest_s": round(self.slowest_s, 2),
            "problems": self.problems,
        }
        print(json.dumps(values), flush=True)


def main() -> None:
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
    if atheris is not None:
        with atheris.instrument_imports(include=["twinloop"], enable_loader_override=False):
            import tests.fuzz.targets  # noqa: F401
    from tests.fuzz.mutate import mutate
    from tests.fuzz.targets import seeds

    readings = Readings(arguments.target, arguments.work)
    (place := arguments.work / "seeds").mkdir()
    corpus = list(seeds(arguments.target, place))
    for content in corpus:
        readings.read(content)
    if atheris is None:
        rng, end = random.Random(arguments.target), time.monotonic() + arguments.seconds
        while readings.inputs < arguments.runs and time.monotonic() < end:
            readings.read(mutate(rng, corpus))
        readings.report()
        return
    shutil.rmtree(place)
    place.mkdir()
    for number, content in enumerate(corpus):
        (place / f"{number:04d}").write_bytes(content[:4096])
    atexit.register(readings.report)
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


if __name__ == "__main__":
    main()
