"""Messages of policy servers: arrays go through unchanged, and nothing malformed or oversized gets further than an error."""

import contextlib
import tracemalloc
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import PolicyGone
from twinloop.policies.backends import packing

CORPUS = {
    name: bytes.fromhex(digits)
    for name, _, digits in (
        line.partition(": ")
        for line in Path(__file__).with_name("corpus").joinpath("messages.txt").read_text().splitlines()
    )
}
ARRAYS = {
    "state": np.arange(6, dtype=np.float64).reshape(2, 3),
    "image": np.full((4, 5, 3), 200, np.uint8),
    "none": np.zeros((0, 7), np.float32),
    "flags": np.array([True, False]),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
}


@pytest.mark.parametrize("layout", ["openpi", "vla-eval", "groot"])
def test_arrays_arrive_as_they_were_sent(layout):
    got = packing.unpack(packing.pack({"deep": [ARRAYS], "prompt": "grüße", "n": np.float32(0.5)}, layout))
    assert (got["prompt"], got["n"]) == ("grüße", 0.5)
    for name, array in ARRAYS.items():
        found = got["deep"][0][name]
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)


def test_one_number_of_openpi_is_read():
    packed = msgpack.packb({b"__npgeneric__": True, b"data": 3, b"dtype": "<i8"})
    assert packing.unpack(packed) == np.int64(3)


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["text"]), np.zeros(2, complex), np.zeros(2, "M8[s]")]
)
def test_only_numbers_are_sent(array):
    for layout in ("openpi", "groot"):
        with pytest.raises(TypeError, match="cannot be sent"):
            packing.pack(array, layout)


@pytest.mark.parametrize("name", CORPUS)
def test_every_message_of_the_corpus_is_refused_in_little_memory(name):
    tracemalloc.start()
    try:
        with pytest.raises(PolicyGone) as caught:
            packing.unpack(CORPUS[name])
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert str(caught.value).isprintable() or "\n  -> " in str(caught.value)


def test_many_small_containers_are_refused_before_they_fill_the_memory():
    full = b"\xdd" + (4000).to_bytes(4, "big") + b"\x80" * 4000
    message = b"\xdd" + (4000).to_bytes(4, "big") + full * 4000
    tracemalloc.start()
    try:
        with pytest.raises(PolicyGone, match="too many parts"):
            packing.unpack(message)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.sampled_from(sorted(CORPUS.values()))), st.data())
def test_noise_is_plain_values_or_an_error(message, data):
    changed = bytearray(message)
    for _ in range(data.draw(st.integers(0, 3)) if changed else 0):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = packing.unpack(bytes(changed))
    except PolicyGone:
        return
    with contextlib.suppress(PolicyGone):
        packing.plain(found)


def test_deep_nesting_is_refused():
    with pytest.raises(PolicyGone, match="nested too deeply"):
        packing.plain(packing.unpack(b"\x91" * 600 + b"\x01"))


def test_text_of_others_cannot_act_on_the_terminal():
    assert packing.printable("\x1b[2Jfake prompt\n" + "x" * 1000) == "[2Jfake prompt " + "x" * 384
