"""An ingest that is killed goes on without repeating or losing anything."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.logs import examples
from twinloop.datasets import disk_space
from twinloop.datasets.verify import verify
from twinloop.errors import DatasetError, DiskError
from twinloop.logs import ingest as module
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.logs.originals import load_originals

ROOT = Path(__file__).parents[2]
MAP = """
rate_hz: 50
provenance: {source: real}
signals:
  observation.state: {from: q, unit: rad, clock: t}
  action: {from: cmd, unit: rad, clock: t_cmd, method: previous, edges: hold}
"""

CHILD = """
import os, signal, sys
from twinloop.datasets import writer
from twinloop.logs import ingest as module
from twinloop.logs.log_map import parse_map

source, out, resume, kill_after, where = sys.argv[1], sys.argv[2], sys.argv[3] == "1", int(sys.argv[4]), sys.argv[5]
module.CHECKPOINT_BYTES = 1
add = module._Run._add
save = module.save_checkpoint
count = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def counted(self, assembler, raw):
    global count
    add(self, assembler, raw)
    count += 1
    if where == "commit" and count == kill_after:
        self._writer.commit()  # as a full group would: safe, but no checkpoint says so
        die()
    if where == "add" and count == kill_after:
        die()

def saved(root, checkpoint):
    if where == "note" and len(checkpoint.logs) == kill_after:
        die()
    save(root, checkpoint)

module._Run._add = counted
module.save_checkpoint = saved
module.ingest(source, out, parse_map(open(sys.argv[6]).read()), resume=resume)
"""


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(7):
        time_s, position, command = examples.motion(rows=40 + number, seed=number)
        late = time_s + 0.003
        np.savez(folder / f"run_{number}.npz", t=time_s, q=position, t_cmd=late, cmd=command)
    (tmp_path / "map.yaml").write_text(MAP)
    return folder


def child(logs, out, *, resume, kill_after, where):
    words = [
        sys.executable,
        "-c",
        CHILD,
        logs,
        out,
        "1" if resume else "0",
        kill_after,
        where,
        logs.parent / "map.yaml",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        list(map(str, words)), env=environment, capture_output=True, text=True, cwd=logs.parent
    )


def contents(dataset):
    """Everything of every episode that does not depend on when it was written."""
    rows = []
    for number in dataset.numbers:
        episode = dataset.episode(number)
        originals = load_originals(dataset, number)
        rows.append(
            (
                episode.events[0].detail,
                episode["observation.state"].tobytes(),
                episode["action"].tobytes(),
                {name: (s.time_s.tobytes(), s.values.tobytes()) for name, s in originals.items()},
            )
        )
    return rows


QUICK_KILLS = {("add", 1), ("commit", 3), ("note", 6)}
KILLS = [
    pytest.param(where, after, marks=() if (where, after) in QUICK_KILLS else pytest.mark.slow)
    for where in ("add", "commit", "note")
    for after in (1, 3, 6)
]


@pytest.mark.parametrize(("where", "kill_after"), KILLS)
def test_a_killed_ingest_resumes_without_repeats_or_gaps(tmp_path, logs, where, kill_after):
    whole = ingest(logs, tmp_path / "whole", parse_map(MAP))
    killed = child(logs, tmp_path / "out", resume=False, kill_after=kill_after, where=where)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "out").exists(), "nothing half done under its name"
    again = child(logs, tmp_path / "out", resume=True, kill_after=2, where="add")
    assert again.returncode in (0, -signal.SIGKILL), again.stderr
    if again.returncode:
        last = ingest(logs, tmp_path / "out", parse_map(MAP), resume=True)
    else:
        from twinloop.datasets.reader import open_dataset

        last = None
    dataset = last.dataset if last else open_dataset(tmp_path / "out")
    assert contents(dataset) == contents(whole.dataset)
    assert verify(dataset.root).ok
    report = examples.load_reports(dataset)[dataset.id]
    expected = examples.load_reports(whole.dataset)[whole.dataset.id]
    assert [(s["name"], s["samples"], s["episodes"]) for s in report["streams"]] == [
        (s["name"], s["samples"], s["episodes"]) for s in expected["streams"]
    ]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["logs", "map.yaml", "out", "whole"], "no folder is left behind"


def test_ctrl_c_can_be_resumed_and_an_error_leaves_nothing(tmp_path, logs, monkeypatch):
    monkeypatch.setattr(module, "CHECKPOINT_BYTES", 1)
    seen = []

    def interrupt(done, total):
        seen.append(done)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(logs, tmp_path / "out", parse_map(MAP), on_progress=interrupt)
    done = ingest(logs, tmp_path / "out", parse_map(MAP), resume=True)
    assert done.resumed == 4 and len(done.dataset) == 7
    np.savez(logs / "run_9.npz", t=np.zeros(3))
    with pytest.raises(Exception, match="run_9"):
        ingest(logs, tmp_path / "broken", parse_map(MAP))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["logs", "map.yaml", "out"]


def test_another_map_or_changed_logs_are_not_mixed_in(tmp_path, logs):
    killed = child(logs, tmp_path / "out", resume=False, kill_after=4, where="add")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with pytest.raises(DatasetError, match="a different map"):
        ingest(logs, tmp_path / "out", parse_map(MAP.replace("unit: rad", "unit: deg")), resume=True)
    killed = child(logs, tmp_path / "out", resume=False, kill_after=4, where="add")
    np.savez(logs / "run_0.npz", t=np.arange(3))
    with pytest.raises(DatasetError, match="have changed"):
        ingest(logs, tmp_path / "out", parse_map(MAP), resume=True)


def test_nothing_to_resume_is_a_beginning(tmp_path, logs):
    done = ingest(logs, tmp_path / "out", parse_map(MAP), resume=True)
    assert done.resumed == 0 and len(done.dataset) == 7


def test_too_little_room_is_said_before_anything_is_written(tmp_path, logs, monkeypatch):
    monkeypatch.setattr(disk_space, "free_bytes", lambda folder: 1000)
    with pytest.raises(DiskError, match="not enough disk space for 7 logs"):
        ingest(logs, tmp_path / "out", parse_map(MAP))
    assert not (tmp_path / "out").exists()
