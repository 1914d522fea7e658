"""The stand-in's server, with a fake cell: no client stops it, its clock, or the client that has the token."""

import json
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import RobotError, RobotGone, TwinloopError, WrongUse
from twinloop.robots import RemoteRobot, open_robot, wire
from twinloop.robots.remote import PROTOCOL, description_as_json
from twinloop.robots.standin import serve
from twinloop.robots.standin.serve import Server
from twinloop.testing.robots import FakeRobot

CORPUS = Path(__file__).with_name("corpus")
REQUESTS = (CORPUS / "requests.txt").read_bytes().splitlines()
ANSWERS = (CORPUS / "answers.txt").read_bytes().splitlines()
TOKEN = "secret"


class FakeSession(FakeRobot):
    """The cell behind a server: a fake robot whose clock can be counted."""

    cell = SimpleNamespace(dt_s=0.01)

    def __init__(self, lockstep):
        super().__init__()
        self.ticks, self._lockstep = 0, lockstep
        self.connect()

    @property
    def description(self):
        return replace(super().description, lockstep=self._lockstep)

    def observe(self, cameras=()):
        for name in cameras:
            if name != "front":
                raise RobotError(f"the robot has no camera {name!r}")
        return super().observe(tuple(cameras))

    def tick(self):
        self.ticks += 1


class Place:
    """A server at a socket of its own, run turn by turn; its clock is the test's."""

    def __init__(self, path, lockstep=True):
        self.path, self.now_s = str(path), 0.0
        self.listener = serve.open_listener(self.path)
        self.session = FakeSession(lockstep)
        self.server = Server(
            self.session, self.listener, token=TOKEN, lockstep=lockstep, clock=lambda: self.now_s
        )
        self.server._wait_s = lambda: 0.0  # a turn never waits

    def dial(self):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(self.path)
        client.settimeout(5)
        self.turn()
        return client

    def turn(self, times=3):
        for _ in range(times):
            self.server.turn()

    def ask(self, client, kind, arrays=None, **fields):
        wire.send(client, kind, arrays, **fields)
        self.turn()
        return wire.receive(client, 1.0)

    def hello(self, client, token=TOKEN):
        return self.ask(client, "hello", token=token, protocol=PROTOCOL)[0]

    def close(self):
        self.server.close()
        self.listener.close()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "s")
    yield made
    made.close()


def packed(header, body=b""):
    return struct.pack(">4sI", wire.MAGIC, len(header)) + header + body


def with_body(header):
    """A message with as many zeros as its header announces, if that is not too many."""
    try:
        plan = wire._parse_header(header)[1]
    except RobotError:
        return packed(header)
    return packed(header, bytes(min(1 << 16, sum(array.size for array in plan))))


def serves(place):
    """The server still lets the client in that has the token."""
    place.now_s += 1000.0  # past every pause and idle limit
    with place.dial() as client:
        assert place.hello(client)["kind"] == "done"
        assert place.ask(client, "observe")[1]["observation.state"].shape == (2,)


@pytest.mark.parametrize("header", REQUESTS, ids=range(len(REQUESTS)))
@pytest.mark.parametrize("greeted", [False, True])
def test_no_message_ends_the_server(place, header, greeted):
    with place.dial() as client:
        if greeted:
            assert place.hello(client)["kind"] == "done"
        client.sendall(with_body(header))
        place.turn()
        answer, _ = wire.receive(client, 1.0)
        if not greeted and (b"secret" not in header or b"[" in header.replace(b'"arrays": []', b"")):
            assert answer["kind"] == "refused"
    serves(place)


JUNK = st.sampled_from(
    [None, True, -1, 1e308, 10**30, "", "\ud800", "front", [], [[]], {}, {"kind": []}, "x" * 3000, 0.5]
)


@st.composite
def mutated(draw, corpus):
    """A message of the corpus with a part of its header replaced, or with bytes changed, cut off or repeated."""
    header = draw(st.sampled_from(corpus))
    try:
        fields = json.loads(header)
    except ValueError:
        fields = None
    if isinstance(fields, dict) and draw(st.booleans()):
        key = draw(st.sampled_from([*fields, "steps", "cameras", "token", "arrays"]))
        fields[key] = draw(JUNK)
        header = json.dumps(fields).encode()
    message = bytearray(with_body(header))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(message) - 1))
        message[place] = draw(st.integers(0, 255))
    return bytes(message[: draw(st.integers(1, len(message)))] if draw(st.booleans()) else message * 2)


