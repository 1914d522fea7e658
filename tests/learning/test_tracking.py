"""Training runs in MLflow's SQLite store."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.learning.examples import TINY, point
from twinloop.errors import LearnError
from twinloop.learning import tracking
from twinloop.learning.tracking import local_tracking, mlflow_client
from twinloop.learning.train import train

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
    curve = made.training_record.results["curve"]
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


@pytest.mark.slow
def test_runs_that_begin_at_once_make_one_database(tmp_path):
    """Real processes, told to go when each of them has loaded MLflow, which takes longest."""
    program = """
import sys
import mlflow.tracking
from twinloop.learning.tracking import tracked
print("ready", flush=True)
sys.stdin.readline()
with tracked(sys.argv[1], sys.argv[2], {"config": {}, "datasets": []}):
    pass
"""
    uri = local_tracking(tmp_path)
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, uri, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b")
    ]  # fmt: skip
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    client = mlflow_client(uri, "looking")
    found = client.search_runs([client.get_experiment_by_name("twinloop").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["a", "b"]
    assert {run.info.status for run in found} == {"FINISHED"}


def test_a_database_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(tracking.Path, "replace", full)
        with pytest.raises(LearnError, match=r"the registry: no MLflow at .*No space left on device"):
            mlflow_client(local_tracking(tmp_path), "the registry")
    assert [path.name for path in tmp_path.iterdir()] == [".mlflow.db.lock"]
    mlflow_client(local_tracking(tmp_path), "the registry")


def test_a_policy_that_cannot_be_logged_is_kept_and_the_reason_told(tmp_path):
    data, folder = point(tmp_path / "data"), tmp_path / "p"
    (tmp_path / "mlruns").write_text("a file where MLflow keeps its artifacts")
    with pytest.raises(LearnError, match=r"is trained and whole, but could not be logged \("):
        train(
            real=data, out=folder, config=replace(TINY, recipe="real-only"), tracking=local_tracking(tmp_path)
        )
    assert sorted(path.name for path in folder.iterdir()) == ["policy.json", "weights.safetensors"]
