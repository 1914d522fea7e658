"""Policies behind openpi's protocol: what a server sends is checked before it is used, and whatever goes wrong has a reason."""

import socket
import threading
import time

import msgpack
import numpy as np
import pytest

from tests.policies.servers import CountingPolicy, StatelessPolicy, scripted, served
from tests.policies.test_packing import CORPUS
from twinloop.errors import PolicyChanged, PolicyGone, UnknownName, WrongUse
from twinloop.policies.backends import packing, websocket
from twinloop.policies.backends.openpi import OpenpiBackend, StatelessOpenpi
from twinloop.policies.backends.protocol import open_backend

ASK = {"observation/state": np.zeros(2, np.float32), "prompt": "pick"}
CHUNK = np.arange(6, dtype=np.float32).reshape(3, 2)


def answering(*answers):
    """A server of the protocol that gives these answers, one after the other."""

    def talk(connection):
        connection.send(packing.pack({"model": "pi"}))
        for answer in answers:
            connection.recv(timeout=10)
            connection.send(answer if isinstance(answer, bytes | str) else packing.pack(answer))
        connection.recv(timeout=10)

    return talk


def ask(talk, **options):
    """What one question to a scripted server gives, or raises."""
    with scripted(talk, **options) as address:
        backend = open_backend(f"openpi:{address}")
        try:
            backend.reset(0, "pick")
            return backend.infer(ASK)
        finally:
            backend.close()
            backend.close()


def test_a_server_is_asked_in_its_own_words():
    asked = []

    def talk(connection):
        connection.send(packing.pack({"model": "pi"}))
        asked.append(msgpack.unpackb(connection.recv(timeout=10)))
        connection.send(packing.pack({"actions": CHUNK, "server_timing": {"infer_ms": 3.5}}))

    answer = ask(talk)
    assert list(answer) == ["actions"] and np.array_equal(answer["actions"], CHUNK)
    state = {b"__ndarray__": True, b"data": bytes(8), b"dtype": "<f4", b"shape": [2]}
    assert asked == [{"observation/state": state, "prompt": "pick"}], (
        "and without `reset`, which it does not know"
    )


def test_many_episodes_are_asked_about_over_one_connection_without_waiting():
    connections, first, asked = [], threading.Event(), []

    def talk(connection):
        connections.append(connection)
        connection.send(packing.pack({}))
        asked.extend(
            packing.unpack(connection.recv(timeout=10)) for _ in range(5)
        )  # all before the first answer
        first.set()
        for request in asked:
            connection.send(packing.pack({"actions": np.full((2, 1), request["state"][0])}))

    with scripted(talk) as address:
        backend = open_backend(f"openpi:{address}")
        assert isinstance(backend, StatelessOpenpi) and backend.open_session() is backend
        answer = backend.infer_batch({"state": np.arange(5.0)[:, None], "prompt": ["go"] * 5})
        backend.close()
    assert first.is_set() and len(connections) == 1
    assert np.array_equal(answer["actions"], np.arange(5.0)[:, None, None] * np.ones((5, 2, 1)))


def test_large_requests_and_answers_at_once_do_not_wait_for_each_other():
    large = np.zeros(1 << 20)

    def talk(connection):
        connection.send(packing.pack({}))
        for _ in range(4):
            connection.recv(timeout=10)
            connection.send(packing.pack({"actions": large}))

    with scripted(talk, max_size=None) as address:
        backend = open_backend(f"openpi:{address}")
        answer = backend.infer_batch({"image": np.zeros((4, 1 << 20))})
        backend.close()
    assert answer["actions"].shape == (4, 1 << 20)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            "Traceback:\n  File \"x.py\"\nKeyError: \x1b[2J'prompt'\n",
            r"server reports an error: KeyError:  \[2J'prompt'",
        ),
        ({"actions": np.array([[np.nan]])}, r"(?s)something else than actions.*not finite"),
        ({"error": "no"}, r"got error; expected arrays"),
        ([1, 2], r"got list; expected a dictionary"),
        (b"", r"a message cannot be read"),
    ],
)
def test_an_answer_that_is_no_chunk_is_refused_with_a_reason(answer, reason):
    with pytest.raises(PolicyGone, match=reason) as caught:
        ask(answering(answer))
    assert "\x1b" not in str(caught.value)


def test_messages_of_the_corpus_do_not_get_through_as_metadata_or_answer():
    for message in list(CORPUS.values())[::3]:
        with pytest.raises(PolicyGone):
            ask(answering(message))
        with pytest.raises(PolicyGone):
            ask(lambda connection, message=message: connection.send(message))


def test_an_answer_longer_than_allowed_is_not_read():
    with pytest.raises(PolicyGone, match="too long"):
        ask(answering(b"\0" * (packing.MAX_BYTES + 1)))


def test_answers_of_different_shapes_are_refused():
    with scripted(answering({"actions": CHUNK}, {"actions": CHUNK[:2]})) as address:
        backend = open_backend(f"openpi:{address}")
        with pytest.raises(PolicyGone, match="same shape"):
            backend.infer_batch({"state": np.zeros((2, 1))})
        backend.close()


