"""Twinloop: take a robot policy from simulation to reality and keep it there.

Names are resolved on first use, so that `import twinloop` stays instant and heavy libraries load only when needed.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from twinloop.version import __version__ as __version__

if TYPE_CHECKING:
    from twinloop.alignment.overlay import write_overlay as write_overlay
    from twinloop.alignment.result import Alignment as Alignment
    from twinloop.alignment.result import load_alignment as load_alignment
    from twinloop.alignment.run import AlignConfig as AlignConfig
    from twinloop.alignment.run import align as align
    from twinloop.anchoring import Anchor as Anchor
    from twinloop.anchoring import anchor as anchor
    from twinloop.anchoring import anchored_randomization as anchored_randomization
    from twinloop.anchoring import load_anchor as load_anchor
    from twinloop.anchoring import measured_values as measured_values
    from twinloop.coverage.map_file import load_coverage_map as load_coverage_map
    from twinloop.coverage.map_file import save_coverage as save_coverage
    from twinloop.coverage.result import Coverage as Coverage
    from twinloop.coverage.result import load_coverage as load_coverage
    from twinloop.coverage.run import measure_coverage as measure_coverage
    from twinloop.datasets.merge import merge as merge
    from twinloop.datasets.query import query as query
    from twinloop.datasets.reader import Dataset as Dataset
    from twinloop.datasets.reader import open_dataset as open_dataset
    from twinloop.datasets.split import split as split
    from twinloop.datasets.writer import append_to as append_to
    from twinloop.datasets.writer import make_dataset as make_dataset
    from twinloop.diagnosis.result import Diagnosis as Diagnosis
    from twinloop.diagnosis.result import load_diagnosis as load_diagnosis
    from twinloop.diagnosis.run import diagnose as diagnose
    from twinloop.engines.geometry import Geometry as Geometry
    from twinloop.engines.geometry import read_geometry as read_geometry
    from twinloop.engines.model_check import ModelFinding as ModelFinding
    from twinloop.engines.model_check import check_model as check_model
    from twinloop.episode import Camera as Camera
    from twinloop.episode import Episode as Episode
    from twinloop.episode import Event as Event
    from twinloop.episode import Outcome as Outcome
    from twinloop.episode import Provenance as Provenance
    from twinloop.episode import Schema as Schema
    from twinloop.episode import Signal as Signal
    from twinloop.episode import make_episode as make_episode
    from twinloop.errors import RobotError as RobotError
    from twinloop.errors import RobotGone as RobotGone
    from twinloop.errors import TwinloopError as TwinloopError
    from twinloop.evaluation.horizon import find_execution_horizon as find_execution_horizon
    from twinloop.evaluation.result import Evaluation as Evaluation
    from twinloop.evaluation.result import compare as compare
    from twinloop.evaluation.result import load_evaluation as load_evaluation
    from twinloop.evaluation.robot import RobotEnvironment as RobotEnvironment
    from twinloop.evaluation.run import evaluate as evaluate
    from twinloop.evaluation.run import evaluate_in_turns as evaluate_in_turns
    from twinloop.evaluation.twin import TwinEnvironment as TwinEnvironment
    from twinloop.experts import EXPERTS as EXPERTS
    from twinloop.experts import Reading as Reading
    from twinloop.experts import load_motion as load_motion
    from twinloop.gap.ranking import Rated as Rated
    from twinloop.gap.ranking import rank_policies as rank_policies
    from twinloop.gap.result import Gap as Gap
    from twinloop.gap.result import load_gap as load_gap
    from twinloop.gap.run import measure_gap as measure_gap
    from twinloop.generation.motion import MotionPair as MotionPair
    from twinloop.generation.motion import compare_motion as compare_motion
    from twinloop.generation.open_loop import replay_actions as replay_actions
    from twinloop.generation.replay import replay as replay
    from twinloop.generation.run import generate as generate
    from twinloop.generation.videos import record_video as record_video
    from twinloop.identification.config import IdentifyConfig as IdentifyConfig
    from twinloop.identification.design import design_excitation as design_excitation
    from twinloop.identification.drift import watch_drift as watch_drift
    from twinloop.identification.result import Identification as Identification
    from twinloop.identification.result import load_identification as load_identification
    from twinloop.identification.run import identify as identify
    from twinloop.interchange.export import TwinExport as TwinExport
    from twinloop.interchange.export import export_twin as export_twin
    from twinloop.learning.config import TrainConfig as TrainConfig
    from twinloop.learning.mix import choose_mix as choose_mix
    from twinloop.learning.train import train as train
    from twinloop.logs.ingest import ingest as ingest
    from twinloop.logs.log_map import load_map as load_map
    from twinloop.logs.originals import load_originals as load_originals
    from twinloop.logs.propose import propose_map as propose_map
    from twinloop.looks.measure import measure_look as measure_look
    from twinloop.looks.measured import MeasuredLook as MeasuredLook
    from twinloop.looks.measured import look_randomization as look_randomization
    from twinloop.looks.measured import look_twin as look_twin
    from twinloop.loop import run_loop as run_loop
    from twinloop.loop_result import LoopResult as LoopResult
    from twinloop.loop_status import LoopConfig as LoopConfig
    from twinloop.monitoring.run import MonitorConfig as MonitorConfig
    from twinloop.monitoring.run import MonitorReport as MonitorReport
    from twinloop.monitoring.run import load_monitor_report as load_monitor_report
    from twinloop.monitoring.run import monitor as monitor
    from twinloop.planning.board import add_item as add_item
    from twinloop.planning.board import change_board as change_board
    from twinloop.planning.board import load_board as load_board
    from twinloop.planning.board import move_item as move_item
    from twinloop.planning.board import read_board as read_board
    from twinloop.planning.items import Plan as Plan
    from twinloop.planning.items import load_plan as load_plan
    from twinloop.planning.run import plan as plan
    from twinloop.planning.select import select_region as select_region
    from twinloop.policies.backends.protocol import open_backend as open_backend
    from twinloop.policies.conventions.check import InterfaceCheck as InterfaceCheck
    from twinloop.policies.conventions.check import check_interface as check_interface
    from twinloop.policies.conventions.propose import propose_interface_map as propose_interface_map
    from twinloop.policies.mapping.interface_map import InterfaceMap as InterfaceMap
    from twinloop.policies.mapping.interface_map import format_interface_map as format_interface_map
    from twinloop.policies.mapping.interface_map import load_interface_map as load_interface_map
    from twinloop.policies.mapping.mapped import MappedPolicy as MappedPolicy
    from twinloop.policies.networks.policy import Policy as Policy
    from twinloop.policies.networks.policy import load_policy as load_policy
    from twinloop.policies.open import open_policy as open_policy
    from twinloop.policies.protocol import BatchedPolicy as BatchedPolicy
    from twinloop.policies.protocol import Execution as Execution
    from twinloop.policies.protocol import PolicyLike as PolicyLike
    from twinloop.promotion.champion import Champion as Champion
    from twinloop.promotion.champion import find_champion as find_champion
    from twinloop.promotion.champion import promote as promote
    from twinloop.promotion.registry import PolicyRegistry as PolicyRegistry
    from twinloop.promotion.rules import Rules as Rules
    from twinloop.promotion.run import GateConfig as GateConfig
    from twinloop.promotion.run import gate as gate
    from twinloop.promotion.verdict import Verdict as Verdict
    from twinloop.promotion.verdict import load_verdict as load_verdict
    from twinloop.quality.check import check_dataset as check_dataset
    from twinloop.quality.check import check_episode as check_episode
    from twinloop.quality.finding import Finding as Finding
    from twinloop.quality.registry import CHECKS as CHECKS
    from twinloop.quality.require import require_usable as require_usable
    from twinloop.quality.select import select_usable as select_usable
    from twinloop.randomization import Categorical as Categorical
    from twinloop.randomization import LogUniform as LogUniform
    from twinloop.randomization import Normal as Normal
    from twinloop.randomization import Randomization as Randomization
    from twinloop.randomization import Uniform as Uniform
    from twinloop.randomization import default_randomization as default_randomization
    from twinloop.randomization import draw as draw
    from twinloop.randomization import load_randomization as load_randomization
    from twinloop.randomization import make_randomization as make_randomization
    from twinloop.randomization.scenes import training_scenes as training_scenes
    from twinloop.robots import Description as Description
    from twinloop.robots import Limits as Limits
    from twinloop.robots import Observation as Observation
    from twinloop.robots import Robot as Robot
    from twinloop.robots import SafetyEnvelope as SafetyEnvelope
    from twinloop.robots import SafetyLimits as SafetyLimits
    from twinloop.robots import TrialSupervisor as TrialSupervisor
    from twinloop.robots import connected as connected
    from twinloop.robots import declared_limits as declared_limits
    from twinloop.robots import load_limits as load_limits
    from twinloop.robots import open_robot as open_robot
    from twinloop.robots.controllers import ExpertController as ExpertController
    from twinloop.robots.controllers import OperatorController as OperatorController
    from twinloop.robots.record import RecordingSpec as RecordingSpec
    from twinloop.robots.record import record as record
    from twinloop.studio.client import StudioClient as StudioClient
    from twinloop.tasks import TASKS as TASKS
    from twinloop.tasks import Judgement as Judgement
    from twinloop.tasks import Truth as Truth
    from twinloop.tasks.place import start_at_rest as start_at_rest
    from twinloop.twins import Parameter as Parameter
    from twinloop.twins import Twin as Twin
    from twinloop.twins import load_twin as load_twin
    from twinloop.twins import make_twin_from_model as make_twin_from_model
    from twinloop.twins import save_twin as save_twin
    from twinloop.workspace import init_workspace as init_workspace

_NAMES = {
    "twinloop.alignment.overlay": ["write_overlay"],
    "twinloop.alignment.result": ["Alignment", "load_alignment"],
    "twinloop.alignment.run": ["AlignConfig", "align"],
    "twinloop.anchoring": ["Anchor", "anchor", "anchored_randomization", "load_anchor", "measured_values"],
    "twinloop.coverage.map_file": ["load_coverage_map", "save_coverage"],
    "twinloop.coverage.result": ["Coverage", "load_coverage"],
    "twinloop.coverage.run": ["measure_coverage"],
    "twinloop.datasets.query": ["query"],
    "twinloop.datasets.reader": ["Dataset", "open_dataset"],
    "twinloop.datasets.merge": ["merge"],
    "twinloop.datasets.split": ["split"],
    "twinloop.datasets.writer": ["append_to", "make_dataset"],
    "twinloop.diagnosis.result": ["Diagnosis", "load_diagnosis"],
    "twinloop.diagnosis.run": ["diagnose"],
    "twinloop.engines.geometry": ["Geometry", "read_geometry"],
    "twinloop.engines.model_check": ["ModelFinding", "check_model"],
    "twinloop.episode": [
        "Camera",
        "Episode",
        "Event",
        "Outcome",
        "Provenance",
        "Schema",
        "Signal",
        "make_episode",
    ],
    "twinloop.errors": ["RobotError", "RobotGone", "TwinloopError"],
    "twinloop.evaluation.horizon": ["find_execution_horizon"],
    "twinloop.evaluation.result": ["Evaluation", "compare", "load_evaluation"],
    "twinloop.evaluation.robot": ["RobotEnvironment"],
    "twinloop.evaluation.run": ["evaluate", "evaluate_in_turns"],
    "twinloop.evaluation.twin": ["TwinEnvironment"],
    "twinloop.experts": ["EXPERTS", "Reading", "load_motion"],
    "twinloop.gap.ranking": ["Rated", "rank_policies"],
    "twinloop.gap.result": ["Gap", "load_gap"],
    "twinloop.gap.run": ["measure_gap"],
    "twinloop.generation.motion": ["MotionPair", "compare_motion"],
    "twinloop.generation.open_loop": ["replay_actions"],
    "twinloop.generation.replay": ["replay"],
    "twinloop.generation.run": ["generate"],
    "twinloop.generation.videos": ["record_video"],
    "twinloop.interchange.export": ["TwinExport", "export_twin"],
    "twinloop.identification.config": ["IdentifyConfig"],
    "twinloop.identification.design": ["design_excitation"],
    "twinloop.identification.drift": ["watch_drift"],
    "twinloop.identification.result": ["Identification", "load_identification"],
    "twinloop.identification.run": ["identify"],
    "twinloop.learning.config": ["TrainConfig"],
    "twinloop.learning.mix": ["choose_mix"],
    "twinloop.learning.train": ["train"],
    "twinloop.logs.ingest": ["ingest"],
    "twinloop.logs.log_map": ["load_map"],
    "twinloop.logs.originals": ["load_originals"],
    "twinloop.logs.propose": ["propose_map"],
    "twinloop.loop": ["run_loop"],
    "twinloop.loop_status": ["LoopConfig"],
    "twinloop.loop_result": ["LoopResult"],
    "twinloop.monitoring.run": ["MonitorConfig", "MonitorReport", "load_monitor_report", "monitor"],
    "twinloop.planning.board": ["add_item", "change_board", "load_board", "move_item", "read_board"],
    "twinloop.planning.items": ["Plan", "load_plan"],
    "twinloop.planning.run": ["plan"],
    "twinloop.planning.select": ["select_region"],
    "twinloop.policies.backends.protocol": ["open_backend"],
    "twinloop.policies.conventions.check": ["InterfaceCheck", "check_interface"],
    "twinloop.policies.mapping.interface_map": ["InterfaceMap", "format_interface_map", "load_interface_map"],
    "twinloop.policies.mapping.mapped": ["MappedPolicy"],
    "twinloop.policies.open": ["open_policy"],
    "twinloop.policies.networks.policy": ["Policy", "load_policy"],
    "twinloop.policies.protocol": ["BatchedPolicy", "Execution", "PolicyLike"],
    "twinloop.policies.conventions.propose": ["propose_interface_map"],
    "twinloop.promotion.champion": ["Champion", "find_champion", "promote"],
    "twinloop.promotion.registry": ["PolicyRegistry"],
    "twinloop.promotion.rules": ["Rules"],
    "twinloop.promotion.run": ["GateConfig", "gate"],
    "twinloop.promotion.verdict": ["Verdict", "load_verdict"],
    "twinloop.quality.check": ["check_dataset", "check_episode"],
    "twinloop.quality.finding": ["Finding"],
    "twinloop.quality.registry": ["CHECKS"],
    "twinloop.quality.require": ["require_usable"],
    "twinloop.quality.select": ["select_usable"],
    "twinloop.randomization": [
        "Categorical",
        "LogUniform",
        "Normal",
        "Randomization",
        "Uniform",
        "default_randomization",
        "draw",
        "load_randomization",
        "make_randomization",
    ],
    "twinloop.randomization.scenes": ["training_scenes"],
    "twinloop.robots": [
        "Description",
        "Limits",
        "Observation",
        "Robot",
        "SafetyEnvelope",
        "SafetyLimits",
        "TrialSupervisor",
        "connected",
        "declared_limits",
        "load_limits",
        "open_robot",
    ],
    "twinloop.robots.controllers": ["ExpertController", "OperatorController"],
    "twinloop.robots.record": ["RecordingSpec", "record"],
    "twinloop.studio.client": ["StudioClient"],
    "twinloop.tasks": ["Judgement", "TASKS", "Truth"],
    "twinloop.looks.measure": ["measure_look"],
    "twinloop.looks.measured": ["MeasuredLook", "look_randomization", "look_twin"],
    "twinloop.tasks.place": ["start_at_rest"],
    "twinloop.twins": ["Parameter", "Twin", "load_twin", "make_twin_from_model", "save_twin"],
    "twinloop.workspace": ["init_workspace"],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'twinloop' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__


if "gymnasium" in sys.modules:
    importlib.import_module(
        "twinloop.environments"
    )  # registers them, so that `gymnasium.make` finds their ids
