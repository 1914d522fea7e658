"""A headless Chromium for tests of pages: real input events over the debugging pipe, no driver package needed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)


class Browser:
    """One page of one browser; use it as a context."""

    def __init__(self, width: int = 1400, height: int = 1000) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        words = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
            "--disable-dev-shm-usage", f"--user-data-dir={self._folder.name}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", script, *words],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer, self._count, self._session = b"", 0, None
        self.problems: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        self._process.terminate()
        self._process.wait(20)
        os.close(self._from)
        self._folder.cleanup()

    def call(self, method: str, **words: object) -> dict:
        """One command of the DevTools protocol, answered."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": words}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note_problem(answer.get("method"), answer.get("params", {}))

    def _note_problem(self, method: str | None, words: dict) -> None:
        """Keep exceptions, errors on the console and violations of the page's Content-Security-Policy."""
        if method == "Runtime.exceptionThrown":
            self.problems.append(words["exceptionDetails"].get("text", "") + str(words)[:600])
        elif method == "Log.entryAdded" and words["entry"]["level"] in ("error", "warning"):
            self.problems.append(words["entry"]["text"][:600])
        elif method == "Runtime.consoleAPICalled" and words["type"] in ("error", "warning", "assert"):
            self.problems.append(str(words["args"])[:600])

    def _read(self) -> dict:
        while b"\0" not in self._buffer:
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def open(self, path: Path) -> None:
        """Load a file and wait until it has run."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression: str) -> object:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str, tries: int = 400) -> None:
        """Until the expression is true; one animation frame at a time."""
        for _ in range(tries):
            if self.run(f"new Promise(r => setTimeout(() => r(Boolean({expression})), 25))"):
                return
        raise AssertionError(f"never true: {expression}")

    def mouse(self, kind: str, x: float, y: float, **words: object) -> None:
        """`mousePressed`, `mouseMoved`, `mouseReleased` or `mouseWheel` at a place of the page."""
        button = "none" if kind == "mouseWheel" else "left"
        held = 1 if kind in ("mousePressed", "mouseMoved") else 0
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button=button,
            buttons=held,
            clickCount=1,
            **words,
        )

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def drag(self, places: list[tuple[float, float]]) -> None:
        """Press, move along, release."""
        self.mouse("mousePressed", *places[0])
        for place in places[1:]:
            self.mouse("mouseMoved", *place)
        self.mouse("mouseReleased", *places[-1])

    def screenshot(self, path: Path) -> None:
        """What a person would see, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
