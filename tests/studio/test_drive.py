"""Driving an arm from the operator page in a browser: by keys, and by a gamepad with its dead-man button."""

import numpy as np
import pytest

from tests.studio.test_operate_page import LONGEST_MS, TOKEN, free_port, running, wait_for_port
from tests.supervision.beside import standing
from tests.terminal import twinloop
from twinloop.datasets.reader import open_dataset
from twinloop.robots import connected, open_robot

TWIN = "franka_reach"
MOVED_M, STILL_M, TRIES = 0.02, 0.003, 100
GAMEPAD = """
window.gamepad = {connected: true, mapping: "standard", axes: [0, 0, 0, 0], buttons: Array.from({length: 17}, () => ({pressed: false}))};
navigator.getGamepads = () => [null, window.gamepad];
"""
SHOULDER, STOP = 5, 1


class Stick:
    """The gamepad in somebody's hands."""

    def __init__(self, page):
        self._page = page

    def tilt(self, axis, value):
        self._page.evaluate("([axis, value]) => { gamepad.axes[axis] = value; }", [axis, value])

    def hold(self, button, pressed):
        self._page.evaluate(
            "([button, pressed]) => { gamepad.buttons[button] = {pressed}; }", [button, pressed]
        )


@pytest.mark.slow
def test_an_arm_is_driven_by_keys_and_by_a_gamepad_and_stops_when_they_are_let_go(chromium, tmp_path):
    twinloop("init", "cell", "--twin", TWIN, cwd=tmp_path)
    cell, port = tmp_path / "cell", free_port()
    page = chromium.new_context(viewport={"width": 820, "height": 1180}).new_page()
    page.set_default_timeout(LONGEST_MS)
    page.add_init_script(GAMEPAD)
    with standing(TWIN) as seen:
        with connected(open_robot(seen.address)) as robot:
            limits, rate_hz = robot.description.limits, robot.description.rate_hz

        def moves(axis, sign):
            """Wait until the tool has gone this way, along one of the world's axes."""
            before, way = seen.look()[1], np.zeros(3)
            for _ in range(TRIES):
                page.wait_for_timeout(200.0)
                way = before - seen.look()[1]
                if sign * way[axis] > MOVED_M:
                    return np.abs(np.delete(way, axis)).max() < abs(way[axis]) / 2
            raise AssertionError(f"it does not move: {way}")

        def stands_still():
            """Whether the tool comes to rest soon."""
            for _ in range(6):
                before = seen.look()[1]
                page.wait_for_timeout(500.0)
                if np.abs(before - seen.look()[1]).max() < STILL_M:
                    return True
            return False

        command = ("operate", "--robot", seen.address, "--port", port, "--no-browser")
        with running(*command, cwd=cell) as process:
            wait_for_port(port)
            page.goto(f"http://127.0.0.1:{port}/operate?token={TOKEN}")
            page.get_by_role("button", name="Start").click()
            page.get_by_role("group", name="Drive the arm").wait_for()
            page.get_by_text("hold a shoulder button to drive").wait_for()
            for key, axis, sign in (("ArrowDown", 0, -1), ("ArrowLeft", 1, 1), ("PageDown", 2, -1)):
                page.keyboard.down(key)
                assert moves(axis, sign), "in another direction"
                page.keyboard.up(key)
                assert stands_still()
            stick = Stick(page)
            stick.tilt(0, 1.0)
            assert stands_still(), "the dead-man button is not held"
            stick.hold(SHOULDER, True)
            page.get_by_text("The gamepad drives").wait_for()
            assert moves(1, -1)
            stick.hold(SHOULDER, False)
            assert stands_still(), "also with the stick still tilted"
            stick.hold(SHOULDER, True)
            moves(1, -1)
            stick.hold(STOP, True)
            page.get_by_role("heading", name="The robot is stopped").wait_for()
            assert stands_still()
            page.get_by_role("button", name="Leave").click()
            assert process.wait(60) == 3
    episode = open_dataset(cell / "data/driven").episode(0)
    speeds = np.abs(np.diff(episode["action"], axis=0)) * rate_hz
    assert (speeds <= np.array(limits.speed_per_s) * (1.0 + 1e-3) + 1e-6).all(), "the envelope's limits hold"
    assert any(event.kind == "stopped" for event in episode.events)
