"""DDS domains that tests of one machine do not share."""

import fcntl
import tempfile
from contextlib import contextmanager
from pathlib import Path

FIRST, LAST = 100, 160


@contextmanager
def free_domain():
    """The number of a domain that is ours while the block runs."""
    for number in range(FIRST, LAST):
        with (Path(tempfile.gettempdir()) / f"twinloop-test-domain-{number}").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    raise RuntimeError("no free domain")
