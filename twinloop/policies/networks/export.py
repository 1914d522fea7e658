"""Policies for other run-times: one ONNX file with scaling inside, from raw readings to raw commands."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

from twinloop.durable import replace_durably
from twinloop.errors import MissingExtra, WrongUse
from twinloop.policies.networks.network import torch
from twinloop.policies.networks.policy import Policy


def export_onnx(policy: Policy, path: str | Path) -> Path:
    """Write a policy as ONNX. Inputs: observation (B, H, D), domain (B, 1), noise (B, chunk, A), and images
    (B, cameras, height, width, 3) uint8 of a policy with cameras; output: actions.

    The order of the numbers, the history and how chunks are carried out are in the file's metadata, as in policy.json.
    """
    try:
        import onnx
    except ImportError as error:  # pragma: no cover - the tests install it
        raise MissingExtra("exporting to ONNX", "onnx", "learn") from error
    target = Path(path)
    if target.is_dir():
        raise WrongUse(
            "an ONNX policy is a file", got=f"the folder {target}", remedy=f"--out {target}/policy.onnx"
        )
    shape = policy.network.shape
    example: tuple[torch.Tensor, ...] = (
        torch.zeros(2, shape.history, shape.observation),
        torch.zeros(2, 1),
        torch.zeros(2, shape.chunk, shape.action),
    )
    names = ["observation", "domain", "noise"]
    if shape.images is not None:
        size = (2, shape.images.cameras, shape.images.height, shape.images.width, 3)
        example = (*example, torch.zeros(size, dtype=torch.uint8))
        names.append("images")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with warnings.catch_warnings():
            # torch's other exporter needs one more package; this one is enough for layers as plain as ours.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                policy.network,
                example,
                str(temporary),
                input_names=names,
                output_names=["actions"],
                dynamic_axes={name: {0: "batch"} for name in (*names, "actions")},
                opset_version=17,
                dynamo=False,
            )
        model = onnx.load(str(temporary))
        about = {
            "policy_id": policy.id,
            "interface": policy.interface.as_json(),
            "history": policy.execution.history,
            "n_action_steps": policy.execution.n_action_steps,
            "inference_delay_steps": policy.execution.inference_delay_steps,
            "domains": policy.domains,
        }
        for key, value in about.items():
            model.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
        onnx.checker.check_model(model)
        onnx.save(model, str(temporary))
        replace_durably(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target
