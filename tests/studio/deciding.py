"""What the rooms of decisions need beyond a small loop: a map with a region of failures, a long gate, a robot that ages."""

from __future__ import annotations

from pathlib import Path

from tests.coverage import worlds
from tests.datasets.test_consent import shown, write
from tests.monitoring.test_monitor import SCHEMA, episode
from tests.promotion.test_verdict import campaign
from tests.terminal import run_command
from twinloop.coverage.map_file import save_coverage
from twinloop.coverage.run import measure_coverage
from twinloop.datasets.reader import open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.promotion.checks import CHECKS, Check
from twinloop.promotion.rules import Rules
from twinloop.promotion.statistics import measure
from twinloop.promotion.verdict import decide

PASSED = tuple(Check(name, "passed", "as measured") for name in CHECKS.names())


def add_decisions(root: Path) -> None:
    """Add them to a workspace, by the library's verbs: `reports/coverage`, `gates`, `monitor` and people."""
    real, sim = worlds.scenes(40, 1), worlds.scenes(80, 2)
    worlds.write(root / "data/shelf", real, 0, source="real", camera=True, fails=lambda s: s[0] > 0.54)
    worlds.write(root / "data/shelf-sim", sim[sim[:, 0] < 0.54], 1000, source="sim", camera=True)
    opened = open_dataset(root / "data/shelf"), open_dataset(root / "data/shelf-sim")
    save_coverage(measure_coverage(*opened, points=3000), root / "reports/coverage", opened)
    for name, found in {
        "better": campaign(0.95, 0.5, 60),
        "worse-at-the-edge": campaign(0.9, 0.5, 120, bad=lambda x: x > 0.0),
    }.items():
        rules = Rules()
        found.save(root / "gates" / name)
        decide(found, measure(found, rules, twin_is_current=True), rules, PASSED).save(root / "gates" / name)
    with make_dataset(root / "data/pair", SCHEMA) as writer:
        for seed in range(20):
            writer.add(episode(seed))
        for seed in range(20, 60):
            worn = 8.0 if seed < 35 else 5.5
            writer.add(episode(seed, stiffness=worn, success=seed < 35 or seed % 3 > 0))
    words = ("monitor", "data/pair", "--baseline", "20", "--expected", "0.9", "--once")
    assert run_command(*words, cwd=root)[0] == 1
    for person, until in (("operator-7", "2035-01-01"), ("operator-8", "2020-02-01")):
        words = ("--scope", "record,train", "--document", "form.txt", "--until", until, "--id", f"c-{person}")
        given = ("--given", "2020-01-01")
        code, out, err = run_command("data", "consent", "add", person, *words, *given, cwd=root)
        assert code == 0, out + err
    episodes = [shown(seed, "c-operator-7") for seed in range(3)] + [
        shown(3, "c-operator-8"),
        shown(4, None, "eve"),
    ]
    write(root / "data/people", episodes)