def test_a_server_that_dies_half_way_is_found_again_by_the_next_trial():
    lives = iter([[], [{"actions": CHUNK}]])
    with scripted(lambda connection: answering(*next(lives))(connection)) as address:
        backend = open_backend(f"openpi:{address}")
        backend._conversation._socket.transport.abort()
        with pytest.raises(PolicyGone, match="connection was lost"):
            backend.infer(ASK)
        with pytest.raises(PolicyGone, match="connection is closed"):
            backend.infer(ASK)
        backend.reset(1, "pick")
        assert np.array_equal(backend.infer(ASK)["actions"], CHUNK)
        backend.close()


def test_another_policy_at_the_same_address_is_refused():
    names = iter(["pi", "other"])
    with scripted(lambda connection: connection.send(packing.pack({"model": next(names)}))) as address:
        backend = open_backend(f"openpi:{address}")
        with pytest.raises(PolicyGone):
            backend.infer(ASK)
        with pytest.raises(PolicyChanged, match="another policy answers now"):
            backend.reset(1, "pick")


def test_slow_answers_have_one_deadline_however_they_come(monkeypatch):
    monkeypatch.setattr(websocket, "FIRST_ANSWER_S", 0.3)
    monkeypatch.setattr(websocket, "ANSWER_S", 0.3)
    over = threading.Event()

    def drip(connection):
        connection.send(packing.pack({}))
        connection.recv(timeout=10)

        def pieces():
            while not over.wait(0.05):
                yield b"x"

        connection.send(pieces())

    began_s = time.monotonic()
    with scripted(drip) as address:
        conversation = websocket.Conversation(address, answer_s=0.3)
        conversation.open()
        conversation.listen()
        with pytest.raises(PolicyGone, match=r"no answer within 0\.3 s"):
            conversation.ask([b"x"])
        over.set()
    assert time.monotonic() - began_s < 20, "not for ever"


def test_unreachable_and_foreign_servers_are_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"ws://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PolicyGone, match=r"(?s)nothing answers.*start the server"):
        open_backend(f"openpi:{address}")
    with pytest.raises(UnknownName, match="did you mean 'openpi'"):
        open_backend(f"openpie:{address}")
    with (
        scripted(lambda connection: None, process_request=lambda c, r: c.respond(404, "no")) as there,
        pytest.raises(PolicyGone, match="refused with status 404"),
    ):
        open_backend(f"openpi:{there}")


@pytest.mark.parametrize(
    "address", ["ws://127.0.0.1", "http://127.0.0.1:1", "ws://a:b", "ws://u:p@h:1", "ws://h:1\x1b", "x"]
)
def test_addresses_that_are_none_are_refused(address):
    for scheme in ("openpi", "vla-eval", "groot"):
        with pytest.raises(WrongUse, match="cannot parse the address"):
            open_backend(f"{scheme}:{address}")


def test_redirects_are_not_followed():
    reached = []

    def elsewhere(connection, request):
        reached.append(request.path)
        response = connection.respond(302, "")
        response.headers["Location"] = "/elsewhere"
        return response

    with (
        scripted(lambda connection: None, process_request=elsewhere) as address,
        pytest.raises(PolicyGone, match="refused with status 302"),
    ):
        open_backend(f"openpi:{address}")
    assert reached == ["/"]


@pytest.mark.parametrize(
    "address", ["openpi:ws://192.0.2.7:8000", "vla-eval:ws://192.0.2.7:8000", "groot:tcp://192.0.2.7:5555"]
)
def test_the_token_is_not_sent_to_another_machine_in_clear(monkeypatch, address):
    monkeypatch.setenv(websocket.TOKEN, "secret")
    dialled = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, there: dialled.append(there))
    with pytest.raises(
        WrongUse, match=r"(?s)not sent to another machine in clear.*ssh -N -L .*127\.0\.0\.1:"
    ):
        open_backend(address)
    assert not dialled


def test_an_episode_of_a_policy_with_state_has_a_connection_of_its_own():
    with served(CountingPolicy()) as address:
        first = open_backend(f"openpi:{address}")
        assert type(first) is OpenpiBackend and first.metadata["stateful"] is True
        second = first.open_session()
        state = {"observation.state": np.zeros(2), "front": np.zeros((4, 6, 3), np.uint8)}
        first.reset(7, "")
        second.reset(9, "")
        counts = [backend.infer(state)["actions"][0].tolist() for backend in (first, second, first, second)]
        assert counts == [[7, 1], [9, 1], [7, 2], [9, 2]]
        second.reset(4, "")
        assert second.infer(state)["actions"][0].tolist() == [4, 1]
        first.close()
        second.close()


def test_episodes_of_a_policy_without_state_are_asked_about_in_one_message():
    with served(StatelessPolicy()) as address:
        backend = open_backend(f"openpi:{address}")
        states = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
        frames = np.zeros((9, 4, 6, 3), np.uint8)
        chunks = backend.infer_batch({"observation.state": states, "front": frames})["actions"]
        one = backend.infer({"observation.state": states[4], "front": frames[4]})["actions"]
        assert chunks.shape == (9, 2, 2) and np.array_equal(chunks[4], one)
        backend.close()
