"""Commands find the workspace's twins by name."""

import pytest

from twinloop.cli.places import find_twin
from twinloop.errors import UnknownName
from twinloop.twins import load_twin
from twinloop.workspace import init_workspace


def test_a_twin_of_the_workspace_is_found_by_its_name(tmp_path, monkeypatch):
    own = load_twin("cart_pole").with_values(action_delay_s=0.02)
    init_workspace(tmp_path / "bench", own)
    (tmp_path / "bench/twins/cart_pole").rename(tmp_path / "bench/twins/my_cart")
    monkeypatch.chdir(tmp_path / "bench/data")
    assert find_twin("my_cart").content_hash == own.content_hash
    assert find_twin("cube_toss").name == "cube_toss", "built-in ones are found too"
    with pytest.raises(UnknownName, match=r"available: .*cube_toss.*my_cart"):
        find_twin("my_cat")
