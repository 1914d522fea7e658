"""CSV and NPZ, the thinnest path: write with the reference library, ingest with a map, read back equal."""

import json

import numpy as np
import pytest

from twinloop.errors import DamagedLog, LogError, MapError, UnknownName
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.originals import load_originals
from twinloop.quality.check import check_dataset
from twinloop.yaml_models import format_model

HEAD = """
rate_hz: 50
provenance: {source: real}
"""


def rows(count=100, seed=0):
    rng = np.random.default_rng(seed)
    return np.arange(count) * 0.02, np.cumsum(rng.normal(0, 0.01, (count, 2)), axis=0)


def write_csv(path, time, values, names="time,a,b"):
    np.savetxt(path, np.column_stack([time, values]), delimiter=",", header=names, comments="", fmt="%.17g")


def test_a_csv_file_comes_back_equal(tmp_path):
    time, values = rows()
    write_csv(tmp_path / "run.csv", time, values)
    done = ingest(
        tmp_path / "run.csv",
        tmp_path / "out",
        parse_map(HEAD + "clock: time\nsignals: {observation.state: {from: [a, b], unit: rad}}"),
    )
    episode = done.dataset.episode(0)
    assert np.array_equal(episode["observation.state"], values)
    assert np.array_equal(episode.time_s, time)
    assert episode.schema.signal("observation.state").elements == ("a", "b")


def test_units_signs_offsets_and_order_are_applied_as_the_map_says(tmp_path):
    time, values = rows()
    write_csv(tmp_path / "run.csv", time, np.degrees(values))
    text = HEAD + (
        "clock: time\nsignals: {observation.state: {from: [a, b], columns: [b, a], unit: deg, "
        "sign: [1, -1], offset: [0, 0.5]}}"
    )
    done = ingest(tmp_path / "run.csv", tmp_path / "out", parse_map(text))
    expected = np.column_stack([values[:, 1], 0.5 - values[:, 0]])
    np.testing.assert_allclose(done.dataset.episode(0)["observation.state"], expected, atol=1e-12)
    assert done.dataset.schema.signal("observation.state").units == ("rad",)
    assert "deg to rad" in done.streams[0].conversion


def test_streams_on_different_clocks_need_a_method_and_can_be_brought_back(tmp_path):
    time, values = rows()
    slow = np.arange(0.005, 1.99, 0.05)
    np.savez(tmp_path / "run.npz", t=time, x=values, t_cmd=slow, cmd=np.sin(slow))
    text = HEAD + (
        "signals:\n  observation.state: {from: x, unit: rad, clock: t}\n"
        "  action: {from: cmd, unit: rad, clock: t_cmd METHOD}\n"
    )
    with pytest.raises(MapError, match="action is not sampled at the times of the rows"):
        ingest(tmp_path / "run.npz", tmp_path / "out", parse_map(text.replace(" METHOD", "")))
    assert not (tmp_path / "out").exists()
    done = ingest(
        tmp_path / "run.npz", tmp_path / "out", parse_map(text.replace(" METHOD", ", method: linear"))
    )
    episode = done.dataset.episode(0)
    at = episode.time_s + float(episode.events[1].detail.split()[0])
    np.testing.assert_allclose(episode["action"][:, 0], np.interp(at, slow, np.sin(slow)), atol=1e-12)
    original = load_originals(done.dataset, 0)
    assert list(original) == ["action"]
    assert np.array_equal(original["action"].time_s, slow)
    assert np.array_equal(original["action"].values[:, 0], np.sin(slow))
    action = next(stream for stream in done.streams if stream.name == "action")
    assert action.method == "linear" and action.rate_hz == pytest.approx(20)


def test_rows_can_be_evenly_spaced(tmp_path):
    time, values = rows()
    time = time + np.random.default_rng(1).uniform(0, 0.004, len(time))
    np.savez(tmp_path / "run.npz", t=time, x=values)
    text = (
        HEAD
        + "rows: {rate_hz: 50}\nsignals: {observation.state: {from: x, unit: m, clock: t, method: linear}}"
    )
    done = ingest(tmp_path / "run.npz", tmp_path / "out", parse_map(text))
    np.testing.assert_allclose(np.diff(done.dataset.episode(0).time_s), 0.02, atol=1e-12)
    assert np.array_equal(load_originals(done.dataset, 0)["observation.state"].values, values)


