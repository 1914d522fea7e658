"""The runner: `python -m twinloop.jobs WORKSPACE` leaves a process behind that runs what waits, one job after the other, and goes.

It is nobody's child, so that whoever asked for a job need not wait for it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Leave the runner behind."""
    if os.fork():
        os._exit(0)
    from twinloop.jobs.runner import run_jobs

    run_jobs(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
