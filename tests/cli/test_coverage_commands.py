"""`twinloop coverage` and `twinloop plan` as a user types them."""

import json

import pytest

from tests.coverage import worlds
from tests.terminal import twinloop, twinloop_json


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shelf")
    real, sim = worlds.scenes(40, 1), worlds.scenes(100, 2)
    worlds.write(folder / "runs", real, 0, source="real", fails=lambda s: s[0] > 0.54)
    worlds.write(folder / "sim", sim[sim[:, 0] < 0.54], 1000, source="sim")
    return folder


def test_from_two_data_sets_to_a_sheet_for_the_operator(shelf):
    found = twinloop_json(
        "coverage", "--real", "runs", "--sim", "sim", "--html", "map.html", "--out", "covered", cwd=shelf
    )
    [region] = found["regions"]
    assert region["outcomes"]["worse"] and found["outside"] == pytest.approx(region["fraction"])
    assert json.loads((shelf / "covered/coverage.json").read_text())["regions"] == found["regions"]
    asked = twinloop_json("data", "query", "runs", region["query"], cwd=shelf)
    assert [row["episode_index"] for row in asked] == region["episodes"]
    said = twinloop("plan", "--coverage", "covered", "--out", "plan.json", "--sheet", "sheet.html", cwd=shelf)
    assert region["name"] in said and "per hour" in said and "simulation: yes" in said
    assert (shelf / "sheet.html").read_text().count("☐") > 0
    [done] = twinloop_json("plan", "status", "plan.json", "--data", "runs", cwd=shelf)
    assert done["id"] == "region-1"
    for name, won in (("before", 60), ("after", 75)):
        (shelf / f"{name}.json").write_text(
            json.dumps({"evaluations": [{"successes": won, "episodes": 100}]})
        )
    said = twinloop(
        "plan", "review", "plan.json", "--before", "before.json", "--after", "after.json", "--item", "region-1",
        cwd=shelf,
    )  # fmt: skip
    assert "+15 points" in said and "promised" in said


def test_the_table_says_which_region_and_how_it_ends_there(shelf):
    said = twinloop("coverage", "--real", "runs", "--sim", "sim", cwd=shelf)
    assert "object.x at the start above 0.5" in said and "select episode_index" in said
    assert "% of the real data lies outside" in said


def test_wrong_use_is_explained(shelf):
    assert "does not exist" in twinloop("coverage", "--real", "none", "--sim", "sim", cwd=shelf, code=2)
    assert "at least 100" in twinloop(
        "coverage", "--real", "runs", "--sim", "sim", "--points", 5, cwd=shelf, code=2
    )
    assert "made from evidence" in twinloop("plan", cwd=shelf, code=2)
    assert "recovers" in twinloop("plan", "--default-costs", cwd=shelf)
