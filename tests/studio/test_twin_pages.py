"""Twin, Identify and Gap as somebody uses them in a browser: the scene, the six steps, the evidence behind a bar."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser import CHROMIUM
from tests.studio.test_rooms import page_of, settle
from tests.terminal import twinloop_json
from twinloop.identification.result import load_identification

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

expect.set_options(timeout=60_000)  # a busy machine is slow, and that is not what these tests are about

CALIBRATED = "twins/calibrated"


def find_excitation(studio):
    lines = studio.client.get("/api/identify/datasets").json()
    return next(one["name"] for one in lines if "excite" in one["name"])


def drawn(page):
    """How often the scene was drawn."""
    return int(page.locator("canvas").first.get_attribute("data-drawn") or 0)


def test_a_twin_is_turned_drawn_anew_and_changed_by_keyboard(chromium, studio):
    with page_of(chromium, studio) as page:
        page.goto(f"{studio.address}/twin/calibrated?values=seed.yaml")
        settle(page)
        expect(page.get_by_text("Draw 1 from seed.yaml")).to_be_visible()
        expect(page.locator("canvas[data-drawn]")).to_be_visible()
        page.focus("canvas")
        before = drawn(page)
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(f"() => Number(document.querySelector('canvas').dataset.drawn) > {before}")
        page.get_by_label("Draw of the randomization").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_text("Draw 2 from seed.yaml")).to_be_visible()
        page.locator(".scene-camera select").select_option("front")
        page.goto(f"{studio.address}/twin/calibrated?parameter=action_delay_s&values=posterior")
        settle(page)
        expect(page.locator(".twin-words")).to_contain_text(re.compile("dentif"))
        expect(
            page.get_by_role("img", name=re.compile("Values of action_delay_s, posterior"))
        ).to_be_visible()
        page.get_by_label("Value of action_delay_s").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_text("with 1 of your own")).to_be_visible()


def test_a_candidate_is_accepted_and_rolled_back_with_a_name_and_a_reason(chromium, own_studio):
    accepted = load_identification(own_studio.workspace / CALIBRATED).gate.accepted
    with page_of(chromium, own_studio, width=820) as page:
        page.goto(f"{own_studio.address}/twin/calibrated")
        settle(page)
        row = page.locator(".twin-version", has=page.get_by_role("link", name="calibrated", exact=True))
        row.get_by_role("button", name="Accept").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("replays better")
        if not accepted:
            dialog.get_by_label("Accept it all the same").check()
        dialog.get_by_role("button", name="Accept", exact=True).click()
        expect(row.get_by_text("current", exact=True)).to_be_visible()
        page.get_by_role("button", name="Roll back").click()
        dialog.get_by_label("Reason").fill("drops the cube")
        dialog.get_by_role("button", name="Roll back", exact=True).click()
        expect(row.get_by_text("earlier", exact=True)).to_be_visible()
    history = twinloop_json("twin", "versions", cwd=own_studio.workspace)["history"]
    assert [(use["by"], use["reason"].rpartition(": ")[2]) for use in history[1:]] == [
        ("ann", "replays better"),
        ("ann", "drops the cube"),
    ]


def test_run_waits_until_the_check_passes(chromium, studio):
    with page_of(chromium, studio) as page:
        page.goto(f"{studio.address}/identify?step=run")
        settle(page)
        expect(page.get_by_role("button", name="Run", exact=True).last).to_be_disabled()
        page.goto(f"{studio.address}/identify")
        settle(page)
        steps = page.get_by_role("navigation", name="Steps of an identification")
        expect(steps.get_by_role("button", name="Check")).to_be_disabled()
        page.locator(".choice", has_text=find_excitation(studio)).click()
        page.get_by_role("button", name="Next: Check").click()
        expect(page.get_by_text("These recordings can identify this twin.")).to_be_visible()
        page.get_by_role("button", name="Next: Parameters").click()
        expect(page.get_by_text("action_delay_s").first).to_be_visible()
        page.get_by_role("radio", name="My choice").click()
        expect(steps.get_by_role("button", name="Run")).to_be_disabled()
        page.get_by_label("Search parameters").fill("action_delay_s")
        page.get_by_label("action_delay_s", exact=True).check()
        page.get_by_role("button", name="Next: Run").click()
        expect(page.locator(".identify-command")).to_contain_text("--parameters action_delay_s")
        expect(page.locator("main .button-primary", has_text="Run")).to_be_enabled()


@pytest.mark.slow
def test_an_identification_is_run_read_and_accepted_without_the_command_line(chromium, own_studio):
    excitation = find_excitation(own_studio)
    with page_of(chromium, own_studio) as page:
        page.goto(f"{own_studio.address}/identify?dataset={excitation}&step=parameters")
        settle(page)
        page.get_by_role("radio", name="My choice").click()
        page.get_by_label("Search parameters").fill("action_delay_s")
        page.get_by_label("action_delay_s", exact=True).check()
        page.get_by_role("button", name="Next: Run").click()
        page.locator("main .button-primary", has_text="Run").click()
        page.get_by_role("button", name="Show the result").click(timeout=300_000)
        expect(page.get_by_text("It replays new episodes better")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^joint"))).to_be_visible()
        page.get_by_role("button", name="Next: Decide").click()
        page.get_by_role("button", name="Accept", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("the delay is found")
        dialog.get_by_role("button", name="Accept", exact=True).click()
        expect(page.get_by_text("current", exact=True)).to_be_visible()
    last = twinloop_json("twin", "versions", cwd=own_studio.workspace)["history"][-1]
    assert (last["twin"], last["by"], last["reason"]) == (
        "twins/franka_pick_place-2",
        "ann",
        "the delay is found",
    )


@pytest.mark.parametrize("width", [1280, 820])
def test_a_bar_leads_to_what_was_measured_a_replay_and_the_runs(chromium, studio, width):
    with page_of(chromium, studio, width=width) as page:
        page.goto(f"{studio.address}/gap")
        settle(page)
        bars = page.get_by_role("listbox", name="Success points lost by dimension")
        expect(bars.get_by_role("option", name=re.compile("^unknown"))).to_be_visible()
        bars.get_by_role("option", name=re.compile("^latency")).click()
        expect(page.get_by_text("loop delay")).to_be_visible()
        expect(page.get_by_text("A run with latency put into the twin")).to_be_visible()
        expect(page.get_by_text("closer").first).to_be_visible()
        expect(page.locator("canvas[data-drawn]")).to_be_visible()
        page.get_by_label("Time of the run").focus()
        page.keyboard.press("End")
        expect(page.locator(".gap-time output")).not_to_have_text("0.00 s")
        bars.focus()
        page.keyboard.press("ArrowUp")
        expect(bars.get_by_role("option", name=re.compile("^latency"))).to_have_attribute(
            "aria-selected", "false"
        )
        page.get_by_role("list", name="Runs").get_by_role("link").first.click()
        page.wait_for_url("**/episode/data%2Fruns/*")
        page.goto(f"{studio.address}/gap?tab=gap")
        settle(page)
        expect(page.get_by_text("Never reported as zero: what each would need.")).to_be_visible()
        wide = page.evaluate(
            "() => document.querySelector('#main').scrollWidth - document.querySelector('#main').clientWidth"
        )
        assert wide <= 1


@pytest.mark.slow
def test_a_gap_is_measured_from_the_room_and_then_shown(chromium, own_studio):
    with page_of(chromium, own_studio) as page:
        page.goto(f"{own_studio.address}/gap?tab=start")
        settle(page)
        card = page.locator(".card", has=page.get_by_role("heading", name="Measure the gap"))
        card.get_by_label("Recordings").select_option("data/runs")
        expect(card.locator(".identify-command")).to_contain_text("--out reports/gap-1/gap.html")
        card.get_by_role("button", name="Start").click()
        card.get_by_role("button", name="Show the result").click(timeout=300_000)
        expect(page.get_by_text("Never reported as zero: what each would need.")).to_be_visible()
    newest = own_studio.client.get("/api/gap/results").json()["gaps"][0]
    assert newest["path"] == "reports/gap-1/gap.json"
