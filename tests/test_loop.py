"""The loop: where it stands, and, on a stand-in, the whole of it, killed on the way."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.terminal import twinloop, twinloop_json
from twinloop.cli.loop import summary, write_report
from twinloop.demo import SMALL
from twinloop.errors import GateError, UnknownName
from twinloop.loop import ASKED_FOR, SECOND, STAGES, LoopConfig, read_loop_status, run_loop
from twinloop.stages import Listener, Stages
from twinloop.steps.verdicts import take_over
from twinloop.twins import load_twin

TINY = LoopConfig(
    sim_episodes=12,
    anchored_episodes=12,
    steps=20,
    finetune_steps=20,
    in_twin=4,
    pace_episodes=2,
    trials=3,
    excitations=4,
    excited_s=3.0,
    identified_s=3.0,
    shown=3,
    tried_first=1,
    demonstrations=5,
    diagnosed=64,
    gate_scenes=8,
    gate_trials=2,
    deployed=2,
)


def begun(root, *finished, **found):
    """A folder in which some stages are done."""
    stages = Stages(root)
    for name in finished:
        stages.run(name, lambda folder, progress, name=name: found.get(name, {}))
    (root / ASKED_FOR).write_text(json.dumps({"twin": "t", "robot": "standin:mild", "config": {}}))
    return read_loop_status(root)


def test_the_next_stage_comes_with_its_reason(tmp_path):
    assert read_loop_status(tmp_path / "nothing") is None
    status = begun(tmp_path, "simulate", "pretrain")
    assert (status.done, status.next_stage) == (("simulate", "pretrain"), "try")
    assert status.next_step == "twinloop loop --robot standin:mild" and "robot" in status.reason


def test_a_policy_that_is_tried_first_is_two_more_stages(tmp_path):
    names = list(STAGES)[: list(STAGES).index("anchor") + 1]
    usual = begun(tmp_path, *names)
    assert usual.next_stage == "retrain" and usual.next_step.endswith("--robot standin:mild")
    config = {"config": {"tried_first": 0}, "twin": "t", "robot": "standin:mild"}
    (tmp_path / ASKED_FOR).write_text(json.dumps(config))
    found = read_loop_status(tmp_path)
    assert found.next_stage == "demonstrate" and found.next_step.endswith(
        "--robot standin:mild --try-first 0"
    )


def test_a_gate_that_refuses_ends_the_loop_and_says_why(tmp_path):
    names = list(STAGES)[: list(STAGES).index("gate") + 1]
    verdict = {"decision": "refuse", "reasons": ["no better than the champion"]}
    status = begun(tmp_path, *names, gate=verdict)
    assert status.next_stage is None and "no better than the champion" in status.reason
    assert status.next_step.endswith("--try-first 0 --demonstrations N"), "trying first was not enough"
    through = begun(tmp_path / "more", *names, gate={"decision": "promote", "reasons": ["better"]})
    assert through.next_stage == "film"


def test_the_status_of_a_workspace_shows_its_loop(tmp_path):
    twinloop("init", "cell", "--twin", "servo_pendulum", cwd=tmp_path)
    begun(tmp_path / "cell/loop", "simulate")
    told = twinloop_json("status", cwd=tmp_path / "cell")
    assert told["loop"]["done"] == ["simulate"] and told["loop"]["next_stage"] == "pretrain"
    assert "loop: simulate done" in twinloop("status", cwd=tmp_path / "cell")


def test_a_loop_stops_after_the_stage_that_was_asked_for_and_goes_on_from_there(tmp_path):
    twinloop("init", "cell", "--twin", "franka_pick_place", cwd=tmp_path)
    asked = ("loop", "--robot", "standin:ideal", "--sim-episodes", "8", "--steps", "20")
    told = twinloop(*asked, "--until", "simulate", cwd=tmp_path / "cell")
    assert "stopped after simulate" in told and "without --until" in told
    found = twinloop_json(*asked, "--until", "pretrain", cwd=tmp_path / "cell")
    assert list(found["stages"]) == ["simulate", "pretrain"]
    simulated = [folder.name for folder in (tmp_path / "cell/loop").glob("simulate-*")]
    assert [Path(found["stages"]["simulate"]["folder"]).name] == simulated, "made once"
    status = read_loop_status(tmp_path / "cell/loop")
    assert status.next_stage == "try" and "--until" not in status.next_step


def test_a_loop_cannot_stop_at_a_stage_that_it_does_not_have(tmp_path):
    with pytest.raises(UnknownName, match=r"plann.*plan"):
        run_loop(load_twin("franka_pick_place"), "standin:ideal", tmp_path, until="plann")
    with pytest.raises(UnknownName, match="retry"):
        run_loop(
            load_twin("franka_pick_place"),
            "standin:ideal",
            tmp_path,
            replace(TINY, tried_first=0),
            until="retry",
        )


def test_wrong_use_of_the_loop_is_refused(tmp_path):
    assert "which twin" in twinloop("loop", "--robot", "standin:ideal", cwd=tmp_path, code=2)
    assert "where to" in twinloop(
        "loop", "--robot", "standin:ideal", "--twin", "franka_pick_place", cwd=tmp_path, code=2
    )


SCRIPT = """
import json, sys
from tests.test_loop import TINY
from twinloop.loop import run_loop
from twinloop.stages import Listener
from twinloop.twins import load_twin

class Loud(Listener):
    def begun(self, name):
        print("begun", name, flush=True)

