"""A served policy: no client ends it, reads its memory, or keeps others from it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import msgpack
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.policies.servers import SCHEMA, CountingPolicy, StatelessPolicy, make_certificate, served, started
from tests.policies.test_packing import CORPUS
from twinloop.errors import PolicyGone, WrongUse
from twinloop.policies import serve
from twinloop.policies.backends import packing
from twinloop.policies.backends.protocol import open_backend
from twinloop.policies.backends.websocket import TOKEN
from twinloop.testing.policies import ProportionalPolicy

SECRET = "a-token-of-some-length"
FRAME = np.zeros((4, 6, 3), np.uint8)
GOOD = {"observation.state": np.zeros(2, np.float32), "front": FRAME}


def dial(address, **options):
    return connect(address, compression=None, proxy=None, **options)


def ask(client, request):
    client.send(request if isinstance(request, bytes | str) else packing.pack(request))
    answer = client.recv(timeout=10)
    return answer if isinstance(answer, str) else packing.unpack(answer)


def serves(address, **options):
    with dial(address, **options) as client:
        assert packing.unpack(client.recv(timeout=10))["name"] == "counting"
        assert ask(client, GOOD)["actions"].shape == (3, 2)


@pytest.fixture(scope="module")
def address():
    with served(CountingPolicy()) as found:
        yield found


def test_metadata_say_what_the_policy_observes_and_commands(address):
    with dial(address) as client:
        metadata = msgpack.unpackb(client.recv(timeout=10))
    assert metadata["observations"] == {
        "observation.state": {"size": 2, "elements": ["a.pos", "b.pos"], "units": ["rad"]}
    }
    assert metadata["cameras"] == {"front": {"height": 4, "width": 6}}
    assert metadata["actions"] == {"size": 2, "elements": ["a.target", "b.target"], "units": ["rad"]}
    known = {"rate_hz": 20.0, "chunk": 3, "n_action_steps": 2, "stateful": True, "accepts": ["reset"]}
    assert known.items() <= metadata.items()


def test_every_connection_is_an_episode_of_its_own_and_reset_begins_another(address):
    with dial(address) as first, dial(address) as second:
        for client in (first, second):
            client.recv(timeout=10)
        got = [ask(client, GOOD)["actions"][0].tolist() for client in (first, first, second)]
        assert got == [[0, 1], [0, 2], [0, 1]]
        assert ask(first, {"reset": 5}) == {"reset": True}
        assert ask(first, GOOD)["actions"][0].tolist() == [5, 1]
        assert ask(second, GOOD | {"reset": 6, "prompt": "text is of no use"})["actions"][0].tolist() == [
            6,
            1,
        ]


def test_health_is_told_without_a_token_and_nothing_else():
    with served(CountingPolicy(), token=SECRET) as address:
        there = address.replace("ws", "http", 1)
        with urllib.request.urlopen(f"{there}/healthz") as answer:
            assert (answer.status, answer.read()) == (200, b"OK\n")
        for headers in ({}, {"Authorization": "Api-Key wrong"}, {"Authorization": SECRET}):
            with pytest.raises(InvalidStatus) as caught, dial(address, additional_headers=headers):
                pass
            assert caught.value.response.status_code == 401
        serves(address, additional_headers={"Authorization": f"Api-Key {SECRET}"})


def test_our_client_sends_the_token_of_the_environment(monkeypatch):
    with served(StatelessPolicy(), token=SECRET) as address:
        with pytest.raises(PolicyGone, match=f"(?s)status 401.*set {TOKEN}"):
            open_backend(f"openpi:{address}")
        monkeypatch.setenv(TOKEN, SECRET)
        open_backend(f"openpi:{address}").close()


def test_clients_with_the_certificate_connect_by_tls_and_others_do_not(tmp_path, monkeypatch):
    make_certificate(tmp_path, "server")
    monkeypatch.setenv(TOKEN, SECRET)
    with served(
        StatelessPolicy(), token=SECRET, certificate=tmp_path / "server.pem", key=tmp_path / "server.key"
    ) as address:
        assert address.startswith("wss://127.0.0.1:")
        there = f"openpi:wss://localhost:{address.rpartition(':')[2]}"
        with pytest.raises(PolicyGone, match=r"(?s)no secure connection.*SSL_CERT_FILE"):
            open_backend(there)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        open_backend(there).close()
        with pytest.raises(PolicyGone, match="no secure connection"):
            open_backend(f"openpi:{address}")  # not the name in the certificate
        with pytest.raises(PolicyGone):
            open_backend(f"openpi:{address.replace('wss', 'ws')}")
    with pytest.raises(WrongUse, match="cannot be used as a certificate"):
        serve.serve(StatelessPolicy(), serve.Door(port=0, certificate=tmp_path / "server.key"))


def test_web_pages_of_other_sites_are_refused(address):
    with pytest.raises(InvalidStatus) as caught, dial(address, origin="http://example.org"):
        pass
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({}, "observation.state; got none among nothing"),
        ({"observation.state": np.zeros(2)}, "front; got none among observation.state"),
        (GOOD | {"observation.state": np.zeros(3)}, "expected numbers (2,)"),
        (GOOD | {"observation.state": [0.0, 0.0]}, "got list"),
        (GOOD | {"observation.state": np.array([np.inf, 0])}, "not finite"),
        (GOOD | {"front": FRAME[:2]}, "expected uint8 (4, 6, 3)"),
        (GOOD | {"front": FRAME.astype(np.float32)}, "expected uint8"),
        (GOOD | {"reset": "now"}, "reset; got now"),
        (GOOD | {"reset": 2**63}, "whole number"),
        (GOOD | {"batch": 2, "observation.state": np.zeros((2, 2))}, "expected numbers (2,)"),
        ("text", "a request cannot be read"),
        (b"\x93\x01\x02\x03", "a request cannot be read"),
        (packing.pack({"a": 1})[:2], "a message cannot be read"),
    ],
)
def test_what_the_policy_does_not_observe_is_refused_and_the_episode_goes_on(address, request_, reason):
    with dial(address) as client:
        client.recv(timeout=10)
        answer = ask(client, request_)
        assert isinstance(answer, str) and reason in answer and "\n" not in answer
        assert ask(client, GOOD)["actions"].shape == (3, 2)


def test_no_message_of_the_corpus_ends_the_server(address):
    with dial(address) as client:
        client.recv(timeout=10)
        for message in CORPUS.values():
            assert isinstance(ask(client, message), str)
    serves(address)


def test_raw_bytes_and_clients_that_vanish_do_not_end_the_server(address):
    place = ("127.0.0.1", int(address.rpartition(":")[2]))
    for sent in (
        b"",
        b"\0" * 100,
        b"GET / HTTP/1.1\r\n",
        b"GET /" + b"x" * 20_000,
        b"GET /healthz HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection(place) as raw:
            raw.sendall(sent)
    with dial(address) as client:
        client.send(packing.pack(GOOD))
        client.socket.shutdown(socket.SHUT_RDWR)
    serves(address)


def test_messages_longer_than_an_observation_can_be_are_not_read(address):
    with dial(address) as client:
        client.recv(timeout=10)
        client.send(b"\0" * (2 * serve.SPARE_BYTES))
        with pytest.raises(ConnectionClosed) as caught:
            client.recv(timeout=10)
    assert caught.value.rcvd.code == 1009
    serves(address)


def test_a_client_that_does_not_read_is_disconnected_and_others_are_served(monkeypatch):
    monkeypatch.setattr(serve, "SEND_S", 0.2)

    class Talkative(StatelessPolicy):
        def infer_batch(self, observation, rows):
            return np.zeros((len(rows), 1 << 20, 2), np.float32)

    with served(Talkative()) as address:
        place = int(address.rpartition(":")[2])
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", place))
            with dial(
                address, sock=raw, max_size=None, max_queue=1, close_timeout=0
            ) as client:  # it never reads
                for _ in range(8):
                    client.send(packing.pack(GOOD))
                with dial(address, max_size=None) as other:
                    other.recv(timeout=10)
                    assert ask(other, GOOD)["actions"].shape == (1 << 20, 2)
                with pytest.raises(ConnectionClosed):
                    for _ in range(1000):
                        client.send(packing.pack(GOOD))
                        time.sleep(0.01)


def test_clients_side_by_side_get_their_own_answers(address):
    wrong = []

    def run(seed):
        with dial(address) as client:
            client.recv(timeout=10)
            ask(client, {"reset": seed})
            got = [ask(client, GOOD)["actions"][0].tolist() for _ in range(20)]
            if got != [[seed, count + 1] for count in range(20)]:
                wrong.append((seed, got))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_clients_than_there_is_room_for_are_told(monkeypatch):
    monkeypatch.setattr(serve, "MAX_CLIENTS", 2)
    with served(CountingPolicy()) as address:
        with dial(address) as first, dial(address) as second:
            for client in (first, second):
                client.recv(timeout=10)
            with pytest.raises(InvalidStatus) as caught, dial(address):
                pass
            assert caught.value.response.status_code == 503
        for _ in range(100):  # until the server has noticed that they left
            try:
                return serves(address)
            except InvalidStatus:
                continue
        raise AssertionError("no room after the others have left")


def test_a_policy_that_fails_fails_for_one_request_only():
    class Moody(CountingPolicy):
        def infer(self, observation):
            if observation["observation.state"][0] > 1:
                raise ValueError("too far\nand a second line")
            if observation["observation.state"][0] < -1:
                return np.full((3, 2), np.nan)
            return super().infer(observation)

    with served(Moody()) as address, dial(address) as client:
        client.recv(timeout=10)
        assert (
            ask(client, GOOD | {"observation.state": np.full(2, 2.0)})
            == "the policy failed: ValueError: too far"
        )
        assert "gives no actions" in ask(client, GOOD | {"observation.state": np.full(2, -2.0)})
        assert ask(client, GOOD)["actions"].shape == (3, 2)


def test_a_policy_that_cannot_act_is_not_served():
    class Broken(ProportionalPolicy):
        def infer(self, observation):
            return np.full((1, 2), np.nan)

    with pytest.raises(PolicyGone, match="gives no actions"):
        serve.serve(Broken(SCHEMA, np.zeros(2)), serve.Door(port=0))


def test_other_machines_are_let_in_with_a_long_token_only():
    policy = CountingPolicy()
    with pytest.raises(WrongUse, match=f"(?s)with a token only.*export {TOKEN}"):
        serve.serve(policy, serve.Door("0.0.0.0", 0))
    with pytest.raises(WrongUse, match="too short"):
        serve.serve(policy, serve.Door("0.0.0.0", 0, "short"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(WrongUse, match="cannot be used"):
            serve.serve(policy, serve.Door(port=taken.getsockname()[1]))


PROGRAM = """
from tests.policies.servers import CountingPolicy
from twinloop.policies.serve import Door, serve
serve(CountingPolicy(), Door(port=0), on_ready=lambda address: print(address, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_clients_are_told(number):
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with server:
        try:
            with dial(server.stdout.readline().strip()) as client:
                client.recv(timeout=10)
                server.send_signal(number)
                with pytest.raises(ConnectionClosed) as caught:
                    client.recv(timeout=20)
            assert caught.value.rcvd.code == 1001, "going away"
            assert server.wait(20) == 0 and server.stderr.read() == ""
        finally:
            server.kill()


@pytest.mark.slow
def test_the_command_says_where_it_serves(tiny_policy, tmp_path):
    folder = tiny_policy.save(tmp_path / "tiny")
    command = [sys.executable, "-m", "twinloop", "serve", folder, "--port", "0", "--json"]
    with started(command, env=os.environ | {TOKEN: SECRET}) as said:
        assert said["id"] == tiny_policy.id
        headers = {"Authorization": f"Api-Key {SECRET}"}
        with dial(said["policy"].removeprefix("openpi:"), additional_headers=headers) as client:
            metadata = packing.unpack(client.recv(timeout=10))
            steps = len(metadata["history"])
            states = {
                name: np.zeros((5, steps, about["size"]), np.float32)
                for name, about in metadata["observations"].items()
            }
            chunks = ask(client, states | {"batch": 5})["actions"]
            assert chunks.shape == (5, metadata["chunk"], metadata["actions"]["size"])
