"""`twinloop studio` as a user starts and stops it."""

import json
import signal
import subprocess
import sys

from tests.terminal import twinloop
from twinloop.studio.client import StudioClient
from twinloop.workspace import init_workspace


def test_a_studio_says_where_it_is_keeps_its_port_and_stops_when_asked(tmp_path):
    root = init_workspace(tmp_path / "cell").root
    command = [sys.executable, "-m", "twinloop", "studio", str(root), "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        found = json.loads(text)
        with StudioClient(found["address"]) as client:
            assert client.read_studio().workspace == "cell"
        port = found["address"].partition("127.0.0.1:")[2].partition("/")[0]
        taken = twinloop("studio", root, "--port", port, "--no-browser", cwd=tmp_path, code=1)
        assert "--port 0 picks a free port" in taken
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_studio_that_cannot_be_is_refused_with_the_reason(tmp_path):
    assert "not inside a workspace" in twinloop("studio", tmp_path, "--no-browser", cwd=tmp_path, code=1)
    root = init_workspace(tmp_path / "cell").root
    open_to_all = twinloop("studio", root, "--host", "0.0.0.0", cwd=tmp_path, code=2)
    assert "needs a token" in open_to_all and "TWINLOOP_STUDIO_TOKEN" in open_to_all
