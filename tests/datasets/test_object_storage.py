"""Datasets in object storage: read in place, pushed and pulled, against an S3 server in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import twinloop as tl
from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.terminal import run_command as twinloop_command
from twinloop.datasets import layout
from twinloop.datasets.labels import add_labels
from twinloop.datasets.remote import PUSH_LOCK, cache_home
from twinloop.datasets.store import Changed, ObjectFolder, open_folder, parse_address
from twinloop.datasets.transfer import pull, push
from twinloop.errors import DamagedDataset, DatasetError, LockedDataset, MissingExtra, NoDataset, WrongUse

pytest.importorskip("obstore")
pytest.importorskip("moto")

ROOT = Path(__file__).parents[2]


def serve(**settings):
    """Start an S3 server; returns its process and address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, **settings}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/moto-api/").close()
            return process, address
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    raise AssertionError("the S3 server did not start")


@pytest.fixture(scope="module")
def server():
    process, address = serve()
    yield address
    process.terminate()
    process.wait()


@pytest.fixture
def bucket(server, monkeypatch, tmp_path):
    """An empty bucket of the server, as an address; keys are in the environment, the cache is the test's own."""
    name = f"bucket-{time.monotonic_ns()}"
    urllib.request.urlopen(urllib.request.Request(f"{server}/{name}", method="PUT")).close()
    for key, value in credentials(server).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return f"s3://{name}"


def credentials(server):
    return {
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
    }  # fmt: skip


def make_episodes(count, seed=0, cameras=False):
    return [toy_episode(100 * seed + i, 20 + i, WITH_CAMERA if cameras else STATE_ONLY) for i in range(count)]


def make(folder, count=3, seed=0, cameras=False):
    episodes = make_episodes(count, seed, cameras)
    with tl.make_dataset(folder, episodes[0].schema) as writer:
        for episode in episodes:
            writer.add(episode)
    return tl.open_dataset(folder)


def views():
    """Files of every view in the cache."""
    return [str(path.relative_to(cache_home())) for path in cache_home().rglob("*") if path.is_file()]


def equal(one, other):
    assert one.id == other.id
    np.testing.assert_array_equal(one.time_s, other.time_s)
    for name, values in one.signals.items():
        np.testing.assert_array_equal(values, other.signals[name])
    for name, frames in one.frames.items():
        np.testing.assert_array_equal(np.asarray(frames), np.asarray(other.frames[name]))


def test_an_address_survives_being_a_path():
    assert parse_address("s3://bucket/a/b") == "s3://bucket/a/b"
    assert parse_address(Path("s3://bucket/a/b")) == "s3://bucket/a/b"
    assert parse_address("gs://bucket/") == "gs://bucket"
    for folder in ("data/arm", "/data/arm", ".", "C", "arm:v1", Path("x/s3:/y")):
        assert parse_address(folder) is None


def test_episodes_are_read_in_place_and_frames_fetched_when_they_are_looked_at(bucket, tmp_path):
    local = make(tmp_path / "arm", cameras=True)
    done = push(tmp_path / "arm", f"{bucket}/arm")
    assert done.episodes == 3 and done.present == 0
    remote = tl.open_dataset(f"{bucket}/arm")
    assert remote.content_hash == local.content_hash and remote.place == f"{bucket}/arm" and len(remote) == 3
    third = remote.episode(2)
    np.testing.assert_array_equal(third.signals["action"], local.episode(2).signals["action"])
    assert not [name for name in views() if "/data/" in name or "/videos/" in name]
    for number in range(3):
        equal(remote.episode(number), local.episode(number))
    assert [name for name in views() if "/videos/" in name] and not [n for n in views() if "/data/" in n]