@pytest.mark.parametrize("order", ["wxyz", "xyzw"])
def test_quaternions_are_stored_w_first_and_resampled_along_the_arc(tmp_path, order):
    time = np.arange(50) * 0.02
    angle = time * 3
    rotation = np.column_stack([np.cos(angle / 2), np.zeros(50), np.zeros(50), np.sin(angle / 2)])
    stored = rotation if order == "wxyz" else rotation[:, [1, 2, 3, 0]]
    np.savez(tmp_path / "run.npz", t=time, q=stored, t2=time[:-1] + 0.01, x=time[:-1])
    text = HEAD + (
        "rows: {like: observation.x}\nsignals:\n"
        f"  observation.rotation: {{from: q, unit: '1', clock: t, quaternion: {order}, method: slerp}}\n"
        "  observation.x: {from: x, unit: m, clock: t2}\n"
    )
    got = ingest(tmp_path / "run.npz", tmp_path / "out", parse_map(text)).dataset.episode(0)[
        "observation.rotation"
    ]
    middle = (time[:-1] + 0.01) * 3
    np.testing.assert_allclose(got[:, 0], np.cos(middle / 2), atol=1e-9)
    np.testing.assert_allclose(got[:, 3], np.sin(middle / 2), atol=1e-9)


def test_episodes_are_cut_at_offsets_boundaries_gaps_and_lengths(tmp_path):
    time, values = rows(100)
    time[60:] += 5
    np.savez(
        tmp_path / "run.npz",
        t=time,
        x=values,
        first=np.array([0, 30, 70, 100]),
        trial=np.repeat([1, 2, -1, 3], 25),
    )
    signals = "clock: t\nsignals: {observation.state: {from: x, unit: m}}\n"
    cases = {
        "{by: offsets, channel: first}": [30, 40, 30],
        "{by: boundary, channel: trial}": [25, 25, 25, 25],
        "{by: boundary, channel: trial, leave_out: [-1]}": [25, 25, 25],
        "{by: gaps, gap_s: 1}": [60, 40],
        "{by: gaps, gap_s: 1, longest_s: 0.5}": [26, 26, 8, 26, 14],
        "{by: gaps, gap_s: 1, shortest_rows: 50}": [60],
        "{by: file}": [100],
    }
    for number, (how, lengths) in enumerate(cases.items()):
        done = ingest(
            tmp_path / "run.npz", tmp_path / f"out{number}", parse_map(HEAD + signals + f"episodes: {how}")
        )
        assert [len(episode) for episode in done.dataset] == lengths, how
        joined = np.concatenate([episode["observation.state"] for episode in done.dataset])
        if sum(lengths) == 100:
            assert np.array_equal(joined, values)


def test_cuts_do_not_depend_on_how_the_file_is_read(tmp_path, monkeypatch):
    from twinloop.logs import reader

    time, values = rows(100)
    np.savez(
        tmp_path / "run.npz",
        t=time,
        x=values,
        first=np.array([0, 7, 30, 64, 100]),
        trial=np.repeat([1, 2], 50),
    )
    signals = "clock: t\nsignals: {observation.state: {from: x, unit: m}}\n"
    for how in (
        "{by: offsets, channel: first}",
        "{by: boundary, channel: trial}",
        "{by: gaps, gap_s: 1, longest_s: 0.3}",
    ):
        found = []
        for span_bytes in (16, 16 * 7, 16 * 32, 1 << 20):
            monkeypatch.setattr(reader, "SPAN_BYTES", span_bytes)
            out = tmp_path / f"{len(found)}{how[5:9]}"
            done = ingest(tmp_path / "run.npz", out, parse_map(HEAD + signals + f"episodes: {how}"))
            found.append([len(episode) for episode in done.dataset])
        assert all(lengths == found[0] for lengths in found), how


