"""Windows, transitions and the PyTorch view, against the plain definition of each."""

import numpy as np
import pytest

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from twinloop.datasets.query import query
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.windows import Windows
from twinloop.datasets.writer import append_to, make_dataset
from twinloop.errors import UnknownName, WrongUse

OFFSETS = {"observation.state": range(-1, 1), "action": range(16)}


def write(path, lengths, schema=STATE_ONLY, first_seed=0):
    episodes = [toy_episode(first_seed + i, rows=rows, schema=schema) for i, rows in enumerate(lengths)]
    with make_dataset(path, schema) as writer:
        for episode in episodes:
            writer.add(episode)
    return episodes, open_dataset(path)


def test_a_window_holds_history_and_chunk_and_marks_what_lies_beyond_the_episode(tmp_path):
    episodes, dataset = write(tmp_path / "d", [5, 30, 1, 20])
    windows = dataset.windows(OFFSETS)
    assert len(windows) == 56
    row = 0
    for episode in episodes:
        for t in range(len(episode)):
            got = windows[row]
            for name, offsets in OFFSETS.items():
                wanted = [t + o for o in offsets]
                inside = [min(max(w, 0), len(episode) - 1) for w in wanted]
                np.testing.assert_array_equal(got[name], episode[name][inside])
                np.testing.assert_array_equal(
                    got[f"{name}_is_pad"], [w != i for w, i in zip(wanted, inside, strict=True)]
                )
            row += 1


def test_a_batch_is_its_windows_stacked(tmp_path):
    _, dataset = write(tmp_path / "d", [9, 4, 12])
    windows = Windows(dataset, OFFSETS)
    rows = np.random.default_rng(0).integers(0, len(windows), 40)
    batch = windows.batch(rows)
    for i, row in enumerate(rows):
        for name, values in windows[int(row)].items():
            np.testing.assert_array_equal(batch[name][i], values)


def test_rows_left_out_are_passed_over_as_if_never_recorded(tmp_path):
    episodes, dataset = write(tmp_path / "d", [9, 12])
    excluded = np.zeros(21, dtype=bool)
    excluded[[3, 4, 8, 9, 15]] = True
    windows = Windows(dataset, OFFSETS, excluded=excluded)
    whole = np.concatenate([episode["action"] for episode in episodes])
    for begin, end in ((0, 9), (9, 21)):
        kept = [row for row in range(begin, end) if not excluded[row]]
        for place, row in enumerate(kept):
            inside = [min(place + o, len(kept) - 1) for o in range(16)]
            got = windows[row]
            np.testing.assert_array_equal(got["action"], whole[[kept[i] for i in inside]])
            np.testing.assert_array_equal(got["action_is_pad"], [place + o >= len(kept) for o in range(16)])


def test_an_episode_cannot_be_left_out_whole(tmp_path):
    _, dataset = write(tmp_path / "d", [3, 4])
    with pytest.raises(WrongUse, match="every row of an episode is excluded"):
        Windows(dataset, OFFSETS, excluded=np.arange(7) < 3)


@pytest.mark.parametrize("decoded", [False, True])
def test_windows_of_frames_show_the_right_rows(tmp_path, decoded):
    episodes, dataset = write(tmp_path / "d", [6, 8, 7], WITH_CAMERA)
    windows = Windows(dataset, {"observation.images.front": [-1, 0]}, decoded=decoded)
    row = 0
    for episode in episodes:
        for t in range(len(episode)):
            got = windows[row]["observation.images.front"].astype(int)
            expected = episode.frames["front"][[max(t - 1, 0), t]].astype(int)
            assert np.abs(got - expected).mean() < 4
            row += 1


def test_the_cache_follows_the_dataset(tmp_path):
    _, dataset = write(tmp_path / "d", [5, 5])
    assert len(Windows(dataset, OFFSETS)) == 10
    extra = toy_episode(77, rows=3)
    with append_to(tmp_path / "d") as writer:
        writer.add(extra)
    windows = Windows(open_dataset(tmp_path / "d"), OFFSETS)
    np.testing.assert_array_equal(windows[10]["observation.state"][-1], extra["observation.state"][0])


def test_transitions_pair_each_row_with_the_next_and_agree_with_sql(tmp_path):
    episodes, dataset = write(tmp_path / "d", [5, 1, 8])
    transitions = dataset.transitions()
    assert len(transitions) == 4 + 0 + 7
    everything = transitions[:]
    state = np.concatenate([e["observation.state"][:-1] for e in episodes])
    following = np.concatenate([e["observation.state"][1:] for e in episodes])
    np.testing.assert_array_equal(everything.state, state)
    np.testing.assert_array_equal(everything.next_state, following)
    np.testing.assert_array_equal(everything.action, np.concatenate([e["action"][:-1] for e in episodes]))
    assert everything.episode.tolist() == [0] * 4 + [2] * 7
    assert np.flatnonzero(everything.last).tolist() == [3, 10]
    assert transitions[-1].last.all()
    table = query([dataset], 'select "observation.state" s, "next.state" n from transitions order by "index"')
    np.testing.assert_array_equal(np.array(table.column("s").to_pylist(), np.float32), state)
    np.testing.assert_array_equal(np.array(table.column("n").to_pylist(), np.float32), following)


def test_wrong_windows_are_refused_by_name(tmp_path):
    _, dataset = write(tmp_path / "d", [5])
    with pytest.raises(UnknownName, match=r"did you mean 'observation\.state'"):
        Windows(dataset, {"observation.sate": [0]})
    with pytest.raises(WrongUse, match="no rows"):
        Windows(dataset, {"action": []})
    windows = Windows(dataset, OFFSETS)
    with pytest.raises(WrongUse, match="outside the dataset"):
        windows[5]
