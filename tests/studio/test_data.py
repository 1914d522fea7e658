"""Data and Episode: what their operations answer, and that they answer for nothing outside the workspace."""

import pytest

from twinloop.studio.datasets import find_datasets
from twinloop.workspace import find_workspace


@pytest.fixture(scope="module")
def where(studio):
    """A simulated and a recorded dataset of the shared workspace."""
    lines = studio.client.get("/api/data/datasets").json()
    return {line["by_source"][0]["source"]: line["path"] for line in lines if line["episodes"]}


def ask(studio, path, status=200, **params):
    answer = studio.client.get(f"/api/{path}", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_datasets_are_those_of_the_workspace(studio):
    lines = studio.client.get("/api/data/datasets").json()
    assert [line["path"] for line in lines] == find_datasets(find_workspace(studio.workspace))
    assert all(line["problem"] is None for line in lines)
    assert all(sum(one["episodes"] for one in line["by_source"]) == line["episodes"] for line in lines)


def test_episodes_come_in_pages_and_facets_count_them(studio, where):
    dataset = where["sim"]
    facets = ask(studio, "data/facets", dataset=dataset)
    page = ask(
        studio, "data/episodes", dataset=dataset, limit=2, offset=1, sort="duration_s", descending=True
    )
    assert page["total"] == page["all"] == sum(one["episodes"] for one in facets["outcome"])
    assert len(page["items"]) == 2
    kept = ask(studio, "data/episodes", dataset=dataset, outcome="success", where="length > 0")
    assert all(one["success"] for one in kept["items"])


def test_sql_is_confined_to_the_datasets_it_names(studio, where):
    answer = ask(studio, "data/query", dataset=where["sim"], sql="select count(*) as n from episodes")
    assert answer["columns"][0]["name"] == "n" and answer["rows"][0][0] > 0
    for sql in ("select * from read_csv('/etc/passwd')", "drop table episodes", "select 1; select 2"):
        refused = ask(studio, "data/query", 400, dataset=where["sim"], sql=sql)
        assert refused["error"]["what"]
    tables = ask(studio, "data/tables", dataset=where["sim"])
    assert "duration_s" in {one["name"] for one in tables["tables"]["episodes"]} and tables["draws"]


@pytest.mark.parametrize("path", ["../x", "/etc", "data/../../x", "data/none"])
def test_no_dataset_outside_the_workspace_is_read(studio, path):
    for place in ("data/episodes", "data/facets", "data/tables"):
        assert studio.client.get(f"/api/{place}", params={"dataset": path}).status_code in (400, 404)


def test_an_episode_is_described_with_its_signals_and_thumbnail(studio, where):
    params = {"dataset": where["sim"], "episode": 0}
    episode = ask(studio, "episode", **params)
    assert episode["draw"] and episode["provenance"]["source"] == "sim" and episode["before"] is None
    names = [one["name"] for one in episode["signals"]][:2]
    signals = ask(studio, "episode/signals", **params, signal=names, points=50)
    assert len(signals["time_s"]) <= 50 and signals["rows"] == episode["rows"]
    assert all(len(one["values"]) == len(signals["time_s"]) for one in signals["series"])
    image = studio.client.get(f"/api/episode/thumbnail/{episode['id']}", params=params)
    assert image.status_code == 200 and "immutable" in image.headers["cache-control"]
    again = studio.client.get(
        f"/api/episode/thumbnail/{episode['id']}",
        params=params,
        headers={"if-none-match": image.headers["etag"]},
    )
    assert again.status_code == 304 and not again.content
    assert ask(studio, "episode", 400, dataset=where["sim"], episode=10_000)["error"]["expected"]


def test_an_episode_is_replayed_in_a_twin(studio, where):
    params = {"dataset": where["sim"], "episode": 0}
    twins = ask(studio, "episode/twins", **params)
    assert twins[0]["place"] == "own"
    motion = ask(studio, "episode/motion", **params)
    assert motion["replayed"]["bodies"] == motion["recorded"]["bodies"] and motion["signals"]
    assert ask(studio, "episode/geometry", **params)["shapes"]
    ask(studio, "episode/motion", 400, **params, twin="../elsewhere")


def test_labels_carry_their_author_and_show_at_once(own_studio):
    line = next(one for one in own_studio.client.get("/api/data/datasets").json() if one["episodes"] > 1)
    body = {"dataset": line["path"], "episodes": [1], "by": "ann"}
    labels = {"outcome": "failure", "failure": "slipped", "keep": [0.1, 0.5]}
    phases = [{"name": "reach", "start_s": 0.0, "end_s": 0.4}]
    answer = own_studio.client.post("/api/episode/labels", json=body | labels | {"phases": phases})
    assert answer.status_code == 200, answer.text
    episode = own_studio.client.get("/api/episode", params={"dataset": line["path"], "episode": 1}).json()
    assert (episode["success"], episode["failure"], episode["keep"]) == (False, "slipped", [0.1, 0.5])
    assert episode["phases"] == phases and {one["by"] for one in episode["labels"]} == {"ann"}
    listed = own_studio.client.get(
        "/api/data/episodes", params={"dataset": line["path"], "failure": "slipped"}
    )
    assert [one["episode"] for one in listed.json()["items"]] == [1]
    own_studio.client.post("/api/episode/labels", json=body | {"by": "ben", "outcome": "success"})
    agreement = own_studio.client.get("/api/episode/agreement", params={"dataset": line["path"]}).json()
    assert [one["episode"] for one in agreement["disagreements"]] == [1]
    refused = own_studio.client.post("/api/episode/labels", json=body | {"by": " ", "outcome": "success"})
    assert refused.status_code == 400 and "author" in refused.json()["error"]["what"]


def test_selections_are_saved_counted_and_removed(own_studio):
    line = next(one for one in own_studio.client.get("/api/data/datasets").json() if one["episodes"])
    parts = [{"dataset": line["path"], "where": "true", "weight": 2}]
    saved = own_studio.client.post("/api/data/selections", json={"name": "all", "parts": parts, "by": "ann"})
    assert saved.status_code == 200 and saved.json()["parts"][0]["episodes"] == line["episodes"]
    assert [one["name"] for one in own_studio.client.get("/api/data/selections").json()] == ["all"]
    assert own_studio.client.delete("/api/data/selections/all").status_code == 200
    assert own_studio.client.get("/api/data/selections").json() == []
