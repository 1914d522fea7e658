"""Twinloop: take a robot policy from simulation to reality and keep it there.

Names are resolved on first use, so that `import twinloop` stays instant and heavy libraries load only when needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twinloop.version import __version__ as __version__

if TYPE_CHECKING:
    from twinloop.coverage.result import Coverage as Coverage
    from twinloop.coverage.run import coverage as coverage
    from twinloop.dataset.query import query as query
    from twinloop.dataset.reader import Dataset as Dataset
    from twinloop.dataset.reader import open_dataset as open_dataset
    from twinloop.dataset.rewrite import merge as merge
    from twinloop.dataset.rewrite import split as split
    from twinloop.dataset.writer import append_to as append_to
    from twinloop.dataset.writer import make_dataset as make_dataset
    from twinloop.diagnose.result import Diagnosis as Diagnosis
    from twinloop.diagnose.run import diagnose as diagnose
    from twinloop.episode import Camera as Camera
    from twinloop.episode import Episode as Episode
    from twinloop.episode import Event as Event
    from twinloop.episode import Provenance as Provenance
    from twinloop.episode import Schema as Schema
    from twinloop.episode import Signal as Signal
    from twinloop.episode import make_episode as make_episode
    from twinloop.errors import TwinloopError as TwinloopError
    from twinloop.gap.ranking import rank_policies as rank_policies
    from twinloop.gap.result import Gap as Gap
    from twinloop.gap.run import measure_gap as measure_gap
    from twinloop.gate.registry import PolicyRegistry as PolicyRegistry
    from twinloop.gate.run import gate as gate
    from twinloop.gate.verdict import Verdict as Verdict
    from twinloop.generate.film import record_video as record_video
    from twinloop.generate.open_loop import replay_actions as replay_actions
    from twinloop.generate.replay import replay as replay
    from twinloop.generate.run import generate as generate
    from twinloop.identify.design import design_excitation as design_excitation
    from twinloop.identify.drift import watch_drift as watch_drift
    from twinloop.identify.result import Identification as Identification
    from twinloop.identify.run import identify as identify
    from twinloop.learn.config import TrainConfig as TrainConfig
    from twinloop.learn.evaluate import Evaluation as Evaluation
    from twinloop.learn.evaluate import evaluate_in_twin as evaluate_in_twin
    from twinloop.learn.evaluate import evaluate_on_robot as evaluate_on_robot
    from twinloop.learn.mix import choose_mix as choose_mix
    from twinloop.learn.policy import Policy as Policy
    from twinloop.learn.policy import load_policy as load_policy
    from twinloop.learn.train import train as train
    from twinloop.logs.ingest import ingest as ingest
    from twinloop.logs.log_map import load_map as load_map
    from twinloop.logs.propose import propose_map as propose_map
    from twinloop.monitor.run import monitor as monitor
    from twinloop.plan.items import Plan as Plan
    from twinloop.plan.run import plan as plan
    from twinloop.randomize import Randomization as Randomization
    from twinloop.randomize import default_randomization as default_randomization
    from twinloop.randomize import load_randomization as load_randomization
    from twinloop.twin import Parameter as Parameter
    from twinloop.twin import Twin as Twin
    from twinloop.twin import load_twin as load_twin
    from twinloop.twin import make_twin_from_model as make_twin_from_model

_NAMES = {
    "twinloop.coverage.result": ["Coverage"],
    "twinloop.coverage.run": ["coverage"],
    "twinloop.dataset.query": ["query"],
    "twinloop.dataset.reader": ["Dataset", "open_dataset"],
    "twinloop.dataset.rewrite": ["merge", "split"],
    "twinloop.dataset.writer": ["append_to", "make_dataset"],
    "twinloop.diagnose.result": ["Diagnosis"],
    "twinloop.diagnose.run": ["diagnose"],
    "twinloop.episode": [
        "Camera",
        "Episode",
        "Event",
        "Provenance",
        "Schema",
        "Signal",
        "make_episode",
    ],
    "twinloop.errors": ["TwinloopError"],
    "twinloop.gap.ranking": ["rank_policies"],
    "twinloop.gap.result": ["Gap"],
    "twinloop.gap.run": ["measure_gap"],
    "twinloop.gate.registry": ["PolicyRegistry"],
    "twinloop.gate.run": ["gate"],
    "twinloop.gate.verdict": ["Verdict"],
    "twinloop.generate.film": ["record_video"],
    "twinloop.generate.open_loop": ["replay_actions"],
    "twinloop.generate.replay": ["replay"],
    "twinloop.generate.run": ["generate"],
    "twinloop.identify.design": ["design_excitation"],
    "twinloop.identify.drift": ["watch_drift"],
    "twinloop.identify.result": ["Identification"],
    "twinloop.identify.run": ["identify"],
    "twinloop.learn.config": ["TrainConfig"],
    "twinloop.learn.evaluate": ["Evaluation", "evaluate_in_twin", "evaluate_on_robot"],
    "twinloop.learn.mix": ["choose_mix"],
    "twinloop.learn.policy": ["Policy", "load_policy"],
    "twinloop.learn.train": ["train"],
    "twinloop.logs.ingest": ["ingest"],
    "twinloop.logs.log_map": ["load_map"],
    "twinloop.logs.propose": ["propose_map"],
    "twinloop.plan.items": ["Plan"],
    "twinloop.plan.run": ["plan"],
    "twinloop.monitor.run": ["monitor"],
    "twinloop.randomize": ["Randomization", "default_randomization", "load_randomization"],
    "twinloop.twin": ["Parameter", "Twin", "load_twin", "make_twin_from_model"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
