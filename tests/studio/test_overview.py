"""The overview: what `twinloop status` says, in JSON."""

from tests.terminal import twinloop_json


def test_the_overview_is_what_status_prints(studio):
    answer = studio.client.get("/api/overview")
    assert answer.status_code == 200, answer.text
    assert answer.json() == twinloop_json("status", cwd=studio.workspace)
    assert answer.json()["loop"]["next_stage"] == "anchor"


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
