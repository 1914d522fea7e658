"""The whole loop on a stand-in in real time, attended by somebody: through the operator page in a browser, and by keys at a terminal."""

import re
import signal
import time

import numpy as np
import pytest

from tests.studio.test_operate_page import TOKEN, free_port, running, wait_for_port
from tests.supervision.beside import Person, standing
from tests.supervision.keyboard import Terminal
from tests.terminal import twinloop, twinloop_json
from twinloop.datasets.reader import open_dataset
from twinloop.loop import run_loop
from twinloop.loop_status import LoopConfig
from twinloop.promotion.evidence import load_evidence
from twinloop.supervision.series import find_void
from twinloop.twins import load_twin

TWIN = "franka_reach"
SIZES = {
    "sim_episodes": 60, "anchored_episodes": 60, "train_steps": 10, "finetune_steps": 500, "horizon_episodes": 4, "n_sim_trials": 20,
    "n_trials": 2, "excitation_runs": 4, "excitation_s": 3.0, "identification_s": 3.0, "n_demonstrations": 1, "n_retrials": 2,
    "max_demonstrations": 2, "demonstration_s": 15.0, "diagnosis_budget": 64, "gate_scenes": 40, "gate_trials": 20, "deployed_episodes": 2,
}  # fmt: skip
LOOP = ("loop", *(word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")))
SURPRISES = ("stop", "redo", "pause")
NEAR_M, FAR_M = 0.008, 0.05
"""A person lets go of the keys within this of the target, and only taps them within that."""
PUSHED = ((("ArrowUp", "ArrowDown"), 0), (("ArrowLeft", "ArrowRight"), 1), (("PageUp", "PageDown"), 2))

BUTTONS = {"start": "Start", "stop": "Stop", "success": "Success", "failure": "Failure", "redo": "Again", "pause": "Pause", "resume": "Go on"}  # fmt: skip
KEYS = {
    "start": "\n",
    "stop": " ",
    "success": "s",
    "failure": "f",
    "redo": "r",
    "pause": "p",
    "resume": "\n",
}


class Tablet:
    """The operator page in a browser."""

    def __init__(self, page):
        self.page, self.errors, self.command = page, [], None
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def stage(self):
        shown = self.page.locator(".operate")
        return (shown.get_attribute("data-stage") or "") if shown.count() else ""

    def act(self, kind):
        if kind == "reset":
            self._tap("nothing is wrong")
            self._tap("Let the robot move again")
        else:
            self._tap(BUTTONS[kind])
        if kind == "failure":
            self.page.locator(".operate-picks button").first.click(timeout=30_000)
            self._tap("Save the failure")

    def _tap(self, name):
        """Tap a button; it may be gone by then, because the trial has moved on."""
        from playwright.sync_api import TimeoutError as Gone

        try:
            self.page.get_by_role("button", name=name, exact=False).first.click(timeout=8_000)
        except Gone:
            assert self.stage() != "", f"no button {name}"

    def drives(self):
        time.sleep(0.6)  # until the page has heard of it
        return self.page.get_by_role("group", name="Drive the arm").count() > 0

    def drive(self, way_m):
        keys = [pair[int(way_m[axis] < 0.0)] for pair, axis in PUSHED if abs(way_m[axis]) > NEAR_M]
        for key in keys:
            self.page.keyboard.down(key)
        time.sleep(0.25 if np.abs(way_m).max() > FAR_M else 0.06)
        for key in keys:
            self.page.keyboard.up(key)
        time.sleep(0.25)

    def over(self):
        return self.command.poll() is not None


class Keyboard:
    """The same at a terminal: what is shown last says the stage."""

    SHOWN = (
        (r"\[Enter start", "placing"), (r"running \[", "running"), (r"stopped \[", "stopped"), (r"paused \[", "paused"),
        (r"did it succeed", "judging"), (r"the robot gets ready|void: |success\r?\n|failure: |every trial is done", "waiting"),
    )  # fmt: skip

    def __init__(self):
        self.terminal, self._stage = None, ""

    def stage(self):
        text = self.terminal.read()
        found = [
            (match.end(), stage) for pattern, stage in self.SHOWN for match in re.finditer(pattern, text)
        ]
        if found:
            end, self._stage = max(found)
            self.terminal.forget(end)
        return self._stage

    def act(self, kind):
        if kind == "reset":
            self.terminal.press("r")
            self.terminal.wait_for("found[?]")
            self.terminal.press("1")
            return
        self.terminal.press(KEYS[kind])
        if kind == "failure":
            self.terminal.wait_for("failure[?]")
            for asked in ("phase[?]", "severity[?]"):
                self.terminal.press("1")
                self.terminal.wait_for(asked)
            self.terminal.press("1")

    def drives(self):
        return False  # the stand-in's own leader arm is moved

    def drive(self, way_m):
        raise AssertionError("nothing is driven from a terminal")

    def over(self):
        return not self.terminal.alive()


def require_promoted(cell, address):
    """The loop is over: the first policy failed, the second was promoted, and the trials that say nothing were counted apart."""
    result = run_loop(load_twin(TWIN), address, cell / "loop", LoopConfig(**SIZES))
    assert all(stage.cached for stage in result.stages) and result.stages[-1].name == "monitor"
    assert result.evaluate.success_rate == 0.0 and len(result.evaluate.trials) == 2
    (runs,) = (cell / "loop").glob("evaluate-*/runs")
    voids = [reason for episode in open_dataset(runs) if (reason := find_void(episode)) is not None]
    assert len(voids) == 2 and "stopped" in voids[0] and "again" in voids[1]
    assert result.gate.decision == "promote" and result.promote.policy_id == result.finetune.id
    evidence = load_evidence(result.stage("gate").folder)
    successes, of_first = (
        sum(getattr(trial, who) for trial in evidence.real) for who in ("candidate", "champion")
    )
    assert len(evidence.real) >= 5 and successes > of_first
    assert result.monitor.success.episodes == 2
    assert twinloop_json("registry", "ls", cwd=cell)


@pytest.fixture
def cell(tmp_path):
    twinloop("init", "cell", "--twin", TWIN, cwd=tmp_path)
    return tmp_path / "cell"


@pytest.mark.slow
def test_a_loop_is_attended_through_the_page_to_a_promotion(chromium, cell):
    context = chromium.new_context(viewport={"width": 820, "height": 1180}, has_touch=True)
    tablet, port = Tablet(context.new_page()), free_port()
    with standing(TWIN) as seen:
        operate = ("operate", "--robot", seen.address, "--port", port, "--no-browser", "--", *LOOP)
        person = Person(seen, tablet, SURPRISES)
        with running(*operate, cwd=cell) as tablet.command:
            wait_for_port(port)
            tablet.page.goto(f"http://127.0.0.1:{port}/operate?token={TOKEN}")
            assert not person.attend(), "it was paused"
            tablet.command.send_signal(signal.SIGINT)
            tablet.command.wait(60)
        assert "evaluate was interrupted" in twinloop("status", cwd=cell)
        with running(*operate, cwd=cell) as tablet.command:  # the page that is open finds it again
            assert person.attend()
            assert tablet.command.wait(60) == 0, tablet.command.stdout.read()
        require_promoted(cell, seen.address)
    context.close()
    assert not tablet.errors


@pytest.mark.slow
def test_a_loop_is_attended_by_keys_at_a_terminal_to_a_promotion(cell):
    keys = Keyboard()
    with standing(TWIN) as seen:
        person = Person(seen, keys, SURPRISES)
        keys.terminal = Terminal(*LOOP, "--robot", seen.address, "--attend", cwd=cell)
        assert not person.attend(), "it was paused"
        keys.terminal.interrupt()
        keys.terminal = Terminal(*LOOP, "--robot", seen.address, "--attend", cwd=cell)
        assert person.attend()
        assert keys.terminal.end() == 0, keys.terminal.shown
        require_promoted(cell, seen.address)
