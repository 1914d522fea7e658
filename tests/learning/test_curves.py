"""Images of learning curves: all stages of all policies, on one page."""

from dataclasses import replace

import av
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.learning.examples import TINY, point
from twinloop.cli import app
from twinloop.errors import LearnError, WrongUse
from twinloop.learning.train import train
from twinloop.report.charts import SERIES
from twinloop.report.training_plots import draw_learning


def colours(path):
    """How many pixels of each colour a PNG has."""
    with av.open(str(path)) as file:
        image = next(file.decode(video=0)).to_ndarray(format="rgb24")
    found, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    return {f"#{bytes(colour).hex()}": int(n) for colour, n in zip(found, counts, strict=True)}


def test_every_policy_has_a_line_and_stages_follow_each_other(tmp_path):
    sim, real = point(tmp_path / "sim"), point(tmp_path / "real", episodes=6)
    alone = train(real=real, out=tmp_path / "alone", config=replace(TINY, recipe="real-only"))
    both = train(sim, real, out=tmp_path / "both", config=replace(TINY, recipe="pretrain-finetune"))
    seen = colours(draw_learning([alone, both], tmp_path / "two/curves.png"))
    assert seen[SERIES[0]] > 100 and seen[SERIES[1]] > 100
    assert SERIES[1] not in colours(draw_learning([alone], tmp_path / "one.png"))

    done = CliRunner().invoke(
        app,
        [
            "policy",
            "curves",
            str(tmp_path / "alone"),
            str(tmp_path / "both"),
            "--out",
            str(tmp_path / "c.png"),
        ],
    )
    assert (
        done.exit_code == 0
        and (tmp_path / "c.png").read_bytes() == (tmp_path / "two/curves.png").read_bytes()
    )


def test_what_cannot_be_drawn_is_said(tiny_policy, tmp_path):
    with pytest.raises(WrongUse, match=r"is a PNG; got .*svg"):
        draw_learning([tiny_policy], tmp_path / "curves.svg")
    silent = tiny_policy.with_training_record(replace(tiny_policy.training_record, results={}))
    with pytest.raises(LearnError, match="policy tiny has no learning curve"):
        draw_learning([silent], tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())
