"""Commands take a policy by its address or its map wherever they take one of ours."""

import json
import sys

import numpy as np
import pytest
import yaml

from tests.policies.foreign import TWIN, write_policy
from tests.policies.servers import served
from twinloop.cli import places
from twinloop.errors import GateError, MapError, PolicyChanged, WrongUse
from twinloop.generation.signals import make_schema
from twinloop.policies.open import open_policy
from twinloop.promotion.registry import PolicyRegistry
from twinloop.promotion.run import GateConfig, gate
from twinloop.tasks import make_cell
from twinloop.testing.policies import ProportionalPolicy
from twinloop.twins import load_twin


@pytest.fixture
def reach(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_policy(tmp_path)


def test_evaluate_takes_a_map_or_an_address_with_one(reach, twinloop):
    code, out, err = twinloop("evaluate", "reach.yaml", "--episodes", "1", "--latency", "40", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["evaluations"]
    assert found["policy"] == "Reach" and found["latency_s"] == [0.04] and found["void"] == {}
    code, again, err = twinloop(
        "evaluate", "python:reach.py:Reach", "--map", "reach.yaml", "--episodes", "1", "--latency", "40", "--json"
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(again) == json.loads(out), "the same policy, the same delays, the same trials"


def test_a_module_in_the_current_folder_is_found(reach, tmp_path, monkeypatch, twinloop):
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "reach.py").rename(tmp_path / "reach_in_this_folder.py")
    words = ("--map", "reach.yaml", "--episodes", "1", "--json")
    code, out, err = twinloop("evaluate", "python:reach_in_this_folder:Reach", *words)
    assert code == 0, err
    assert json.loads(out)["evaluations"][0]["void"] == {}


def test_a_policy_that_never_succeeds_in_its_twin_is_sent_to_the_check_of_its_map(reach, twinloop):
    code, out, err = twinloop("evaluate", "reach.yaml", "--episodes", "1")
    assert code == 0 and "Reach never succeeds in its twin" in out and "twinloop policy check" in out, err


def declare(folder, **change):
    """Move the map into the class, without `policy` and `twin`."""
    content = yaml.safe_load((folder / "reach.yaml").read_text()) | change
    (folder / "reach.yaml").unlink()
    declared = {
        key: content[key] for key in content if key != "policy" and (key != "twin" or "twin" in change)
    }
    source = (folder / "reach.py").read_text()
    (folder / "reach.py").write_text(
        source.replace("stateless = True", f"interface_map = {declared}; stateless = True")
    )


def test_a_policy_that_declares_its_map_needs_no_file(reach, tmp_path, twinloop):
    expected = open_policy(reach)
    twinloop("evaluate", "reach.yaml", "--episodes", "4", "--out", "tried")
    declare(tmp_path)
    address = "python:reach.py:Reach"
    declared = open_policy(address, twin=load_twin(TWIN))
    assert declared.map.actions == expected.map.actions and declared.map.inputs == expected.map.inputs
    words = ("--dataset", "tried", "--twin", TWIN, "--propose", "--map", "proposed.yaml")
    code, out, err = twinloop("policy", "map", address, *words)
    assert code == 0 and "not certain" not in out, err
    assert open_policy("proposed.yaml", twin=load_twin(TWIN)).map.actions == expected.map.actions
    assert twinloop("policy", "check", address, "--dataset", "tried", "--twin", TWIN)[0] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"twin": TWIN}, "has twin"),
        ({"actions": [{"elements": ["a"], "units": "deg"}]}, "(?s)actions.0.units is not a key.*'unit'"),
        ({"history": [-(10**6), 0]}, "no more than 1000 steps back"),
    ],
)
def test_a_declared_map_that_is_none_is_answered_with_its_place(reach, tmp_path, change, message):
    declare(tmp_path, **change)
    with pytest.raises(MapError, match=message):
        open_policy("python:reach.py:Reach", twin=load_twin(TWIN))


def test_an_address_without_a_map_says_what_is_missing(reach, twinloop):
    code, _, err = twinloop("evaluate", "python:reach.py:Reach", "--episodes", "1")
    assert code == 2 and "--map FILE" in err and "Traceback" not in err
    code, _, err = twinloop("evaluate", "pyton:reach.py:Reach", "--episodes", "1")
    assert code == 2 and "Traceback" not in err


