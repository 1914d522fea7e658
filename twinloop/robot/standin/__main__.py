"""`python -m twinloop.robot.standin`: the stand-in's own process, as `standin:NAME` starts it."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from twinloop.errors import TwinloopError
from twinloop.robot.standin.run import serve_reality


def main() -> int:
    """Serve until told to stop; an error is one or two lines."""
    parser = argparse.ArgumentParser(prog="twinloop.robot.standin")
    parser.add_argument("--reality", required=True)
    parser.add_argument("--twin")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--lockstep", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    try:
        serve_reality(given.reality, twin=given.twin, address=given.socket, lockstep=given.lockstep)
    except TwinloopError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
