"""Any valid episode that is written is read back equal, whatever it holds and whatever it is called."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from twinloop.datasets.reader import open_dataset
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import make_dataset
from twinloop.episode import (
    DTYPES,
    RESERVED,
    UNITS,
    Camera,
    Event,
    Provenance,
    Schema,
    Signal,
    make_episode,
)
from twinloop.testing import assert_same_episode

quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)

texts = st.text(max_size=12)
words = st.text("abcxyzABC_éßλ中09", min_size=1, max_size=12).map(lambda word: f"c{word}")
tails = st.text("abcXYZ_-é09", min_size=1, max_size=5)
names = st.one_of(
    st.builds(lambda head, rest: ".".join([head, *rest]), words, st.lists(tails, max_size=3)),
    st.sampled_from(
        [
            "action",
            "action.left",
            "observation.state",
            "a.list.element",
            "Action",
            "n" * 200,
            "length",
            "tasks",
        ]
    ),
).filter(lambda name: name not in RESERVED and not name.startswith("observation.images."))
no_cameras = st.just(())
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def signals(draw, name):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    size = int(np.prod(shape))
    units = st.lists(st.sampled_from(sorted(UNITS)), min_size=size, max_size=size)
    return Signal(
        name,
        shape,
        tuple(draw(st.one_of(st.sampled_from(sorted(UNITS)).map(lambda unit: [unit]), units))),
        draw(st.sampled_from(sorted(DTYPES))),
        tuple(draw(st.one_of(st.just([]), st.lists(texts, min_size=size, max_size=size)))),
    )


@st.composite
def schemas(draw, cameras=no_cameras):
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    rate = draw(st.one_of(st.sampled_from([50.0, 29.97, 0.25, 1000.0, 1 / 3]), st.floats(0.1, 2000)))
    return Schema(tuple(draw(signals(name)) for name in chosen), rate, draw(cameras), draw(texts))


@st.composite
def provenances(draw):
    maybe = st.none() | texts
    return Provenance(
        source=draw(st.sampled_from(["sim", "real", "unknown"])),
        engine=draw(maybe),
        twin=draw(maybe),
        randomization=draw(maybe),
        draw=draw(st.dictionaries(texts, finite | texts, max_size=4)),
        seed=draw(st.none() | st.sampled_from([-(2**63), 2**63 - 1, 0]) | st.integers(-(2**63), 2**63 - 1)),
        actor=draw(st.sampled_from(["expert", "policy", "operator", "excitation", "unknown"])),
        site=draw(maybe),
        recorded_at=draw(
            st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
        ),
        parents=tuple(draw(st.lists(texts, max_size=3))),
        software=draw(st.dictionaries(texts, texts, max_size=3)),
    )


@st.composite
def episodes(draw, schema):
    rows = draw(st.integers(1, 6))
    steps = draw(st.lists(st.floats(1e-6, 1e6), min_size=rows, max_size=rows))
    start = draw(st.sampled_from([0.0, -1.0, 1.7e9]))
    values = {}
    for signal in schema.signals:
        kind = np.dtype(signal.dtype)
        width = {4: 32, 8: 64}.get(kind.itemsize, 32)
        numbers = st.floats(width=width, allow_nan=False, allow_infinity=False) if kind.kind == "f" else None
        values[signal.name] = draw(arrays.arrays(kind, (rows, *signal.shape), elements=numbers))
    failure = draw(st.none() | texts)
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    frames = {
        camera.name: np.broadcast_to(
            rng.integers(0, 256, (rows, 1, 1, 3), dtype=np.uint8), (rows, camera.height, camera.width, 3)
        )
        for camera in schema.cameras
    }
    return make_episode(
        schema,
        start + np.cumsum(steps),
        values,
        frames=frames,
        events=draw(st.lists(st.builds(Event, finite, texts, texts), max_size=3)),
        success=draw(st.none() | st.just(False)) if failure else draw(st.none() | st.booleans()),
        failure=failure,
        task=draw(texts),
        provenance=draw(provenances()),
    )


def assert_round_trip(schema, written):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d"
        with make_dataset(path, schema) as writer:
            for position, episode in enumerate(written):
                writer.add(episode)
                if position == 1:
                    writer.commit()
        dataset = open_dataset(path)
        assert dataset.skipped == {}
        for got, expected in zip(dataset, written, strict=True):
            assert_same_episode(got, expected)
        assert verify(path).findings == ()


@quick
@given(st.data())
def test_any_valid_episode_is_read_back_equal(data):
    schema = data.draw(schemas())
    assert_round_trip(schema, data.draw(st.lists(episodes(schema), min_size=1, max_size=3)))


@settings(quick, max_examples=10)
@given(st.data())
def test_any_valid_episode_with_frames_is_read_back_equal(data):
    sizes = st.sampled_from([(17, 31), (16, 16), (2, 2), (1, 1), (33, 20), (64, 48)])
    cameras = st.lists(
        st.builds(lambda name, size: Camera(name, *size), words, sizes),
        min_size=1,
        max_size=2,
        unique_by=lambda camera: camera.name,
    ).map(tuple)
    schema = data.draw(schemas(cameras))
    assert_round_trip(schema, data.draw(st.lists(episodes(schema), min_size=1, max_size=3)))


def test_numbers_at_the_edge_of_their_type_survive_to_the_last_bit(tmp_path):
    schema = Schema(
        (Signal("f4", (4,)), Signal("f8", (4,), dtype="float64"), Signal("i8", dtype="int64")), 10.0
    )
    tiny4, tiny8 = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float64).smallest_subnormal
    episode = make_episode(
        schema,
        [0.0, 5e-324, 1.0],
        {
            "f4": np.array([[-0.0, tiny4, 3.4e38, -3.4e38]] * 3, np.float32),
            "f8": np.array([[-0.0, tiny8, 1.7e308, -1.7e308]] * 3),
            "i8": np.array([-(2**63), 2**63 - 1, 2**53 + 1]),
        },
    )
    with make_dataset(tmp_path / "d", schema) as writer:
        writer.add(episode)
        writer.commit()
        writer.add(episode.with_provenance(site="elsewhere"))
    dataset = open_dataset(tmp_path / "d")
    assert_same_episode(dataset.episode(0), episode)
    assert np.signbit(dataset.episode(1)["f8"][0, 0])
