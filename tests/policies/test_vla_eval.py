"""Policies behind vla-eval's model servers: every message is answered by its number, every episode by its own connection."""

import numpy as np
import pytest

from tests.policies.servers import scripted
from tests.policies.test_packing import CORPUS
from twinloop.errors import PolicyGone
from twinloop.policies.backends import packing
from twinloop.policies.backends.protocol import open_backend

ASK = {"images/front": np.zeros((4, 6, 3), np.uint8), "state": np.zeros(2), "task_description": "pick"}


def model_server(*actions, heard=None):
    """A model server that answers observations with these, one after the other; a dictionary is sent as it is."""

    def talk(connection):
        left = iter(actions)
        for message in connection:
            got = packing.unpack(message)
            if heard is not None:
                heard.append(got)
            if got["type"] == "hello":
                reply = {"type": "hello", "payload": {"model_server": "Fake", "protocol_version": 1}}
            elif got["type"] == "observation":
                action = next(left)
                reply = (
                    action
                    if isinstance(action, dict | bytes)
                    else {"type": "action", "payload": {"actions": action}}
                )
            else:
                continue
            if isinstance(reply, dict):
                reply = packing.pack({"seq": got["seq"], "timestamp": 0.0, **reply}, "vla-eval")
            connection.send(reply)

    return talk


def test_a_conversation_about_two_episodes():
    heard = []
    with scripted(model_server(np.arange(3.0), np.ones((4, 3)), heard=heard)) as address:
        backend = open_backend(f"vla-eval:{address}")
        assert backend.metadata["model_server"] == "Fake"
        backend.reset(3, "pick")
        assert backend.infer(ASK)["actions"].tolist() == [[0, 1, 2]], "one action is a chunk of one"
        backend.reset(4, "place")
        assert backend.infer(ASK)["actions"].shape == (4, 3)
        backend.close()
        backend.close()
    kinds = [
        "hello",
        "episode_start",
        "observation",
        "episode_end",
        "episode_start",
        "observation",
        "episode_end",
    ]
    assert [message["type"] for message in heard] == kinds
    assert [message["seq"] for message in heard] == list(range(1, 8))
    assert heard[1]["payload"] == {"task": {"name": "pick", "seed": 3}}
    assert heard[2]["payload"]["images"]["front"].shape == (4, 6, 3)
    assert heard[2]["payload"]["task_description"] == "pick"


def test_sessions_have_connections_of_their_own():
    heard = []
    with scripted(model_server(np.zeros(3), heard=heard)) as address:
        first = open_backend(f"vla-eval:{address}")
        second = first.open_session()
        for backend in (first, second):
            backend.reset(0, "pick")
            backend.infer(ASK)
        assert first.fingerprint == second.fingerprint
        first.close()
        second.close()
    assert sorted(message["type"] for message in heard).count("hello") == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {"type": "error", "payload": {"error": "observation_failed: KeyError: 'state'"}},
            "observation_failed: KeyError",
        ),
        (
            {"type": "action", "payload": {"actions": np.zeros(3)}, "seq": 99},
            "action number 99; expected action number 3",
        ),
        ({"type": "hello", "payload": {}}, "got hello number 3"),
        ({"type": 5}, "a message with its type"),
        ({"type": "action", "payload": "no"}, "got str; expected a dictionary"),
        ({"type": "action", "payload": {"actions": np.array([np.inf])}}, "not finite"),
        (CORPUS["object dtype"], "cannot be read"),
    ],
)
def test_a_wrong_answer_voids_the_trial_and_the_next_begins_afresh(answer, reason):
    answers = iter([[answer], [np.zeros(3)]])
    with scripted(lambda connection: model_server(*next(answers))(connection)) as address:
        backend = open_backend(f"vla-eval:{address}")
        backend.reset(0, "pick")
        with pytest.raises(PolicyGone, match=reason):
            backend.infer(ASK)
        backend._conversation.close()
        backend.reset(1, "pick")
        assert backend.infer(ASK)["actions"].shape == (1, 3)
        backend.close()
