"""docs/imperfect.md runs and shows pictures that exist."""

import re
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "imperfect.md").read_text()


def test_the_code_on_the_page_runs():
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/imperfect.md", "exec"), names)
    assert names["reading"].shape == (3, 7)
    assert names["recorded"].dtype == np.uint8


def test_every_picture_is_shown_and_small():
    shown = {DOCS / name for name in re.findall(r"\]\((images/[^)]+)\)", PAGE)}
    assert shown == set((DOCS / "images/imperfect").glob("*.png"))
    assert max(path.stat().st_size for path in shown) < 60_000
