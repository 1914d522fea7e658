"""The operator page's end: what a person does over HTTP, live images, the stop, and who is let in."""

import threading
from contextlib import contextmanager

import httpx
import pytest
from PIL import Image

from tests.supervision.people import RealRobot, Still
from twinloop.datasets.outcomes import known_outcomes
from twinloop.robots import SafetyEnvelope, connected, declared_limits
from twinloop.robots.record import RecordingSpec, Station
from twinloop.studio.server import make_server
from twinloop.studio.settings import make_settings
from twinloop.supervision.desk import Desk
from twinloop.supervision.series import record_attended

TOKEN = "a-token-of-the-tests"


@contextmanager
def page(workspace, desk):
    """A server with this desk, and a client that may ask it."""
    ready, told = threading.Event(), []
    settings = make_settings(workspace, port=0, token=TOKEN)
    server, listener = make_server(settings, lambda address: (told.append(address), ready.set()), desk)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert ready.wait(60)
    headers = {"authorization": f"Bearer {TOKEN}", "x-twinloop": "1"}
    try:
        with httpx.Client(base_url=told[0].partition("/?")[0], headers=headers, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture
def workspace(tmp_path):
    from tests.terminal import twinloop

    twinloop("init", tmp_path / "cell", cwd=tmp_path)
    return tmp_path / "cell"


def wait_for(client, stage, **more):
    """Ask until the trial is in this stage."""
    while True:
        trial = client.get("/api/operate").json()["trial"]
        if trial["stage"] == stage and all(trial[name] == value for name, value in more.items()):
            return trial


def test_a_session_over_http(workspace, tmp_path):
    desk, robot = Desk(), RealRobot()
    moved = threading.Event()
    with page(workspace, desk) as client, connected(robot), desk.seat(robot, "ann", None) as (shared, person):
        arm = SafetyEnvelope(shared, declared_limits(robot.description))
        recorded = []

        def run():
            station = Station(arm, Still(on_act=lambda: len(robot.fake.sent) < 5 or moved.wait()), person)
            spec = RecordingSpec(2, 1.0)
            recorded.append(record_attended(station, tmp_path / "out", spec, person))

        thread = threading.Thread(target=run)
        thread.start()
        trial = wait_for(client, "placing")
        assert trial["trial"]["total"] == 2 and "start" in trial["allowed"] and trial["seconds_left"] > 60
        assert client.post("/api/operate/press", json={"kind": "success"}).status_code == 400
        client.post("/api/operate/press", json={"kind": "start"}).raise_for_status()
        wait_for(client, "running")
        while len(robot.fake.sent) < 5:
            pass
        before = len(robot.fake.sent)
        client.post("/api/operate/press", json={"kind": "stop"}).raise_for_status()
        assert len(robot.fake.sent) > before, "it has been told to hold before the answer"
        moved.set()
        wait_for(client, "stopped", void=1)
        assert client.post("/api/operate/press", json={"kind": "reset"}).status_code == 400, (
            "without a finding"
        )
        found = client.get("/api/operate").json()["findings"][0]
        client.post("/api/operate/press", json={"kind": "reset", "note": found}).raise_for_status()
        wait_for(client, "placing", void=1)
        for word in ("success", "failure"):
            client.post("/api/operate/press", json={"kind": "start"}).raise_for_status()
            wait_for(client, "judging")
            said = {"kind": word} | (
                {"failure": "hit the lamp", "severity": "major"} if word == "failure" else {}
            )
            client.post("/api/operate/press", json=said).raise_for_status()
            wait_for(client, "placing" if word == "success" else "ended")
        thread.join(60)
        assert known_outcomes(recorded[0]) == [None, True, False]
        shown = client.get("/api/operate").json()
        assert [one["name"] for one in shown["robot"]["joints"]] == ["shoulder", "elbow"]
        assert shown["robot"]["joints"][0]["low"] == -1.0 and shown["robot"]["cameras"] == ["front"]
        image = client.get("/api/operate/camera/front")
        assert image.headers["content-type"] == "image/jpeg"
        import io

        assert Image.open(io.BytesIO(image.content)).size == (16, 16)
        assert client.get("/api/operate/camera/none").status_code == 404
        refused = client.post("/api/operate/drive", json={"motion": [1, 0, 0, 0]})
        assert refused.status_code == 400 and "cannot be driven" in refused.json()["error"]["what"]
        assert client.post("/api/operate/drive", json={"motion": [7, 0, 0, 0]}).status_code == 422


def test_only_those_with_the_token_and_the_header_move_anything(workspace):
    with page(workspace, Desk()) as client:
        stranger = httpx.Client(base_url=client.base_url)
        with stranger:
            assert stranger.get("/api/operate").status_code == 401
            assert stranger.post("/api/operate/press", json={"kind": "stop"}).status_code in (401, 403)
        bare = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=client.base_url, headers=bare) as without:
            assert without.post("/api/operate/press", json={"kind": "stop"}).status_code == 403
        with client.stream("GET", "/api/operate/events") as stream:
            lines = stream.iter_lines()
            assert any(line.startswith("data: ") and '"stage":"waiting"' in line for line in lines)


def test_a_studio_without_a_robot_says_so(workspace):
    with page(workspace, None) as client:
        answer = client.get("/api/operate")
        assert answer.status_code == 404 and "twinloop operate" in answer.json()["error"]["remedy"]