def test_missing_and_disordered_samples_are_refused_dropped_or_held(tmp_path):
    time, values = rows(50)
    values[10] = np.nan
    time[20] = time[19]
    write_csv(tmp_path / "run.csv", time, values)
    text = (
        HEAD + "clock: {channel: time CLOCK}\nsignals: {observation.state: {from: [a, b], unit: rad MISSING}}"
    )

    def run(name, clock="", missing=""):
        log_map = parse_map(text.replace(" CLOCK", clock).replace(" MISSING", missing))
        return ingest(tmp_path / "run.csv", tmp_path / name, log_map)

    with pytest.raises(LogError, match="not finite at sample 10"):
        run("a")
    with pytest.raises(LogError, match="time does not increase at sample"):
        run("a", missing=", missing: drop")
    dropped = run("b", ", out_of_order: drop", ", missing: drop")
    assert len(dropped.dataset.episode(0)) == 48
    assert (dropped.streams[0].missing, dropped.streams[0].out_of_order) == (1, 1)
    held = run("c", ", out_of_order: drop", ", missing: hold").dataset.episode(0)["observation.state"]
    assert np.array_equal(held[10], held[9])


def test_a_wrong_rate_or_unit_of_the_clock_is_noticed(tmp_path):
    time, values = rows(50)
    write_csv(tmp_path / "run.csv", time * 1000, values)
    text = HEAD + "clock: time\nsignals: {observation.state: {from: a, unit: rad}}"
    with pytest.raises(LogError, match=r"runs at 0\.05 Hz.*\n.*clock's unit"):
        ingest(tmp_path / "run.csv", tmp_path / "out", parse_map(text))
    good = parse_map(text.replace("clock: time", "clock: {channel: time, unit: ms}"))
    assert ingest(tmp_path / "run.csv", tmp_path / "out", good).streams[0].rate_hz == pytest.approx(50)


