"""Apply an exported randomization to an MJX model, and print the fields it wrote and what it drew.

write_fields.py MODEL.xml RANDOMIZATION.py VALUES.json
"""

import importlib.util
import json
import sys
from pathlib import Path

import jax
import mujoco
import mujoco_playground  # noqa: F401
import numpy as np
from mujoco import mjx

jax.config.update("jax_enable_x64", True)


def main(model_file: str, code: str, values_file: str) -> None:
    spec = importlib.util.spec_from_file_location("randomization", code)
    randomization = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(randomization)
    model = mujoco.MjModel.from_xml_path(model_file)
    model.geom_contype[:], model.geom_conaffinity[:] = 0, 0  # MJX has no contact of a cylinder with a box
    on_device = mjx.put_model(model)
    randomize = randomization.make_randomizer(model)
    values = {name: jax.numpy.array(v) for name, v in json.loads(Path(values_file).read_text()).items()}
    written, _ = randomize.write(on_device, values)
    drawn, axes = randomize(on_device, jax.random.split(jax.random.PRNGKey(1), 256))
    field = next(name for name in randomization.FIELDS if not name.startswith("opt."))
    batched = jax.vmap(lambda m: getattr(m, field).sum(), in_axes=[axes])(drawn)

    def fields(found) -> dict:
        return {name: np.array(_get(found, name)).tolist() for name in randomization.FIELDS}

    print(json.dumps({"written": fields(written), "drawn": fields(drawn), "batched": len(batched)}))


def _get(model, name: str):
    return getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
