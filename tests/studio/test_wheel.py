"""The studio ships inside the wheel: whoever installs it needs no Node and no network."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from twinloop.studio.pages import STATIC

ROOT = Path(__file__).parent.parent.parent
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, so that nothing is left beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "twinloop_lerobot_server.py"):
        shutil.copy(ROOT / name, sources)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "twinloop", sources / "twinloop", ignore=ignored)
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder), str(sources))
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as parts:
        yield {one.filename: one.compress_size for one in parts.infolist()}


def test_the_wheel_holds_the_whole_front_end(wheel):
    files = {
        f"twinloop/studio/static/{path.relative_to(STATIC)}" for path in STATIC.rglob("*") if path.is_file()
    }
    assert "twinloop/studio/static/index.html" in files and files <= wheel.keys()


def test_the_wheel_grows_by_less_than_3_mb(wheel):
    assert sum(size for name, size in wheel.items() if name.startswith("twinloop/studio/")) < MOST_BYTES
