"""`twinloop ingest` as a user types it."""

import json

from tests.logs import examples
from tests.terminal import twinloop


def test_propose_then_ingest(tmp_path):
    examples.write_csv(tmp_path / "run.csv")
    assert "--propose" in twinloop("ingest", "run.csv", "--out", "real", cwd=tmp_path, code=2)
    twinloop("ingest", "run.csv", "--propose", "--map", "map.yaml", cwd=tmp_path)
    assert "already exists" in twinloop(
        "ingest", "run.csv", "--propose", "--map", "map.yaml", cwd=tmp_path, code=2
    )
    assert "--out DATASET" in twinloop("ingest", "run.csv", "--map", "map.yaml", cwd=tmp_path, code=2)
    refused = twinloop("ingest", "run.csv", "--map", "map.yaml", "--out", "real", cwd=tmp_path, code=2)
    assert "(source) is an unreviewed guess" in refused and "--accept-guesses" in refused
    read = [line.split("# confidence")[0] for line in (tmp_path / "map.yaml").read_text().splitlines()]
    (tmp_path / "read.yaml").write_text("\n".join(read))
    text = twinloop("ingest", "run.csv", "--map", "read.yaml", "--out", "real", cwd=tmp_path)
    assert "wrote real: 1 episode, 60 frames" in text and "exact" in text
    assert "already exists" in twinloop(
        "ingest", "run.csv", "--map", "read.yaml", "--out", "real", cwd=tmp_path, code=1
    )


def test_json_has_the_report_and_errors_too(tmp_path):
    examples.write_csv(tmp_path / "run.csv")
    text = (
        "rate_hz: 50\nprovenance: {source: real}\nclock: time\nsignals: {action: {from: elbow, unit: rad}}\n"
    )
    (tmp_path / "map.yaml").write_text(text)
    done = json.loads(
        twinloop("ingest", "run.csv", "--map", "map.yaml", "--out", "a", "--json", cwd=tmp_path)
    )
    assert done["episodes"] == 1 and done["streams"][0]["method"] == "exact"
    (tmp_path / "map.yaml").write_text(text.replace("elbow", "elbw"))
    error = json.loads(
        twinloop("ingest", "run.csv", "--map", "map.yaml", "--out", "b", "--json", cwd=tmp_path, code=2)
    )
    assert error["remedy"] == "did you mean 'elbow'?"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "map.yaml", "run.csv"]
