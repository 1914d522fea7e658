"""`python -m twinloop.robots.standin`: the process that `standin:NAME` starts."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from types import FrameType

from twinloop.errors import TwinloopError
from twinloop.robots.standin.run import serve_reality


def main() -> int:
    """Serve until interrupted; an error is printed as one or two lines."""
    parser = argparse.ArgumentParser(prog="twinloop.robots.standin")
    parser.add_argument("--reality", required=True)
    parser.add_argument("--twin")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--lockstep", action="store_true")
    parser.add_argument("--exit-with-parent", action="store_true", help="Exit when stdin is closed.")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    if options.exit_with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve_reality(options.reality, twin=options.twin, address=options.socket, lockstep=options.lockstep)
    except TwinloopError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    return 0


def _end_with_parent() -> None:
    """A killed parent sends no signal, but its end of the pipe closes."""
    # Not `sys.stdin.read`, whose lock an exiting interpreter would wait for.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
