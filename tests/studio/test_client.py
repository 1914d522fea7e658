"""The HTTP API as an OpenAPI document, and as a typed client for scripts."""

import re

import pytest

from docs import studio_operations
from tests.studio.live import TOKEN
from twinloop.errors import TwinloopError, WrongUse
from twinloop.jobs.job import Job
from twinloop.overview import Overview
from twinloop.studio.client import StudioClient, StudioError


@pytest.fixture
def client(studio):
    with StudioClient(studio.entrance) as made:
        yield made


def test_the_typed_operations_are_up_to_date():
    assert studio_operations.FILE.read_text() == studio_operations.text(), "run `make docs`"


def test_the_document_describes_every_operation_and_the_one_shape_of_errors(studio):
    document = studio.client.get("/api/openapi.json").json()
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names) and all(re.fullmatch("[a-z][a-z_]+", name) for name in names)
    for one in operations:
        assert one["description"].strip().endswith((".", ")")), f"{one['operationId']} is not described"
        assert "ErrorAnswer" in str(one["responses"]["4XX"])
    assert {"read_overview", "list_datasets", "read_episode", "start_job"} <= set(names)
    parts = document["components"]["schemas"]["ErrorBody"]["properties"]
    assert set(parts) == {"what", "got", "expected", "available", "remedy", "kind"}


def test_every_operation_is_a_method_of_the_client():
    for route in studio_operations.routes():
        assert getattr(StudioClient, route.operation_id).__doc__


def test_answers_are_the_librarys_own_nouns(client, studio):
    found = client.read_overview()
    assert isinstance(found, Overview) and found.champion.policy == "adapted"
    assert client.read_studio().workspace == found.workspace
    assert {one.path for one in client.list_datasets()} >= {"data/sim", "data/runs"}
    page = client.list_episodes("data/sim", limit=5)
    assert (page.total, len(page.items)) == (12, 5)
    assert client.query_data("select count(*) n from episodes", ["data/sim", "data/runs"]).rows == [[15]]


def test_a_script_starts_follows_and_reads_a_job(own_studio):
    with StudioClient(own_studio.address, TOKEN) as client:
        events = client.watch_events()
        job = client.start_job(["data", "verify", "data/runs"], by="ann")
        assert isinstance(job, Job) and job.by == "ann"
        while job.state not in ("done", "failed"):
            next(events)
            job = client.read_job(job.id)
        events.close()
        assert job.state == "done" and "3 episodes" in client.read_job_log(job.id).text
        assert [one.id for one in client.list_jobs().items] == [job.id]


def test_refusals_are_errors_with_the_remedy(client, studio):
    with pytest.raises(StudioError, match="no job is called") as refused:
        client.read_job("nothing")
    assert (refused.value.status, refused.value.kind) == (404, "UnknownName")
    with (
        StudioClient(studio.address, "x" * 20) as stranger,
        pytest.raises(StudioError, match="needs its token"),
    ):
        stranger.read_overview()
    with pytest.raises(WrongUse, match="its address and its token"):
        StudioClient(studio.address)
    with (
        StudioClient("http://127.0.0.1:9", TOKEN) as nobody,
        pytest.raises(TwinloopError, match="does not answer"),
    ):
        nobody.read_overview()
