"""Coverage, plan, policies, gate, monitor and people over HTTP: what the commands say, and what is refused."""

import json

import numpy as np
import pytest

from tests.planning.test_select import AXES, FAR
from tests.terminal import run_command, twinloop_json

OUTLINE = {"coverage": "reports/coverage", "polygon": " ".join(f"{x},{y}" for x, y in FAR), **AXES}


def get(studio, path, **params):
    """The JSON of a resource."""
    answer = studio.client.get(f"/api/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_coverage_has_its_regions_axes_and_datasets(deciding):
    newest, *_ = get(deciding, "coverage")
    assert newest["path"] == "reports/coverage" and newest["has_map"]
    found = get(deciding, "coverage/coverage", coverage="reports/coverage")
    [region] = found["regions"]
    assert region["name"].startswith("object.x at the start above") and region["outcomes"]["worse"]
    assert (found["real"]["path"], found["sim"]["path"]) == ("data/shelf", "data/shelf-sim")
    moments, situations = found["levels"]
    assert (moments["real"], situations["real"]) == (40 * 24, 40)
    assert [axis["name"] for axis in moments["axes"]][:2] == ["map 1", "map 2"]


def test_points_are_arrays_and_are_not_sent_twice(deciding):
    where = {"coverage": "reports/coverage", "level": "situation"}
    owners = deciding.client.get("/api/coverage/owners", params=where)
    episode, _, region, ended = np.frombuffer(owners.content, "<u4").reshape(4, -1)
    axis = deciding.client.get("/api/coverage/column", params=where | {"axis": "object.x at the start"})
    x = np.frombuffer(axis.content, "<f4")
    assert len(x) == len(episode) and episode[:40].tolist() == list(range(40))
    np.testing.assert_array_equal(ended[:40] == 2, x[:40] > 0.54)
    assert set(region[:40][x[:40] > 0.545]) == {0}
    headers = {"if-none-match": axis.headers["etag"]}
    again = deciding.client.get(
        "/api/coverage/column", params=where | {"axis": "object.x at the start"}, headers=headers
    )
    assert again.status_code == 304 and not again.content
    other = deciding.client.get(
        "/api/coverage/column", params=where | {"axis": "object.y at the start"}, headers=headers
    )
    assert other.status_code == 200


def test_an_outline_becomes_a_plan_item_that_people_move(own_deciding):
    chosen = get(own_deciding, "coverage/select", **OUTLINE)
    assert chosen["dataset"] == "data/shelf" and chosen["selection"]["failed"] == 11
    assert [one["variable"] for one in chosen["selection"]["conditions"]] == ["object.x at the start"]
    answer = own_deciding.client.post("/api/plan/items", json=OUTLINE | {"by": "ada", "name": "far objects"})
    item = answer.json()
    assert answer.status_code == 200 and item["title"] == "far objects" and item["gain"]["points"] > 0, (
        answer.text
    )
    step = {"state": "recording", "by": "bob", "note": "robot 2"}
    moved = own_deciding.client.post(f"/api/plan/items/{item['id']}/move", json=step).json()
    [own] = [one for one in moved["items"] if one["item"]["id"] == item["id"]]
    assert (own["state"], own["by"], own["note"]) == ("recording", "bob", "robot 2")
    assert moved["path"] == "plan.json"
    code, text, _ = run_command("plan", "board", "--json", cwd=own_deciding.workspace)
    assert code == 0 and {one["state"] for one in json.loads(text)} == {"planned", "recording"}
    progress = {one["id"]: one for one in get(own_deciding, "plan/progress")}
    assert progress[item["id"]]["wanted"] == item["episodes"]
    sheet = own_deciding.client.get("/api/plan/sheet", params={"item": item["id"]})
    assert "far objects" in sheet.text and "☐" in sheet.text
    policy = sheet.headers["content-security-policy"]
    assert "script-src 'sha256" in policy and "frame-ancestors 'none'" in policy


def test_policies_and_their_registry_are_what_the_commands_print(deciding):
    lines = get(deciding, "policies")
    listed = twinloop_json("policy", "ls", cwd=deciding.workspace)
    assert [one["policy"]["id"] for one in lines] == [one["id"] for one in listed]
    by_name = {one["policy"]["name"]: one for one in lines}
    assert by_name["adapted"]["aliases"] == ["champion"] and by_name["adapted"]["policy"]["curve"]
    registry = get(deciding, "policies/registry")
    assert registry["champions"] == ["1", "2"]
    assert [one["sentence"] for one in registry["actions"]][
        -1
    ] == "promoted version 2 to full, override: in use before"


def test_promotions_are_refused_in_words_and_rollbacks_carry_name_and_reason(own_deciding):
    post = own_deciding.client.post
    refused = post(
        "/api/policies/promote", json={"policy": "policies/nominal", "verdict": "gate", "by": "ann"}
    )
    assert refused.status_code == 409
    assert "the verdict is about another policy" in refused.json()["error"]["what"]
    unnamed = post("/api/policies/rollback", json={"by": " ", "reason": "x"})
    assert unnamed.status_code == 400 and "needs a name" in unnamed.json()["error"]["what"]
    done = post(
        "/api/policies/rollback", json={"by": "ann", "reason": "success fell", "champion": "2"}
    ).json()
    assert done["sentence"] == "rolled back from version 2 to 1: success fell"
    assert done["registry"]["aliases"]["champion"] == "1"
    again = post("/api/policies/rollback", json={"by": "ann", "reason": "again", "champion": "2"})
    assert (
        again.status_code == 409 and "not the champion" in again.json()["error"]["what"]
    ) or "no earlier" in again.text
    canary = {
        "policy": "policies/adapted",
        "stage": "canary",
        "fraction": 0.2,
        "by": "ann",
        "override": "try",
    }
    assert post("/api/policies/promote", json=canary).json()["registry"]["fraction"] == 0.2
    step = {"stage": "canary", "by": "ann", "reason": "enough"}
    assert post("/api/policies/withdraw", json=step).json()["registry"]["aliases"]["challenger"] is None
    verified = post("/api/policies/registry/verify").json()
    code, text, _ = run_command("registry", "verify", "--json", cwd=own_deciding.workspace)
    assert code == 0 and json.loads(text)["head"] == verified["head"]


def test_a_record_that_was_changed_is_named(own_deciding):
    record = own_deciding.workspace / "registry/record.jsonl"
    record.write_text(record.read_text().replace('"by": "ann"', '"by": "eve"', 1))
    answer = own_deciding.client.get("/api/policies/registry")
    assert answer.status_code == 409 and "record.jsonl" in answer.json()["error"]["what"]


def test_a_verdict_shows_its_trials_and_whether_it_follows_from_them(own_deciding):
    lines = get(own_deciding, "gate")
    assert {one["decision"] for one in lines} == {"promote", "refuse"}
    found = get(own_deciding, "gate/verdict", folder="gates/better")
    assert len(found["real"]) == found["verdict"]["statistics"]["trials"] == 60
    assert found["contradiction"] is None and len(found["verdict"]["statistics"]["log_e_value"]) == 60
    worse = get(own_deciding, "gate/verdict", folder="gates/worse-at-the-edge")
    assert "worse" in {one["standing"] for one in worse["verdict"]["statistics"]["slices"]}
    file = own_deciding.workspace / "gates/worse-at-the-edge/verdict.json"
    file.write_text(file.read_text().replace('"decision": "refuse"', '"decision": "promote"', 1))
    lied = get(own_deciding, "gate/verdict", folder="gates/worse-at-the-edge")
    assert "but its evidence gives 'refuse'" in lied["contradiction"]


def test_the_monitor_shows_success_over_time_what_shifted_and_what_to_do(deciding):
    newest = next(one for one in get(deciding, "monitor") if one["dataset"] == "data/pair")
    assert newest["kind"] == "aged actuator"
    found = get(deciding, "monitor/report", report=newest["path"])
    assert found["band"]["episodes"][-1] == found["report"]["success"]["episodes"] == 40
    assert {one["group"] for one in found["report"]["shifts"]} == {"actuator"}
    kinds = {one["kind"]: one for one in get(deciding, "monitor/alerts")}
    assert "twinloop identify" in kinds["aged actuator"]["command"]


def test_a_withdrawal_says_what_it_removes_before_it_does(own_deciding):
    people = {one["consent"]: one for one in get(own_deciding, "people")["people"]}
    assert people["c-operator-8"]["standing"] == "expired" and people["c-operator-7"]["episodes"] == 3
    planned = get(own_deciding, "people/c-operator-7/withdrawal")
    assert planned["removals"] == [{"dataset": "data/people", "episodes": 3}] and planned["complete"] is None
    post = own_deciding.client.post
    refused = post("/api/people/c-operator-7/withdraw", json={"by": "", "reason": ""})
    assert refused.status_code == 400 and get(own_deciding, "people/c-operator-7/withdrawal") == planned
    done = post("/api/people/c-operator-7/withdraw", json={"by": "dpo", "reason": "asked"}).json()
    assert done["complete"] is True and done["removals"] == planned["removals"]
    after = get(own_deciding, "people")
    assert [one["episodes"] for one in after["withdrawals"]] == [3]
    new = {"pseudonym": "operator-9", "scope": ["record"], "document": "form.txt", "expires": "2034-01-01"}
    assert post("/api/people", json=new).json()["expires"] == "2034-01-01"
    out = post("/api/people", json=new | {"document": "../secret.txt"})
    assert out.status_code == 400 and "leads out of the workspace" in out.json()["error"]["what"]
    named = post("/api/people", json=new | {"pseudonym": "Ada Lovelace"})
    assert named.status_code == 400 and "pseudonyms" in named.json()["error"]["what"]


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("coverage/coverage", {"coverage": "../../etc"}, 400),
        ("coverage/owners", {"coverage": "data"}, 404),
        ("coverage/column", {"coverage": "reports/coverage", "axis": "nothing"}, 404),
        ("coverage/select", OUTLINE | {"polygon": "1,2 3"}, 400),
        ("coverage/select", OUTLINE | {"polygon": "5,5 6,5 6,6"}, 400),
        ("coverage/select", OUTLINE | {"level": "weather"}, 422),
        ("plan/sheet", {"item": "nothing"}, 404),
        ("gate/verdict", {"folder": "/etc"}, 400),
        ("gate/verdict", {"folder": "data"}, 404),
        ("monitor/report", {"report": "form.txt"}, 400),
        ("monitor/report", {"report": "nothing.json"}, 404),
        ("people/nobody/withdrawal", {}, 404),
    ],
)
def test_what_is_not_there_is_answered_in_words(deciding, path, params, status):
    answer = deciding.client.get(f"/api/{path}", params=params)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["what"]


def test_two_writers_of_a_plan_are_refused(own_deciding):
    from twinloop.datasets.commit import hold_lock
    from twinloop.errors import WorkspaceError
    from twinloop.planning.board import LOCK

    with hold_lock(own_deciding.workspace, LOCK, WorkspaceError):
        answer = own_deciding.client.post("/api/plan/items", json=OUTLINE | {"by": "ada"})
    assert answer.status_code == 409 and "is being changed by" in answer.json()["error"]["what"]