if __name__ == "__main__":
    made = run_loop(load_twin("franka_pick_place"), "standin:ideal", sys.argv[1], TINY, Loud())
    print(json.dumps({name: done.found for name, done in made.items()}), flush=True)
"""


@pytest.mark.slow
def test_a_loop_killed_at_any_stage_goes_on_and_ends_as_one_that_was_not(tmp_path):
    script = tmp_path / "go.py"
    script.write_text(SCRIPT)
    here = {"env": {**os.environ, "PYTHONPATH": str(Path.cwd())}, "text": True}

    def command(place):
        return [sys.executable, str(script), str(tmp_path / place / "loop")]

    whole = subprocess.run(command("whole"), capture_output=True, check=True, **here).stdout
    told = json.loads(whole.splitlines()[-1])
    refused = 0
    for stage in told:
        with subprocess.Popen(command("cut"), stdout=subprocess.PIPE, **here) as process:
            for line in process.stdout:
                if line.strip() == f"begun {stage}":
                    if stage in ("simulate", "gate"):
                        second = subprocess.run(command("cut"), capture_output=True, **here)
                        refused += second.returncode != 0 and "another loop is at work" in second.stderr
                    process.send_signal(signal.SIGKILL)
    assert refused == 2, "a second loop is refused while the first is at work"
    again = subprocess.run(command("cut"), capture_output=True, check=True, **here).stdout
    found = json.loads(again.splitlines()[-1])
    assert list(found) == list(told)
    for name, one in told.items():
        for key in (
            "policy",
            "episodes",
            "success",
            "decision",
            "reasons",
            "robot",
            "simulation",
            "estimates",
            "used",
        ):
            assert found[name].get(key) == one.get(key), (name, key)


def test_a_small_loop_goes_through_every_stage_once_and_tells_it_on_one_page(tmp_path):
    heard = []

    class Ear(Listener):
        def ended(self, done):
            heard.append((done.name, done.again))

    twin, root = load_twin("franka_pick_place"), tmp_path / "cell" / "loop"
    made = run_loop(twin, "standin:ideal", root, TINY, Ear())
    expected = [name for name in STAGES if name not in ("promote", "monitor")]
    assert [name for name in made if name in expected] == expected
    assert made["demonstrate"].found["used"] >= 4
    assert made["gate"].found["decision"] in ("promote", "refuse")
    again = run_loop(twin, "standin:ideal", root, TINY, Ear())
    assert {name: done.content for name, done in again.items()} == {n: d.content for n, d in made.items()}
    assert heard[: len(made)] == [(name, False) for name in made]
    assert heard[len(made) :] == [(name, True) for name in made], "nothing is made twice"
    write_report("a small loop", made, root / "report.html")
    page = (root / "report.html").read_text()
    assert "data:video/webm" in page and "Why the first policy failed" in page
    assert "http://" not in page and "https://" not in page
    if "promote" not in made:
        twinloop(
            "promote",
            str(made["finetune"].folder / SECOND),
            "--override",
            "for the test",
            "--by",
            "ann",
            cwd=root.parent,
        )
    champion = made["finetune"].found["policy"]
    later = run_loop(twin, "standin:ideal", root, replace(TINY, round=2), Ear())
    assert later["pretrain"].found["policy"] == champion == later["gate"].found["champion"]["id"]
    assert (
        later["finetune"].found["name"] == f"{SECOND}-2" and later["excite"].folder != made["excite"].folder
    )
    assert later["simulate"].again, "what does not depend on the round is not made again"
    write_report("a second round", later, root / "report.html")
    assert read_loop_status(root).done == tuple(later)


@pytest.mark.slow
def test_nobody_demonstrates_where_the_calibrated_twin_suffices(tmp_path):
    twin, root = load_twin("franka_pick_place"), tmp_path / "cell" / "loop"
    failing = run_loop(twin, "standin:ideal", root, replace(TINY, tried_first=2))
    assert failing["retry"].found == failing["retry"].found | {"episodes": 1, "success": 0.0}
    assert failing["demonstrate"].found["episodes"] == TINY.demonstrations - TINY.shown
    few = run_loop(twin, "standin:ideal", root, replace(TINY, tried_first=2, demonstrations=TINY.shown + 1))
    assert few["demonstrate"].found["used"] == TINY.shown + 1
    assert few["finetune"].found["policy"] == few["retrain"].found["policy"], "nothing is trained twice"
    assert summary(few["finetune"].found).endswith("as it is, because too few demonstrations can be used")
    root = tmp_path / "another" / "loop"
    made = run_loop(twin, "standin:ideal", root, replace(SMALL, tried_first=2, gate_trials=2, deployed=2))
    assert made["retry"].found["episodes"] == 2 and made["retry"].found["success"] == 1.0
    assert made["demonstrate"].found["episodes"] == 0 and made["demonstrate"].found["used"] == SMALL.shown
    assert made["finetune"].found["policy"] == made["retrain"].found["policy"]
    assert made["finetune"].found["recipe"] == "sim-only"
    assert summary(made["finetune"].found).endswith("as it is, because it never failed")
    write_report("nobody demonstrates", made, root / "report.html")
    assert "retry" in read_loop_status(root).done


def test_a_later_round_needs_a_champion(tmp_path):
    with pytest.raises(GateError, match="round 2 begins with a champion"):
        take_over(tmp_path, print, root=tmp_path, number=2)
