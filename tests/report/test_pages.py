"""Every page: complete, self-contained, and no text of the user's is ever markup."""

import importlib
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from PIL import Image

from tests.browser import CHROMIUM, Browser
from tests.coverage import worlds
from tests.report import nouns
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.report import page
from twinloop.report.alignment_page import write_alignment_page
from twinloop.report.charts import encode_svg, make_figure
from twinloop.report.coverage_page import write_coverage_page
from twinloop.report.diagnosis_page import write_diagnosis_page
from twinloop.report.episode_page import draw_episode
from twinloop.report.gap_page import write_gap_page
from twinloop.report.gate_page import write_gate_page
from twinloop.report.identification_page import write_identification_page
from twinloop.report.loop_page import write_loop_page
from twinloop.report.plan_sheet import write_plan_sheet
from twinloop.report.quality_page import write_quality_page

ROOT = Path(__file__).parent.parent.parent
HOSTILE = (
    "javascript:hacked=1//\" autofocus onfocus=hacked=1 '<script>hacked=1</script><!--<script>hacked=1</script>"
    "<img src=x onerror=hacked=1><svg onload=hacked=1>\u202egnp.exe\u2067]]>{{7*7}}`touch hacked`$(touch hacked)\\"
)
PLAIN = "plain"
HARMLESS = """(() => {
  const all = [document, ...[...document.querySelectorAll('iframe')].map((f) => f.contentDocument).filter(Boolean)];
  const found = all.flatMap((one) => [...one.querySelectorAll('*')]).flatMap((e) => [...e.attributes]
    .filter((a) => /^on/i.test(a.name) || /^(href|src|action)$/.test(a.name) && /^\\s*(javascript|https?):/i.test(a.value))
    .map((a) => `${e.tagName} ${a.name}`));
  for (const one of all) if (/[\u202a-\u202e\u2066-\u2069]/.test(one.body.innerText)) found.push('reordered text');
  if (typeof hacked !== 'undefined' || all.some((one) => one.defaultView.hacked)) found.push('executed');
  return found;
})()"""
"""What of a page could run or mislead, seen by the browser."""


def quality(path, name):
    episode = worlds.episode(worlds.scenes(1, 0)[0], 0)
    with make_dataset(path.parent / "data", worlds.SCHEMA) as writer:
        writer.add(episode)
    report = nouns.make_quality(name, str(path.parent / name.replace("/", "")))
    return write_quality_page(report, open_dataset(path.parent / "data"), path)


def alignment(path, name):
    with make_dataset(path.parent / "frames", worlds.SCHEMA) as writer:
        writer.add(worlds.episode(worlds.scenes(1, 0)[0], 0))
    overlay = path.parent / "overlay.png"
    Image.new("RGB", (8, 6)).save(overlay)
    return write_alignment_page(
        nouns.make_alignment(name), overlay, path, open_dataset(path.parent / "frames")
    )


def episode(path, name):
    one = worlds.episode(worlds.scenes(1, 0)[0], 0, task=name, success=False, failure=name, camera=True)
    return draw_episode(one.with_provenance(site=name, robot_serial=name), path, title=name)


