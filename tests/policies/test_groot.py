"""Policies behind GR00T's server, by bytes recorded from its encoding (see record_groot.py)."""

import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq

from tests.policies.record_groot import messages
from tests.policies.test_packing import CORPUS
from twinloop.errors import PolicyChanged, PolicyGone, WrongUse
from twinloop.policies.backends import groot, packing
from twinloop.policies.backends.protocol import open_backend
from twinloop.policies.backends.websocket import TOKEN

RECORDED = {
    path.stem: path.read_bytes() for path in (Path(__file__).with_name("corpus") / "groot").glob("*.msgpack")
}
ANSWERS = {"ping": "ping", "get_modality_config": "config", "reset": "reset", "get_action": "actions"}


@contextmanager
def groot_server(heard=None, **answers):
    """A REP socket that answers each endpoint with recorded bytes, or with those given; None: not at all."""
    prepared = {name: RECORDED[kept] for name, kept in ANSWERS.items()} | answers
    context = zmq.Context()
    reply, end = context.socket(zmq.REP), context.socket(zmq.PAIR)
    port = reply.bind_to_random_port("tcp://127.0.0.1")
    end.bind("inproc://end")

    def run():
        over = context.socket(zmq.PAIR)
        over.connect("inproc://end")
        while True:
            ready = dict(zmq_poll(reply, over))
            if over in ready:
                break
            request = packing.unpack(reply.recv())
            if heard is not None:
                heard.append(request)
            if (answer := prepared[request["endpoint"]]) is None:
                break
            reply.send(answer)
        over.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"groot:tcp://127.0.0.1:{port}"
    finally:
        end.send(b"") if thread.is_alive() else None
        thread.join(20)
        reply.close(linger=0)
        end.close(linger=0)
        context.term()


def zmq_poll(*sockets):
    poller = zmq.Poller()
    for one in sockets:
        poller.register(one, zmq.POLLIN)
    return poller.poll()


def observation():
    recorded = messages()["request"]["data"]["observation"]
    return {
        "video/front": recorded["video"]["front"][:, 0],
        "state/single_arm": recorded["state"]["single_arm"][:, 0],
        "language/task": ["pick the cube"] * 2,
    }


def test_requests_have_the_bytes_that_gr00ts_client_sends():
    value = messages()["request"]
    assert packing.pack(value, "groot") == RECORDED["request"]


def test_a_batch_is_asked_about_at_once_and_chunks_stand_beside_each_other_in_the_configs_order():
    heard, said = [], messages()["actions"][0]
    with groot_server(heard) as address:
        backend = open_backend(address)
        assert backend.metadata["action"]["as_json"]["modality_keys"] == ["single_arm", "gripper"]
        backend.reset(5, "pick the cube")
        answer = backend.infer_batch(observation())
        backend.close()
        backend.close()
    assert np.array_equal(answer["actions"], np.concatenate([said["single_arm"], said["gripper"]], axis=-1))
    assert np.array_equal(answer["gripper"], said["gripper"])
    assert packing.pack(heard[-1], "groot") == RECORDED["request"]


def test_one_episode_is_a_batch_of_one():
    said = messages()["actions"]
    one = packing.pack([{name: chunk[:1] for name, chunk in said[0].items()}, {}], "groot")
    heard = []
    with groot_server(heard, get_action=one) as address:
        backend = open_backend(address)
        values = {name: value[0] for name, value in observation().items()}
        assert backend.infer(values)["actions"].shape == (16, 6)
        backend.close()
    sent = heard[-1]["data"]["observation"]
    assert sent["video"]["front"].shape == (1, 1, 4, 6, 3) and sent["state"]["single_arm"].shape == (1, 1, 5)
    assert sent["language"] == {"task": [["pick the cube"]]}


def test_the_token_goes_with_every_request(monkeypatch):
    monkeypatch.setenv(TOKEN, "secret")
    heard = []
    with groot_server(heard) as address:
        open_backend(address).close()
    assert [request["api_token"] for request in heard] == ["secret", "secret"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RECORDED["failed"], "Video key 'front' must be in observation"),
        (RECORDED["unauthorized"], f"(?s)Unauthorized.*set {TOKEN}"),
        (RECORDED["ping"], "got dict; expected a list of actions"),
        (RECORDED["actions"][:50], "cannot be read"),
        (packing.pack([{"arm": np.zeros((1, 16, 5))}, {}], "groot"), r"expected \(2, T, D\)"),
        (packing.pack([{"arm": np.full((2, 16, 5), np.nan)}, {}], "groot"), "not finite"),
        (b"ERROR", "answers with something else|cannot be read"),
        (CORPUS["npy that claims a terabyte"], "cannot be read"),
        (CORPUS["npy with pickled objects"], "cannot be read"),
    ],
)
def test_a_wrong_answer_is_refused_with_a_reason(answer, reason):
    with groot_server(get_action=answer) as address:
        backend = open_backend(address)
        with pytest.raises(PolicyGone, match=reason):
            backend.infer_batch(observation())
        backend.close()


def test_a_server_that_dies_half_way_is_told(monkeypatch):
    monkeypatch.setattr(groot, "FIRST_ANSWER_S", 0.2)
    with groot_server(get_action=None) as address:
        backend = groot.GrootBackend(address.removeprefix("groot:"), answer_s=0.2)
        with pytest.raises(PolicyGone, match=r"no answer to get_action within 0\.2 s"):
            backend.infer_batch(observation())
        backend.close()
    with pytest.raises(PolicyGone, match="nothing answers"):
        open_backend(address)


def test_another_policy_at_the_same_address_is_refused():
    with groot_server() as address:
        backend = open_backend(address)
        backend.fingerprint = "of the policy before"
        with pytest.raises(PolicyChanged, match="another policy answers now"):
            backend.reset(0, "")
        backend.close()


def test_inputs_that_gr00t_does_not_know_are_refused():
    with groot_server() as address:
        backend = open_backend(address)
        with pytest.raises(WrongUse, match="video/CAMERA"):
            backend.infer({"observation.state": np.zeros(2)})
        backend.close()
