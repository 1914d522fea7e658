"""Training runs in MLflow: a local SQLite file by default, any tracking URI by choice."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinloop.datasets.commit import wait_for_lock
from twinloop.errors import LearnError, MissingExtra

if TYPE_CHECKING:
    from twinloop.learning.fit import Point
    from twinloop.policies.networks.policy import Policy

EXPERIMENT = "twinloop"
DATABASE = "mlflow.db"


def local_tracking(folder: Path) -> str:
    """The URI of the database in a folder."""
    return f"sqlite:///{(folder / DATABASE).resolve()}"


def mlflow_client(uri: str, purpose: str) -> Any:
    """A client of the tracking server or database at `uri`; `purpose` is what cannot be done without MLflow.

    A local database appears whole: killed or out of room half-way, nothing is there that would have to be moved away.
    """
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # failures are raised as LearnError
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # seven by default: minutes of silence
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        failures: tuple[type[Exception], ...] = (MlflowException, OSError)
        if uri.startswith("sqlite:"):
            import alembic.util
            import sqlalchemy.exc

            failures += (sqlalchemy.exc.SQLAlchemyError, alembic.util.CommandError)
    except ImportError as error:  # pragma: no cover - the tests install it
        raise MissingExtra(purpose, str(error.name), "learn") from error
    try:
        path = database_file(uri)
        if path and not path.exists():
            with wait_for_lock(_lock(path)):
                if not path.exists():
                    with _aside(path) as made:
                        make_database(made)
                        made.chmod(made.stat().st_mode & ~0o007)  # it holds names and reasons
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    except failures as error:
        raise LearnError(
            f"{purpose}: no MLflow at {uri} ({_reason(error)})",
            remedy="choose another place for MLflow, or move the file away",
        ) from error


def make_database(path: Path) -> None:
    """Make an empty database of MLflow, which takes it a second or two."""
    from mlflow.tracking import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{path}", registry_uri=f"sqlite:///{path}")


def database_file(uri: str) -> Path | None:
    """The file of a local database; None for a server."""
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    return Path(path) if path != uri and path and path != ":memory:" else None


@contextmanager
def _aside(database: Path) -> Iterator[Path]:
    """Where to make it first; what a process that was killed left there goes. Never the same place twice: MLflow keeps those open."""
    for left in database.parent.glob(f".{database.name}.*.partial"):
        left.unlink(missing_ok=True)
    aside = database.with_name(f".{database.name}.{secrets.token_hex(4)}.partial")
    try:
        yield aside
        aside.replace(database)
    finally:
        aside.unlink(missing_ok=True)


def _lock(database: Path) -> Path:
    """Who holds this makes the database or what all runs share in it; MLflow fails where two begin at once."""
    return database.with_name(f".{database.name}.lock")


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
        with _reported("the run can no longer be logged", "--resume goes on from the last checkpoint"):
            self._client.log_batch(self._run_id, metrics=metrics)

    def finish(self, policy: Policy, folder: Path) -> None:
        """Say which policy came of it; its files are logged where the artifact store can be written."""
        from twinloop.policies.networks.policy import METADATA, WEIGHTS

        with _reported(
            f"{folder} is trained and whole, but could not be logged", "nothing needs to be done again"
        ):
            self._client.set_tag(self._run_id, "policy_id", policy.id)
            self._client.set_tag(self._run_id, "policy", str(folder.resolve()))
            for name in (METADATA, WEIGHTS):
                self._client.log_artifact(self._run_id, str(folder / name), "policy")


@contextmanager
def tracked(uri: str, name: str, run_description: dict[str, Any]) -> Iterator[TrackedRun]:
    """A run at a tracking URI; ends as failed when the block does."""
    client = mlflow_client(uri, "logging runs (`--tracking off` goes without)")
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    with _reported(f"the run cannot be logged at {uri}", "choose another --tracking, or 'off'"):
        path = database_file(uri)
        with wait_for_lock(_lock(path)) if path else nullcontext():
            found = client.get_experiment_by_name(EXPERIMENT)
            place = (path.resolve().parent / "mlruns").as_uri() if path else None
            experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT, place)
        run = client.create_run(experiment, run_name=name)
        params = [Param(key, str(value)[:500]) for key, value in run_description["config"].items()]
        client.log_batch(run.info.run_id, params=params)
        for entry in run_description["datasets"]:
            client.set_tag(run.info.run_id, f"data.{entry['role']}", f"{entry['id']}@{entry['version']}")
    status = "FAILED"
    try:
        yield TrackedRun(client, run.info.run_id)
        status = "FINISHED"
    finally:
        with suppress(MlflowException, OSError):  # the run stays open then; what ended it matters more
            client.set_terminated(run.info.run_id, status=status)


@contextmanager
def _reported(what: str, remedy: str) -> Iterator[None]:
    """A failure of MLflow, or of the disk below it, in one line."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:
        raise LearnError(f"{what} ({_reason(error)})", remedy=remedy) from error


def _reason(error: Exception) -> str:
    """The line that says what is wrong; a database's stands between others."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).splitlines() or [type(error).__name__]
    return next((line for line in lines if "Error)" in line), lines[0])
