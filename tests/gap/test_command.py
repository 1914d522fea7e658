"""`twinloop gap` and `twinloop rank` as a user types them."""

import json

from tests.learning.examples import TINY
from twinloop.evaluation.run import evaluate
from twinloop.learning.train import train

from .worlds import record_arm


def test_the_gap_is_printed_kept_as_a_page_and_given_as_json(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_arm(tmp_path / "real", {"action_delay_s": 0.06}, count=4)
    (tmp_path / "conditions.csv").write_text("episode,site\n0,a\n1,a\n2,b\n3,b\n")
    words = (
        "--real",
        "real",
        "--twin",
        "so101",
        "--only",
        "latency,visual,environment",
        "--conditions",
        "conditions.csv",
    )
    code, out, _ = twinloop("gap", *words, "--out", "pages/gap.html")
    assert code == 0 and "command to response" in out and "gap in: latency" in out
    assert "needs real episodes with camera frames" in " ".join(out.split())
    page = (tmp_path / "pages/gap.html").read_text()
    assert "Gap in latency" in page and "Not evaluated" in page
    assert "http:" not in page and "https:" not in page, "the page needs no other file"
    code, out, _ = twinloop("gap", *words, "--json")
    printed = json.loads(out)
    assert code == 0 and printed["shown"] == ["latency"] and (tmp_path / "gap.html").exists()
    (first, *_) = printed["dimensions"]["latency"]["measures"]
    assert first["unit"] == "ms" and first["low"] <= first["value"] <= first["high"] < 0
    assert first["episodes"] == 4 and first["against"] == "the twin's replay" and first["excludes_zero"]
    assert printed["dimensions"]["visual"]["not_evaluated"][0]["needs"]
    assert printed["success"]["needs"], "these episodes have no outcome"


def test_success_is_that_of_the_policys_own_episodes(twinloop, panda_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = train(panda_data, out=tmp_path / "tiny", config=TINY)
    evaluate(policy, "franka_pick_place", episodes=3, seed=9, out=tmp_path / "runs")
    words = ("--real", "runs", "--twin", "franka_pick_place", "--only", "visual", "--trials", 2, "--json")
    code, out, _ = twinloop("gap", *words, "--policy", "tiny")
    overall = json.loads(out)["success"]["overall"]
    assert code == 0 and overall["real"]["episodes"] == 3 and overall["sim"]["episodes"] == 2
    record_arm(tmp_path / "other", {"action_delay_s": 0.02}, count=3, seconds=1.0)
    words = ("--real", "other", "--twin", "so101", "--only", "visual")
    code, _, err = twinloop("gap", *words, "--policy", "tiny")
    assert code == 2 and "acted in none of the real episodes" in err


def test_wrong_use_says_what_is_wrong(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record_arm(tmp_path / "real", {"action_delay_s": 0.02}, count=3, seconds=1.0)
    code, _, err = twinloop("gap", "--real", "real")
    assert code == 2 and "no twin is named" in err
    code, _, err = twinloop("gap", "--real", "nothing", "--twin", "so101")
    assert code == 2 and "nothing" in err
    code, _, err = twinloop("gap", "--real", "real", "--twin", "franka_pick_place")
    assert code == 2 and "do not fit twin 'franka_pick_place'" in err and "got 6" in err
    code, _, err = twinloop("gap", "--real", "real", "--twin", "so101", "--only", "latncy")
    assert code == 2 and "did you mean 'latency'" in err
    (tmp_path / "conditions.csv").write_text("object\nmug\n")
    code, _, err = twinloop("gap", "--real", "real", "--twin", "so101", "--conditions", "conditions.csv")
    assert code == 2 and "'episode'" in err
    code, _, err = twinloop("gap", "--real", "real", "--twin", "so101", "--conditions", "nowhere.csv")
    assert code == 2 and "nowhere.csv" in err


def test_rankings_are_printed_and_given_as_json(twinloop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "both.json").write_text(
        json.dumps(
            {
                "real": {"pick": {"a": 0.1, "b": 0.5, "c": 0.9}},
                "sim": {"pick": {"a": 0.2, "b": 0.9, "c": 0.8}},
            }
        )
    )
    code, out, _ = twinloop("rank", "--real", "both.json:real", "--sim", "both.json:sim")
    assert code == 0 and "pick" in out and "0.267" in out
    code, out, _ = twinloop("rank", "--real", "both.json:real", "--sim", "both.json:sim", "--json")
    assert code == 0 and json.loads(out)["tasks"][0]["policies"] == ["a", "b", "c"]
    code, _, err = twinloop("rank", "--real", "both.json:reel", "--sim", "both.json:sim")
    assert code == 2 and "available: real, sim" in err
