"""Fixtures that every test may use, and the order in which files run."""

import signal

import pytest

LONGEST = ("test_loop.py", "test_docs.py", "test_every_parameter.py", "test_images.py", "test_look.py")
"""Files that take longest. They are begun first: one that begins last keeps a single worker busy while the others idle."""

PLACES = "{environment: {object_offset_x_m: [-0.05, 0.05], object_offset_y_m: [-0.05, 0.05]}}"


def pytest_configure() -> None:
    """Ctrl-C works, also where the tests run as a background job, which starts with it switched off."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, everything else in its usual order."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


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


@pytest.fixture(scope="module")
def short_trials(panda_data):
    """Pick-and-place trials that end after a second: long enough for everything but success."""
    from twinloop.tasks.pick_and_place import PickAndPlace

    # Whoever asks for `panda_data` later gets whole episodes: they are there before trials become short.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PickAndPlace, "time_limit_s", 1.0)
        yield
