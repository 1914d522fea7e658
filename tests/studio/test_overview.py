"""The overview: what `twinloop status` says, in JSON."""

import shutil

from tests.terminal import twinloop_json
from twinloop.overview import STAGES, read_overview
from twinloop.twins import load_twin
from twinloop.workspace import find_workspace, init_workspace


def test_the_overview_is_what_status_prints(studio):
    answer = studio.client.get("/api/overview")
    assert answer.status_code == 200, answer.text
    assert answer.json() == twinloop_json("status", cwd=studio.workspace)
    assert answer.json()["loop"]["next_stage"] == "anchor"


def test_the_overview_has_every_stage_with_what_it_found(studio):
    stages = {one["name"]: one for one in studio.client.get("/api/overview").json()["results"]}
    assert list(stages) == list(STAGES)
    states = {name: stage["state"] for name, stage in stages.items()}
    assert states.pop("anchor") == "next", "the loop stopped before it"
    assert set(states.values()) == {"done"}
    assert stages["record"]["summary"].startswith("24 episodes in 6 datasets")
    assert "accepted" in stages["identify"]["summary"] and stages["gate"]["summary"].startswith("refuse")
    for stage in stages.values():
        assert stage["place"] is None or (studio.workspace / stage["place"]).exists()


def test_the_overview_shows_success_over_the_rounds_and_who_is_champion(studio):
    found = studio.client.get("/api/overview").json()
    first = [(one["occasion"], one["kind"], one["policy"], one["trials"]) for one in found["evaluations"]]
    assert first == [
        ("evaluate", "sim", "nominal", 3), ("evaluate", "standin", "nominal", 3), ("gate", "sim", "adapted", 8), ("monitor", "standin", "deployed", 3)
    ]  # fmt: skip
    assert [one["round"] for one in found["evaluations"]] == [None, 1, None, None], (
        "a gate by hand is in no round"
    )
    assert all(one["low"] <= one["rate"] <= one["high"] for one in found["evaluations"])
    champion = found["champion"]
    assert (champion["policy"], champion["version"], champion["by"]) == ("adapted", "2", "ann")
    assert champion["reason"] == "override: in use before"


def test_the_overview_of_an_empty_workspace_says_where_to_begin(tmp_path):
    found = read_overview(init_workspace(tmp_path / "cell", load_twin("servo_pendulum")))
    assert (
        found.next_step == "twinloop generate seed.yaml"
        and found.champion is None
        and found.evaluations == ()
    )
    assert [one.state for one in found.results] == ["next", *["missing"] * (len(STAGES) - 1)]


def test_what_cannot_be_read_is_named_and_hides_nothing_else(studio_workspace, tmp_path):
    root = shutil.copytree(studio_workspace, tmp_path / "cell")
    for file in (*root.glob("loop/gap-*/gap.json"), *root.glob("loop/evaluate*/evaluation.json")):
        file.write_text("{}")
    (root / "gate/evidence.json").unlink()
    record = root / "registry/record.jsonl"
    record.write_text(record.read_text().replace("ann", "eve"))
    found = read_overview(find_workspace(root))
    stages = {one.name: one for one in found.results}
    assert "gap.json is not a valid Gap" in stages["gap"].summary
    assert stages["diagnose"].state == "done" and stages["promote"].state == "missing"
    assert found.champion is None and "problem" in found.registry
    assert [one.occasion for one in found.evaluations] == ["monitor"]


def test_every_answer_carries_the_policy_of_what_a_page_may_load(studio):
    for path in ("/", "/overview", "/api/overview", "/api/nothing"):
        headers = studio.client.get(path).headers
        assert (
            "script-src 'self'" in headers["content-security-policy"] and headers["x-frame-options"] == "DENY"
        )


def test_without_the_token_nothing_is_answered_and_with_it_a_browser_gets_a_cookie(studio):
    import httpx

    with httpx.Client(base_url=studio.address) as stranger:
        refused = stranger.get("/api/overview")
        assert refused.status_code == 401 and refused.json()["error"]["remedy"]
        entered = stranger.get(studio.entrance)
        assert entered.status_code == 303 and "token" not in entered.headers["location"]
        assert "httponly" in entered.headers["set-cookie"].lower()
        assert stranger.get("/api/overview").status_code == 200
