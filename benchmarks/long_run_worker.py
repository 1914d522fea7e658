"""One generation run in a process of its own, telling how far it is: `python -m benchmarks.long_run_worker CONFIG OUT N`.

Prints a JSON line {"episodes", "seconds", "success"} whenever another twentieth is done.
"""

from __future__ import annotations

import json
import sys
import time

from twinloop.generation.run import GenerationProgress, generate


def main() -> None:
    config, out, episodes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    began, told = time.perf_counter(), 0

    def log(progress: GenerationProgress) -> None:
        nonlocal told
        part = progress.episodes * 20 // episodes
        if part > told:
            told = part
            print(
                json.dumps(
                    {
                        "episodes": progress.episodes,
                        "seconds": time.perf_counter() - began,
                        "success": progress.success,
                    }
                ),
                flush=True,
            )

    generate(config, out=out, episodes=episodes, seed=1, on_progress=log)
    print(json.dumps({"episodes": episodes, "seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
