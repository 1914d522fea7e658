"""Training runs in MLflow: a local SQLite file by default, any tracking URI by choice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinloop.errors import LearnError, MissingExtra
from twinloop.learn.fit import Point
from twinloop.learn.policy import WEIGHTS, WORDS, Policy

EXPERIMENT = "twinloop"
DATABASE = "mlflow.db"


def local_tracking(folder: Path) -> str:
    """The URI of the database in a folder."""
    return f"sqlite:///{(folder / DATABASE).resolve()}"


def mlflow_client(uri: str, purpose: str) -> Any:
    """A client of the tracking server or database at `uri`; `purpose` is what cannot be done without MLflow."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # making a database is nothing to talk about
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # seven by default: minutes of silence
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        failures: tuple[type[Exception], ...] = (MlflowException,)
        if uri.startswith("sqlite:"):
            import alembic.util
            import sqlalchemy.exc

            failures += (sqlalchemy.exc.SQLAlchemyError, alembic.util.CommandError)
    except ImportError as error:  # pragma: no cover - the tests install it
        raise MissingExtra(purpose, str(error.name), "learn") from error
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except failures as error:
        first = str(error).splitlines()[0]
        raise LearnError(
            f"{purpose}: no MLflow at {uri} ({first})",
            remedy="choose another place for MLflow, or move the file away",
        ) from error


class TrackedRun:
    """One run: parameters at the start, a point of the curve at each validation, the policy's files at the end."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self._steps = 0
        self._stage, self._before = "", 0

    def point(self, point: Point) -> None:
        """Log one point; steps of later stages are counted on."""
        from mlflow.entities import Metric

        if point.stage != self._stage:
            self._stage, self._before = point.stage, self._steps
        self._steps = self._before + point.step
        now = round(point.elapsed_s * 1000)
        metrics = [
            Metric(f"{name}_error", value, now, self._steps)
            for name, value in (("training", point.training), ("validation", point.validation))
            if value == value  # a resumed run may have no training error yet
        ]
        self._client.log_batch(self._run_id, metrics=metrics)

    def finish(self, policy: Policy, folder: Path) -> None:
        """Say which policy came of it; its files are logged where the artifact store can be written."""
        self._client.set_tag(self._run_id, "policy_id", policy.id)
        self._client.set_tag(self._run_id, "policy", str(folder.resolve()))
        for name in (WORDS, WEIGHTS):
            self._client.log_artifact(self._run_id, str(folder / name), "policy")


@contextmanager
def tracked(uri: str, name: str, words: dict[str, Any]) -> Iterator[TrackedRun]:
    """A run at a tracking URI; ends as failed when the block does."""
    client = mlflow_client(uri, "logging runs (`--tracking off` goes without)")
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_experiment_by_name(EXPERIMENT)
        place = None
        if uri.startswith("sqlite:///"):
            place = (Path(uri.removeprefix("sqlite:///")).parent / "mlruns").as_uri()
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT, place)
        run = client.create_run(experiment, run_name=name)
    except MlflowException as error:
        first = str(error).splitlines()[0]
        raise LearnError(
            f"the run cannot be logged at {uri} ({first})", remedy="choose another --tracking, or 'off'"
        ) from error
    params = [Param(key, str(value)[:500]) for key, value in words["config"].items()]
    client.log_batch(run.info.run_id, params=params)
    for entry in words["datasets"]:
        client.set_tag(run.info.run_id, f"data.{entry['role']}", f"{entry['id']}@{entry['version']}")
    status = "FAILED"
    try:
        yield TrackedRun(client, run.info.run_id)
        status = "FINISHED"
    finally:
        client.set_terminated(run.info.run_id, status=status)
