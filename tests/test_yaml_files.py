"""YAML that others wrote is read as plain values, or refused before it can do harm."""

import pytest
import yaml

from twinloop.errors import TwinloopError
from twinloop.planning.costs import load_costs
from twinloop.randomization import load_randomization
from twinloop.robots.standin.reality import load_reality
from twinloop.yaml_files import parse_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefg", "bcdefgh", strict=True)
)
BAD = {
    "deep": "[" * 100_000,
    "deep in one line": "- " * 100_000 + "x",
    "many": LAUGHS,
    "itself": "a: &a [*a]",
    "code": "!!python/object/apply:os.system [true]",
    "date": "day: 2024-13-45",
    "bytes": b"name: \xff\xfe",
}


@pytest.mark.parametrize("kind", BAD)
def test_hostile_yaml_is_refused(kind):
    with pytest.raises(yaml.YAMLError):
        parse_yaml(BAD[kind])


def test_aliases_that_do_not_multiply_are_read():
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: [*a, {d: e}]") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": [[1, 2], {"d": "e"}],
    }


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("load", [load_randomization, load_costs, load_reality])
def test_files_of_users_are_refused_with_a_reason(tmp_path, load, kind):
    file = tmp_path / "file.yaml"
    file.write_bytes(BAD[kind] if isinstance(BAD[kind], bytes) else BAD[kind].encode())
    with pytest.raises(TwinloopError, match="YAML"):
        load(file)
