"""Documentation can fail the build: the site, commands, help and links. Its code blocks run in test_code_blocks.py."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import twinloop
from docs import api_page, engines_page
from docs.generate import PAGE, commands, page

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PUBLIC_PACKAGES = ("twinloop.imperfect", "twinloop.testing")
"""Packages that pages import besides `twinloop` itself: parts of imperfect hardware, and checks for users' own tests."""

INTERNALS = {
    "diagnose.md": ["twinloop.diagnosis"],
    "gap.md": ["twinloop.gap", "twinloop.stats"],
    "gate.md": ["twinloop.promotion"],
    "identify.md": ["twinloop.identification"],
    "trainers.md": ["twinloop.environments", "gymnasium"],
}
"""Pages that still show functions below the exported ones."""


def test_the_command_reference_is_up_to_date():
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_command_is_documented():
    headings = re.findall(r"^## (twinloop.*)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [name for name, _ in commands()]


def test_the_api_reference_is_up_to_date():
    assert api_page.PAGE.read_text() == api_page.page(), "run `make docs`"
    assert engines_page.PAGE.read_text() == engines_page.page(), "run `make docs`"


def build_site(root, folder):
    """Build the site as `make docs` does. Never with `--quiet`, which switches strictness off."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(
        command, cwd=root, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build_site(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_refuses_dead_links_and_pages_without_a_menu_entry(tmp_path):
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    for name in ("index.md", "reference/api.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text("# Page\n\n[a](nowhere.md), [b](reference/api.md#nothing)\n")
    (tmp_path / "docs/site_pages.py").write_text("")
    settings["nav"] = [{"Home": "index.md"}]
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    done = build_site(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "'nowhere.md'" in done.stderr and "'#nothing'" in done.stderr
    assert "- reference/api.md" in done.stderr, "a page without a menu entry"


def test_the_site_has_every_page(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built
    assert {Path("research/benchmarks.html"), Path("reference/changes.html")} <= built


def test_the_site_loads_nothing_from_other_hosts(site):
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
    for path in site.rglob("*.html"):
        assert loads.findall(path.read_text()) == [], path
    for path in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", path.read_text()), path


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_explains_itself_and_takes_json(name, command):
    assert command.help and len(command.help) > 20, f"{name} has no help"
    for parameter in command.params:
        assert parameter.help or parameter.name == "help", f"{name}: {parameter.name} has no help"
    assert any("--json" in parameter.opts for parameter in command.params), f"{name} has no --json"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_blocks_import_only_what_is_exported(path):
    """A reader needs `import twinloop as tl`, numpy and the standard library; see PUBLIC_PACKAGES for the rest."""
    for language, _, text in BLOCK.findall(path.read_text()):
        for node in ast.walk(ast.parse(text)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and node.module == "twinloop":
                assert {alias.name for alias in node.names} <= set(twinloop.__all__)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", None) or node.names[0].name
                root = module.split(".")[0]
                known = root in sys.stdlib_module_names or module in ("twinloop", "numpy")
                package = ".".join(module.split(".")[:2])
                allowed = (*PUBLIC_PACKAGES, *INTERNALS.get(path.name, ()))
                assert known or package in allowed, f"{module} in {path.name}"
            elif (
                isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tl"
            ):
                assert node.attr in twinloop.__all__, f"tl.{node.attr} in {path.name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_a_task_takes_less_than_50_lines():
    first = next(text for _, _, text in BLOCK.findall((ROOT / "docs/how-to/tasks.md").read_text()))
    assert "TASKS.register" in first and len(first.splitlines()) < 50
