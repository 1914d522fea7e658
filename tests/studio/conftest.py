"""A small real workspace, and studios that serve it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.studio.live import TOKEN, serving
from tests.studio.workspace import key_of_the_builder, make_workspace
from twinloop.datasets.commit import wait_for_lock


@dataclass(frozen=True)
class Studio:
    """A studio at work: its address, a client that may ask it, and the workspace that it serves."""

    address: str
    workspace: Path
    client: httpx.Client

    @property
    def entrance(self) -> str:
        """What `twinloop studio` prints: the address that lets a browser in."""
        return f"{self.address}/?token={TOKEN}"


@pytest.fixture(scope="session")
def studio_workspace(pytestconfig, tmp_path_factory) -> Path:
    """A real workspace with everything that the rooms show. Made once for a version of its builder; this is a copy."""
    cache = pytestconfig.cache.mkdir("studio-workspace")
    kept = cache / key_of_the_builder()
    with wait_for_lock(cache / "lock"):
        if not kept.exists():
            for older in (path for path in cache.iterdir() if path.is_dir()):
                shutil.rmtree(older)
            making = cache / f"making-{os.getpid()}" / "cell"
            make_workspace(making)
            making.rename(kept)
    return Path(shutil.copytree(kept, tmp_path_factory.mktemp("studio") / "cell"))


@pytest.fixture(scope="session")
def studio(studio_workspace):
    """A studio of the shared workspace, for tests that leave it as it is."""
    with serving(studio_workspace) as address, client_of(address) as client:
        yield Studio(address, studio_workspace, client)


@pytest.fixture
def own_studio(studio_workspace, tmp_path):
    """A studio of a workspace of its own, for tests that change it."""
    workspace = Path(shutil.copytree(studio_workspace, tmp_path / "cell"))
    with serving(workspace) as address, client_of(address) as client:
        yield Studio(address, workspace, client)


@pytest.fixture(scope="session")
def deciding_workspace(studio_workspace, tmp_path_factory) -> Path:
    """The workspace with what the rooms of decisions need beyond a small loop."""
    from tests.studio.deciding import add_decisions

    workspace = Path(shutil.copytree(studio_workspace, tmp_path_factory.mktemp("deciding") / "cell"))
    add_decisions(workspace)
    return workspace


@pytest.fixture(scope="session")
def deciding(deciding_workspace):
    """A studio of it, for tests that leave it as it is."""
    with serving(deciding_workspace) as address, client_of(address) as client:
        yield Studio(address, deciding_workspace, client)


@pytest.fixture
def own_deciding(deciding_workspace, tmp_path):
    """A studio of a copy of it, for tests that change it."""
    workspace = Path(shutil.copytree(deciding_workspace, tmp_path / "cell"))
    with serving(workspace) as address, client_of(address) as client:
        yield Studio(address, workspace, client)


def client_of(address: str) -> httpx.Client:
    """A client with the token and the header for changes."""
    headers = {"authorization": f"Bearer {TOKEN}", "x-twinloop": "1"}
    return httpx.Client(base_url=address, headers=headers, timeout=60)


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests of pages."""
    from playwright.sync_api import sync_playwright

    from tests.browser import CHROMIUM

    if CHROMIUM is None:
        pytest.skip("no chromium")
    with sync_playwright() as playwright:
        words = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words)
        yield browser
        browser.close()
