"""The policies of a workspace are listed from their records, each once, and a damaged record is named."""

import json
import shutil

from twinloop.policies.listing import list_policies
from twinloop.workspace import init_workspace


def test_each_policy_is_listed_once_with_its_curve(tiny_policy, tmp_path, twinloop, monkeypatch):
    root = init_workspace(tmp_path / "cell").root
    for place in ("policies/tiny", "loop/train-1/tiny", "registry/policies/x"):
        tiny_policy.save(root / place)
    (root / "policies/odd").mkdir()
    (root / "policies/odd/policy.json").write_text("[1, 2")
    odd, one = list_policies(root)
    assert (one.id, one.folder) == (tiny_policy.id, "loop/train-1/tiny")
    assert one.copies == ("policies/tiny", "registry/policies/x")
    curve = tiny_policy.training_record.results["curve"]
    assert [point.step for point in one.curve] == [point["step"] for point in curve]
    assert one.recipe == "sim-only" and one.twin == "franka_pick_place" and len(one.datasets) == 1
    assert odd.name == "odd" and "cannot be read" in odd.problem
    json.dumps(one.as_json(), allow_nan=False)
    monkeypatch.chdir(root)
    code, text, _ = twinloop("policy", "ls")
    assert code == 0 and "sim-only" in text and "cannot be read" in text
    shutil.rmtree(root / "policies")
    assert len(list_policies(root)) == 1
