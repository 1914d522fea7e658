"""A newcomer with the studio only: no command line after `twinloop studio`, every step by the menu, the mouse and the keys."""

import re

import pytest
from playwright.sync_api import expect

from tests.studio.test_deciding_pages import outline, page_of  # noqa: F401
from tests.terminal import twinloop_json
from twinloop.datasets.labels import load_labels

pytestmark = pytest.mark.slow


@pytest.fixture
def newcomer(own_deciding, page_of):  # noqa: F811
    """A page that has just been opened by somebody whose name the browser does not know yet."""
    return page_of(own_deciding, "/", name="")


def enter(page, room):
    """A room by its link in the menu."""
    page.get_by_role("navigation", name="Rooms").get_by_role("link", name=room, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_newcomer_finds_labels_plans_compares_and_rolls_back(own_deciding, newcomer):
    page, workspace = newcomer, own_deciding.workspace
    expect(page.get_by_text("Next step")).to_be_visible()

    # Why the first policy failed: what the runs show of it, and that three of them are too few for more.
    enter(page, "Gap")
    expect(page.get_by_text("3 judged runs are too few; record at least 8").first).to_be_visible()
    page.get_by_role("option", name="latency").click()
    expect(page.get_by_role("region", name="What was measured of latency")).to_contain_text(
        "loop delay differs"
    )

    enter(page, "Data")
    page.get_by_role("link", name="deployed", exact=True).first.click()
    expect(page.get_by_text("never_touched").first).to_be_visible()
    page.get_by_role("link", name="0", exact=True).first.click()
    expect(page.get_by_role("heading", level=1, name="Episode 0")).to_be_visible()
    page.get_by_label("Your name, which labels carry").fill("nora")
    page.get_by_role("button", name="Set", exact=True).click()
    for number in range(5):
        expect(page.get_by_role("heading", level=1, name=f"Episode {number}")).to_be_visible()
        page.locator("#main").click(position={"x": 300, "y": 40})
        page.keyboard.press("s")
        expect(page.get_by_text(f"Episode {number}: success")).to_be_visible()
    labels = load_labels(workspace / "data/deployed")
    assert {one.by for one in labels} == {"nora"} and len({one.episode_id for one in labels}) == 5

    enter(page, "Coverage")
    page.get_by_role("button", name="object.x at the start above").click()
    expect(page.locator(".point-map canvas[data-frames]")).to_be_visible()
    outline(page, [(0.75, 0.01), (0.995, 0.01), (0.995, 0.99), (0.75, 0.99)])
    page.get_by_role("button", name="Add to the plan").click()
    expect(page.get_by_label("Your name")).to_have_value("nora")
    page.get_by_role("button", name="Add", exact=True).click()
    page.wait_for_url(re.compile("/plan"))
    expect(page.get_by_text("added by nora, just now")).to_be_visible()

    enter(page, "Twin")
    page.get_by_role("link", name="calibrated", exact=True).click()
    differences = page.get_by_role("region", name="Parameters that differ")
    expect(differences).to_contain_text("action_delay_s")

    enter(page, "Policies")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_label("Reason").fill("it fails far away")
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("group", name="Champion")).to_contain_text("nominal")

    # What was done in the browser is what the commands know afterwards.
    board = twinloop_json("plan", "board", cwd=workspace)
    assert [one["by"] for one in board if one["item"]["id"].startswith("region")] == ["nora"]
    log = twinloop_json("registry", "log", cwd=workspace)
    assert (log[-1]["action"], log[-1]["by"]) == ("rollback", "nora")
