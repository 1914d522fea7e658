"""Fit the double pendulum with mujoco.sysid; runs in a virtualenv of its own: python fit.py PROBLEM.npz OUT.json"""

import json
import sys
import time
from pathlib import Path

import mujoco
import numpy as np
from mujoco import sysid

LINK = {"mass_kg": "mass", "inertia_kgm2": "inertia"}
JOINT = {"damping_nms_rad": "damping", "friction_nm": "frictionloss", "armature_kgm2": "armature"}


def write(spec, parameter):
    """Put a parameter's value where its name says."""
    part, quantity = parameter.name.split("_", 1)
    value = float(parameter.value[0])
    if quantity in LINK:
        body = spec.body(part)
        setattr(body, LINK[quantity], [value] * 3 if quantity == "inertia_kgm2" else value)
        return
    joint = spec.joint(part)
    current = getattr(joint, JOINT[quantity])
    if np.ndim(current):
        current[0] = value
    else:
        setattr(joint, JOINT[quantity], value)


def main():
    """Read windows, fit, write values and seconds of processor time."""
    problem = np.load(sys.argv[1], allow_pickle=False)
    spec = mujoco.MjSpec.from_string(str(problem["xml"]))
    model = spec.compile()
    parameters = sysid.ParameterDict()
    for name, nominal, low, high in zip(
        *(problem[key] for key in ("names", "nominal", "low", "high")), strict=True
    ):
        parameters.add(sysid.Parameter(str(name), nominal, low, high, modifier=write))
    began = time.process_time()
    starts, controls, readings = [], [], []
    for qpos, qvel, control, stamps, reading in zip(
        *(problem[key] for key in ("qpos", "qvel", "controls", "stamps", "readings")), strict=True
    ):
        starts.append(sysid.create_initial_state(model, qpos, qvel))
        times = np.arange(len(control)) * model.opt.timestep
        controls.append(sysid.TimeSeries.from_control_names(times, control, model))
        readings.append(sysid.TimeSeries.from_names(stamps, reading, model))
    names = [f"window {index}" for index in range(len(starts))]
    sequences = sysid.ModelSequences("double_pendulum", spec, names, starts, controls, readings)
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    found, _ = sysid.optimize(parameters, residual, optimizer="mujoco", verbose=False, x_scale="jac")
    seconds = time.process_time() - began
    values = {str(name): float(found[str(name)].value[0]) for name in problem["names"]}
    Path(sys.argv[2]).write_text(json.dumps({"seconds": seconds, "values": values}))


if __name__ == "__main__":
    main()
