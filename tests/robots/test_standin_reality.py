"""Reality files: every key documented, every mistake named."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pybullet", reason="needs Bullet: pip install 'twinloop[bullet]'")

from twinloop.cli import app
from twinloop.errors import UnknownName, WrongUse
from twinloop.robots.standin.effects import BLOCKS, list_effects
from twinloop.robots.standin.reality import list_realities, load_reality, parse_reality

PAGE = Path(__file__).parent.parent.parent / "docs" / "research" / "stand-in.md"


def test_every_dimension_has_a_block():
    assert set(BLOCKS) == {
        "contact", "object", "actuation", "latency", "sensing", "visual", "environment", "human",
    }  # fmt: skip


@pytest.mark.parametrize("row", list_effects()[:-1], ids=lambda row: f"{row['block']}.{row['key']}")
def test_every_key_has_a_unit_a_range_and_a_meaning(row):
    assert row["unit"] and row["low"] < row["high"] and len(row["meaning"]) > 10
    if row["default"] is not None:
        assert row["low"] <= row["default"] <= row["high"]


def test_five_realities_are_shipped_beside_the_ideal_one_and_documented():
    assert list_realities() == ["ideal", "mild", "remote", "severe", "workshop", "worn"]
    for name in list_realities():
        assert load_reality(name).description
        assert f"`{name}`" in PAGE.read_text()


def test_the_shipped_ones_are_listed():
    listed = CliRunner().invoke(app, ["standin", "--list", "--json"])
    about = {one["name"]: one["description"] for one in json.loads(listed.stdout)}
    assert about == {name: load_reality(name).description for name in list_realities()}
    assert "mostly latency and sensing" in CliRunner().invoke(app, ["standin", "--list"]).stdout


def test_an_empty_file_is_a_robot_without_effects():
    assert parse_reality("").contact == parse_reality("contact: {}").contact


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'friction'"):
        parse_reality("contact: {fricton: 0.3}")
    with pytest.raises(UnknownName, match="did you mean 'latency'"):
        parse_reality("latencies: {}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latency: {action_delay_s: 3}", "0 .. 1 s"),
        ("latency: {action_delay_s: soon}", "a number"),
        ("latency: {action_delay_s: .nan}", "a number"),
        ("environment: {clutter_count: 1.5}", "a whole number"),
        ("contact: 3", "not a table"),
        ("- 1", "table"),
        ("contact: {friction: [", "YAML"),
        ("drift: {contact.friction: 0.1}", "no initial value"),
    ],
)
def test_a_wrong_value_says_what_is_right(text, words):
    with pytest.raises(WrongUse, match=re.escape(words)):
        parse_reality(text)


def test_an_effect_drifts_from_episode_to_episode_within_its_range():
    reality = parse_reality(
        "{latency: {action_delay_s: 0.1}, drift: {latency.action_delay_s: 0.01, contact.restitution: -1}}"
    )
    assert reality.at_episode(0).latency.action_delay_s == pytest.approx(0.1)
    assert reality.at_episode(7).latency.action_delay_s == pytest.approx(0.17)
    assert reality.at_episode(1000).latency.action_delay_s == 1.0
    assert reality.at_episode(5).contact.restitution == 0.0
    with pytest.raises(UnknownName, match=r"contact\.friction"):
        parse_reality("drift: {contact.fricton: 0.1}")
