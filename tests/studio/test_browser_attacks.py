"""What hostile names and hostile pages achieve in a real browser: nothing."""

import functools
import http.server
import json
import shutil
import threading
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser import CHROMIUM
from tests.datasets.examples import WITH_CAMERA, toy_episode
from tests.studio.live import TOKEN, serving
from twinloop.datasets.labels import add_labels
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import Event, Provenance
from twinloop.jobs.job import JobRecord, save_job_record

ATTACK = '<img src=x onerror="window.attacked=1"><svg onload="window.attacked=2"></svg><script>window.attacked=3</script>'
NAMED = "<img src=x onerror=window.attacked=4>"
"""The same as the name of a folder."""
WATCH = "window.violations = []; addEventListener('securitypolicyviolation', e => window.violations.push(e.violatedDirective + e.blockedURI))"
ROOMS = "overview data twin identify gap coverage plan policies gate monitor people jobs".split()


@pytest.fixture(scope="module")
def hostile(studio_workspace, tmp_path_factory):
    """A workspace in which whatever has a name has a hostile one."""
    root = shutil.copytree(studio_workspace, tmp_path_factory.mktemp("hostile") / "cell")
    place = root / "data" / NAMED
    provenance = Provenance(
        source="real", robot_serial=ATTACK, actor="operator", actor_id=ATTACK, site=ATTACK
    )
    more = {
        "task": ATTACK,
        "events": (Event(0.1, ATTACK, ATTACK),),
        "failure": ATTACK,
        "success": False,
        "provenance": provenance,
    }
    with make_dataset(place, WITH_CAMERA) as writer:
        for seed in range(2):
            writer.add(toy_episode(seed, schema=WITH_CAMERA, **more))
    first = open_dataset(place).episode(0)
    add_labels(place, [first.id], {"success": False, "failure": ATTACK}, ATTACK)
    for file, key in (("policies/nominal/policy.json", "name"), ("gate/verdict.json", "reasons")):
        record = json.loads((root / file).read_text())
        record[key] = [ATTACK] if key == "reasons" else ATTACK
        (root / file).write_text(json.dumps(record))
    name = "20260101-000000000-data-verify-abcd"
    at = "2026-01-01T00:00:00.000+00:00"
    job = JobRecord(name, ("data", "verify", ATTACK), ATTACK, "failed", at, at, ended_at=at, error=ATTACK)
    save_job_record(job, root / "jobs" / name)
    (root / "jobs" / name / "log.txt").write_text(ATTACK)
    marker = root / "twinloop.yaml"
    marker.write_text(marker.read_text().replace("name: cell", f"name: {ATTACK!r}"))
    with serving(root) as address:
        yield address


@pytest.fixture
def page(chromium, hostile):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{hostile}/?token={TOKEN}")
    yield page
    context.close()


def require_no_attack(page):
    """Nothing that came as text has become part of the page, and the browser had nothing to block."""
    assert page.evaluate("window.attacked") is None
    assert page.evaluate("document.querySelectorAll('img[src=x], svg[onload], [onerror]').length") == 0
    assert page.evaluate("window.violations") == []


def test_names_are_shown_as_they_are_and_run_nothing(page, hostile):
    for room in ROOMS:
        page.goto(f"{hostile}/{room}")
        expect(page.locator("#main h1").first).to_be_visible(timeout=60_000)
        require_no_attack(page)
    page.goto(f"{hostile}/data/{quote('data/' + NAMED, safe='')}")
    expect(page.get_by_text("<img src=x onerror").first).to_be_visible(timeout=60_000)
    require_no_attack(page)
    page.goto(f"{hostile}/episode/{quote('data/' + NAMED, safe='')}/0")
    expect(page.get_by_text("<img src=x onerror").first).to_be_visible(timeout=60_000)
    require_no_attack(page)
    page.goto(f"{hostile}/jobs")
    expect(page.get_by_text("<img src=x onerror").first).to_be_visible(timeout=60_000)
    require_no_attack(page)


ELSEWHERE = """<!doctype html><title>elsewhere</title><body><script>
const job = JSON.stringify({command: ["data", "verify", "data/sim"]}), studio = "STUDIO", found = [];
const ask = (path, options) => fetch(studio + path, options).then(a => a.text()).then(t => found.push(t.slice(0, 80)), () => found.push("blocked"));
addEventListener("load", async () => {
  await ask("/api/overview", {credentials: "include"});
  await ask("/api/jobs", {method: "POST", credentials: "include", body: job});
  await ask("/api/jobs", {method: "POST", credentials: "include", body: job, headers: {"X-Twinloop": "1", "Content-Type": "application/json"}});
  await ask("/api/jobs", {method: "POST", mode: "no-cors", credentials: "include", body: job});
  const form = document.body.appendChild(document.createElement("form"));
  Object.assign(form, {method: "POST", action: studio + "/api/jobs", enctype: "text/plain", target: "frame"});
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.name = "frame";
  const field = form.appendChild(document.createElement("input"));
  Object.assign(field, {name: job.slice(0, -1) + ', "x": "', value: '"}'});
  form.submit();
  setTimeout(() => { window.done = found; }, 1000);
});
</script></body>"""


@contextmanager
def another_site(folder, studio):
    """A page of somebody else, on this machine."""
    (folder / "index.html").write_text(ELSEWHERE.replace("STUDIO", studio))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_page_of_somebody_else_neither_reads_nor_changes_anything(chromium, own_studio, tmp_path):
    words = [
        "--no-sandbox",
        "--disable-features=LocalNetworkAccessChecks",
    ]  # what the studio refuses, not the browser
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=words)
    page = browser.new_page()
    page.goto(own_studio.entrance)
    with another_site(tmp_path, own_studio.address) as port:
        for host in ("localhost", "127.0.0.1"):
            page.goto(f"http://{host}:{port}/index.html")
            page.wait_for_function("window.done", timeout=60_000)
            assert page.evaluate("window.done") == ["blocked"] * 4
    assert own_studio.client.get("/api/jobs").json()["total"] == 0
    browser.close()


def test_a_name_that_was_pointed_at_this_machine_shows_nothing(chromium, studio):
    port = studio.address.rpartition(":")[2]
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
    page = browser.new_page()
    answer = page.goto(f"http://rebound.example:{port}/?token={TOKEN}")
    assert answer.status == 421 and page.context.cookies() == []
    assert "no such name" in page.inner_text("body")
    browser.close()