def test_a_folder_is_ingested_file_by_file_and_names_what_it_left_out(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for number in range(3):
        write_csv(folder / f"run_{number}.csv", *rows(20, seed=number))
    (folder / "notes.md").write_text("hello")
    log_map = parse_map(
        HEAD + "clock: time\ntask: '{stem}'\nsignals: {observation.state: {from: a, unit: rad}}"
    )
    done = ingest(folder, tmp_path / "out", log_map)
    assert [episode.task for episode in done.dataset] == ["run_0", "run_1", "run_2"]
    assert done.skipped == {"notes.md": "unknown format"}
    assert len(ingest(str(folder / "run_[01].csv"), tmp_path / "two", log_map).dataset) == 2


def test_one_bad_file_refuses_all_or_is_left_out_by_name(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    write_csv(folder / "a.csv", *rows(20))
    time, values = rows(20)
    values[3] = np.inf
    write_csv(folder / "b.csv", time, values)
    log_map = parse_map(HEAD + "clock: time\nsignals: {observation.state: {from: a, unit: rad}}")
    with pytest.raises(LogError, match=r"b\.csv"):
        ingest(folder, tmp_path / "out", log_map)
    assert list(tmp_path.iterdir()) == [folder]
    done = ingest(folder, tmp_path / "out", log_map, skip_unusable=True)
    assert len(done.dataset) == 1 and "not finite" in done.skipped["b.csv"]


def test_an_unknown_channel_is_answered_with_the_nearest(tmp_path):
    write_csv(tmp_path / "run.csv", *rows(20), names="time,shoulder,elbow")
    log_map = parse_map(HEAD + "clock: time\nsignals: {observation.state: {from: [sholder], unit: rad}}")
    with pytest.raises(UnknownName, match="did you mean 'shoulder'"):
        ingest(tmp_path / "run.csv", tmp_path / "out", log_map)


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "run.npz", t=np.arange(3.0), x=np.array([{}, [], None], dtype=object))
    log_map = parse_map(HEAD + "clock: t\nsignals: {observation.state: {from: x, unit: m}}")
    with pytest.raises(DamagedLog, match="pickled Python objects, which are never loaded"):
        ingest(tmp_path / "run.npz", tmp_path / "out", log_map)


def tracking_runs(folder):
    """Two tables of one archive: the second has the desired position before the torque."""
    time_s = np.arange(60) / 50
    position, torque, desired = np.sin(time_s), 0.1 * np.cos(time_s), np.sin(time_s + 0.1)
    runs = {
        "run_1": np.column_stack([time_s, position, torque]),
        "run_2": np.column_stack([time_s, position, desired, torque]),
    }
    np.savez(folder / "runs.npz", **runs)
    names = {"runs/run_1": ["time", "pos", "tau"], "run_2": ["time", "pos", "pos_des", "tau"]}
    return folder / "runs.npz", names, torque


TRACKING = (
    HEAD
    + """
episodes: {by: groups}
signals:
  observation.state: {from: "{group}", columns: [1], unit: rad, clock: {channel: "{group}", column: 0}}
  action: {from: "{group}", columns: [2], unit: N·m, clock: {channel: "{group}", column: 0}}
"""
)


def test_a_number_that_means_another_column_in_another_table_is_refused(tmp_path):
    path, names, _ = tracking_runs(tmp_path)
    with pytest.raises(MapError, match=r"runs.npz#run_2.*other columns than in runs.npz#run_1") as refused:
        ingest(path, tmp_path / "out", parse_map(TRACKING))
    assert "column 1 of 4" in str(refused.value) and "columns.json" in str(refused.value)
    (tmp_path / "columns.json").write_text(json.dumps(names))
    with pytest.raises(MapError, match=r"signals.action .*got pos_des; expected tau"):
        ingest(path, tmp_path / "out", parse_map(TRACKING))


def test_columns_are_bound_by_the_names_in_a_name_file(tmp_path):
    path, names, torque = tracking_runs(tmp_path)
    (tmp_path / "columns.json").write_text(json.dumps(names))
    by_name = parse_map(TRACKING.replace("columns: [2]", "columns: [tau]"))
    done = ingest(tmp_path, tmp_path / "out", by_name)
    assert done.skipped == {"columns.json": "names the columns of other logs"}
    for episode in done.dataset:
        np.testing.assert_allclose(episode["action"][:, 0], torque)
        assert episode.schema.signal("action").elements == ("tau",)
    names["run_2"].pop()
    (tmp_path / "columns.json").write_text(json.dumps(names))
    with pytest.raises(DamagedLog, match="got 3 names for run_2; expected 4"):
        ingest(path, tmp_path / "again", by_name)


def test_files_without_headers_must_be_equally_wide_or_have_names(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    time_s, values = np.arange(30) / 50, np.sin(np.arange(30) / 9)
    np.savetxt(folder / "a.csv", np.column_stack([time_s, values]), delimiter=",")
    np.savetxt(folder / "b.csv", np.column_stack([time_s, 0 * values, values]), delimiter=",")
    text = HEAD + "clock: column_0\nsignals: {observation.state: {from: column_1, unit: rad}}"
    with pytest.raises(MapError, match=r"b.csv.*got column_1 of 3; expected column_1 of 2"):
        ingest(folder, tmp_path / "out", parse_map(text))
    names = {"a": ["time", "elbow"], "b": ["time", "wrist", "elbow"]}
    (folder / "columns.json").write_text(json.dumps(names))
    named = text.replace("column_0", "time").replace("column_1", "elbow")
    done = ingest(folder, tmp_path / "out", parse_map(named))
    assert all(np.ptp(episode["observation.state"]) > 1 for episode in done.dataset)


def test_an_angle_logged_within_one_turn_is_unwrapped_before_it_is_resampled(tmp_path):
    time_s = np.arange(100) / 50
    angle = np.column_stack([4 * time_s, -5 * time_s])
    np.savez(tmp_path / "run.npz", t=time_s, q=(angle + np.pi) % (2 * np.pi) - np.pi)
    text = (
        HEAD
        + "clock: t\nrows: {rate_hz: 50}\nsignals: {observation.state: {from: q, unit: rad, method: linear}}"
    )
    wrapped = ingest(tmp_path / "run.npz", tmp_path / "wrapped", parse_map(text)).dataset
    assert {f.code for f in check_dataset(wrapped).findings} == {"wrap"}
    done = ingest(
        tmp_path / "run.npz", tmp_path / "out", parse_map(text.replace("linear", "linear, unwrap: true"))
    )
    np.testing.assert_allclose(done.dataset.episode(0)["observation.state"], angle, atol=1e-9)
    assert "unwrapped" in done.streams[0].conversion
    with pytest.raises(MapError, match="unwrap: it has no angle; got m"):
        metres = parse_map(text.replace("linear", "linear, unwrap: true").replace("rad", "m"))
        ingest(tmp_path / "run.npz", tmp_path / "m", metres)


def test_constants_of_a_map_are_not_taken_for_dead_sensors(tmp_path):
    write_csv(tmp_path / "run.csv", *rows(60))
    text = (
        HEAD
        + "clock: time\nsignals: {observation.state: {from: a, unit: rad}}\nconstants: {observation.kp: {value: 3}}"
    )
    dataset = ingest(tmp_path / "run.csv", tmp_path / "out", parse_map(text)).dataset
    assert check_dataset(dataset).findings == ()


DERIVED = (
    HEAD
    + """
clock: t
derived: {net: run-1/tau - run-1/friction + bias, unused: bias - t}
signals: {observation.torque: {from: net, unit: mN·m, elements: [a, b]}}
"""
)


def test_a_map_adds_and_subtracts_channels(tmp_path):
    time_s = np.arange(50) / 50
    tau, friction, bias = (np.column_stack([np.sin(time_s + k), np.cos(time_s + k)]) for k in range(3))
    arrays = {"t": time_s, "run-1/tau": tau, "run-1/friction": friction.astype(np.float32), "bias": bias}
    np.savez(tmp_path / "run.npz", **arrays)
    log_map = parse_map(DERIVED)
    done = ingest(tmp_path / "run.npz", tmp_path / "out", log_map)
    expected = 1e-3 * (tau - friction.astype(np.float32) + bias)
    np.testing.assert_allclose(done.dataset.episode(0)["observation.torque"], expected)
    assert parse_map(format_model(log_map)) == log_map
    np.savez(tmp_path / "run.npz", **arrays | {"bias": bias[:, :1]})
    with pytest.raises(LogError, match=r"channels of net have different shapes; got run-1/tau \(2,\)"):
        ingest(tmp_path / "run.npz", tmp_path / "shapes", log_map)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("__import__('os').system('true')", "such as `a - b`"),
        ("bias -", "such as `a - b`"),
        ("bias - net", "net is derived itself"),
        ("bias - nothing", "nothing"),
    ],
)
def test_a_formula_that_is_no_sum_of_channels_is_refused(tmp_path, formula, message):
    np.savez(tmp_path / "run.npz", t=np.arange(9) / 50, bias=np.arange(9.0))
    text = (
        HEAD
        + f"clock: t\nderived: {{net: {json.dumps(formula)}}}\nsignals: {{observation.state: {{from: net, unit: m}}}}"
    )
    with pytest.raises((MapError, UnknownName), match=message):
        ingest(tmp_path / "run.npz", tmp_path / "out", parse_map(text))


