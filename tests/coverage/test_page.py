"""The coverage map in a real browser: points, clicks, zoom, lasso. Skipped where no Chromium is installed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.browser import CHROMIUM, Browser
from tests.coverage import worlds
from twinloop.coverage.result import Coverage, CoverageMap, DatasetSummary
from twinloop.coverage.run import compare_samples, measure_coverage
from twinloop.coverage.sample import DatasetSample, Points
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.report.coverage_page import write_coverage_page

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A map with a camera and one region of failures, and the real dataset it is about."""
    folder = tmp_path_factory.mktemp("map")
    real, sim = worlds.scenes(40, 1), worlds.scenes(80, 2)
    worlds.write(folder / "real", real, 0, source="real", camera=True, fails=lambda s: s[0] > 0.54)
    worlds.write(folder / "sim", sim[sim[:, 0] < 0.54], 1000, source="sim", camera=True)
    opened = open_dataset(folder / "real"), open_dataset(folder / "sim")
    result = measure_coverage(*opened, points=600)
    write_coverage_page(result, folder / "map.html", opened)
    return folder, real, result


def test_the_page_needs_no_other_file(shelf):
    folder, _, result = shelf
    page = (folder / "map.html").read_text()
    assert "http:" not in page and "https:" not in page and "src='//" not in page
    assert result.regions[0].name in page and "fails more" in page


def test_the_part_of_a_region_that_fails_has_a_row_of_its_own(tmp_path):
    real, sim = worlds.scenes(80, 1), worlds.scenes(300, 2)
    mine = replace(worlds.side("real", real, 0), success=tuple(bool(x < 0.55) for x in real[:, 0]))
    result = compare_samples(mine, worlds.side("sim", sim[sim[:, 0] < 0.5], 1000))
    write_coverage_page(result, tmp_path / "map.html")
    assert f"mostly where {result.regions[0].worst.name}" in (tmp_path / "map.html").read_text()


@needs_browser
def test_a_click_shows_the_episode_and_its_frame(shelf):
    folder, _, result = shelf
    with Browser() as browser:
        browser.open(folder / "map.html")
        browser.wait_for("window.twinloopMap && twinloopMap.state.frames > 0")
        browser.run("document.querySelector('.region').click()")
        browser.wait_for("twinloopMap.state.region === 0 && twinloopMap.state.x.startsWith('object.x')")
        first = (
            "const k = twinloopMap.state.level.region.findIndex((r) => r === 0), p = twinloopMap.place(k);"
            "const box = document.getElementById('overlay').getBoundingClientRect();"
        )
        x, y, episode = browser.run(
            f"(() => {{ {first} return [p[0] + box.left, p[1] + box.top, twinloopMap.state.level.episode[k]]; }})()"
        )
        browser.click(x, y)
        browser.wait_for("document.querySelector('#point h3')")
        shown = browser.run("document.getElementById('point').innerText")
        assert f"real#{result.map.real.numbers[episode]}" in shown and "failed: missed" in shown
        assert result.regions[0].name in shown
        browser.wait_for("document.querySelector('#point img').naturalWidth > 0")
        assert browser.problems == []


