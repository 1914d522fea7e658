"""SQL over datasets: tables `episodes`, `frames` and `transitions`, answered by DuckDB from the files in place.

- `episodes`: one row each; `dataset`, `episode_index`, `task`, `length`, every field of the provenance (numeric draws
  as `draw['mass_kg']`, categorical ones as `draw_text['texture']`), `success` and `failure` as last labelled, `label`
  (other labels, by field), `events`.
- `frames`: one row per time step; `dataset`, `episode_index`, `frame_index`, `time_s` and every signal. A signal's name
  contains a dot, so it is quoted: `"observation.state"[1]` is its first element.
- `transitions`: like `frames`, plus the next row of every `observation.` signal, `"next.state"` for
  `"observation.state"`; the last row of an episode has no next row and is omitted.

A query can read only these tables and cannot write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twinloop.datasets import sidecar
from twinloop.datasets.labels import load_labels
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.sql import check_condition, check_select
from twinloop.errors import DamagedDataset, DatasetError, UnknownName, WrongUse, first_line

MEMORY_BYTES = 2_000_000_000
"""Most memory of a query, and again of its answer."""
TIME_LIMIT_S = 600.0

_DRAWN = re.compile(r"\b(draw|draw_text)\s*\[\s*'((?:[^']|'')*)'\s*\]", re.IGNORECASE)


def query(
    sources: Sequence[str | Path | Dataset], sql: str, *, time_limit_s: float = TIME_LIMIT_S
) -> pa.Table:
    """Run one SELECT statement over one or more datasets.

    Args:
        sources: The datasets; a `dataset` column tells their rows apart.
        sql: The statement, over the tables `episodes`, `frames` and `transitions`.
        time_limit_s: Interrupt it after this many seconds.

    Raises:
        WrongUse: The statement is not one SELECT, fails, reads anything else, or needs too much time or memory.
        DamagedDataset: A file cannot be read.
    """

    def checked(connection: Any) -> str:
        check_select(connection, sql)
        return sql

    return _run(sources, checked, time_limit_s)


def find_episodes(dataset: str | Path | Dataset, condition: str) -> list[str]:
    """Return the ids of the episodes for which an SQL condition holds.

    Args:
        dataset: The dataset.
        condition: One expression over the columns of the table `episodes`, such as `success is null`.

    Raises:
        WrongUse: The text is not one expression, or cannot be evaluated.
    """

    def checked(connection: Any) -> str:
        sql = check_condition(connection, condition)
        check_select(connection, sql)
        return sql

    ids: list[str] = _run([dataset], checked, TIME_LIMIT_S).column(0).to_pylist()
    return ids


def _run(
    sources: Sequence[str | Path | Dataset], checked: Callable[[Any], str], time_limit_s: float
) -> pa.Table:
    """Run the statement that `checked` returns, given the connection whose parser checks it."""
    import duckdb

    datasets = [s if isinstance(s, Dataset) else open_dataset(s) for s in sources]
    if not datasets:
        raise WrongUse("nothing to query", remedy="name at least one dataset")
    with TemporaryDirectory(prefix="twinloop-query-") as spill:
        try:
            connection = _connect(datasets, spill)
        except duckdb.Error as error:
            raise DamagedDataset(
                f"a file of {', '.join(str(dataset.root) for dataset in datasets)} cannot be read ({first_line(error)})",
                remedy="run `twinloop data verify`",
            ) from error
        try:
            sql = checked(connection)
            _check_draws(connection, sql)
            return _fetch(connection, sql, time_limit_s)
        except duckdb.PermissionException as error:
            raise WrongUse("a query can only read the datasets it names", got=first_line(error)) from error
        except duckdb.OutOfMemoryException as error:
            raise _too_large(first_line(error)) from error
        except duckdb.InterruptException as error:
            raise WrongUse(
                f"the query was stopped after {time_limit_s:g} s",
                remedy="select fewer rows, or allow it more time",
            ) from error
        except duckdb.Error as error:
            for dataset in datasets:
                dataset.provenance_table()  # raises if a damaged table, not the query, is the cause
            raise WrongUse(
                f"the query failed: {first_line(error)}",
                available=_candidates(error),
                remedy="tables are episodes, frames and transitions; try: describe episodes",
            ) from error
        finally:
            connection.close()


def _fetch(connection: Any, sql: str, time_limit_s: float) -> pa.Table:
    """Return the answer, read in batches so that neither its size nor its time is unbounded."""
    timer = Timer(time_limit_s, connection.interrupt)
    timer.start()
    try:
        reader = connection.sql(sql).to_arrow_reader()
        batches, size = [], 0
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > MEMORY_BYTES:
                raise _too_large(f"an answer of more than {MEMORY_BYTES:,} bytes")
        return pa.Table.from_batches(batches, reader.schema)
    finally:
        timer.cancel()


def _too_large(got: str) -> WrongUse:
    return WrongUse(
        "the query needs too much memory", got=got, remedy="select fewer rows or columns, or aggregate"
    )


def _check_draws(connection: Any, sql: str) -> None:
    """Refuse a draw that no episode has, for which SQL would return null."""
    for column, key in dict.fromkeys((c.lower(), k.replace("''", "'")) for c, k in _DRAWN.findall(sql)):
        has_it = f"select 1 from episodes where list_contains(map_keys({column}), ?) limit 1"
        if connection.execute(has_it, [key]).fetchall():
            continue
        known = connection.execute(f"select distinct unnest(map_keys({column})) from episodes").fetchall()
        if connection.execute("select 1 from episodes limit 1").fetchall():
            raise UnknownName(f"{column} of these episodes", key, [name for (name,) in known])


def episode_rows(dataset: Dataset) -> list[dict[str, Any]]:
    """Return the `episodes` table of one dataset as dictionaries, in order."""
    return list(
        query([dataset], "select * exclude (events) from episodes order by episode_index").to_pylist()
    )


def _connect(datasets: Sequence[Dataset], spill: str) -> Any:
    """Return a connection with the three tables that can open their files and no others."""
    import duckdb

    limits = {"memory_limit": f"{MEMORY_BYTES}B", "temp_directory": spill, "max_temp_directory_size": "20GB"}
    connection = duckdb.connect(":memory:", config=limits)
    connection.execute("set preserve_insertion_order = false")
    connection.execute("set python_enable_replacements = false")
    files = [_quoted(file) for dataset in datasets for file in _table_files(dataset)]
    connection.execute(f"set allowed_paths = [{', '.join(files)}]")
    names = _names(datasets)
    episodes, frames, transitions = [], [], []
    for position, (dataset, name) in enumerate(zip(datasets, names, strict=True)):
        _create_provenance_view(connection, position, dataset)
        connection.register(f"label_{position}", _labels_table(dataset))
        episodes.append(_episodes_sql(position, name))
        frame_sql = _frames_sql(connection, position, dataset, name)
        if frame_sql:
            frames.append(frame_sql)
            transitions.append(_transitions_sql(frame_sql, [s.name for s in dataset.schema.signals]))
    connection.execute(f"create view episodes as {' union all by name '.join(episodes)}")
    if frames:
        connection.execute(f"create view frames as {' union all by name '.join(frames)}")
        connection.execute(f"create view transitions as {' union all by name '.join(transitions)}")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _table_files(dataset: Dataset) -> list[str]:
    """Return the files that the tables of a dataset are read from."""
    rows = [] if dataset.remote else [dataset.root / name for name in dataset.index.files]
    return [str(path.resolve()) for path in (*dataset.provenance_files(), *rows)]


def _names(datasets: Sequence[Dataset]) -> list[str]:
    """Return folder names, extended by parent folders until they differ."""
    parts = [
        tuple(dataset.place.split("/")) if dataset.remote else dataset.root.resolve().parts
        for dataset in datasets
    ]
    for depth in range(1, max(len(p) for p in parts) + 1):
        names = ["/".join(p[-depth:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    raise DatasetError("a dataset is listed twice", got=str(datasets[0].root))


def _create_provenance_view(connection: Any, position: int, dataset: Dataset) -> None:
    """Create `provenance_<position>`: one row per episode, before labels."""
    index = dataset.index
    tasks = pa.DictionaryArray.from_arrays(
        pa.array(index.task_of, pa.int32()), pa.array(index.tasks, pa.string())
    )
    columns = {
        "episode_index": pa.array(index.numbers),
        "task": tasks.cast(pa.string()),
        "length": pa.array(index.length),
    }
    if dataset.manifest is None or not len(index):
        empty = {
            name: pa.nulls(len(index), kind)
            for name, kind in zip(sidecar.SCHEMA.names, sidecar.SCHEMA.types, strict=True)
        }
        source = {"source": pa.array(["unknown"] * len(index), pa.string())}
        connection.register(f"provenance_{position}", pa.table(empty | columns | source))
        return
    connection.register(f"index_{position}", pa.table(columns))
    names = ", ".join(_identifier(name) for name in sidecar.SCHEMA.names)
    files = ", ".join(_quoted(str(path.resolve())) for path in _complete_provenance_files(dataset))
    connection.execute(
        f"create view provenance_{position} as select {names}, task, length "
        f"from read_parquet([{files}]) join index_{position} using (episode_index)"
    )


def _complete_provenance_files(dataset: Dataset) -> list[Path]:
    """Return the provenance tables after checking that they have a row for every episode."""
    paths = dataset.provenance_files()
    try:
        rows = sum(pq.read_metadata(path).num_rows for path in paths)
    except (OSError, pa.ArrowException):
        rows = -1
    if rows != len(dataset.index):
        dataset.provenance_table()  # raises with the cause
        raise DatasetError(f"{dataset.place} is being written; try again")
    return paths


def _labels_table(dataset: Dataset) -> pa.Table:
    """Return the latest labels of each labelled episode."""
    other: dict[str, dict[str, str]] = {}
    for label in load_labels(dataset.root):
        values = other.setdefault(label.episode_id, {})
        if label.field not in ("success", "failure"):
            values[label.field] = str(label.value)
    outcomes = dataset.outcomes
    return pa.table(
        {
            "episode_id": pa.array(list(other), pa.string()),
            "labelled": pa.array([episode_id in outcomes for episode_id in other], pa.bool_()),
            "success": pa.array([outcomes[i].success if i in outcomes else None for i in other], pa.bool_()),
            "failure": pa.array([outcomes[i].failure if i in outcomes else None for i in other], pa.string()),
            "label": pa.array(
                [list(values.items()) for values in other.values()], pa.map_(pa.string(), pa.string())
            ),
        }
    )


def _episodes_sql(position: int, name: str) -> str:
    return (
        f"select {_quoted(name)} as dataset, s.* replace ("
        "if(l.labelled, l.success, s.success) as success, if(l.labelled, l.failure, s.failure) as failure), l.label "
        f"from provenance_{position} s left join label_{position} l using (episode_id)"
    )


def _frames_sql(connection: Any, position: int, dataset: Dataset, name: str) -> str | None:
    if dataset.remote and dataset.index.files:
        connection.register(f"rows_{position}", dataset.remote.rows(dataset.index.files))
        return f"select {_quoted(name)} as dataset, * from rows_{position}"
    files = [str((dataset.root / file).resolve()) for file in dataset.index.files]
    if not files:
        return None
    missing = [file for file in files if not Path(file).exists()]
    if missing:
        raise DatasetError(f"{missing[0]} is missing", remedy="run `twinloop data verify`")
    listed = ", ".join(_quoted(file) for file in files)
    return f"select {_quoted(name)} as dataset, * from read_parquet([{listed}])"


def _transitions_sql(frame_sql: str, signals: Sequence[str]) -> str:
    following = [
        f"lead({_identifier(s)}) over next_row as {_identifier('next.' + s.removeprefix('observation.'))}"
        for s in signals
        if s.startswith("observation.")
    ]
    columns = ", ".join(["*", *following, "lead(frame_index) over next_row as next_frame_index"])
    return (
        f"select * exclude (next_frame_index) from (select {columns} from ({frame_sql}) "
        "window next_row as (partition by episode_index order by frame_index)) where next_frame_index is not null"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _candidates(error: Exception) -> list[str] | None:
    """Return the names that DuckDB suggests, if any."""
    suggestion = re.search(r"(?:Candidate bindings: |Did you mean )(.*)", str(error))
    return re.findall(r'"([^"]+)"', suggestion[1]) or None if suggestion else None
