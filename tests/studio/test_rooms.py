"""Every room in a browser, as a person goes through them: nothing is written to the console as an error, nothing is cut off."""

import re
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from tests.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

WIDTHS = (1280, 820)


@contextmanager
def page_of(chromium, studio, width=1280, scheme="light", **settings):
    """A page that was let in; fails at its end if anything went wrong in it."""
    context = chromium.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme, **settings)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(studio.entrance)
    page.evaluate("localStorage.setItem('twinloop.name', 'ann')")
    yield page
    context.close()
    assert wrong == []


def settle(page):
    """Wait until the room is there and nothing in it is loading."""
    page.wait_for_selector("h1")
    page.wait_for_function(
        "() => !document.querySelector('.room-loading, [role=status][aria-label=Loading]')", timeout=60_000
    )


def find_dataset(studio, source):
    lines = studio.client.get("/api/data/datasets").json()
    return next(
        line["path"] for line in lines if line["episodes"] and line["by_source"][0]["source"] == source
    )


def test_every_room_opens_from_the_menu_and_fits_a_tablet(chromium, studio):
    with page_of(chromium, studio, width=820) as page:
        settle(page)
        rooms = page.eval_on_selector_all(
            "nav .menu-rooms a", "all => all.map(one => one.getAttribute('href'))"
        )
        assert {"/overview", "/data", "/jobs"} <= set(rooms)
        for room in rooms:
            page.click(f"nav .menu-rooms a[href='{room}']")
            settle(page)
            assert page.inner_text("h1").strip()
            assert page.get_attribute("nav a[aria-current=page]", "href") == room
            assert page.locator(".error-box").count() == 0, (
                room,
                page.locator(".error-box").all_inner_texts(),
            )
            too_wide = page.evaluate(
                "() => document.querySelector('#main').scrollWidth - document.querySelector('#main').clientWidth"
            )
            assert too_wide <= 1, room
            unnamed = page.evaluate(
                "() => [...document.querySelectorAll('button, input:not([type=hidden]), select, a')].filter(one =>"
                " one.checkVisibility() && !(one.innerText || one.ariaLabel || one.title || (one.labels && one.labels.length)"
                " || one.querySelector('title, img[alt]'))).map(one => one.outerHTML.slice(0, 120))"
            )
            assert unnamed == [], room


def test_an_episode_is_labelled_by_keyboard_from_a_deep_link(chromium, own_studio):
    dataset = find_dataset(own_studio, "sim")
    with page_of(chromium, own_studio) as page:
        page.goto(f"{own_studio.address}/data/{quote(dataset, safe='')}")
        settle(page)
        page.wait_for_selector("[role=grid] [role=row] img")
        page.focus("[role=grid]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Recording and twin")
        page.keyboard.press("Shift+ArrowRight")
        assert page.get_attribute("[role=slider]", "aria-valuenow") != "0"
        page.keyboard.press("f")
        page.keyboard.type("slipped")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:text-is('Episode 1')")
        page.keyboard.press("s")
        page.wait_for_selector("h1:text-is('Episode 2')")
    lines = own_studio.client.get("/api/data/episodes", params={"dataset": dataset}).json()["items"]
    assert (lines[0]["failure"], lines[1]["success"]) == ("slipped", True)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_data_and_episode_as_a_user_uses_them(chromium, own_studio, width, scheme, tmp_path):
    dataset = find_dataset(own_studio, "sim")
    with page_of(chromium, own_studio, width, scheme) as page:
        page.goto(f"{own_studio.address}/data?tab=sql")
        settle(page)
        page.fill("textarea", "")
        page.type("textarea", "select count(*) as n from epi")
        page.wait_for_selector("[role=option]:has-text('episodes')")
        page.keyboard.press("Tab")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("text=/1 row in/")
        page.goto(f"{own_studio.address}/data/{quote(dataset, safe='')}")
        settle(page)
        page.click("text=Save as selection")
        page.fill("dialog input >> nth=0", f"kept-{width}-{scheme}")
        page.click("dialog button:has-text('Save')")
        page.wait_for_selector("text=/Saved kept/")
        page.goto(f"{own_studio.address}/episode/{quote(dataset, safe='')}/0?with={quote(dataset + '#1')}")
        page.wait_for_selector(".differences .u-over", timeout=60_000)
        for key in ("End", "p", "Home", "p", "c", "Escape", "+", "-", "?", "Escape"):
            page.keyboard.press(key)
        page.keyboard.press("Home")
        page.keyboard.press("p")
        for _ in range(4):
            page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("p")
        page.keyboard.type("reach")
        page.keyboard.press("Enter")
        page.wait_for_selector(".track .phase:has-text('reach')")
        page.keyboard.press("o")
        page.wait_for_selector(".track-keep")
        page.screenshot(path=tmp_path / "episode.png", full_page=True)
    labels = own_studio.client.get("/api/episode", params={"dataset": dataset, "episode": 0}).json()
    assert [one["name"] for one in labels["phases"]] == ["reach"] and labels["keep"] is not None


@pytest.mark.slow
def test_what_others_wrote_is_shown_and_not_run(chromium, own_studio):
    dataset = find_dataset(own_studio, "sim")
    evil = "<img src=x onerror=\"document.title='run'\">"
    body = {"dataset": dataset, "episodes": [0], "by": evil, "outcome": "failure", "failure": evil}
    assert own_studio.client.post("/api/episode/labels", json=body).status_code == 200
    with page_of(chromium, own_studio) as page:
        for path in (f"/data/{quote(dataset, safe='')}", f"/episode/{quote(dataset, safe='')}/0?tab=labels"):
            page.goto(own_studio.address + path)
            settle(page)
            page.wait_for_selector("text=onerror")
            assert page.title() != "run"


def test_titles_name_the_room(chromium, studio):
    with page_of(chromium, studio) as page:
        for path, title in (("/overview", "Overview"), ("/data", "Data"), ("/nowhere", "Twinloop Studio")):
            page.goto(studio.address + path)
            settle(page)
            assert re.search(title, page.title())