@pytest.mark.parametrize("lockstep", [True, False])
def test_messages_changed_at_random_do_not_end_the_server(tmp_path_factory, lockstep):
    place = Place(tmp_path_factory.mktemp("fuzz") / "s", lockstep)

    @settings(max_examples=120, deadline=None)
    @given(mutated(REQUESTS), st.booleans())
    def send(message, greeted):
        place.now_s += 1000.0
        with place.dial() as client:
            if greeted:
                assert place.hello(client)["kind"] == "done"
            client.sendall(message)
            place.turn()
        place.turn()

    try:
        send()
        serves(place)
    finally:
        place.close()


def test_silent_clients_do_not_keep_others_out(place):
    silent = [place.dial() for _ in range(3 * serve.MAX_STRANGERS)]
    with place.dial() as client:
        assert place.hello(client)["kind"] == "done"
        assert len(place.server._strangers) <= serve.MAX_STRANGERS
        place.now_s += serve.HELLO_TIMEOUT_S
        place.turn()
        assert not place.server._strangers, "who shows no token is disconnected"
        assert place.ask(client, "observe")[0]["kind"] == "done"
    for other in silent:
        other.close()


def test_an_idle_client_makes_room_for_one_that_has_the_token(place):
    with place.dial() as first, place.dial() as second, place.dial() as third:
        assert place.hello(first)["kind"] == "done"
        assert "busy" in place.hello(second)["what"]
        place.now_s += serve.IDLE_S
        assert place.hello(third)["kind"] == "done"
        with pytest.raises(RobotGone):
            place.ask(first, "observe")
        assert place.ask(third, "observe")[0]["kind"] == "done"


def test_who_has_no_token_does_not_learn_that_the_robot_is_busy(place):
    with place.dial() as first, place.dial() as stranger:
        place.hello(first)
        assert "token is wrong" in place.hello(stranger, "guess")["what"]


def test_wrong_tokens_are_checked_ever_more_slowly(place):
    checked = 0
    for _ in range(300):
        with place.dial() as client:
            wire.send(client, "hello", token="guess", protocol=PROTOCOL)
            place.turn()
            checked = place.server._wrong_tokens
        place.now_s += 0.1
    assert checked <= 9, "300 guesses in 30 s"
    place.now_s += serve.MAX_PAUSE_S
    with place.dial() as client:
        wire.send(client, "hello", token=TOKEN, protocol=PROTOCOL)
        for _ in range(40):
            place.now_s += serve.MAX_PAUSE_S / 2
            place.turn()
        assert wire.receive(client, 1.0)[0]["kind"] == "done", "the right one gets its turn"


def test_before_the_token_nothing_large_is_read_and_no_array(place):
    for header in (
        b'{"kind": "hello", "arrays": [["x", "uint8", [1]]]}',
        b'{"kind": "hello", "arrays": [], "token": "' + b"x" * 5000 + b'"}',
    ):
        with place.dial() as client:
            client.sendall(packed(header))
            place.turn()
            assert wire.receive(client, 1.0)[0]["kind"] == "refused"
            with pytest.raises(RobotGone):
                wire.receive(client, 1.0)


def test_a_client_that_sends_byte_by_byte_does_not_stop_the_clock(tmp_path):
    place = Place(tmp_path / "s", lockstep=False)
    try:
        with place.dial() as client:
            place.hello(client)
            message = wire.encode("act", {"action": np.zeros(2)})
            before = place.session.ticks
            for byte in message[:3]:  # one byte every four seconds
                client.sendall(bytes([byte]))
                for _ in range(400):
                    place.now_s += 0.01
                    place.turn(1)
            assert place.session.ticks - before >= 1190
            with pytest.raises(OSError, match="Broken pipe"):
                client.sendall(message[3:4])
            assert place.server._client is None, "10 s for a whole message, however often a byte comes"
    finally:
        place.close()


def test_a_client_that_does_not_read_does_not_stop_the_clock(tmp_path):
    place = Place(tmp_path / "s", lockstep=False)
    place.session.observe = lambda cameras=(): FakeRobot.observe(place.session)
    place.session.steer = lambda: np.zeros(1 << 20)
    try:
        with place.dial() as client:
            place.hello(client)
            wire.send(client, "steer")
            before, started_s = place.session.ticks, time.monotonic()
            for _ in range(300):
                place.now_s += 0.01
                place.turn(1)
            assert place.session.ticks - before >= 299 and time.monotonic() - started_s < 3.0
            place.now_s += serve.CLIENT_TIMEOUT_S
            place.turn()
            assert place.server._client is None
    finally:
        place.close()


