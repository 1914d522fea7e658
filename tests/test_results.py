"""What was measured in a workspace is found wherever a loop or a command put it, with the episodes behind it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.datasets.examples import STATE_ONLY, toy_episode
from twinloop.datasets.writer import make_dataset
from twinloop.errors import UnknownName
from twinloop.results import find_datasets, find_episodes, find_results
from twinloop.workspace import Workspace, init_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Two results, one hidden, and the same episodes in `data/` and in a loop's stage."""
    made = init_workspace(tmp_path / "cell")
    for at, place in enumerate(
        ("loop/gap-1/gap.json", "reports/gap.json", ".cache/gap.json", "loop/d/diagnosis.json")
    ):
        (made.root / place).parent.mkdir(parents=True, exist_ok=True)
        (made.root / place).write_text("{}")
        os.utime(made.root / place, (1_000_000 + at, 1_000_000 + at))
    episodes = [toy_episode(seed) for seed in range(3)]
    for place in ("loop/evaluate-1/runs", "data/runs"):
        with make_dataset(made.root / place, STATE_ONLY) as writer:
            for episode in episodes:
                writer.add(episode)
    (made.root / "data/runs/gap.json").write_text("{}")
    return made


def test_results_are_listed_newest_first_and_not_inside_datasets(workspace: Workspace) -> None:
    assert [one.path for one in find_results(workspace)] == [
        "loop/d/diagnosis.json",
        "reports/gap.json",
        "loop/gap-1/gap.json",
    ]
    assert [one.kind for one in find_results(workspace, "gap")] == ["gap", "gap"]
    with pytest.raises(UnknownName, match="kind of result"):
        find_results(workspace, "gaps")


def test_an_episode_is_found_where_a_person_would_look_first(workspace: Workspace) -> None:
    assert find_datasets(workspace) == ["data/runs", "loop/evaluate-1/runs"]
    ids = [toy_episode(seed).id for seed in (2, 0)]
    found = find_episodes(workspace, [*ids, "unknown", ids[0]])
    assert [(one.dataset, one.episode) for one in found] == [("data/runs", 2), ("data/runs", 0)]
    assert find_episodes(workspace, []) == []
