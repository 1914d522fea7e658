"""The loop: where it stands, the whole of it on a stand-in in three ways with the same result, and killed on the way."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import twinloop as tl
from tests.terminal import run_command, twinloop, twinloop_json
from twinloop.demo import SMALL
from twinloop.errors import GateError, UnknownName
from twinloop.loop import ADAPTED, NOMINAL, run_loop
from twinloop.loop_status import SETTINGS, STAGES, LoopConfig, read_loop_status
from twinloop.promotion.evidence import load_evidence
from twinloop.promotion.verdict import load_verdict
from twinloop.records import hash_of
from twinloop.report.loop_page import write_loop_page
from twinloop.report.summary import summarize
from twinloop.stages import Stages
from twinloop.twins import load_twin
from twinloop.workflows import take_champion

ROOT = Path(__file__).parent.parent

TINY = LoopConfig(
    sim_episodes=12,
    anchored_episodes=12,
    train_steps=20,
    finetune_steps=20,
    n_sim_trials=4,
    horizon_episodes=2,
    n_trials=3,
    excitation_runs=4,
    excitation_s=3.0,
    identification_s=3.0,
    n_demonstrations=3,
    n_retrials=1,
    max_demonstrations=5,
    diagnosis_budget=64,
    gate_scenes=8,
    gate_trials=2,
    deployed_episodes=2,
)


def begun(root, *finished, verdict=None):
    """A folder in which some stages are done."""
    stages = Stages(root)
    for name in finished:

        def make(out, on_progress, name=name):
            if name.startswith("gate") and verdict is not None:
                verdict.save(out)
            return 1

        stages.run(name, make, lambda out: 1)
    asked = {"twin": "t", "robot": "standin:mild", "config": {}}
    (root / SETTINGS).write_text(json.dumps(asked))
    return read_loop_status(root)


def test_the_next_stage_comes_with_its_reason(tmp_path):
    assert read_loop_status(tmp_path / "nothing") is None
    status = begun(tmp_path, "generate", "train", "evaluate-sim")
    assert (status.done[-1], status.next_stage) == ("evaluate-sim", "evaluate")
    assert status.next_step == "twinloop loop --robot standin:mild" and "robot" in status.reason


def until(name):
    return [stage for stage in list(STAGES)[: list(STAGES).index(name) + 1] if stage != "gate-first"]


def test_a_policy_from_the_calibrated_twin_alone_is_two_more_stages(tmp_path):
    usual = begun(tmp_path, *until("regenerate"))
    assert usual.next_stage == "retrain" and usual.next_step.endswith("--robot standin:mild")
    config = {"config": {"n_retrials": 0}, "twin": "t", "robot": "standin:mild"}
    (tmp_path / SETTINGS).write_text(json.dumps(config))
    found = read_loop_status(tmp_path)
    assert found.next_stage == "finetune" and found.next_step.endswith("--robot standin:mild --retrials 0")


def test_the_command_that_resumes_a_loop_names_its_sizes(tmp_path):
    begun(tmp_path, "generate")
    config = {"n_trials": 5, "gate_trials": 30, "operator": "ann's"}
    (tmp_path / SETTINGS).write_text(json.dumps({"config": config, "twin": "t", "robot": "standin:mild"}))
    words = shlex.split(read_loop_status(tmp_path).next_step)
    assert words[2:] == ["--robot", "standin:mild", "--trials", "5", "--set", "operator=ann's", "--set", "gate_trials=30"]  # fmt: skip


def test_a_gate_that_refuses_ends_the_loop_and_says_why(tmp_path, verdict):
    status = begun(tmp_path, *until("gate"), verdict=verdict("refuse", "no better than the champion"))
    assert status.next_stage is None and "no better than the champion" in status.reason
    assert status.next_step.endswith("--retrials 0 --demonstrations N"), "retrials were not enough"
    through = begun(tmp_path / "more", *until("gate"), verdict=verdict("promote", "better"))
    assert through.next_stage == "video"
    first = begun(
        tmp_path / "first", *until("identify"), "gate-first", verdict=verdict("promote", "it works")
    )
    assert first.next_stage == "promote", "a first policy that passes needs nothing else"


@pytest.fixture
def verdict():
    from tests.promotion.test_verdict import campaign
    from tests.promotion.test_verdict import verdict as decide

    def make(decision, reason):
        return replace(decide(campaign(0.9, 0.5, 30)), decision=decision, reasons=(reason,))

    return make


def test_the_status_of_a_workspace_shows_its_loop(tmp_path):
    twinloop("init", "cell", "--twin", "servo_pendulum", cwd=tmp_path)
    begun(tmp_path / "cell/loop", "generate")
    status = twinloop_json("status", cwd=tmp_path / "cell")
    assert status["loop"]["done"] == ["generate"] and status["loop"]["next_stage"] == "train"
    assert "loop: generate done" in twinloop("status", cwd=tmp_path / "cell")


def test_a_loop_stops_after_the_stage_that_was_asked_for_and_resumes_there(tmp_path):
    twinloop("init", "cell", "--twin", "franka_pick_place", cwd=tmp_path)
    asked = ("loop", "--robot", "standin:ideal", "--sim-episodes", "8", "--set", "train_steps=20")
    printed = twinloop(*asked, "--until", "generate", cwd=tmp_path / "cell")
    assert "stopped after generate" in printed and "without --until" in printed
    found = twinloop_json(*asked, "--until", "train", cwd=tmp_path / "cell")
    assert list(found["stages"]) == ["generate", "train"]
    generated = [folder.name for folder in (tmp_path / "cell/loop").glob("generate-*")]
    assert [Path(found["stages"]["generate"]["folder"]).name] == generated, "made once"
    status = read_loop_status(tmp_path / "cell/loop")
    assert status.next_stage == "evaluate-sim" and "--until" not in status.next_step


def test_a_loop_cannot_stop_at_a_stage_that_it_does_not_have(tmp_path):
    twin = load_twin("franka_pick_place")
    with pytest.raises(UnknownName, match=r"plann.*plan"):
        run_loop(twin, "standin:ideal", tmp_path, until="plann")
    with pytest.raises(UnknownName, match="reevaluate"):
        run_loop(twin, "standin:ideal", tmp_path, replace(TINY, n_retrials=0), until="reevaluate")


def test_a_loop_through_cameras_names_them_where_it_resumes(tmp_path):
    begun(tmp_path)
    asked = {
        "config": {"cameras": ["wrist", "front"]},
        "twin": "t",
        "robot": "standin:mild",
        "with_scenes": True,
    }
    (tmp_path / SETTINGS).write_text(json.dumps(asked))
    step = "twinloop loop --robot standin:mild --cameras wrist,front --scenes CONFIG"
    assert read_loop_status(tmp_path).next_step == step
    with pytest.raises(UnknownName, match=r"camera of twin franka_pick_place.*wist.*wrist"):
        config = replace(TINY, cameras=("wist",))
        run_loop(load_twin("franka_pick_place"), "standin:ideal", tmp_path, config)


@pytest.mark.slow
def test_a_loop_through_cameras_closes_without_an_object_tracker(tmp_path):
    (tmp_path / "untracked.yaml").write_text("twin: franka_reach\ntracks_objects: false\n")
    config = replace(TINY, cameras=("front",), n_retrials=0)
    robot = f"standin:{tmp_path / 'untracked.yaml'}"
    result = run_loop(load_twin("franka_reach"), robot, tmp_path / "loop", config)
    reached = {stage.name for stage in result.stages}
    assert {"evaluate", "excite", "align", "identify", "diagnose", "anchor", "finetune", "gate"} <= reached
    (alignment,) = result.align
    assert alignment.camera == "front" and result.identify.base == alignment.twin.content_hash
    recorded = (result.generate, result.excite, result.demonstrate, result.regenerate)
    assert all([camera.name for camera in data.schema.cameras] == ["front"] for data in recorded)
    assert [camera.name for camera in result.finetune.interface.cameras] == ["front"]
    assert {signal.name for signal in result.finetune.interface.observations}.isdisjoint(
        {"observation.environment_state"}
    )
    assert result.verdict.decision == "refuse" and len(result.evidence.simulated) == config.gate_scenes


def test_wrong_use_of_the_loop_is_refused(tmp_path):
    robot = ("loop", "--robot", "standin:ideal")
    assert "no twin is named" in twinloop(*robot, cwd=tmp_path, code=2)
    named = (*robot, "--twin", "franka_pick_place")
    assert "not a workspace" in twinloop(*named, cwd=tmp_path, code=2)
    assert "scenes.yaml" in twinloop(*named, "--out", "x", "--scenes", "scenes.yaml", cwd=tmp_path, code=2)
    assert "gate_trials" in twinloop(*named, "--out", "x", "--set", "gate_trails=3", cwd=tmp_path, code=2)
    assert "gate_trials cannot be this" in twinloop(
        *named, "--out", "x", "--set", "gate_trials=many", cwd=tmp_path, code=2
    )


def test_a_later_round_needs_a_champion(tmp_path):
    with pytest.raises(GateError, match="round 2 begins with a champion"):
        take_champion(tmp_path, print, workspace=tmp_path, round_number=2)


SIZES = {
    "--episodes 400": "--episodes 12",
    "--steps 2000": "--steps 20",
    "--episodes 200": "--episodes 4",
    "--episodes 20 --out data/runs": "--episodes 3 --out data/runs",
    "--episodes 6 --seconds 6": "--episodes 4 --seconds 3",
    "--seconds 18": "--seconds 3",
    "--episodes 4 --seconds 15": "--episodes 3 --seconds 15",
    "--budget 800": "--budget 64",
    "--episodes 600": "--episodes 12",
    "--steps 3000": "--steps 20",
    "--episodes 60 ": "--episodes 2 ",
    "--episodes 10 --seed 180": "--episodes 1 --seed 180",
    "--episodes 16 --seconds 15 --first 124": "--episodes 2 --seconds 15 --first 123",
    "--scenes 120 --max-trials 90": "--scenes 8 --max-trials 2",
}
"""The commands of docs/how-to/loop.md in the sizes of TINY."""

PYTHON_SIZES = {
    "episodes=400": "episodes=12",
    "steps=2000": "steps=20",
    "episodes=20": "episodes=3",
    "RecordingSpec(6, 6.0": "RecordingSpec(4, 3.0",
    "signals, 6.0)": "signals, 3.0)",
    "seconds=18": "seconds=3",
    "RecordingSpec(4, 15.0": "RecordingSpec(3, 15.0",
    "budget=800": "budget=64",
    '"episodes": 600': '"episodes": 12',
    "steps=3000": "steps=20",
    "episodes=60": "episodes=2",
    "scenes=120": "scenes=8",
    "max_trials=90": "max_trials=2",
}
"""The Python of the README in the sizes of TINY."""


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def resized(text, sizes):
    for large, small in sizes.items():
        assert large in text, f"nothing says {large!r} any more"
        text = text.replace(large, small)
    return text


def run_commands(folder):
    """Every command of the page, up to the gate, whatever it exits with; later ones need a gate that promotes."""
    script = resized("\n".join(blocks("docs/how-to/loop.md", "bash")), SIZES).replace("\\\n", " ")
    lines = [line for line in script.splitlines() if line.strip()]
    for line in lines:
        arguments = shlex.split(
            line.replace("twinloop init cell --twin franka_pick_place && cd cell", "true")
        )
        if arguments[0] == "twinloop" and arguments[1] not in ("promote", "monitor"):
            if arguments[1] == "record" and "champion" in arguments:
                continue
            code, out, err = run_command(*arguments[1:], cwd=folder)
            assert code in (0, 1) and "Traceback" not in out + err, f"{line}\n{out}\n{err}"


def same(value):
    return hash_of([list(map(float, values.ravel())) for values in value])


def contents(datasets):
    """The numbers of every episode; ids tell when an episode was recorded."""
    return {
        name: hash_of([same(e.signals.values()) for e in tl.open_dataset(place)])
        for name, place in datasets.items()
    }


def trials(folder):
    evidence = load_evidence(folder / "evidence.json")
    return [asdict(trial) for trial in (*evidence.simulated, *evidence.real)]


@pytest.mark.slow
def test_loop_commands_and_python_end_with_the_same_twin_datasets_policies_and_verdict(tmp_path, monkeypatch):
    robot, twin = "standin:remote", load_twin("franka_pick_place")
    result = run_loop(twin, robot, tmp_path / "loop" / "loop", TINY)
    assert result.identify.gate.accepted and result.finetune.name == ADAPTED and result.train.name == NOMINAL

    twinloop("init", "cell", "--twin", "franka_pick_place", cwd=tmp_path)
    cell = tmp_path / "cell"
    run_commands(cell)
    stage = {
        name: result.stage(name).folder / "data"
        for name in ("generate", "excite", "demonstrate", "regenerate")
    }
    stage |= {
        "evaluate": result.stage("evaluate").folder / "runs",
        "select": result.stage("select").folder / "data",
    }
    made = ("sim", "excitation", "demonstrations", "anchored", "runs", "usable")
    by_hand = {name: cell / "data" / folder for name, folder in zip(stage, made, strict=True)}
    assert contents(by_hand) == contents(stage)
    assert tl.load_twin(cell / "twins/calibrated").content_hash == result.identify.twin.content_hash
    policies = [tl.load_policy(cell / "policies" / name).id for name in ("nominal", "alone", "adapted")]
    assert policies == [result.train.id, result.retrain.id, result.finetune.id]
    gate = result.stage("gate").folder
    assert trials(cell / "gate") == trials(gate)
    assert load_verdict(cell / "gate").decision == result.gate.decision

    (tmp_path / "script").mkdir()
    monkeypatch.chdir(tmp_path / "script")
    (script,) = (block for block in blocks("README.md", "python") if "tl.anchor(" in block)
    scope = {}
    exec(compile(resized(script, PYTHON_SIZES), "README.md", "exec"), scope)
    assert scope["fit"].twin.content_hash == result.identify.twin.content_hash
    assert [scope["first"].id, scope["second"].id] == [result.train.id, result.retrain.id]
    assert contents({"a": scope["anchored"].root}) == contents({"a": stage["regenerate"]})
    assert scope["verdict"].candidate.id == scope["second"].id

    again = run_loop(twin, robot, tmp_path / "loop" / "loop", TINY)
    assert all(one.cached for one in again.stages), "nothing runs twice"
    assert [one.content_hash for one in again.stages] == [one.content_hash for one in result.stages]
    for page_of in (result, again):
        page = write_loop_page("a small loop", page_of, tmp_path / "report.html").read_text()
        assert "data:video/webm" in page and all(one.name in page for one in result.stages)
        assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    assert all(summarize(one.result) for one in result.stages)

    if result.promote is None:
        override = ("--override", "for the test", "--by", "ann")
        twinloop("promote", str(result.stage("finetune").folder / ADAPTED), *override, cwd=tmp_path / "loop")
    later = run_loop(twin, robot, tmp_path / "loop" / "loop", replace(TINY, round=2), until="excite")
    assert later.train.id == result.finetune.id, "a later round begins with the champion"
    assert later.stage("generate").cached, "what does not depend on the round is not made again"
    assert later.stage("excite").folder != result.stage("excite").folder


@pytest.mark.slow
def test_a_first_policy_that_works_is_gated_first_and_promoted_as_it_is(tmp_path):
    config = replace(SMALL, gate_scenes=40, deployed_episodes=3)
    result = run_loop(load_twin("franka_pick_place"), "standin:ideal", tmp_path / "cell" / "loop", config)
    assert result.evaluate.success_rate >= 0.8
    assert result.gate_first.decision == "promote" and result.promote.policy_id == result.train.id
    assert result.finetune is None and result.stages[-1].name == "monitor"
    write_loop_page("a first policy that works", result, tmp_path / "report.html")


SCRIPT = """
import json, sys
from tests.test_loop import TINY
from twinloop.loop import run_loop
from twinloop.stages import StageListener
from twinloop.twins import load_twin

