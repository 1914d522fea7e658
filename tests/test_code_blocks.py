"""Documentation can fail the build: the code blocks of every page run, at sizes that a test can afford."""

import subprocess
import sys
from contextlib import chdir, nullcontext

import pytest

from tests.terminal import run_script
from tests.test_docs import BLOCK, PAGES, ROOT
from tests.trials import shorten_trials

CONTINUES = {"your-logs.md": [ROOT / "docs/tutorials/your-robot.md"]}
"""Pages that go on in the folder where other pages ended; those are run on the way."""

LANGUAGES = {"python", "console"}
"""Languages of blocks that are run; blocks in sh are shown only, and those in bash run on the README's page."""

STORIES = [
    path
    for path in PAGES
    if not any(path in before for before in CONTINUES.values())
    and LANGUAGES & {language for language, _, _ in BLOCK.findall(path.read_text())}
]

NOT_RUN = ("make ", "pip ", "source ")
"""Commands that set up an environment, which the tests have already."""

SMALLER = {
    "--episodes 8 --cameras": "--episodes 5 --cameras",
    "--episodes 8 --out runs": "--episodes 3 --out runs",
    "--episodes 60": "--episodes 12",
    "--episodes 20": "--episodes 13",
    "--episodes 48": "--episodes 24",
    "--episodes 6 --out data": "--episodes 2 --out data",
    "--episodes 4 --out data": "--episodes 2 --out data",
    "episodes=20": "episodes=13",
    "--steps 600": "--steps 20 --set width=32",
    "--seconds 10": "--seconds 4",
    "--seconds 15": "--seconds 4",
    "--real data/real-v1\n": "--real data/real-v1 --seconds 3\n",
    "twinloop anchor": "twinloop anchor --pilot 2",
    "twinloop diagnose": "twinloop diagnose --scenes 8 --budget 60",
    "twinloop coverage": "twinloop coverage --points 500",
    "check data/loopback": "data info data/loopback",
}
"""Sizes in bash, console and Python blocks, and the sizes at which the tests run them. What a loopback in real time drops
on a busy machine blocks its `check`, rightly."""

TRIAL_S = 1.0
"""Pick-and-place trials of commands end after these seconds."""

WHOLE = "twinloop generate cell.yaml"
"""A command that makes what a policy learns from: whole trials, since a policy learns from successes only."""

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


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.name)
def test_code_blocks_run(path, tmp_path):
    """A page works for a reader who types it from top to bottom, in one shell that starts in an empty folder.

    A block with a title is saved under that name. Python blocks without a command between them are one script. Lines of
    a console block that begin with `$` are commands, and so is every line of a bash block of the README; see NOT_RUN,
    SMALLER and TRIAL_S for what is left out and what is run at a smaller size.
    """
    (tmp_path / "my_arm.urdf").write_text(MY_ARM)
    folder, ran = tmp_path, 0
    for part in [*CONTINUES.get(path.name, ()), path]:
        folder, ran = _type_page(part, folder)
    assert ran, "a page in STORIES has something to run"


def _type_page(path, folder):
    """Run the blocks of one page, each of which must succeed.

    Returns the folder that the reader's shell is in at the end, and how many scripts and commands ran.
    """
    program, ran = "", 0
    for language, title, text in BLOCK.findall(path.read_text()):
        is_bash = language == "console" or (language == "bash" and path.name == "README.md")
        if program and is_bash:
            _run_python(program, folder)
            program, ran = "", ran + 1
        if title:
            (folder / title).write_text(text)
            continue
        for words, smaller in SMALLER.items():
            text = text.replace(words, smaller)
        if language == "python" and LOOP not in text:
            program += text + "\n"
        elif is_bash:
            lines = text.splitlines()
            if language == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            for line in lines:
                if not line.startswith(NOT_RUN):
                    with nullcontext() if line.startswith(WHOLE) else shorten_trials(TRIAL_S):
                        folder, ran = run_script([line], folder), ran + 1
    if program:
        _run_python(program, folder)
        ran += 1
    return folder, ran


def _run_python(program, folder):
    if ".register(" in program:  # what a page registers must not be known to other tests
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"
        return
    with chdir(folder):
        exec(compile(program, str(folder / "page.py"), "exec"), {"__name__": "__main__"})