WRITERS = {
    write_quality_page: quality,
    write_alignment_page: alignment,
    draw_episode: episode,
    write_gap_page: lambda path, name: write_gap_page(nouns.make_gap(name), path),
    write_diagnosis_page: lambda path, name: write_diagnosis_page(nouns.make_diagnosis(name), path),
    write_identification_page: lambda path, name: write_identification_page(
        nouns.make_identification(name), [nouns.make_replay(name)], path
    ),
    write_gate_page: lambda path, name: write_gate_page(*nouns.make_verdict(name), path),
    write_plan_sheet: lambda path, name: write_plan_sheet(nouns.make_plan(name), path),
    write_coverage_page: lambda path, name: write_coverage_page(nouns.make_coverage(name), path),
    write_loop_page: lambda path, name: write_loop_page(name, nouns.make_loop(name, path.parent), path),
}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
every_page = pytest.mark.parametrize("writer", WRITERS, ids=[w.__name__ for w in WRITERS])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page by its writer and the name that fills it; written once."""
    pages = {}

    def write(writer, name):
        if (writer, name) not in pages:
            folder = tmp_path_factory.mktemp(writer.__name__)
            pages[writer, name] = WRITERS[writer](folder / f"{name.replace('/', '')[:120]}.html", name)
        return pages[writer, name]

    return write


def test_no_page_writer_is_missing_here():
    found = set()
    for file in (ROOT / "twinloop/report").glob("*_[ps][ah]*e*.py"):
        module = importlib.import_module(f"twinloop.report.{file.stem}")
        found |= {value for name, value in vars(module).items() if re.match(r"write_\w+_(page|sheet)$", name)}
    assert found == set(WRITERS) - {draw_episode}


@every_page
def test_a_hostile_name_is_text_on_every_page(writer, written):
    text = written(writer, HOSTILE).read_text()
    assert "<script>hacked" not in text
    assert "&lt;script&gt;hacked=1" in text, "the name is on the page, escaped"
    assert text.count("<script") == text.count("</script>")


def write_hostile_map(folder: Path) -> Path:
    """The one page with a script of its own, with frames, for datasets whose folders have hostile names."""
    sides = []
    for side in ("real", "sim"):
        place = folder / f"{side} {HOSTILE}".replace("/", "")
        with make_dataset(place, worlds.SEEN) as writer:
            for number, scene in enumerate(worlds.scenes(12, 0)):
                writer.add(
                    worlds.episode(scene, number, source=side, success=False, failure=HOSTILE, camera=True)
                )
        sides.append(open_dataset(place))
    found = measure_coverage(*sides, points=200, images=False)
    return write_coverage_page(found, folder / "map.html", tuple(sides))


USE_MAP = """(() => {
  document.querySelectorAll('.region').forEach((row) => row.click());
  showPoint(0), showPoint(twinloopMap.state.level.count - 1);
  showLasso(choose([[0, 0], [1e4, 0], [1e4, 1e4], [0, 1e4]]));
  return [...document.querySelectorAll('pre')].map((one) => one.textContent);
})()"""


@needs_browser
def test_a_browser_executes_nothing_of_a_hostile_name_and_the_policy_of_every_page_holds(written, tmp_path):
    with Browser() as browser:
        for writer in WRITERS:
            browser.open(written(writer, HOSTILE))
            browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert browser.run(HARMLESS) == [] and browser.problems == [], writer.__name__
        count = "(() => { let n = 0; const v = document.querySelector('video'); v.play = v.pause = () => { n += 1; }; v.click(); return n; })()"
        assert writer is write_loop_page and browser.run(count) == 1, "a click pauses a video"
        browser.open(write_hostile_map(tmp_path))
        commands = browser.run(USE_MAP)
        assert len(browser.run("[...document.querySelectorAll('#point img')].map((i) => i.src)")) == 1
        assert browser.run(HARMLESS) == [] and browser.problems == []
    for command in commands:
        pasted = f"printf '%s\\n' {command}"
        words = subprocess.run(
            ["bash", "-c", pasted], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        first, second, _, place, *sql = words.stdout.splitlines()
        assert (first, second) == ("twinloop", "data") and len(sql) <= 1, "a name is one word"
        assert place.partition("#")[0].endswith(HOSTILE.replace("/", ""))
    assert not (tmp_path / "hacked").exists()


@needs_browser
def test_a_script_that_is_not_ours_does_not_run_even_if_somebody_puts_it_into_a_page(written, tmp_path):
    """The policy stands alone: without it each of these would run, and the browser tells of each."""
    foreign = (
        "<script>hacked=1</script><img src=x onerror=hacked=1><a id=a href='javascript:hacked=1'>a</a>"
        "<link rel=stylesheet href=other.css><iframe srcdoc='<script>parent.hacked=1</script>'></iframe>"
        "<style>body{display:none}</style><form action=/><button id=b></button></form><base href=http://a>"
    )
    with Browser() as browser:
        for writer in (write_plan_sheet, write_coverage_page, write_loop_page):
            changed = tmp_path / f"{writer.__name__}.html"
            changed.write_text(written(writer, PLAIN).read_text().replace("</h1>", f"</h1>{foreign}", 1))
            browser.open(changed)
            browser.run("document.getElementById('a').click(), document.getElementById('b').click()")
            assert browser.run("typeof hacked") == "undefined"
            assert browser.run("getComputedStyle(document.body).display") == "block"
            told = [problem for problem in browser.problems if "Content Security Policy" in problem]
            assert len(told) >= 6, browser.problems
            browser.problems.clear()


@every_page
def test_a_page_is_one_file_in_light_and_dark(writer, written):
    text = written(writer, PLAIN).read_text()
    assert text.startswith("<!doctype html>") and text.count("<h1>") == 1
    assert not re.search(r"https?:|src=[\"']?/|<link|@import", text), "nothing is loaded"
    assert "prefers-color-scheme:dark" in text and "width=device-width" in text
    assert "Twinloop " in text.split("<footer>")[1]


@needs_browser
def test_no_page_is_wider_than_a_phone(written):
    with Browser() as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)  # fmt: skip
        for writer in WRITERS:
            browser.open(written(writer, PLAIN))
            assert browser.run("document.documentElement.scrollWidth") <= 400, writer.__name__


def test_a_built_wheel_holds_templates_styles_and_scripts(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "twinloop"):
        (source / name).symlink_to(ROOT / name)
    code = f"import setuptools.build_meta as b; print(b.build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    packed = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for folder in ("templates", "assets"):
        names = [entry.name for entry in (files("twinloop.report") / folder).iterdir()]
        assert names and {f"twinloop/report/{folder}/{name}" for name in names} <= packed


def test_a_name_that_a_template_lacks_is_an_error():
    with pytest.raises(Exception, match="'gap' is undefined"):
        page.render("gap.html", title="a gap")


def test_no_python_file_of_the_reports_writes_html():
    for file in (ROOT / "twinloop/report").glob("*.py"):
        assert not re.search(r"</?(?:div|td|tr|th|span|table|figure|h[1-3]|p|b)\b[ >]", file.read_text()), (
            file
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1e-17, "0"), (1000.0, "1000"), (0.01234, "0.0123"), (5.83e-6, "5.83e-06"), (-3.1, "-3.1"), (None, "–")],
)  # fmt: skip
def test_numbers_are_written_as_an_engineer_writes_them(value, text):
    assert page.format_number(value) == text


def test_charts_take_their_colours_from_the_page_and_their_labels_as_they_are():
    figure, (axis,) = make_figure()
    axis.plot([0, 1], [0, 1], label="<b>$\\frac")
    axis.legend()
    svg = encode_svg(figure)
    assert "&lt;b&gt;$\\frac" in svg and "var(--orange)" in svg and "#d17a12" not in svg
    assert svg.startswith("<svg") and "http" not in svg and "<metadata" not in svg


def test_rows_of_costs_add_up_to_the_drop(tmp_path):
    from twinloop.report.diagnosis_page import make_cost_rows

    found = nouns.make_diagnosis(PLAIN)
    rows = make_cost_rows([(c.dimension, c.lost, c.named) for c in found.costs], found.unknown, found.drop)
    assert [row.points for row in rows] == [23, 33, -3, 7, 60], "6.2 points unknown, and 0.8 of rounding"
    assert rows[-1].total and sum(row.points for row in rows[:-1]) == rows[-1].points


def test_the_loop_page_has_each_identified_parameter_and_sums_that_hold(tmp_path):
    text = write_loop_page(PLAIN, nouns.make_loop(PLAIN, tmp_path), tmp_path / "page.html").read_text()
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "plain 1 0 0.14 0.13 to 0.15 s identifiable" in plain
    assert "plain 2 0 0 0 to 12.7 plain weak" in plain and "plain 3 2 – – not identifiable" in plain
    assert "in all 47" in plain, "10 trials before, 12 between, 20 at the gate, 5 deployed"
    assert "in all 63 s" in plain
    assert "50 % [19, 81] success rate on the stand-in before" in plain
    assert "80 % [59, 93] after, in 25 trials" in plain, "of all trials after, not of the luckier few"
    assert "data:video/webm" in text and 'srcdoc="&lt;p&gt;' in text


def test_intervals_stay_on_their_line(tmp_path):
    """A value of zero on a nominal of zero once set the scale of all: the others lay on one line, labelled 1e14 %."""
    result = nouns.make_identification(PLAIN)
    pinned = replace(result.estimates[0], nominal=1.0, value=1.0, low=1.0, high=1.0)
    result = replace(result, estimates=(*result.estimates[:2], pinned))
    text = write_identification_page(result, [], tmp_path / "page.html").read_text()
    places = [float(x) for x in re.findall(r"left:([-\d.]+)%", text)]
    assert len(places) == 9 and all(0.0 <= x <= 100.0 for x in places)
