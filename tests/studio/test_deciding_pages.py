"""Coverage, plan, policies, gate, monitor and people as somebody uses them in a browser; no error on the console."""

import re

import pytest
from playwright.sync_api import expect

from tests.coverage.test_page import many_points
from tests.studio.conftest import Studio
from tests.studio.live import TOKEN, serving
from twinloop.coverage.map_file import save_coverage

expect.set_options(timeout=60_000)  # a busy machine is slow, and that is not what these tests are about

WIDTHS = ((1280, 900), (820, 1100))
ROOMS = {
    "coverage": "object.x at the start above",
    "plan": "Print the sheet",
    "policies": "Verify the chain",
    "gate": "Paired trials",
    "monitor": "Success rate over deployed episodes",
    "people": "operator-7",
}


@pytest.fixture
def page_of(chromium):
    """A function that opens a page of a studio; at the end, nothing may have been written to its console."""
    problems, contexts = [], []

    def note(message):
        # A refusal that is shown in words has an error status, and slow pixels are a driver's: the browser notes both by itself.
        ours = not any(words in message.text for words in ("Failed to load resource", "GL Driver Message"))
        if message.type in ("error", "warning") and ours:
            problems.append(message.text)

    def open_page(studio, path, width=1280, height=900, name="ada", **words):
        context = chromium.new_context(viewport={"width": width, "height": height}, **words)
        contexts.append(context)
        context.add_init_script(f"localStorage.setItem('twinloop.name', '{name}')" if name else "")
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        mark = "&" if "?" in path else "?"
        page.goto(f"{studio.address}{path}{mark}token={TOKEN}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_every_room_shows_its_content_and_fits_the_width(deciding, page_of, width, height):
    page = page_of(deciding, "/coverage", width, height)
    for room, words in ROOMS.items():
        page.goto(f"{deciding.address}/{room}")
        expect(page.get_by_text(words).first).to_be_visible()
        wide, there = page.evaluate(
            "[document.querySelector('#main').scrollWidth, document.querySelector('#main').clientWidth]"
        )
        assert wide <= there, f"{room} is {wide} wide on {there}"
        unnamed = page.evaluate(UNNAMED)
        assert unnamed == [], f"{room}: {unnamed}"


UNNAMED = """() => [...document.querySelectorAll('#main button, #main input, #main select, #main canvas[tabindex]')]
    .filter((one) => one.checkVisibility() && !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 120))"""


def outline(page, corners):
    """Draw around a part of the map with the lasso, in fractions of its box."""
    page.get_by_role("radio", name="Lasso").click()
    stage = page.locator(".point-map")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=4)
    page.mouse.up()


def test_a_lasso_becomes_a_plan_item_that_moves_over_the_board(own_deciding, page_of):
    page = page_of(own_deciding, "/coverage?coverage=reports/coverage")
    page.get_by_role("button", name="object.x at the start above").click()
    expect(page.locator(".point-map canvas[data-frames]")).to_be_visible()
    page.get_by_role("button", name="Show all regions").click()
    page.get_by_label("Across", exact=True).select_option("object.x at the start")
    page.get_by_label("Up", exact=True).select_option("object.y at the start")
    expect(page.locator(".point-map canvas[data-frames]")).to_be_visible()
    outline(page, [(0.72, 0.01), (0.995, 0.01), (0.995, 0.99), (0.72, 0.99)])
    expect(page.get_by_text("failed", exact=False).last).to_be_visible()
    page.get_by_role("button", name="Add to the plan").click()
    page.get_by_label("Name", exact=True).fill("far objects")
    page.get_by_role("button", name="Add", exact=True).click()
    page.wait_for_url(re.compile("/plan"))
    planned, recording = (
        page.get_by_role("region", name="Planned"),
        page.get_by_role("region", name="Recording"),
    )
    card = planned.get_by_role("article", name="far objects")
    expect(card).to_contain_text("added by ada")
    expect(card).to_contain_text("+")
    card.get_by_role("button", name="Start recording").click()
    expect(recording.get_by_role("article", name="far objects")).to_contain_text("recording by ada")
    page.reload()
    expect(recording.get_by_role("article", name="far objects")).to_be_visible()
    recording.get_by_role("button", name="far objects").click()
    expect(page.get_by_role("dialog")).to_contain_text("object.x at the start, m")
    with page.context.expect_page() as opened:
        page.evaluate("window.print = () => undefined")
        page.get_by_role("button", name="Print its sheet").click()
    expect(opened.value.get_by_role("heading", name="What to record next")).to_be_visible()


