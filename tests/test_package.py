"""The package as a user meets it: import, version, public names."""

import subprocess
import sys
import tomllib
from pathlib import Path

import twinloop
from twinloop.errors import WrongUse

HEAVY = {"torch", "mujoco", "duckdb", "pyarrow", "matplotlib", "av", "scipy", "pydantic"}


def loaded_by(*modules):
    """Every module that a new process has loaded after it imported these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_twinloop_loads_nothing_heavy():
    assert not loaded_by("twinloop") & HEAVY


def test_starting_a_command_loads_nothing_heavy():
    assert not loaded_by("twinloop.cli") & {"numpy", *HEAVY}


def test_generation_and_the_registry_do_without_pytorch():
    assert "torch" not in loaded_by(
        "twinloop.cli.progress", "twinloop.generation.run", "twinloop.learning.tracking"
    )


def test_acting_needs_none_of_the_training_extras():
    extras = {"mlflow", "onnx", "onnxruntime"}
    assert not loaded_by("twinloop.policies.networks.policy", "twinloop.policies.act") & extras


def test_every_public_name_is_there_and_documented():
    for name in dir(twinloop):
        if not name.startswith("__"):
            assert getattr(twinloop, name).__doc__, f"twinloop.{name} has no docstring"


def test_type_checkers_may_read_the_annotations():
    package = Path(twinloop.__file__).parent
    assert (package / "py.typed").exists()
    settings = tomllib.loads((package.parent / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["twinloop"]


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(twinloop, "nonsense")


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "twinloop", "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == f"twinloop {twinloop.__version__}" and done.returncode == 0


def test_a_message_shows_the_beginning_of_what_is_too_long_to_read():
    message = str(WrongUse("no such thing", got="x" * 5000, expected="y"))
    assert len(message) < 600
    assert "x ... (5000 characters); expected y." in message
    assert str(WrongUse("no such thing", got=[1, 2])) == "no such thing; got [1, 2]."
