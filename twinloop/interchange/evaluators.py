"""A twin as what other people's evaluators take: a LeRobot environment package, or a config of vla-eval.

Both hold the twin itself as a folder, so that they go on meaning the same when the workspace moves on. Twinloop must be
installed where they are used.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template

import yaml

from twinloop.environments.settings import Settings, make_settings
from twinloop.interchange.export import EXPORTS, ExportRequest
from twinloop.interchange.plan import LeftOut
from twinloop.twins import Twin, save_twin

TEMPLATES = Path(__file__).parent / "templates"
TWIN, SCENES = "twin", "randomization.yaml"


@EXPORTS.register("lerobot-env")
def write_lerobot_env(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
    """A package for `lerobot-eval`."""
    _write_lerobot(_settings(request), folder)
    return ()


@EXPORTS.register("vla-eval")
def write_vla_eval(request: ExportRequest, folder: Path) -> tuple[LeftOut, ...]:
    """A config for `vla-eval run`."""
    _write_vla_eval(_settings(request), folder, request.out)
    return ()


def _settings(request: ExportRequest) -> Settings:
    return make_settings(request.twin, randomization=request.config, cameras=request.cameras)


def package_name(twin: Twin) -> str:
    """The name of a twin's LeRobot package: `lerobot_env_` and the twin's name as an identifier."""
    word = re.sub(r"\W", "_", twin.name.lower())
    return f"lerobot_env_{word}" if not keyword.iskeyword(word) else f"lerobot_env_{word}_"


def _write_lerobot(settings: Settings, folder: Path) -> None:
    twin = settings.cell.twin
    package = package_name(twin)
    inside = folder / package
    inside.mkdir()
    _write_contents(settings, inside)
    schema = settings.schema
    sizes = {signal.name: signal.size for signal in schema.signals}
    facts = {
        "package": package,
        "type": package.removeprefix("lerobot_env_"),
        "twin": repr(twin.name),
        "description": repr(settings.task.text),
        "fps": round(twin.control_hz),
        "steps": settings.steps - 1,
        "action": sizes["action"],
        "state": sizes["observation.state"],
        "environment_state": sizes.get("observation.environment_state", 0),
        "cameras": repr({camera.name: (camera.height, camera.width, 3) for camera in schema.cameras}),
    }
    for template, target in (
        ("lerobot_env.py.txt", inside / "__init__.py"),
        ("pyproject.txt", folder / "pyproject.toml"),
    ):
        target.write_text(Template((TEMPLATES / template).read_text()).substitute(facts))


def _write_vla_eval(settings: Settings, folder: Path, final: Path) -> None:
    _write_contents(settings, folder)
    place = final.resolve()
    entry = {
        "benchmark": "twinloop.environments.vla_eval:TwinBenchmark",
        "name": settings.cell.twin.name,
        "episodes_per_task": 50,
        "max_steps": settings.steps - 1,
        "params": {
            "twin": str(place / TWIN),
            "cameras": list(settings.cameras),
            "seed": 0,
            "settings": {"randomization": str(place / SCENES)},
        },
    }
    config = {
        "server": {"url": "ws://127.0.0.1:8000"},
        "output_dir": "results",
        "render": "cpu",
        "benchmarks": [entry],
    }
    (folder / "vla_eval.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def _write_contents(settings: Settings, folder: Path) -> None:
    """The twin, and what varies in it."""
    save_twin(settings.cell.twin, folder / TWIN)
    (folder / SCENES).write_text(settings.randomization.to_yaml())