@needs_browser
def test_a_lasso_becomes_a_query_and_a_plan_item(shelf, tmp_path):
    folder, real, _ = shelf
    with Browser() as browser:
        browser.open(folder / "map.html")
        browser.wait_for("window.twinloopMap && twinloopMap.state.frames > 0")
        for name, value in (
            ("level", "situation"),
            ("x", "object.x at the start"),
            ("y", "object.y at the start"),
        ):
            browser.run(
                f"{name}_ = document.getElementById('{name}'), {name}_.value = '{value}', {name}_.dispatchEvent(new Event('change'))"
            )
        browser.run("document.getElementById('lasso').click()")
        browser.wait_for("twinloopMap.state.tool === 'lasso'")
        corner = browser.run(
            """(() => { const s = twinloopMap.state, c = document.getElementById('map'), b = c.getBoundingClientRect();
            const at = (x, y) => [b.left + b.width * (x - s.view.x0) / (s.view.x1 - s.view.x0),
                                  b.top + b.height * (1 - (y - s.view.y0) / (s.view.y1 - s.view.y0))];
            return [at(0.5, 0.0), at(0.5, 0.2), at(0.7, 0.2), at(0.7, 0.0)]; })()"""
        )
        box = browser.run(
            "(() => { const b = document.getElementById('map').getBoundingClientRect(); return [b.left, b.top, b.right, Math.min(b.bottom, innerHeight)]; })()"
        )
        inside = [
            (min(max(x, box[0] + 2), box[2] - 2), min(max(y, box[1] + 2), box[3] - 2)) for x, y in corner
        ]
        browser.drag([*inside, inside[0]])
        browser.wait_for("window.twinloopItem")
        item = browser.run("window.twinloopItem")
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        browser.run("document.getElementById('save-item').click()")
        for _ in range(400):
            if (tmp_path / "plan-item.json").exists():
                break
            browser.run("new Promise((done) => setTimeout(done, 25))")
        saved = (tmp_path / "plan-item.json").read_text()
        assert browser.problems == []
    truth = {n for n in range(40) if real[n, 0] > 0.5 and real[n, 1] > 0.0}
    assert set(item["episodes"]) == truth
    rows = query([open_dataset(folder / "real")], item["query"]).to_pylist()
    assert {row["episode_index"] for row in rows} == truth
    assert json.loads(saved) == item
    (folder / "item.json").write_text(saved)
    from twinloop.planning.run import plan

    [made] = plan(items=[folder / "item.json"]).items
    assert made.kind == "demonstrations" and "object.x at the start, m" in made.settings[0]


def many_points(count: int) -> Coverage:
    """A map of so many points, half of them real."""
    rng = np.random.default_rng(0)
    variables = worlds.side("x", worlds.scenes(2, 0), 0).moments.variables
    sides, episodes = [], 500
    for name in ("real", "sim"):
        values = rng.normal(size=(count // 2, len(variables))) + (name == "real")
        owner = np.sort(rng.integers(episodes, size=count // 2))
        points = Points(variables, values, owner, np.arange(count // 2) % 300)
        starts = Points(variables, values[:episodes], np.arange(episodes), np.zeros(episodes, dtype=int))
        ended = (True,) * episodes
        sides.append(
            DatasetSample(
                name,
                name,
                tuple(range(episodes)),
                ended,
                (None,) * episodes,
                {},
                points,
                starts,
                values,
                np.zeros(values.shape[1]),
            )
        )
    real, sim = sides
    places = [side.raw[:, :2] for side in sides]
    whole = CoverageMap(real, sim, places[0], places[1], np.ones(count // 2), ())
    summaries = [
        DatasetSummary(side.name, side.name, episodes, count // 2, episodes, episodes) for side in sides
    ]
    names = tuple(variable.name for variable in variables)
    return Coverage(*summaries, None, 0.0, 1.0, (), names, names, (), 0, whole)


@needs_browser
def test_a_hundred_thousand_points_can_be_moved_zoomed_and_chosen(tmp_path):
    page = write_coverage_page(many_points(100_000), tmp_path / "many.html")
    with Browser() as browser:
        browser.open(page)
        browser.wait_for("window.twinloopMap && twinloopMap.state.frames > 0")
        assert browser.run("twinloopMap.state.level.count") == 100_000
        before = browser.run("[twinloopMap.state.frames, twinloopMap.state.view.x0]")
        for step in range(10):
            browser.mouse("mouseWheel", 500, 600, deltaX=0, deltaY=-60 + 10 * step)
        browser.drag([(500 + 10 * k, 600 + 5 * k) for k in range(12)])
        browser.wait_for(
            f"twinloopMap.state.frames > {before[0]} && twinloopMap.state.view.x0 !== {before[1]}"
        )
        browser.run("document.getElementById('lasso').click()")
        browser.drag([(300, 500), (700, 500), (700, 800), (300, 800), (300, 500)])
        browser.wait_for("window.twinloopItem")
        assert browser.run("twinloopItem.points") > 1000
        assert browser.problems == []
        browser.screenshot(tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 20_000


def test_values_that_are_missing_are_drawn_nowhere(tmp_path):
    result = many_points(200)
    values = result.map.real.moments.values.copy()
    values[:5, 0] = np.nan
    real = replace(result.map.real, moments=replace(result.map.real.moments, values=values))
    page = write_coverage_page(replace(result, map=replace(result.map, real=real)), tmp_path / "gaps.html")
    assert "NaN" not in page.read_text().split('id="data"')[1].split("</script>")[0]