def test_queries_training_windows_and_merge_read_it_too(bucket, tmp_path):
    local = make(tmp_path / "arm", 4, cameras=True)
    push(tmp_path / "arm", f"{bucket}/arm")
    sql = 'select episode_index, count(*) as n, avg("action"[1]) as mean from frames group by 1 order by 1'
    found, expected = tl.query([f"{bucket}/arm"], sql), tl.query([tmp_path / "arm"], sql)
    assert found.column("n").to_pylist() == expected.column("n").to_pylist()
    np.testing.assert_allclose(found.column("mean"), expected.column("mean"))
    both = tl.query(
        [f"{bucket}/arm", tmp_path / "arm"], "select dataset, count(*) as n from episodes group by 1"
    )
    assert len(both) == 2 and both.column("n").to_pylist() == [4, 4]
    wanted = {"observation.state": range(-1, 1), "action": range(4)}
    ours, theirs = local.windows(wanted), tl.open_dataset(f"{bucket}/arm").windows(wanted)
    rows = np.arange(len(ours))
    for name, values in ours.batch(rows).items():
        np.testing.assert_array_equal(values, theirs.batch(rows)[name])
    assert not [name for name in views() if "/data/" in name]
    make(tmp_path / "more", 2, seed=5, cameras=True)
    merged = tl.merge([f"{bucket}/arm", tmp_path / "more"], tmp_path / "merged").dataset
    assert len(merged) == 6
    equal(merged.episode(1), local.episode(1))


def test_a_policy_trains_on_it_and_a_whole_check_is_a_pull(bucket, tmp_path):
    make(tmp_path / "arm", 12)
    push(tmp_path / "arm", f"{bucket}/arm")
    code, _, err = twinloop_command(
        "train", "--sim", f"{bucket}/arm", "--out", tmp_path / "policy", "--steps", 3, "--set", "width=16"
    )
    assert code == 0 and (tmp_path / "policy").is_dir(), err
    assert not [name for name in views() if "/data/" in name]
    code, _, err = twinloop_command("data", "verify", f"{bucket}/arm")
    assert code == 2 and "data pull" in err


def test_a_push_sends_what_is_new_and_readers_keep_their_version(bucket, tmp_path):
    make(tmp_path / "arm", 2)
    push(tmp_path / "arm", f"{bucket}/arm")
    before = tl.open_dataset(f"{bucket}/arm")
    with tl.append_to(tmp_path / "arm") as writer:
        for episode in make_episodes(2, seed=7):
            writer.add(episode)
    done = push(tmp_path / "arm", f"{bucket}/arm")
    assert done.episodes == 4 and done.present > 0
    assert len(before) == 2 and before.episode(1) is not None
    assert len(tl.open_dataset(f"{bucket}/arm")) == 4
    again = push(tmp_path / "arm", f"{bucket}/arm")
    assert again.bytes < done.bytes
    pulled = pull(f"{bucket}/arm", tmp_path / "elsewhere" / "arm")
    copy = tl.open_dataset(tmp_path / "elsewhere" / "arm")
    assert pulled.episodes == 4 and copy.content_hash == tl.open_dataset(tmp_path / "arm").content_hash
    equal(copy.episode(3), tl.open_dataset(tmp_path / "arm").episode(3))
    code, out, _ = twinloop_command("data", "verify", tmp_path / "elsewhere" / "arm")
    assert code == 0, out


def test_labels_travel_and_are_not_lost_in_a_view(bucket, tmp_path):
    local = make(tmp_path / "arm")
    push(tmp_path / "arm", f"{bucket}/arm")
    with pytest.raises(WrongUse, match="changed through its source"):
        add_labels(tl.open_dataset(f"{bucket}/arm").root, [local.episode(0).id], {"success": True}, "ben")
    add_labels(tmp_path / "arm", [local.episode(0).id], {"success": True}, "ben")
    push(tmp_path / "arm", f"{bucket}/arm")
    assert tl.open_dataset(f"{bucket}/arm").episode(0).outcome.success is True
    with pytest.raises(WrongUse, match="data push"):
        tl.make_dataset(f"{bucket}/new", local.schema)
    with pytest.raises(WrongUse, match="data push"):
        tl.append_to(f"{bucket}/arm")


