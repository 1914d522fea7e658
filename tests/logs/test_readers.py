"""Every reader passes the conformance check; bad files end in one sentence and leave nothing behind."""

import io
import json
import sqlite3
import zipfile
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.datasets.examples import STATE_ONLY, toy_episode
from tests.logs import examples
from twinloop.datasets.writer import make_dataset
from twinloop.errors import DamagedLog, TwinloopError
from twinloop.logs.ingest import IngestResult, ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.reader import READERS
from twinloop.logs.sources import find_logs
from twinloop.testing.logs import FakeReader, check_log_reader

HEAD = "rate_hz: 50\nprovenance: {source: real}\n"
CHANNELS = {
    "csv": (
        "run.csv",
        examples.write_csv,
        "clock: time\nsignals: {observation.state: {from: shoulder, unit: rad}}",
    ),
    "npz": ("run.npz", examples.write_npz, "clock: t\nsignals: {observation.state: {from: q, unit: rad}}"),
    "npy": (
        "run.npy",
        examples.write_npy,
        "clock: {channel: values, column: 0}\nsignals: {observation.state: {from: values, columns: [1], unit: rad}}",
    ),
    "json": (
        "run.json",
        examples.write_json,
        "clock: entries.t\nsignals: {observation.state: {from: entries.q, unit: rad}}",
    ),
    "hdf5": (
        "run.hdf5",
        lambda path, rows=60: examples.write_hdf5(path, rows, 1),
        "episodes: {by: groups, groups: data/*}\nclock: '{group}/time_s'\n"
        "signals: {observation.state: {from: '{group}/obs/joint_pos', unit: rad}}",
    ),
    "mcap": (
        "run.mcap",
        examples.write_mcap_protobuf,
        "signals: {observation.state: {from: /joints.position, unit: rad}}",
    ),
    "rosbag2": (
        "bag",
        lambda path, rows=60: examples.write_rosbag2(path, "sqlite3", rows),
        "signals: {observation.state: {from: /joint_states.position, unit: rad}}",
    ),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """One small log of every format; tests only read them."""
    folder = tmp_path_factory.mktemp("shelf")
    made = {}
    for kind, (name, write, _) in CHANNELS.items():
        made[kind] = write(folder / name, rows=20)
    with make_dataset(folder / "dataset", STATE_ONLY) as writer:
        for seed in range(2):
            writer.add(toy_episode(seed))
    made["lerobot"] = folder / "dataset"
    return made


@pytest.mark.parametrize("kind", [*CHANNELS, "lerobot"])
def test_every_reader_conforms(shelf, kind):
    check_log_reader(READERS.get(kind), shelf[kind], shelf["json" if kind != "json" else "csv"])


def test_the_registry_has_every_built_in_reader_and_the_example_covers_it():
    assert set(READERS.names()) == {*CHANNELS, "lerobot"}


def test_the_fake_conforms_and_can_be_ingested(tmp_path, monkeypatch):
    time_s, position, _ = examples.motion()
    fake = FakeReader({"t": time_s, "q": position})
    (tmp_path / "a.fake").write_text("")
    (tmp_path / "b.txt").write_text("")
    check_log_reader(fake, tmp_path / "a.fake", tmp_path / "b.txt")
    monkeypatch.setitem(READERS._entries, "fake", fake)
    text = HEAD + "clock: t\nsignals: {observation.state: {from: q, unit: rad}}"
    done = ingest(tmp_path / "a.fake", tmp_path / "out", parse_map(text))
    assert np.array_equal(done.dataset.episode(0)["observation.state"], position)


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_log_is_recognised_whatever_it_is_called(shelf, kind, tmp_path):
    if kind in ("csv", "rosbag2"):
        pytest.skip("text without an extension, and folders, are known by other signs")
    renamed = tmp_path / "log.bin"
    renamed.write_bytes(shelf[kind].read_bytes())
    assert find_logs(renamed).logs[0].format == kind


def outcome(tmp_path, source, kind):
    """Ingests a file that may be broken: only our own errors may escape, and then nothing is left behind."""
    out = tmp_path / "out"
    before = sorted(path.name for path in tmp_path.iterdir())
    log_map = parse_map(HEAD + f"format: {kind}\nmixed_rates: true\n" + CHANNELS[kind][2])
    try:
        done = ingest(source, out, log_map)
    except TwinloopError as error:
        assert sorted(path.name for path in tmp_path.iterdir()) == before, "something was left behind"
        return error
    return done


@pytest.mark.parametrize("kind", CHANNELS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97])
def test_a_truncated_log_is_refused(shelf, kind, share, tmp_path):
    source = tmp_path / shelf[kind].name
    if kind == "rosbag2":
        source.mkdir()
        for file in shelf[kind].iterdir():
            content = file.read_bytes()
            (source / file.name).write_bytes(
                content[: int(len(content) * share)] if file.suffix == ".db3" else content
            )
    else:
        content = shelf[kind].read_bytes()
        source.write_bytes(content[: int(len(content) * share)])
    result = outcome(tmp_path, source, kind)
    if kind == "csv" and share > 0:
        return  # a shorter text is a text; what is left of the last line is refused or read as it stands
    assert isinstance(result, TwinloopError), f"{kind} cut to {share:.0%} was taken for whole"


