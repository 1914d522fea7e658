"""Policies as files: what is written is what is read, and nothing else is accepted."""

import json
import shutil

import numpy as np
import pytest
import torch

from tests.learning.examples import TINY, point
from twinloop.consent.policies import find_policies_trained_on
from twinloop.errors import LearnError, NewerFormat, WrongUse
from twinloop.learning.train import train
from twinloop.policies.networks.export import export_onnx
from twinloop.policies.networks.policy import load_policy


@pytest.fixture
def folder(tiny_policy, tmp_path):
    return tiny_policy.save(tmp_path / "policies" / "tiny")


def observations(policy, count=3):
    shape = (count, policy.network.shape.history, policy.interface.observation_size)
    return np.random.default_rng(4).normal(0.2, 0.4, shape).astype(np.float32)


def rewrite(folder, change):
    words = json.loads((folder / "policy.json").read_text())
    change(words)
    (folder / "policy.json").write_text(json.dumps(words))


def test_a_policy_that_was_saved_and_loaded_acts_the_same(tiny_policy, folder):
    again = load_policy(folder)
    seen = observations(again)
    assert np.array_equal(again.predict(seen), tiny_policy.predict(seen)) and again.id == tiny_policy.id
    assert again.interface == tiny_policy.interface and again.execution == tiny_policy.execution
    assert again.training_record.twin["name"] == "franka_pick_place"
    assert {path.name for path in folder.iterdir()} == {"policy.json", "weights.safetensors"}


def test_what_is_predicted_does_not_depend_on_how_many_threads_there_are(tiny_policy):
    seen = observations(tiny_policy, 400)
    alone = tiny_policy.predict(seen)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert np.array_equal(tiny_policy.predict(seen), alone)
        assert torch.get_num_threads() == 2, "and it is left as it was"
    finally:
        torch.set_num_threads(before)


def test_damaged_and_foreign_policies_are_refused_with_the_reason(folder, tmp_path):
    with pytest.raises(WrongUse, match="is no policy"):
        load_policy(tmp_path)

    def copy_with(change):
        made = tmp_path / "copy"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(folder, made)
        rewrite(made, lambda w: (w.pop("check"), change(w)))  # as from before there was a check sum
        return made

    with pytest.raises(LearnError, match=r"normalisation of .* does not fit it: observation_mean"):
        load_policy(copy_with(lambda w: w["normalisation"]["observation_mean"].pop()))
    with pytest.raises(LearnError, match="was changed since it was trained"):
        load_policy(copy_with(lambda w: w["normalisation"]["observation_mean"].__setitem__(0, 7.0)))
    with pytest.raises(LearnError, match=r"weights\.safetensors does not fit the network"):
        load_policy(copy_with(lambda w: w["network"].update(width=17)))
    with pytest.raises(LearnError, match=r"policy\.json cannot be read"):
        load_policy(copy_with(lambda w: w.pop("interface")))
    with pytest.raises(NewerFormat):
        load_policy(copy_with(lambda w: w.update(format=99)))
    for change in (
        lambda w: w.pop("id"),
        lambda w: w.update(twin=None),
        lambda w: w["twin"].pop("version"),
        lambda w: w.update(datasets=[{}]),
        lambda w: w["results"].update(curve=[{}]),
        lambda w: w["network"].update(width=-1),
        lambda w: w["network"].update(width="64"),
        lambda w: w["network"].update(depth=2.5),
    ):
        with pytest.raises(LearnError, match=r"cannot be read|does not fit"):
            load_policy(copy_with(change))
    whole = copy_with(lambda w: None)
    weights = (whole / "weights.safetensors").read_bytes()
    (whole / "weights.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(LearnError, match=r"weights\.safetensors cannot be read"):
        load_policy(whole)


def test_every_change_of_the_words_is_noticed(folder, tmp_path):
    for number, change in enumerate(
        (
            lambda w: w.update(domains=["sim", "real"]),
            lambda w: w["datasets"][0].update(name="another"),
            lambda w: w["results"].update(validation=0.0),
        )
    ):
        made = tmp_path / str(number)
        shutil.copytree(folder, made)
        rewrite(made, change)
        with pytest.raises(LearnError, match=r"policy\.json was changed since it was written"):
            load_policy(made)


def test_a_policy_can_be_carried_out_for_late_hardware(tiny_policy):
    late = tiny_policy.for_latency(0.06)
    assert late.execution.latency_steps == 3 and late.id != tiny_policy.id
    with pytest.raises(WrongUse, match="expected 0 to 60 ms"):
        tiny_policy.for_latency(0.2)


def test_a_withdrawn_consent_finds_the_policy(tmp_path):
    data = point(tmp_path / "data")
    from dataclasses import replace

    train(real=data, out=tmp_path / "policies" / "p", config=replace(TINY, recipe="real-only"))
    found = find_policies_trained_on(tmp_path, [(data.id, {data.episode(3).id})])
    assert [(policy.name, policy.certain) for policy in found] == [("p", True)]
    assert find_policies_trained_on(tmp_path, [(data.id, {"another"})]) == []


@pytest.mark.parametrize("head", ["regression", "transformer", "flow"])
def test_the_exported_policy_computes_the_same(panda_data, tmp_path, head):
    onnxruntime = pytest.importorskip("onnxruntime")
    from dataclasses import replace

    policy = train(panda_data, out=tmp_path / "p", config=replace(TINY, head=head, steps=5))
    path = export_onnx(policy, tmp_path / "p.onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for count in (1, 5):
        seen = observations(policy, count)
        noise = np.random.default_rng(5).normal(size=(count, policy.chunk, 8)).astype(np.float32)
        inputs = {"observation": seen, "domain": np.zeros((count, 1), np.float32), "noise": noise}
        known = {i.name for i in session.get_inputs()}
        got = session.run(None, {name: v for name, v in inputs.items() if name in known})[0]
        assert np.allclose(got, policy.predict(seen, noise=noise), atol=1e-4)
    about = session.get_modelmeta().custom_metadata_map
    assert about["policy_id"] == policy.id and json.loads(about["interface"])["rate_hz"] == 50.0