@pytest.mark.parametrize(
    "lines",
    [
        ("Time (s);Joint 1 Position [deg];Joint 2 Position [deg]", "0.00;1.5;2", "0.02;1.25;3"),
        ("Time (s);Joint 1 Position [deg];Joint 2 Position [deg]", "0,00;1,5;2,0", "0,02;1,25;3,0"),
        ('"Time (s)" "Joint 1 Position [deg]" "Joint 2 Position [deg]"', "0.00 1.5 2", "0.02 1.25 3"),
        ("Time (s)\tJoint 1 Position [deg]\tJoint 2 Position [deg]", "0.00\t1.5\t2", "0.02\t1.25\t3"),
    ],
)
def test_names_with_blanks_and_decimal_commas_are_read(tmp_path, lines):
    path = tmp_path / "run.csv"
    path.write_text("\n".join(lines) + "\n")
    names = ["Joint 1 Position [deg]", "Joint 2 Position [deg]"]
    text = (
        HEAD
        + f"clock: Time (s)\nsignals: {{observation.state: {{from: {json.dumps(names)}, unit: deg, to: deg}}}}"
    )
    episode = ingest(path, tmp_path / "out", parse_map(text)).dataset.episode(0)
    np.testing.assert_array_equal(episode["observation.state"], [[1.5, 2], [1.25, 3]])


def test_a_constant_of_each_group_is_read_from_its_group(tmp_path):
    runs = {
        f"run_{kp}": {"t": np.arange(20) / 50, "q": np.sin(np.arange(20.0)), "kp": np.array(kp)}
        for kp in (3, 5)
    }
    np.savez(
        tmp_path / "a.npz", **{f"{run}/{name}": v for run, part in runs.items() for name, v in part.items()}
    )
    text = HEAD + (
        "episodes: {by: groups}\n"
        "signals: {observation.state: {from: '{group}/q', unit: rad, clock: '{group}/t'}}\n"
        "constants: {observation.kp: {from: '{group}/kp'}}"
    )
    episodes = list(ingest(tmp_path / "a.npz", tmp_path / "out", parse_map(text)).dataset)
    assert [episode["observation.kp"][0, 0] for episode in episodes] == [3, 5]
