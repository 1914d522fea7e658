"""The order of trials: drawn, paired by scene, balanced, kept."""

from collections import Counter

import pytest

from twinloop.errors import WrongUse
from twinloop.supervision.schedule import draw_order, draw_schedule, keep_schedule


def test_every_policy_acts_once_in_every_scene_one_after_the_other():
    drawn = draw_schedule(["a", "b", "c"], "r", 5, 40)
    assert [trial.number for trial in drawn.trials] == list(range(120))
    for k in range(0, 120, 3):
        three = drawn.trials[k : k + 3]
        assert len({trial.scene for trial in three}) == 1 and {t.policy for t in three} == {0, 1, 2}


def test_the_order_is_drawn_and_the_same_for_the_same_seed():
    first = Counter(draw_order(2, 0, scene)[0] for scene in range(400))
    assert abs(first[0] - 200) < 40
    assert draw_schedule(["a", "b"], "r", 0, 20, 1) == draw_schedule(["a", "b"], "r", 0, 20, 1)
    assert draw_schedule(["a", "b"], "r", 0, 20, 1) != draw_schedule(["a", "b"], "r", 0, 20, 2)


def test_a_kept_schedule_is_continued_or_refused(tmp_path):
    file = tmp_path / "schedule.json"
    short = keep_schedule(draw_schedule(["a", "b"], "r", 0, 3), file).without(1)
    from twinloop.records import save_record

    save_record(short, file)
    longer = keep_schedule(draw_schedule(["a", "b"], "r", 0, 5), file)
    assert longer.skipped == (1,) and len(longer.trials) == 10
    for other in (draw_schedule(["a", "c"], "r", 0, 5), draw_schedule(["a", "b"], "r", 7, 5)):
        with pytest.raises(WrongUse, match=r"another series(.|\n)*another --out"):
            keep_schedule(other, file)
