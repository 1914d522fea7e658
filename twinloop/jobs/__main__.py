"""The runner: `python -m twinloop.jobs WORKSPACE` runs what waits, one job after the other, and goes."""

from __future__ import annotations

import sys
from pathlib import Path

from twinloop.jobs.runner import run_jobs

if __name__ == "__main__":
    run_jobs(Path(sys.argv[1]))