def test_show_says_what_a_policy_says_of_itself(reach, twinloop):
    code, out, _ = twinloop("policy", "show", "python:reach.py:Reach")
    assert code == 0 and "fingerprint" in out and "python Reach" in out
    code, out, _ = twinloop("policy", "show", "reach.yaml")
    assert code == 0 and "observation.state (6)" in out and "6 targets at 50 Hz, 2 executed" in out


def test_the_registry_keeps_a_foreign_policy_and_rolls_back_to_it(reach, tmp_path):
    registry = PolicyRegistry(tmp_path)
    first = open_policy(reach)
    registry.promote(first, None, by="ada", override="in use before")
    second = open_policy(write_policy(tmp_path, old=("0.2 * (GOAL - at", "0.3 * (GOAL - at")))
    registry.promote(second, None, by="ada", override="faster")
    assert registry.policy("champion").id == second.id
    registry.roll_back(by="ada", reason="too fast")
    assert registry.policy("champion").id == first.id, "its file is kept, not the changed one"
    registry.verify()
    kept = tmp_path / "registry" / "policies" / first.id / "reach.py"
    kept.write_text(kept.read_text().replace("50.0", "60.0"))
    with pytest.raises(Exception, match="is not the file that was recorded"):
        registry.policy("champion")


def test_every_command_takes_what_the_registry_calls_a_policy(reach, tmp_path, twinloop):
    promoted = twinloop("promote", "reach.yaml", "--by", "ada", "--override", "in use before")
    assert promoted[0] == 0, promoted
    first = open_policy(reach)
    reach.unlink()
    for named in ("champion", "1", first.name, first.id):
        assert places.load_policy(named).id == first.id
    code, out, err = twinloop("evaluate", "champion", "--episodes", "1", "--json")
    assert code == 0 and json.loads(out)["evaluations"][0]["policy_id"] == first.id, err
    code, out, err = twinloop("policy", "show", "champion", "--json")
    assert code == 0 and json.loads(out)["id"] == first.id, err
    code, _, err = twinloop("policy", "export", "champion", "--out", "champion.onnx")
    assert code == 2 and "champion is not a policy that Twinloop trained" in err
    code, _, err = twinloop("gate", first.name, "--champion", "champion", "--twin", TWIN)
    assert code == 2 and "candidate and champion are the same policy" in err
    code, _, err = twinloop("evaluate", "challenger", "--episodes", "1")
    assert code == 1 and "there is no challenger; available: champion, Reach" in err
    second = open_policy(write_policy(tmp_path, old=("0.2 * (GOAL - at", "0.3 * (GOAL - at")))
    PolicyRegistry(tmp_path).promote(second, None, by="ada", override="faster")
    with pytest.raises(GateError, match="several registered policies are called Reach"):
        places.load_policy("Reach")
    assert places.load_policy("champion").id == second.id and places.load_policy("1").id == first.id


def test_a_policy_that_changes_during_a_gate_ends_it(reach, tmp_path):
    policy = open_policy(reach)
    policy.backend = open_policy(write_policy(tmp_path, old=("50.0], [", "60.0], ["))).backend
    with pytest.raises(PolicyChanged):
        gate(policy, load_twin(TWIN), GateConfig(scenes=2), out=tmp_path / "gate")


def test_one_of_ours_behind_a_server_needs_no_map_and_acts_the_same():
    twin = load_twin(TWIN)
    schema = make_schema(make_cell(twin), ())
    own = ProportionalPolicy(schema, np.array([0.1, -0.4, 0.5, 1.2, 0.3, 0.2]), name="own")
    seen = {"observation.state": np.linspace(-0.3, 0.6, 6).astype(np.float32)}
    with served(own) as address:
        foreign = open_policy(f"openpi:{address}", twin=twin)
        assert foreign.name == "own" and foreign.execution.n_action_steps == own.execution.n_action_steps
        foreign.reset(0)
        assert np.allclose(foreign.infer(seen), own.infer(seen), atol=1e-6)
        foreign.require_unchanged()
        foreign.close()
        with pytest.raises(WrongUse, match="for which robot"):
            open_policy(f"openpi:{address}")
