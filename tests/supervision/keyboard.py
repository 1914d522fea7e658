"""A command in a pseudo-terminal, typed at key by key."""

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

LONGEST_S = 60.0


class Terminal:
    """A command that runs in a terminal of its own."""

    def __init__(self, *words, cwd):
        self._leader, follower = pty.openpty()
        environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "TWINLOOP_RATER": "ann"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "twinloop", *map(str, words)], stdin=follower, stdout=follower, stderr=follower,
            cwd=cwd, env=environment,
        )  # fmt: skip
        os.close(follower)
        self.shown, self._decoder = "", codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, wait_s=0.0):
        """What is shown now."""
        while select.select([self._leader], [], [], wait_s)[0]:
            try:
                self.shown += self._decoder.decode(os.read(self._leader, 65536))
            except OSError:  # the command has ended
                break
            wait_s = 0.0
        return self.shown

    def forget(self, end):
        """Leave out what was shown first."""
        self.shown = self.shown[end:]

    def wait_for(self, pattern):
        """Read until the pattern is shown; returns the match, and forgets what came before."""
        end = time.monotonic() + LONGEST_S
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < end, self.shown
            self.read(0.5)
            assert self.alive() or re.search(pattern, self.shown), self.shown
        self.forget(found.end())
        return found

    def press(self, keys):
        """Type."""
        os.write(self._leader, keys.encode())

    def alive(self):
        """Whether the command runs."""
        return self._process.poll() is None

    def interrupt(self):
        """Press Ctrl-C, and wait for the end."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        """Wait for the command; returns its exit code."""
        end = time.monotonic() + LONGEST_S
        while self.alive() and time.monotonic() < end:
            self.read(0.2)
        self.read()
        return self._process.wait(10)
