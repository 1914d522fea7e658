"""Messages: what goes in comes out, and nothing malformed gets further than an error."""

import json
import socket
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import RobotError, RobotGone
from twinloop.robots import wire


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    a.settimeout(5)
    b.settimeout(5)
    yield a, b
    a.close()
    b.close()


def test_a_message_arrives_as_it_was_sent(pair):
    arrays = {
        "x": np.arange(6, dtype=np.float64).reshape(2, 3),
        "frame": np.full((4, 5, 3), 200, np.uint8),
        "none": np.zeros((0,), np.float32),
    }
    wire.send(pair[0], "act", arrays, word="ä", number=3)
    header, got = wire.receive(pair[1])
    assert (header["kind"], header["word"], header["number"]) == ("act", "ä", 3)
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype and np.array_equal(got[name], array)


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"kind": 3, "arrays": []}',
        b'{"kind": "act", "arrays": [["x", "object", [3]]]}',
        b'{"kind": "act", "arrays": [["x", "float64", [-1]]]}',
        b'{"kind": "act", "arrays": [["x", "float64", [1000000, 1000000]]]}',
        b'{"kind": "act", "arrays": [["x", "float64", [1, 1, 1, 1, 1]]]}',
        b'{"kind": "act", "arrays": [["x", "float64"]]}',
        b"[" * 60000,
        json.dumps({"kind": "a", "arrays": [["x", "uint8", [0]]] * 65}).encode(),
    ],
)
def test_a_malformed_header_is_refused(pair, header):
    pair[0].sendall(struct.pack(">4sI", wire.MAGIC, len(header)) + header)
    with pytest.raises(RobotError):
        wire.receive(pair[1])


def test_a_header_that_claims_to_be_huge_is_refused_before_it_is_read(pair):
    pair[0].sendall(struct.pack(">4sI", wire.MAGIC, 2**31))
    with pytest.raises(RobotError, match="not a Twinloop message"):
        wire.receive(pair[1])


def test_arrays_of_objects_are_never_sent(pair):
    with pytest.raises(RobotError, match="cannot be sent"):
        wire.send(pair[0], "act", {"x": np.array([None])})


def test_a_closed_connection_is_told(pair):
    pair[0].close()
    with pytest.raises(RobotGone):
        wire.receive(pair[1])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_and_never_anything_else(noise):
    a, b = socket.socketpair()
    b.settimeout(5)
    a.sendall(noise)
    a.close()
    with b, pytest.raises(RobotError):
        wire.receive(b)