FUZZ = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("kind", CHANNELS)
def test_flipped_bytes_never_crash_a_reader(shelf, kind, tmp_path_factory):
    original = (next(shelf[kind].glob("*.db3")) if kind == "rosbag2" else shelf[kind]).read_bytes()

    @FUZZ
    @given(
        st.lists(st.tuples(st.integers(0, len(original) - 1), st.integers(0, 255)), min_size=1, max_size=24),
        st.booleans(),
    )
    def damage(changes, at_the_start):
        content = bytearray(original)
        for place, value in changes:
            content[place % 512 if at_the_start else place] = value
        folder = tmp_path_factory.mktemp("fuzz")
        name = "bag.db3" if kind == "rosbag2" else CHANNELS[kind][0]
        (folder / name).write_bytes(bytes(content))
        assert isinstance(outcome(folder, folder / name, kind), IngestResult | TwinloopError)

    damage()


@pytest.mark.parametrize("kind", CHANNELS)
def test_noise_never_crashes_a_reader(kind, shelf, tmp_path_factory):
    start = (next(shelf[kind].glob("*.db3")) if kind == "rosbag2" else shelf[kind]).read_bytes()[:64]

    @FUZZ
    @given(st.binary(max_size=400), st.integers(0, 64))
    def noise(content, kept):
        folder = tmp_path_factory.mktemp("noise")
        name = "bag.db3" if kind == "rosbag2" else CHANNELS[kind][0]
        (folder / name).write_bytes(start[:kept] + content)
        assert isinstance(outcome(folder, folder / name, kind), IngestResult | TwinloopError)

    noise()


def test_a_zip_bomb_is_refused_by_what_it_declares(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 30, 1)}
    )
    with (
        zipfile.ZipFile(tmp_path / "run.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("q.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(300):
            file.write(bytes(1 << 20))
    error = outcome(tmp_path, tmp_path / "run.npz", "npz")
    assert isinstance(error, DamagedLog) and "would unpack" in str(error)


def test_a_huge_declared_array_is_refused_before_it_is_allocated(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("t.npy", header.getvalue() + bytes(80))
        archive.writestr("q.npy", header.getvalue() + bytes(80))
    error = outcome(tmp_path, tmp_path / "run.npz", "npz")
    assert "claims more numbers than the file holds" in str(error)


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/evil.npy", "a/../../evil.npy"])
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr(name, b"")
    assert "refers to a file outside itself" in str(outcome(tmp_path, tmp_path / "run.npz", "npz"))


def test_hdf5_links_to_other_files_are_refused(tmp_path):
    import h5py

    examples.write_hdf5(tmp_path / "other.hdf5", 20, 1)
    with h5py.File(tmp_path / "run.hdf5", "w") as file:
        file["data/demo_0/obs/joint_pos"] = h5py.ExternalLink("other.hdf5", "/data/demo_0/obs/joint_pos")
        file["data/demo_0/time_s"] = np.arange(20) / 50
    assert "link to another file" in str(outcome(tmp_path, tmp_path / "run.hdf5", "hdf5"))


def test_a_bag_that_names_files_outside_itself_is_refused(tmp_path):
    bag = examples.write_rosbag2(tmp_path / "bag", rows=20)
    metadata = bag / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("- bag.db3", "- ../../secret.db3"))
    assert "outside itself" in str(outcome(tmp_path, bag, "rosbag2"))


def test_a_bag_whose_messages_are_a_view_is_refused(tmp_path):
    bag = examples.write_rosbag2(tmp_path / "bag", rows=20)
    with closing(sqlite3.connect(bag / "bag.db3")) as database:
        database.execute("ALTER TABLE messages RENAME TO hidden")
        database.execute("CREATE VIEW messages AS SELECT * FROM hidden")
        database.commit()
    assert "no table of messages" in str(outcome(tmp_path, bag, "rosbag2"))


def test_a_chunk_that_unpacks_to_more_than_it_declares_is_refused(tmp_path):
    import struct

    import zstandard

    from twinloop.logs.read_mcap import MAGIC

    packed = zstandard.ZstdCompressor().compress(bytes(50 << 20))
    chunk = (
        struct.pack("<QQQI", 0, 1, 1000, 0)
        + struct.pack("<I", 4)
        + b"zstd"
        + struct.pack("<Q", len(packed))
        + packed
    )
    header = struct.pack("<I", 0) * 2
    body = (
        MAGIC
        + b"\x01"
        + struct.pack("<Q", len(header))
        + header
        + b"\x06"
        + struct.pack("<Q", len(chunk))
        + chunk
    )
    (tmp_path / "run.mcap").write_bytes(body)
    assert "does not have the size it declares" in str(outcome(tmp_path, tmp_path / "run.mcap", "mcap"))


def test_json_that_nests_without_end_is_refused(tmp_path):
    (tmp_path / "run.json").write_text("[" * 100_000)
    assert isinstance(outcome(tmp_path, tmp_path / "run.json", "json"), DamagedLog)
    (tmp_path / "run.json").write_text(json.dumps({"entries": [{"t": 1, "q": "text"}, {"t": 2, "q": 3}]}))
    assert isinstance(outcome(tmp_path, tmp_path / "run.json", "json"), TwinloopError)


def test_a_wrong_extension_says_so(tmp_path):
    (tmp_path / "run.npz").write_text("time,a\n0,1\n")
    assert "cannot be read as NPZ" in str(outcome(tmp_path, tmp_path / "run.npz", "npz"))
    (tmp_path / "run.mcap").write_bytes(b"")
    with pytest.raises(TwinloopError, match="no log found"):
        find_logs(tmp_path / "run.mcap")
