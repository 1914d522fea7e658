"""The registry: a polite dict."""

import pytest

from twinloop.errors import UnknownName, WrongUse
from twinloop.plugins import Registry


def test_a_registered_thing_is_found_by_name():
    readers: Registry[object] = Registry("log reader", "readers_for_tests")
    entry = readers.register("csv")(object())
    assert readers.get("csv") is entry
    assert list(readers) == ["csv"]
    assert "csv" in readers and "cvs" not in readers


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    readers: Registry[object] = Registry("log reader", "readers_for_tests")
    readers.register("csv")(object())
    readers.register("mcap")(object())
    with pytest.raises(
        UnknownName, match=r"no log reader is called 'mcpa'; available: csv, mcap\.\n.*did you mean 'mcap'"
    ):
        readers.get("mcpa")


def test_a_name_is_given_once():
    readers: Registry[object] = Registry("log reader", "readers_for_tests")
    readers.register("csv")(1)
    with pytest.raises(WrongUse, match="already registered"):
        readers.register("csv")(2)


def test_another_package_enters_through_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "robot_addon.py").write_text("reader = 'the add-on reader'\n")
    info = tmp_path / "robot_addon-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: robot-addon\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twinloop.addon_readers]\naddon = robot_addon:reader\n")
    monkeypatch.syspath_prepend(tmp_path)
    readers: Registry[object] = Registry("log reader", "addon_readers")
    assert readers.get("addon") == "the add-on reader"
