"""Images of the loop's report that are drawn by hand."""

import re

import pytest

from twinloop.report import loop_page
from twinloop.report.loop_page import draw_estimates, draw_success

EDGE = {
    "name": "friction_nm",
    "unit": "N·m",
    "nominal": 0.0,
    "value": 0.0,
    "low": 0.0,
    "high": 12.7,
    "status": "weak",
}
SHARP = {
    "name": "delay_s",
    "unit": "s",
    "nominal": 0.0,
    "value": 0.14,
    "low": 0.13,
    "high": 0.15,
    "status": "identifiable",
}
KNOWN = {"name": "scale", "unit": "1", "nominal": 1.0, "value": 1.0, "low": 1.0, "high": 1.0, "status": "identifiable"}  # fmt: skip


def test_every_estimate_has_a_scale_of_its_own_and_stays_on_the_image():
    """A value of zero on a nominal of zero once set the scale of all: the others lay on one line, labelled 1e14 %."""
    drawn = draw_estimates([EDGE, SHARP, KNOWN])
    circles = [float(x) for x in re.findall(r"<circle class=after cx='([\d.]+)'", drawn)]
    assert circles[0] == 190.0 and circles[1] == pytest.approx(190 + 330 * 0.14 / 0.15, abs=0.1)
    assert all(190 <= x <= 520 for x in circles) and drawn.count("opacity='.4'") == 1
    assert "0 → 0 [0, 12.7] N·m" in drawn and "0 → 0.14 [0.13, 0.15] s" in drawn and "e+" not in drawn
    assert "friction" not in draw_estimates([EDGE | {"status": "not identifiable"}])


def test_success_is_drawn_for_a_desk_and_for_a_phone():
    row = ("after", {"success": 1.0, "episodes": 7, "interval_95": (0.59, 1.0)}, "after")
    drawn = draw_success([row])
    assert drawn.count("<svg class=broad") == drawn.count("<svg class=narrow") == 1
    assert drawn.count("100 % of 7") == 2


def test_success_after_is_of_every_trial_after_and_not_of_the_luckier_few():
    found = {
        "try": {"robot": {"success": 0.5, "episodes": 10, "standin": True}},
        "gate": {"robot": {"success": 0.75, "episodes": 20}},
        "monitor": {"robot": {"success": 1.0, "episodes": 5}},
        "diagnose": {"costs": []},
        "identify": {"accepted": True},
        **{name: {"episodes": 4} for name in ("excite", "show", "demonstrate")},
    }
    facts = dict(loop_page._facts(found))
    assert facts["on the stand-in before"] == "50%" and facts["on the stand-in after"] == "80%"
    assert facts["stand-in episodes before the gate"] == "22"
