"""docs/research/imperfect.md shows images that exist."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "research/imperfect.md").read_text()


def test_every_image_is_shown_and_small():
    shown = {DOCS / name for name in re.findall(r"\]\(\.\./(images/[^)]+)\)", PAGE)}
    assert shown == set((DOCS / "images/imperfect").glob("*.png"))
    assert max(path.stat().st_size for path in shown) < 60_000