KILLED = """
import os, signal, sys
from twinloop.datasets import store, transfer
put, count = store.ObjectFolder.put, int(sys.argv[3])
left = [count]
def dying(self, name, content, **options):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return put(self, name, content, **options)
store.ObjectFolder.put = dying
transfer.WORKERS = 1
transfer.push(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
def test_a_push_that_is_killed_anywhere_loses_nothing_committed_and_is_resumed(bucket, server, tmp_path):
    make(tmp_path / "arm", 2)
    push(tmp_path / "arm", f"{bucket}/arm")
    committed = tl.open_dataset(tmp_path / "arm").content_hash
    with tl.append_to(tmp_path / "arm") as writer:
        for episode in make_episodes(2, seed=9):
            writer.add(episode)
    killed = 0
    for count in range(40):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "arm"), f"{bucket}/arm", str(count)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        seen = tl.open_dataset(f"{bucket}/arm")
        assert seen.content_hash == committed and [len(seen.episode(n)) for n in range(2)]
        pull(f"{bucket}/arm", tmp_path / f"pulled-{count}")
        assert tl.open_dataset(tmp_path / f"pulled-{count}").content_hash == committed
    assert killed >= 5, "lock, rows, two tables per episode, three replaced tables and the manifest"
    assert tl.open_dataset(f"{bucket}/arm").content_hash == tl.open_dataset(tmp_path / "arm").content_hash


def test_a_push_that_dies_before_its_manifest_changes_nothing_that_is_read(bucket, tmp_path, monkeypatch):
    make(tmp_path / "arm", 2)
    push(tmp_path / "arm", f"{bucket}/arm")
    committed = tl.open_dataset(tmp_path / "arm").content_hash
    with tl.append_to(tmp_path / "arm") as writer:
        writer.add(make_episodes(1, seed=9)[0])
    put = ObjectFolder.put

    def failing(self, name, content, **options):
        if name == layout.MANIFEST:
            raise DatasetError("the machine is gone")
        return put(self, name, content, **options)

    monkeypatch.setattr(ObjectFolder, "put", failing)
    with pytest.raises(DatasetError, match="machine is gone"):
        push(tmp_path / "arm", f"{bucket}/arm")
    monkeypatch.setattr(ObjectFolder, "put", put)
    assert tl.open_dataset(f"{bucket}/arm").content_hash == committed
    pull(f"{bucket}/arm", tmp_path / "copy")
    assert tl.open_dataset(tmp_path / "copy").content_hash == committed
    push(tmp_path / "arm", f"{bucket}/arm")
    assert tl.open_dataset(f"{bucket}/arm").content_hash != committed


def test_two_pushers_never_overwrite_each_other(bucket, tmp_path):
    make(tmp_path / "arm", 1)
    push(tmp_path / "arm", f"{bucket}/arm")
    pull(f"{bucket}/arm", tmp_path / "other")
    for place, seed in (("arm", 3), ("other", 4)):
        with tl.append_to(tmp_path / place) as writer:
            writer.add(make_episodes(1, seed=seed)[0])
    push(tmp_path / "other", f"{bucket}/arm")
    with pytest.raises(WrongUse, match=r"episodes that .* does not have"):
        push(tmp_path / "arm", f"{bucket}/arm")
    make(tmp_path / "third", 1, seed=8)
    with pytest.raises(WrongUse, match="another dataset"):
        push(tmp_path / "third", f"{bucket}/arm")
    folder = open_folder(f"{bucket}/arm")
    held = {"process": 1, "host": "another", "at": 0}
    version = folder.put(PUSH_LOCK, json.dumps(held).encode())
    with pytest.raises(LockedDataset, match="process 1 on another"):
        push(tmp_path / "other", f"{bucket}/arm")
    with pytest.raises(Changed):
        folder.put(PUSH_LOCK, b"{}")
    assert folder.head(PUSH_LOCK).version == version
    push(tmp_path / "other", f"{bucket}/arm", break_lock=True)
    assert folder.head(PUSH_LOCK) is None
    head = folder.head(layout.MANIFEST)
    with pytest.raises(Changed):
        folder.put(layout.MANIFEST, b"stale", replaces='"0123456789abcdef0123456789abcdef"')
    assert folder.head(layout.MANIFEST) == head


def test_a_damaged_object_is_found_by_its_hash(bucket, tmp_path):
    make(tmp_path / "arm")
    push(tmp_path / "arm", f"{bucket}/arm")
    folder = open_folder(f"{bucket}/arm")
    name = next(entry.name for entry in folder.list("data/"))
    content = bytearray(folder.read(name))
    content[len(content) // 2] ^= 1
    folder.put(name, bytes(content), replaces=folder.head(name).version)
    with pytest.raises(DamagedDataset, match="not as its manifest lists it"):
        pull(f"{bucket}/arm", tmp_path / "copy")
    assert not (tmp_path / "copy" / layout.MANIFEST).exists()
    rows = tmp_path / "arm" / name
    rows.write_bytes(bytes(content))
    with pytest.raises(DamagedDataset, match="not as its manifest lists it"):
        push(tmp_path / "arm", f"{bucket}/new")
    assert open_folder(f"{bucket}/new").head(layout.MANIFEST) is None


def test_a_pull_is_resumed_and_refuses_what_is_not_its_own(bucket, tmp_path, monkeypatch):
    local = make(tmp_path / "arm", cameras=True)
    push(tmp_path / "arm", f"{bucket}/arm")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(WrongUse, match="not this dataset"):
        pull(f"{bucket}/arm", tmp_path / "mine")
    read, left = ObjectFolder.read, [3]

    def failing(self, name):
        left[0] -= 1
        if left[0] < 0:
            raise DatasetError("the network is gone")
        return read(self, name)

    monkeypatch.setattr(ObjectFolder, "read", failing)
    with pytest.raises(DatasetError, match="network"):
        pull(f"{bucket}/arm", tmp_path / "copy")
    with pytest.raises(NoDataset):
        tl.open_dataset(tmp_path / "copy").episode(0)
    monkeypatch.setattr(ObjectFolder, "read", read)
    assert pull(f"{bucket}/arm", tmp_path / "copy").present > 0
    equal(tl.open_dataset(tmp_path / "copy").episode(2), local.episode(2))


def test_folders_are_places_to_push_to(tmp_path):
    local = make(tmp_path / "arm", cameras=True)
    push(tmp_path / "arm", tmp_path / "hub" / "team" / "arm")
    shared = tl.open_dataset(tmp_path / "hub" / "team" / "arm")
    assert shared.content_hash == local.content_hash
    pull(tmp_path / "hub" / "team" / "arm", tmp_path / "desk" / "arm")
    equal(tl.open_dataset(tmp_path / "desk" / "arm").episode(1), local.episode(1))


def test_commands_take_addresses(bucket, tmp_path):
    make(tmp_path / "arm")
    code, out, err = twinloop_command("data", "push", tmp_path / "arm", f"{bucket}/arm")
    assert code == 0 and "3 episodes" in out, err
    code, out, _ = twinloop_command("data", "info", f"{bucket}/arm", "--json")
    assert code == 0 and json.loads(out)["episodes"] == 3
    code, out, _ = twinloop_command(
        "data", "query", f"{bucket}/arm", "select count(*) as n from episodes", "--json"
    )
    assert code == 0 and json.loads(out) == [{"n": 3}]
    code, out, _ = twinloop_command("data", "pull", f"{bucket}/arm", tmp_path / "copy", "--json")
    assert code == 0 and json.loads(out)["episodes"] == 3


def test_what_is_missing_or_denied_is_said_in_a_line(bucket, tmp_path, monkeypatch):
    make(tmp_path / "arm")
    with pytest.raises(NoDataset, match="no bucket 'nowhere'"):
        tl.open_dataset("s3://nowhere/arm")
    with pytest.raises(NoDataset, match="no bucket 'nowhere'"):
        push(tmp_path / "arm", "s3://nowhere/arm")
    with pytest.raises(NoDataset, match="data push"):
        tl.open_dataset(f"{bucket}/arm")
    with pytest.raises(WrongUse, match="without a bucket"):
        tl.open_dataset("s3://")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtra, match=r"twinloop\[cloud\]"):
        tl.open_dataset(f"{bucket}/arm")


def test_a_bucket_that_denies_is_named(bucket, tmp_path, monkeypatch):
    make(tmp_path / "arm")
    process, address = serve(INITIAL_NO_AUTH_ACTION_COUNT="0")
    try:
        for key, value in credentials(address).items():
            monkeypatch.setenv(key, value)
        for attempt in (
            lambda: tl.open_dataset("s3://closed/arm"),
            lambda: push(tmp_path / "arm", "s3://closed/arm"),
        ):
            with pytest.raises(DatasetError, match="s3://closed/arm denies access"):
                attempt()
    finally:
        process.terminate()
        process.wait()


def test_any_address_of_fsspec_is_read_and_never_written(bucket, tmp_path):
    import fsspec

    local = make(tmp_path / "arm", cameras=True)
    fsspec.filesystem("memory").put(str(tmp_path / "arm"), "/robots/arm", recursive=True)
    remote = tl.open_dataset("memory://robots/arm")
    equal(remote.episode(2), local.episode(2))
    assert tl.query(["memory://robots/arm"], "select count(*) as n from frames").to_pylist() == [
        {"n": local.num_frames}
    ]
    with pytest.raises(WrongUse, match="read only"):
        push(tmp_path / "arm", "memory://robots/new")
