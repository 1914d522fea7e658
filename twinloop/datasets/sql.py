"""Statements and conditions that users type, checked on DuckDB's own parse tree before anything runs.

Only a SELECT, or the EXPLAIN of one, passes, and only table functions that open nothing. The connection that runs it has
no access to other files and a locked configuration, so what the tree does not show is refused by DuckDB itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from twinloop.errors import WrongUse

MAX_DEPTH = 250
"""Brackets inside each other: memory and time of DuckDB's parser grow with the square of the depth, 4,000 take more than 2 GB."""
MAX_CHARACTERS = 20_000
"""Longer texts are refused: nesting as deep as 100,000 characters allow overflows the stack of DuckDB's parser."""

TABLES = ("episodes", "frames", "transitions")
TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
"""Table functions of a query; the others read files, settings or another statement's text."""

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\s", re.IGNORECASE)


def check_select(connection: Any, sql: str) -> None:
    """Raise `WrongUse` unless `sql` is one SELECT, or the EXPLAIN of one, over tables.

    Args:
        connection: A DuckDB connection; only its parser is used.
        sql: The statement.
    """
    for function in _table_functions(_parse_select(connection, _EXPLAIN.sub("", sql, count=1))):
        if function not in TABLE_FUNCTIONS:
            raise WrongUse(
                "a query can only read the datasets it names", got=f"{function}(...)", available=TABLES
            )


def check_condition(connection: Any, condition: str) -> str:
    """Return a SELECT of the ids of the episodes for which a condition holds.

    Args:
        connection: A DuckDB connection; only its parser is used.
        condition: One expression over the columns of `episodes`.

    Raises:
        WrongUse: The text is more than one expression, or none.
    """
    sql = f"select episode_id from episodes where ({condition}\n)"
    node = _parse_select(connection, sql)
    expected = _parse_select(connection, "select episode_id from episodes")
    if _without_places(node | {"where_clause": None}) != _without_places(expected):
        raise WrongUse(
            "not a condition on episodes",
            got=condition,
            expected="one SQL expression, such as: success is null",
        )
    return sql


def _depth(sql: str) -> int:
    """How many brackets are open at once at most, those in text included."""
    steps = ((character in "([{") - (character in ")]}") for character in sql)
    return max(accumulate(steps), default=0)


def _parse_select(connection: Any, sql: str) -> dict[str, Any]:
    """Return the parse tree of one SELECT; raises for any other statement, or for several."""
    import duckdb

    if len(sql) > MAX_CHARACTERS:
        raise WrongUse(
            "the query is too long", got=f"{len(sql):,} characters", expected=f"at most {MAX_CHARACTERS:,}"
        )
    if (depth := _depth(sql)) > MAX_DEPTH:
        raise WrongUse(
            "the query is nested too deeply", got=f"{depth:,} brackets", expected=f"at most {MAX_DEPTH}"
        )
    refusal = WrongUse("a query must be one SELECT statement", got=sql.strip() or "nothing")
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise refusal
    ((text,),) = connection.execute("select json_serialize_sql(?)", [statements[0].query]).fetchall()
    try:
        tree = json.loads(text)
    except RecursionError as error:
        raise WrongUse("the query is nested too deeply", got=sql) from error
    if tree["error"]:
        raise refusal
    node: dict[str, Any] = tree["statements"][0]["node"]
    return node


def _table_functions(tree: Any) -> Iterator[str]:
    """Yield the names of the table functions anywhere in a parse tree."""
    pending = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("type") == "TABLE_FUNCTION":
                yield str(part["function"]["function_name"]).lower()
            pending += part.values()
        elif isinstance(part, list):
            pending += part


def _without_places(tree: Any) -> Any:
    """Return a parse tree without the places of its parts in the text."""
    if isinstance(tree, dict):
        return {
            key: _without_places(part) for key, part in tree.items() if not key.startswith("query_location")
        }
    return [_without_places(part) for part in tree] if isinstance(tree, list) else tree
