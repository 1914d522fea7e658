"""Training runs in MLflow's SQLite store."""

from dataclasses import replace

import pytest

from tests.learn.conftest import TINY, point
from twinloop.errors import LearnError
from twinloop.learn.tracking import local_tracking, mlflow_client
from twinloop.learn.train import train

pytest.importorskip("sqlalchemy", reason="needs: pip install 'twinloop[learn]'")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_run_is_logged_with_its_words_its_curve_and_its_policy(tmp_path):
    uri = local_tracking(tmp_path)
    data = point(tmp_path / "data")
    made = train(real=data, out=tmp_path / "p", config=replace(TINY, recipe="real-only"), tracking=uri)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("twinloop").experiment_id])
    assert run.info.status == "FINISHED" and run.data.tags["policy_id"] == made.id
    assert run.data.params["recipe"] == "real-only" and run.data.params["seed"] == "0"
    assert run.data.tags["data.real"] == f"{data.id}@{data.manifest.fingerprint}"
    logged = client.get_metric_history(run.info.run_id, "validation_error")
    curve = made.story.results["curve"]
    assert [(m.step, m.value) for m in logged] == [(p["step"], p["validation"]) for p in curve]
    files = client.list_artifacts(run.info.run_id, "policy")
    assert {item.path for item in files} == {"policy/policy.json", "policy/weights.safetensors"}


def test_a_tracking_uri_that_leads_nowhere_is_told(tmp_path):
    data = point(tmp_path / "data")
    with pytest.raises(LearnError, match="no MLflow at"):
        train(
            real=data,
            out=tmp_path / "p",
            config=replace(TINY, recipe="real-only"),
            tracking="nonsense://x",
        )


def test_a_database_that_is_none_is_told(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, however long this text may be")
    with pytest.raises(LearnError, match=r"the registry: no MLflow at sqlite:(.|\n)*not a database"):
        mlflow_client(local_tracking(tmp_path), "the registry")
