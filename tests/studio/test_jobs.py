"""Jobs and events over HTTP, as the pages use them."""

import json
import time

from tests.studio.live import TOKEN, serving
from twinloop.jobs.job import ENDED
from twinloop.jobs.queue import cancel_job, list_jobs

FOREVER = ["monitor", "data/runs", "--baseline", "90", "--every", "0.05"]


def until(condition, tries=600):
    for _ in range(tries):
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("never true")


def test_a_job_is_asked_for_followed_cancelled_and_resumed(own_studio):
    client = own_studio.client
    with client.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        job = client.post("/api/jobs", json={"command": FOREVER, "by": "ann"})
        assert job.status_code == 201, job.text
        name = job.json()["id"]
        event = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        assert event in ({"type": "job", "id": name}, {"type": "workspace", "part": "jobs"})
    until(lambda: "$ twinloop monitor" in client.get(f"/api/jobs/{name}/log").json()["text"])
    listed = client.get("/api/jobs", params={"limit": 1}).json()
    assert listed["total"] == 1 and listed["items"][0]["id"] == name and listed["items"][0]["by"] == "ann"
    until(lambda: client.get(f"/api/jobs/{name}").json()["state"] == "running")
    until(lambda: "episodes" in client.get(f"/api/jobs/{name}/log").json()["text"])
    assert client.post(f"/api/jobs/{name}/cancel", json={"by": "ann"}).status_code == 200
    found = until(lambda: (job := client.get(f"/api/jobs/{name}").json())["state"] in ENDED and job)
    assert found["state"] == "cancelled" and found["can_resume"]
    again = client.post(f"/api/jobs/{name}/cancel")
    assert again.status_code == 409 and "has ended" in again.json()["error"]["what"]


def test_a_job_outlives_its_studio_and_another_one_shows_it(own_studio, tmp_path):
    with serving(own_studio.workspace) as address:
        import httpx

        headers = {"authorization": f"Bearer {TOKEN}", "x-twinloop": "1"}
        name = httpx.post(f"{address}/api/jobs", json={"command": FOREVER}, headers=headers).json()["id"]
    until(lambda: own_studio.client.get(f"/api/jobs/{name}").json()["state"] == "running")
    until(lambda: "episodes" in own_studio.client.get(f"/api/jobs/{name}/log").json()["text"])
    cancel_job(own_studio.workspace, name)
    until(lambda: all(job.state in ENDED for job in list_jobs(own_studio.workspace)))


def test_what_cannot_be_a_job_is_refused_with_the_reason(own_studio):
    for command, status in ((["studio"], 404), (["identify", "--real", "../x"], 400), ([], 422)):
        refused = own_studio.client.post("/api/jobs", json={"command": command})
        assert refused.status_code == status, refused.text
        assert refused.json()["error"]["what"]
    assert own_studio.client.get("/api/jobs/none").status_code == 404
    assert "identify" in own_studio.client.get("/api/jobs/commands").json()["commands"]


def test_a_read_only_studio_shows_everything_and_changes_nothing(studio_workspace):
    import httpx

    with serving(studio_workspace, read_only=True) as address:
        headers = {"authorization": f"Bearer {TOKEN}", "x-twinloop": "1"}
        refused = httpx.post(f"{address}/api/jobs", json={"command": FOREVER}, headers=headers)
        assert refused.status_code == 403 and "read-only" in refused.json()["error"]["what"]
        assert httpx.get(f"{address}/api/jobs", headers=headers).json()["items"] == []
        assert httpx.get(f"{address}/api/overview/studio", headers=headers).json()["read_only"] is True
