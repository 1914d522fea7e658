"""Cells of the benchmarks' long tables: measured once, kept with their commit, taken up again in another sitting."""

import json

from benchmarks.cells import Cells, portion, tried


class Silent:
    def print(self, line):
        pass


def open_cells(tmp_path, **more):
    return Cells(tmp_path / "work", Silent(), ledger=tmp_path / "measured/table.json", **more)


def test_what_was_measured_is_not_measured_again(tmp_path):
    first = open_cells(tmp_path).measured("a@mild-0-20", lambda: {"successes": 3, "episodes": 20})
    again = open_cells(tmp_path).measured("a@mild-0-20", lambda: 1 / 0)
    assert first["successes"] == again["successes"] == 3
    kept = json.loads((tmp_path / "measured/table.json").read_text())
    assert kept["a@mild-0-20"]["commit"] == again["commit"] == open_cells(tmp_path).commits()


def test_a_sitting_that_is_over_makes_nothing_more(tmp_path):
    cells = open_cells(tmp_path).kept
    assert cells.measured("b", lambda: 1 / 0) is None
    assert cells.folder("data", lambda out: out.mkdir()) is None and not (tmp_path / "work/data").exists()


def test_blocks_of_any_size_are_added_up_and_no_policy_is_made_for_them(tmp_path):
    cells = open_cells(tmp_path)
    cells.measured("p-s0@mild-0-40", lambda: {"successes": 30, "episodes": 40})
    cells.measured("p-s0@mild-40-20", lambda: {"successes": 20, "episodes": 20})
    found = tried(cells, "p-s0", lambda: 1 / 0, "mild", range(60))
    assert found == {"successes": 50, "episodes": 60}
    assert tried(cells.kept, "q-s0", lambda: 1 / 0, "mild", range(60)) is None


def test_seeds_share_the_scenes_without_overlap():
    parts = [portion(200, 3, seed) for seed in range(3)]
    assert [len(part) for part in parts] == [67, 67, 66]
    assert sorted(scene for part in parts for scene in part) == list(range(200))
