"""The operator page in a browser, as somebody beside a robot uses it: a gate in real time, from the first trial to a promotion."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.policies.open import save_policy
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.verdict import load_verdict
from twinloop.supervision.series import find_void

TOKEN = "the-token-of-a-tablet"
LONGEST_MS = 120_000
GATE = (
    "gate", "tiny", "--threshold", "0.3", "--min-effect", "0.01", "--max-trials", "8", "--scenes", "4", "--accept", "replay", "--accept",
    "artefacts", "--accept", "drift", "--accept", "consent", "--by", "ann", "--reason", "a test of the page",
)  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(*words, cwd):
    """A command in a process of its own, ended with the block."""
    environment = {**os.environ, "TWINLOOP_STUDIO_TOKEN": TOKEN, "TWINLOOP_RATER": "ann"}
    process = subprocess.Popen(
        [sys.executable, "-m", "twinloop", *map(str, words)], cwd=cwd, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()


def wait_for_port(port):
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)


class Tablet:
    """A browser beside the robot; somebody takes a moment before every click."""

    def __init__(self, page):
        self.page, self._rng, self.errors = page, np.random.default_rng(4), []
        page.set_default_timeout(LONGEST_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def tap(self, name):
        self.page.wait_for_timeout(float(self._rng.uniform(300, 900)))
        self.page.get_by_role("button", name=name, exact=False).first.click()

    def wait_for(self, title, line=None):
        self.page.get_by_role("heading", name=title).wait_for()
        if line is not None:
            self.page.locator(".operate-head p", has_text=re.compile(line)).wait_for()

    def sees_trial(self, number, command):
        """Wait for the next trial; false if the command ends before it."""
        end = time.monotonic() + LONGEST_MS / 1e3
        while command.poll() is None:
            title, line = (self.page.locator(f".operate-head {part}").inner_text() for part in ("h1", "p"))
            if title == "Place the scene" and line.startswith(f"Trial {number} "):
                return True
            assert time.monotonic() < end, (title, line)
            self.page.wait_for_timeout(200)
        return False

    def make_trial(self, number, void=0):
        self.wait_for("Place the scene", rf"Trial {number} of 8" + (rf".*{void} void" if void else ""))
        self.tap("Start")
        self.wait_for("The robot moves")


@pytest.mark.slow
def test_a_gate_is_driven_through_the_page_from_the_first_trial_to_a_promotion(
    tiny_policy, chromium, tmp_path
):
    pytest.importorskip("pybullet")
    twinloop("init", "cell", "--twin", "franka_pick_place", cwd=tmp_path)
    cell, port, robot_port = tmp_path / "cell", free_port(), free_port()
    save_policy(tiny_policy, cell / "policies" / "tiny")
    operate = (
        "operate",
        "--robot",
        f"tcp:127.0.0.1:{robot_port}",
        "--port",
        port,
        "--no-browser",
        "--",
        *GATE,
    )
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    tablet = Tablet(context.new_page())
    with running("standin", "--reality", "mild", "--port", robot_port, cwd=cell):
        wait_for_port(robot_port)
        with running(*operate, cwd=cell) as first:
            wait_for_port(port)
            tablet.page.goto(f"http://127.0.0.1:{port}/operate?token={TOKEN}")
            tablet.make_trial(1)
            tablet.tap("Success")
            tablet.make_trial(2)
            tablet.tap("Stop")
            tablet.wait_for("The robot is stopped")
            tablet.tap("put right")
            tablet.tap("Let the robot move again")
            tablet.make_trial(2, void=1)
            tablet.tap("Again")
            tablet.make_trial(2, void=2)
            tablet.tap("Success")
            tablet.wait_for("Place the scene", r"Trial 3 of 8.*2 void")
            tablet.tap("Pause")
            tablet.wait_for("Paused")
            first.send_signal(signal.SIGINT)
            first.wait(60)
            tablet.wait_for("Done")
        with running(*operate, cwd=cell) as second:  # the page that is open finds it again
            for number in range(3, 9):
                if not tablet.sees_trial(number, second):
                    break
                tablet.make_trial(number)
                tablet.tap("Success")
            assert second.wait(120) == 0, second.stdout.read()
    context.close()
    assert not tablet.errors
    evidence, verdict = load_evidence(cell / "gate-tiny"), load_verdict(cell / "gate-tiny")
    assert verdict.decision == "promote" and all(trial.candidate for trial in evidence.real)
    episodes = list(open_dataset(cell / "gate-tiny" / "recordings" / "tiny"))
    assert [find_void(e) is not None for e in episodes[:4]] == [False, True, True, False]
    assert len(episodes) == len(evidence.real) + 2
    twinloop("promote", "tiny", "--verdict", "gate-tiny", "--by", "ann", cwd=cell)
    assert json.loads(twinloop("registry", "ls", "--json", cwd=cell))
