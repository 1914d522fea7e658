"""Fixtures that every test may use, and the order in which files run."""

import gc
import os
import shutil
import signal
import uuid
from pathlib import Path

import pytest

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(
        threads, "1"
    )  # before NumPy is loaded: threads of two tests on two cores wait for each other

LONGEST = (
    "test_code_blocks.py",
    "test_overview.py",
    "test_standin_every_effect.py",
    "test_standin_success.py",
    "test_monitor.py",
    "test_registry.py",
    "test_drift.py",
    "test_agreement.py",
)
"""Files that take longest. They are begun first: one that begins last keeps a single worker busy while the others idle."""

USES_EVERY_CORE = ("generation.run", "evaluation.robot", "promotion.run", "workflows")

PLACES = "{environment: {object_offset_x_m: [-0.05, 0.05], object_offset_y_m: [-0.05, 0.05]}}"


RARELY = (50_000, 20, 20)
"""When garbage is collected. At Python's defaults a process with all of our imports spends a twentieth of its time on it."""


def pytest_configure() -> None:
    """Ctrl-C works, also where the tests run as a background job, which starts with it switched off."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(*RARELY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, everything else in its usual order, the studio's last: its workspace is then made already."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.path.name in LONGEST:
        return LONGEST.index(item.path.name)
    return len(LONGEST) + (item.path.parent.name == "studio")


@pytest.fixture(autouse=True, scope="session")
def spend_no_time_on_the_machine():
    """Neither wait for the disk nor start a process per core.

    The kernel outlives whatever a test kills. The other cores are busy with other tests, and data has the same bytes on any
    number of workers; tests of that pass `workers`, or `cores` for replicas of a stand-in.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        for module in USES_EVERY_CORE:
            patch.setattr(f"twinloop.{module}.usable_cores", lambda: 1)
        yield


@pytest.fixture(autouse=True, scope="session")
def have_no_keys(tmp_path_factory):
    """Tests neither see nor change the keys of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLOOP_CONFIG", str(tmp_path_factory.mktemp("user") / "twinloop"))
        patch.delenv("TWINLOOP_KEY", raising=False)
        yield


@pytest.fixture(autouse=True)
def have_own_keys(tmp_path_factory, monkeypatch):
    """Each test begins without keys; those it makes are its own. The folder is only made where one is."""
    monkeypatch.setenv("TWINLOOP_CONFIG", str(tmp_path_factory.getbasetemp() / f"user-{uuid.uuid4().hex}"))


@pytest.fixture(autouse=True, scope="session")
def make_mlflow_databases_once(tmp_path_factory):
    """The first database is made by MLflow, the others are copies of it."""
    from twinloop.learning import tracking

    empty, make = tmp_path_factory.mktemp("mlflow") / "empty.db", tracking.make_database

    def copy_empty(path: Path) -> None:
        if not empty.exists():
            make(empty)
        shutil.copy(empty, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "make_database", copy_empty)
        yield


@pytest.fixture
def twinloop():
    """A function that runs one command and returns its exit code, standard output and standard error."""
    from tests.terminal import run_command

    return run_command


@pytest.fixture(scope="session")
def panda_data(tmp_path_factory):
    """Eight simulated pick-and-place episodes, all successful."""
    from twinloop.generation.run import generate

    config = tmp_path_factory.mktemp("config") / "tiny.yaml"
    config.write_text(f"twin: franka_pick_place\nrandomization: {PLACES}\n")
    return generate(config, out=tmp_path_factory.mktemp("data") / "sim", episodes=8, seed=3, workers=1)


@pytest.fixture(scope="session")
def tiny_policy(panda_data, tmp_path_factory):
    """A policy that has learned next to nothing, for everything but success."""
    from tests.learning.examples import TINY
    from twinloop.learning.train import train

    return train(panda_data, out=tmp_path_factory.mktemp("policies") / "tiny", config=TINY)


@pytest.fixture
def short_trials(panda_data):
    """Pick-and-place trials end after a second; `panda_data` is made before, of whole episodes."""
    from tests.trials import shorten_trials

    with shorten_trials():
        yield