def test_a_selection_is_made_and_saved_with_the_keyboard_alone(own_deciding, page_of):
    page = page_of(own_deciding, "/coverage?coverage=reports/coverage&level=situation")
    canvas = page.locator(".point-map canvas[tabindex]")
    expect(canvas).to_be_visible()
    canvas.focus()
    for key in ("+", "+", "ArrowRight", "0", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_text("Selected")).to_be_visible()
    page.get_by_role("button", name="Save as a query").press("Enter")
    page.get_by_label("Name", exact=True).fill("all-of-the-shelf")
    page.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(page.get_by_text("Saved as a query")).to_be_visible()
    saved = own_deciding.client.get("/api/data/selections").json()
    assert [(one["name"], one["by"], one["parts"][0]["episodes"]) for one in saved] == [
        ("all-of-the-shelf", "ada", 40)
    ]


def test_a_refusal_is_shown_in_words_and_a_rollback_is_recorded(own_deciding, page_of):
    page = page_of(own_deciding, "/gate?gate=gates/better")
    expect(page.get_by_text("only the candidate in")).to_be_visible()
    page.get_by_role("button", name="adapted").click()
    page.goto(f"{own_deciding.address}/policies")
    row = page.get_by_role("row").filter(has_text="nominal")
    row.get_by_role("button", name="Promote …").click()
    page.get_by_role("dialog").get_by_role("button", name="Promote").click()
    expect(page.get_by_role("alert")).to_contain_text("nominal has no verdict")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_label("Reason").fill("success fell")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("group", name="Champion")).to_contain_text("nominal")
    expect(page.get_by_text("rolled back from version 2 to 1: success fell").first).to_be_visible()
    page.get_by_role("button", name="Verify the chain").click()
    expect(page.get_by_text("intact: 5 entries")).to_be_visible()


def test_a_withdrawal_is_shown_before_and_after(own_deciding, page_of):
    page = page_of(own_deciding, "/people")
    page.get_by_role("row").filter(has_text="c-operator-7").get_by_role("button", name="Withdraw …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 episodes from data/people")
    dialog.get_by_label("Reason").fill("asked by letter")
    act = dialog.get_by_role("button", name="Withdraw and remove")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type c-operator-7 to go on").fill("c-operator-7")
    act.click()
    expect(dialog).to_contain_text("no copy of their frames or rows is left")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("Consent c-operator-7: 3 episodes")).to_be_visible()


def test_the_monitor_names_the_change_and_the_next_step(deciding, page_of):
    page = page_of(deciding, "/monitor", color_scheme="dark")
    expect(page.get_by_text("Next: re-identify the twin, then gate again")).to_be_visible()
    expect(page.get_by_role("img", name="actuator.delay.b")).to_be_visible()
    expect(page.get_by_text("as before").first).to_be_visible()


def test_coverage_is_measured_as_a_job_and_shown_when_it_is_done(own_deciding, page_of):
    page = page_of(own_deciding, "/coverage")
    page.get_by_role("button", name="Measure …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Episodes of the robot").select_option("data/shelf")
    dialog.get_by_label("Simulated episodes").select_option("data/shelf-sim")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog.get_by_text("done", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Close").last.click()
    assert (own_deciding.workspace / "reports/coverage-3/coverage_map.npz").is_file()
    expect(page.get_by_label("Coverage").first).to_contain_text("just now")


def test_a_read_only_studio_shows_everything_and_offers_no_change(deciding_workspace, page_of):
    with serving(deciding_workspace, read_only=True) as address:
        page = page_of(
            Studio(address, deciding_workspace, None), "/coverage?coverage=reports/coverage&level=situation"
        )
        page.locator(".point-map canvas[tabindex]").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("Set before an episode")).to_be_visible()
        for room, words in ROOMS.items():
            page.goto(f"{address}/{room}")
            shown = "Record" if room == "policies" else words
            expect(page.get_by_text(shown).first).to_be_visible()
            for change in (
                "Measure …",
                "Look again …",
                "Start recording",
                "Roll back",
                "Withdraw …",
                "Record a consent",
            ):
                expect(page.get_by_role("button", name=change)).to_have_count(0)


def test_a_hundred_thousand_points_are_moved_zoomed_and_outlined(own_deciding, page_of):
    save_coverage(many_points(100_000), own_deciding.workspace / "reports/many")
    page = page_of(own_deciding, "/coverage?coverage=reports/many")
    below = page.locator(".point-map canvas[data-frames]")
    expect(below).to_be_visible()
    expect(page.get_by_text("50,000 real")).to_be_visible()
    before = int(below.get_attribute("data-frames"))
    box = page.locator(".point-map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.wheel(0, -200)
    page.mouse.down()
    page.mouse.move(x + 120, y + 40, steps=12)
    page.mouse.up()
    page.wait_for_function(f"Number(document.querySelector('.point-map canvas').dataset.frames) > {before}")
    outline(page, [(0.3, 0.3), (0.7, 0.3), (0.7, 0.7), (0.3, 0.7)])
    expect(page.get_by_text(re.compile(r"^[\d,]{5,}$")).first).to_be_visible()
    expect(page.get_by_text("Selected")).to_be_visible()
