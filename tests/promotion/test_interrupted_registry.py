"""Commands of the registry that are killed, or meet a full disk, at any step: typed again, they are done once."""

import shutil

import pytest

pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
pytest.importorskip("cryptography", reason="needs: pip install 'twinloop[learn]'")

from tests.promotion.conftest import make
from tests.promotion.faults import faults, no_space, run_killed
from twinloop.errors import TamperedRecord, TwinloopError
from twinloop.promotion.keys import make_key
from twinloop.promotion.registry import PolicyRegistry

pytestmark = pytest.mark.filterwarnings("ignore")

MOST_STEPS = 200


@pytest.fixture(scope="module")
def cell(tmp_path_factory, policies, empty):
    """A workspace with three champions so far, and the user's folder; neither is opened here by the process that forks."""
    root = tmp_path_factory.mktemp("cell")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINLOOP_CONFIG", str(root / "user"))
        make_key("ann")
        registry = make(root / "work", empty)
        for policy in policies[:2]:
            registry.promote(policy, None, by="ann", override="better")
    return root


@pytest.fixture
def workspace(cell, tmp_path, monkeypatch):
    """A function that makes a copy of the workspace and of the user's folder."""

    def copy(number):
        root = tmp_path / f"copy{number}"
        shutil.copytree(cell, root)
        for file in (root / "user" / "registries").iterdir():
            file.write_text(file.read_text().replace(str(cell), str(root)))
        monkeypatch.setenv("TWINLOOP_CONFIG", str(root / "user"))
        return root

    return copy


def roll_back(root, policies):
    return PolicyRegistry(root / "work").roll_back(by="ann", reason="drops the cup")


def promote(root, policies):
    return PolicyRegistry(root / "work").promote(policies[2], None, by="ann", override="better")


COMMANDS = {"rollback": (roll_back, "1", 5), "promote": (promote, "3", 6)}
"""A command, the champion that it leads to, and the number of entries then."""


def repeat(root, policies, name):
    """Type the command again, as a user does: with the repair that the error names, if it names one."""
    command, champion, entries = COMMANDS[name]
    try:
        change = command(root, policies)
    except TamperedRecord as error:
        assert error.remedy == "twinloop registry repair"
        assert PolicyRegistry(root / "work").record.repair() is not None
        change = command(root, policies)
    registry = PolicyRegistry(root / "work")
    assert registry.state().aliases["champion"] == champion, "one step, not two"
    assert [entry.action for entry in registry.entries()].count(name) == (1 if name == "rollback" else 3)
    assert registry.verify().head.number == entries
    assert command(root, policies).how == "repeated" and registry.verify().head.number == entries
    return change.how


def sweep(workspace, policies, monkeypatch, name, interrupt, every=1):
    """Interrupt a command at every step in turn, and repeat it; returns what the repetitions did."""
    found = []
    for at in range(1, MOST_STEPS, every):
        root = workspace(f"{interrupt.__name__}{at}")
        if not interrupt(root, at, lambda root=root: COMMANDS[name][0](root, policies), monkeypatch):
            return found
        found.append(repeat(root, policies, name))
        shutil.rmtree(root)
    raise AssertionError("it never ends")


def killed(root, at, command, monkeypatch):
    return run_killed([root], at, command, monkeypatch)


def full(root, at, command, monkeypatch):
    with faults([root], at, no_space, monkeypatch) as steps:
        try:
            command()
        except (OSError, TwinloopError):
            assert steps.count >= at
    return steps.count >= at


EVERY = pytest.param(1, marks=pytest.mark.slow)


@pytest.mark.parametrize("every", [6, EVERY])
@pytest.mark.parametrize("interrupt", [killed, full])
def test_a_rollback_that_was_interrupted_at_any_step_goes_back_once(
    workspace, policies, monkeypatch, interrupt, every
):
    found = sweep(workspace, policies, monkeypatch, "rollback", interrupt, every)
    print(f"{interrupt.__name__}: {len(found)} steps, {found.count('finished')} after the record")
    assert found
    if every == 1:
        assert {"done", "finished"} <= set(found), "some are before the record is written, some after"


@pytest.mark.slow
@pytest.mark.parametrize("interrupt", [killed, full])
def test_a_promotion_that_was_interrupted_at_any_step_is_made_once(
    workspace, policies, monkeypatch, interrupt
):
    found = sweep(workspace, policies, monkeypatch, "promote", interrupt)
    print(f"{interrupt.__name__}: {len(found)} steps, {found.count('finished')} after the record")
    assert {"done", "finished"} <= set(found)
