"""Documentation can fail the build: the site, commands, help and code blocks."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import twinloop
from docs import api_page
from docs.generate import PAGE, commands, page
from tests.terminal import run_script

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONTINUES = {"your-logs.md": [ROOT / "docs/tutorials/your-robot.md"]}
"""Pages that go on in the folder where other pages ended; those are run on the way."""

STORIES = [path for path in PAGES if not any(path in before for before in CONTINUES.values())]

NOT_RUN = ("make ", "pip ", "source ")
"""Commands that set up an environment, which the tests have already."""

SMALLER = {
    "--episodes 60": "--episodes 12",
    "--episodes 8": "--episodes 3",
    "--steps 600": "--steps 20 --set width=32",
    "twinloop diagnose": "twinloop diagnose --scenes 8 --budget 60",
    "twinloop coverage": "twinloop coverage --points 500",
}
"""Sizes in bash blocks of the README, and the sizes at which the tests run them."""

LOOP = "tl.anchor("
"""The README's loop, which tests/test_loop.py runs at a smaller size."""

MY_ARM = """<robot name="my_arm">
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0 0 0.1"/><mass value="0.5"/>
      <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.0005"/></inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-1.5" upper="1.5" effort="4" velocity="3"/>
  </joint>
</robot>
"""
"""The reader's own robot, which examples on a page may load as `my_arm.urdf`."""

PUBLIC_PACKAGES = ("twinloop.imperfect", "twinloop.testing")
"""Packages that pages import besides `twinloop` itself: parts of imperfect hardware, and checks for users' own tests."""

INTERNALS = {
    "diagnose.md": ["twinloop.diagnosis"],
    "gap.md": ["twinloop.gap", "twinloop.stats"],
    "gate.md": ["twinloop.promotion"],
    "identify.md": ["twinloop.identification"],
}
"""Pages that still show functions below the exported ones."""


def test_the_command_reference_is_up_to_date():
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_command_is_documented():
    headings = re.findall(r"^## (twinloop.*)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [name for name, _ in commands()]


def test_the_api_reference_is_up_to_date():
    assert api_page.PAGE.read_text() == api_page.page(), "run `make docs`"


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


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.name)
def test_code_blocks_run(path, tmp_path):
    """A page works for a reader who types it from top to bottom, in one shell that starts in an empty folder.

    A block with a title is saved under that name. Python blocks without a command between them are one script. Lines of
    a console block that begin with `$` are commands, and so is every line of a bash block of the README; see NOT_RUN
    and SMALLER for what is left out and what is run at a smaller size.
    """
    (tmp_path / "my_arm.urdf").write_text(MY_ARM)
    folder = tmp_path
    for part in [*CONTINUES.get(path.name, ()), path]:
        folder = _type_page(part, folder)


def _type_page(path, folder):
    """Run the blocks of one page and return the folder that the reader's shell is in at the end."""
    program = ""
    for language, title, text in BLOCK.findall(path.read_text()):
        is_bash = language == "console" or (language == "bash" and path.name == "README.md")
        if program and is_bash:
            _run_python(program, folder)
            program = ""
        if title:
            (folder / title).write_text(text)
        elif language == "python" and LOOP not in text:
            program += text + "\n"
        elif is_bash:
            lines = text.splitlines()
            if language == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            else:
                lines = [_make_smaller(line) for line in lines]
            folder = run_script([line for line in lines if not line.startswith(NOT_RUN)], folder)
    if program:
        _run_python(program, folder)
    return folder


def _make_smaller(line):
    for words, smaller in SMALLER.items():
        line = line.replace(words, smaller)
    return line


def _run_python(program, folder):
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"


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
