"""Every reader of files and messages that others wrote, as a function of bytes: only our own errors may escape it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import duckdb
import yaml

from tests.datasets.examples import STATE_ONLY, toy_episode
from tests.logs import examples
from twinloop.consent.records import RECORDS, load_consents
from twinloop.consent.withdraw import TOMBSTONES, load_tombstones
from twinloop.datasets import layout
from twinloop.datasets.labels import load_labels
from twinloop.datasets.manifest import load_manifest
from twinloop.datasets.overrides import load_overrides
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.sql import check_condition, check_select
from twinloop.datasets.writer import make_dataset
from twinloop.errors import TwinloopError
from twinloop.experts.playback import load_motion
from twinloop.gap.conditions import load_conditions
from twinloop.gap.ranking import load_ratings
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import load_map, parse_map
from twinloop.logs.name_files import load_names
from twinloop.loop_status import SETTINGS, read_loop_status
from twinloop.planning.costs import load_costs
from twinloop.randomization.config import load_generate_config
from twinloop.randomization.load import load_randomization
from twinloop.robots import wire
from twinloop.robots.standin.reality import load_reality
from twinloop.stages import REACHED, RUNNING, STAGE, Stages
from twinloop.twins import load_twin, save_twin
from twinloop.twins.folder import load_twin_folder
from twinloop.twins.user_model import make_twin_from_model
from twinloop.workspace import find_workspace
from twinloop.yaml_files import parse_yaml

CORPUS = Path(__file__).with_name("corpus")
WIRE = Path(__file__).parents[1] / "robots/corpus"
"""Messages that are also sent to a server and a client, one per line."""

Target = Callable[[bytes, Path], object]
"""Reads bytes; the folder is empty, or as the last call left it."""

DEEP = tuple(text * 100_000 for text in (b"[", b'{"a":', b"- ", b"{a: ", b"(", b"<a>"))
"""Nesting that overflows a stack; too long to be kept as files."""


def _file(name: str, read: Callable[[Path], object]) -> Target:
    """A target that reads a file of this name."""

    def target(content: bytes, folder: Path) -> object:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read(path)

    return target


def _in_place(name: str, make: Callable[[Path], object], read: Callable[[Path], object]) -> Target:
    """A target that reads a folder of which one file is replaced."""

    def target(content: bytes, folder: Path) -> object:
        root = folder / "whole"
        if not root.exists():
            make(root)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        return read(root)

    return target


def _make_dataset(root: Path) -> None:
    with make_dataset(root, STATE_ONLY) as writer:
        writer.add(toy_episode(1, rows=4))


def _read_dataset(root: Path) -> None:
    for _ in open_dataset(root):
        pass


def _save_pendulum(root: Path) -> None:
    save_twin(load_twin("servo_pendulum"), root)


def _yaml(content: bytes, folder: Path) -> None:
    with suppress(yaml.YAMLError):
        parse_yaml(content)


def _message(content: bytes, folder: Path) -> None:
    """A header with as many zeros as it announces, in pieces."""
    inbox = wire.Inbox()
    message = wire._PREFIX.pack(wire.MAGIC, len(content)) + content + bytes(1 << 12)
    for place in range(0, len(message), 100):
        inbox.feed(message[place : place + min(100, inbox.needed)])
        if inbox.take():
            return


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _sql(check: Callable[[object, str], object], content: bytes, folder: Path) -> None:
    with suppress(duckdb.Error):
        check(_connection(), content.decode(errors="replace"))


STREAM = "rate_hz: 50\nprovenance: {source: real}\nmixed_rates: true\n"
LOGS = {
    "csv": ("run.csv", "clock: time\nsignals: {observation.state: {from: shoulder, unit: rad}}"),
    "json": ("run.json", "clock: entries.t\nsignals: {observation.state: {from: entries.q, unit: rad}}"),
    "npz": ("run.npz", "clock: t\nsignals: {observation.state: {from: q, unit: rad}}"),
    "npy": (
        "run.npy",
        "clock: {channel: values, column: 0}\nsignals: {observation.state: {from: values, columns: [1], unit: rad}}",
    ),
    "hdf5": (
        "run.hdf5",
        "episodes: {by: groups, groups: data/*}\nclock: '{group}/time_s'\n"
        "signals: {observation.state: {from: '{group}/obs/joint_pos', unit: rad}}",
    ),
    "mcap": ("run.mcap", "signals: {observation.state: {from: /joints.position, unit: rad}}"),
    "rosbag2": ("bag.db3", "signals: {observation.state: {from: /joint_states.position, unit: rad}}"),
}


def _log(kind: str) -> Target:
    name, text = LOGS[kind]
    log_map = parse_map(f"{STREAM}format: {kind}\n{text}")

    def read(path: Path) -> None:
        shutil.rmtree(path.parent / "out", ignore_errors=True)
        ingest(path, path.parent / "out", log_map)

    return _file(name, read)


def _policy(path: Path) -> None:
    from twinloop.policies.networks.policy import load_policy

    load_policy(path.parent)


def _checkpoint(path: Path) -> None:
    from twinloop.learning.fit import read_checkpoint_state

    read_checkpoint_state(path)


def _randomization(path: Path) -> None:
    load_randomization(load_generate_config(path), load_twin("servo_pendulum"))


def _make_loop(root: Path) -> None:
    root.mkdir()
    (root / REACHED).write_text('["gate-0"]')
    (root / SETTINGS).write_text('{"config": {}, "robot": "standin:cell"}')


def _stages(path: Path) -> None:
    """Read where a loop stands, of whose files one is replaced."""
    stages = Stages(path)
    stages.finished()
    stages.running()
    read_loop_status(path.parent)


TARGETS: Mapping[str, Target] = {
    "yaml": _yaml,
    "wire": _message,
    "select": partial(_sql, check_select),
    "condition": partial(_sql, check_condition),
    "log_map": _file("map.yaml", load_map),
    "names": _file("columns.json", lambda path: load_names(path.with_name("run.npz"))),
    "generate": _file("seed.yaml", _randomization),
    "conditions": _file("conditions.yaml", load_conditions),
    "reality": _file("reality.yaml", load_reality),
    "costs": _file("costs.yaml", load_costs),
    "workspace": _file("twinloop.yaml", lambda path: find_workspace(path.parent)),
    "ratings": _file("ratings.json", load_ratings),
    "ratings_csv": _file("ratings.csv", load_ratings),
    "motion": _file("motion.csv", load_motion),
    "motion_npz": _file("motion.npz", load_motion),
    "consents": _file(RECORDS, lambda path: load_consents(path.parents[1])),
    "tombstones": _file(TOMBSTONES, lambda path: load_tombstones(path.parents[1])),
    "labels": _file(layout.LABELS, lambda path: load_labels(path.parents[2])),
    "overrides": _file(layout.OVERRIDES, lambda path: load_overrides(path.parents[3])),
    "manifest": _file(layout.MANIFEST, lambda path: load_manifest(path.parents[2])),
    "info": _in_place(layout.INFO, _make_dataset, _read_dataset),
    "rows": _in_place("data/chunk-000/file-000.parquet", _make_dataset, _read_dataset),
    "episodes": _in_place("meta/episodes/chunk-000/file-000.parquet", _make_dataset, _read_dataset),
    "twin": _in_place("twin.yaml", _save_pendulum, load_twin_folder),
    "twin_model": _in_place("model.xml", _save_pendulum, load_twin_folder),
    "mjcf": _file("robot.xml", make_twin_from_model),
    "urdf": _file("robot.urdf", make_twin_from_model),
    "stage": _in_place(f"gate-0/{STAGE}", _make_loop, _stages),
    "reached": _in_place(REACHED, _make_loop, _stages),
    "running": _in_place(RUNNING, _make_loop, _stages),
    "settings": _in_place(SETTINGS, _make_loop, _stages),
    "policy": _file("policy.json", _policy),
    "checkpoint": _file("checkpoint.safetensors", _checkpoint),
    **{kind: _log(kind) for kind in LOGS},
}


def call(target: Target, content: bytes, folder: Path) -> TwinloopError | None:
    """Read bytes; returns the error that a user would see, if there is one."""
    try:
        target(content, folder)
    except TwinloopError as error:
        return error
    return None


def seeds(name: str, folder: Path) -> Iterator[bytes]:
    """The corpus of a target: files that are kept, messages, valid logs written here, and what is too deep."""
    for path in sorted((CORPUS / name).glob("*")):
        yield path.read_bytes()
    if name == "wire":
        for path in sorted(WIRE.glob("*.txt")):
            yield from path.read_bytes().splitlines()
    write = {
        "csv": examples.write_csv,
        "json": examples.write_json,
        "npz": examples.write_npz,
        "npy": examples.write_npy,
        "mcap": examples.write_mcap_protobuf,
        "hdf5": lambda path, rows: examples.write_hdf5(path, rows, 1),
    }
    if name in write:
        yield write[name](folder / LOGS[name][0], rows=8).read_bytes()
    if name == "rosbag2":
        bag = examples.write_rosbag2(folder / "bag", "sqlite3", rows=8)
        yield next(bag.glob("*.db3")).read_bytes()
        shutil.rmtree(bag)
    if name in ("rows", "episodes", "info", "manifest"):
        _make_dataset(folder / "seed")
        place = {
            "rows": "data/chunk-000/file-000.parquet",
            "episodes": "meta/episodes/chunk-000/file-000.parquet",
            "info": layout.INFO,
            "manifest": layout.MANIFEST,
        }[name]
        yield (folder / "seed" / place).read_bytes()
        shutil.rmtree(folder / "seed")
    if name in ("twin", "twin_model"):
        _save_pendulum(folder / "seed")
        yield (folder / "seed" / {"twin": "twin.yaml", "twin_model": "model.xml"}[name]).read_bytes()
        shutil.rmtree(folder / "seed")
    yield from DEEP