def test_an_answer_larger_than_the_sockets_buffer_arrives_whole(place):
    values = np.arange(1 << 18, dtype=np.float64)
    place.session.steer = lambda: values
    with place.dial() as client:
        place.hello(client)
        wire.send(client, "steer")
        got = []
        reader = threading.Thread(target=lambda: got.append(wire.receive(client, 5.0)))
        reader.start()
        while reader.is_alive():
            place.turn(1)
        reader.join()
    assert np.array_equal(got[0][1]["action"], values)


class HostileServer(threading.Thread):
    """Answers `hello` as a robot would, the next request with one message, and hangs up."""

    def __init__(self, path, message, *, greets=True):
        super().__init__(daemon=True)
        self.listener = serve.open_listener(str(path))
        self.message, self.greets = message, greets

    def run(self):
        peer, _ = self.listener.accept()
        with peer, self.listener:
            try:
                if self.greets:
                    wire.receive(peer)
                    description = replace(FakeRobot().description, lockstep=True)
                    wire.send(peer, "done", description=description_as_json(description))
                wire.receive(peer)
                peer.sendall(self.message)
            except (RobotError, OSError):
                return


def provoke(path, message, greets, request):
    hostile = HostileServer(path, message, greets=greets)
    hostile.start()
    robot = RemoteRobot(str(path), token=TOKEN)
    try:
        robot.connect()
        request(robot)
    except TwinloopError as error:
        text = str(error)
        assert all(letter.isprintable() or letter == "\n" for letter in text) and len(text) < 2000
        text.encode()
    finally:
        robot.close()
        hostile.join(5)


CALLS = {
    "hello": lambda robot: None,
    "observe": lambda robot: robot.observe(),
    "frames": lambda robot: robot.observe(("front",)),
    "act": lambda robot: robot.act(np.zeros(2)),
    "steer": lambda robot: robot.steer(),
    "judge": lambda robot: robot.judge(),
    "prepare": lambda robot: robot.prepare(1),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_answer_of_a_server_makes_the_client_fail_without_a_reason(tmp_path, call):
    for number, header in enumerate(ANSWERS):
        provoke(tmp_path / f"s{number}", with_body(header), call != "hello", CALLS[call])


def test_answers_changed_at_random_are_refused_with_a_reason(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    numbers = iter(range(10_000))

    @settings(max_examples=80, deadline=None)
    @given(mutated(ANSWERS), st.sampled_from(sorted(CALLS)))
    def answer(message, call):
        provoke(folder / str(next(numbers)), message, call != "hello", CALLS[call])

    answer()


def test_a_server_that_answers_byte_by_byte_runs_out_of_time():
    ours, theirs = socket.socketpair()
    over = threading.Event()

    def drip():
        for byte in wire.encode("done", word="x" * 1000):
            if over.wait(0.02):
                return
            theirs.sendall(bytes([byte]))

    dripping = threading.Thread(target=drip)
    dripping.start()
    started_s = time.monotonic()
    with ours, theirs:
        with pytest.raises(RobotGone, match="does not answer"):
            wire.receive(ours, 0.2)
        assert time.monotonic() - started_s < 2.0
        over.set()
        dripping.join()


def test_a_token_is_not_sent_to_another_machine_in_clear(monkeypatch):
    monkeypatch.setenv("TWINLOOP_ROBOT_TOKEN", TOKEN)
    dialled = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: dialled.append(address))
    with pytest.raises(
        WrongUse, match=r"(?s)not sent to another machine in clear; got tcp:192\.0\.2\.7:4750.*ssh -N -L"
    ):
        open_robot("tcp:192.0.2.7:4750").connect()
    assert not dialled


def test_what_a_server_says_cannot_act_on_the_terminal(tmp_path):
    hostile = HostileServer(tmp_path / "s", packed(ANSWERS[-6]))
    hostile.start()
    robot = RemoteRobot(str(tmp_path / "s"), token="")
    robot.connect()
    with pytest.raises(RobotError, match="fake prompt") as caught:
        robot.observe()
    assert "\x1b" not in str(caught.value)
    robot.close()
    hostile.join(5)