class Loud(StageListener):
    def on_start(self, name):
        print("begun", name, flush=True)

if __name__ == "__main__":
    result = run_loop(load_twin("franka_pick_place"), "standin:remote", sys.argv[1], TINY, Loud())
    policies = [policy.id for policy in (result.train, result.retrain, result.finetune)]
    trials = [[t.candidate for t in (*result.evidence.simulated, *result.evidence.real)], result.gate.decision]
    found = [result.identify.twin.content_hash, policies, trials]
    print(json.dumps([[stage.name for stage in result.stages], found]), flush=True)
"""


@pytest.mark.slow
def test_a_loop_killed_at_any_stage_goes_on_and_ends_as_one_that_was_not(tmp_path):
    script = tmp_path / "go.py"
    script.write_text(SCRIPT)
    here = {"env": {**os.environ, "PYTHONPATH": str(Path.cwd())}, "text": True}

    def command(place):
        return [sys.executable, str(script), str(tmp_path / place / "loop")]

    whole = subprocess.run(command("whole"), capture_output=True, check=True, **here).stdout
    stages, found = json.loads(whole.splitlines()[-1])
    refused = 0
    for stage in stages:
        with subprocess.Popen(command("cut"), stdout=subprocess.PIPE, **here) as process:
            for line in process.stdout:
                if line.strip() == f"begun {stage}":
                    if stage in ("generate", "gate"):
                        second = subprocess.run(command("cut"), capture_output=True, **here)
                        refused += second.returncode != 0 and "another loop runs" in second.stderr
                    process.send_signal(signal.SIGKILL)
    assert refused == 2, "a second loop is refused while the first runs"
    again = subprocess.run(command("cut"), capture_output=True, check=True, **here).stdout
    assert json.loads(again.splitlines()[-1]) == [stages, found]
