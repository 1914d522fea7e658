"""`policy check` against known truth: maps of trained policies with one wrong convention, and maps that are right.

Four policies on two robots, trained here by imitation: from readings of a Franka and of an SO-101, from readings of a Franka with the
object's quaternion, and from two cameras of a Franka. Each is wrapped as a foreign policy. Faults of all twelve kinds are drawn: which
joint is turned round, which are exchanged, how much another scale is. The checks look at demonstrations that no policy learned from.
The seed is another than that of the policies on which weak faults were missed, and no constant of the check was set on these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

from benchmarks.cells import Cells
from benchmarks.report import Section, Settings, Table, Target
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.writer import make_dataset
from twinloop.episode import make_episode
from twinloop.generation.run import generate
from twinloop.learning.config import TrainConfig
from twinloop.learning.train import train
from twinloop.policies.conventions.ask import Asker
from twinloop.policies.conventions.check import check_interface
from twinloop.policies.conventions.corrections import Correction, find_corrections
from twinloop.policies.conventions.propose import draft_interface_map
from twinloop.policies.conventions.recorded import take_rows
from twinloop.policies.mapping.claims import read_claims
from twinloop.policies.mapping.interface_map import GripperAction, InterfaceMap, JointAction
from twinloop.policies.networks.policy import Policy, load_policy
from twinloop.randomization import load_randomization
from twinloop.stats.interval import exact_interval
from twinloop.twins import Twin, load_twin

CAMERAS = ("front", "wrist")
PERCEIVED = "observation.environment_state"
IMAGE_FAULTS = ("swapped cameras", "BGR for RGB", "image scale")
QUATERNION = ("object.qw", "object.qx", "object.qy", "object.qz")
SEED = 43
SMALLEST_EFFECT = 1e-4
"""Spreads of the recorded actions, in the mean: what changes a policy's actions by less is no fault."""
HELD_OUT = 900
"""Seed of the demonstrations that the checks look at."""


@dataclass(frozen=True)
class Case:
    name: str
    twin: str
    cameras: tuple[str, ...] = ()
    episodes: int = 60
    steps: int = 600
    quaternion: bool = False


HEALTHY = 8
"""Checks of each right map, about other rows each time."""

CASES = (
    Case("franka from readings", "franka_pick_place"),
    Case("so101 from readings", "so101_pick_place"),
    Case("franka with a quaternion", "franka_pick_place", quaternion=True),
    Case("franka from two cameras", "franka_pick_place", CAMERAS, 40, 300),
)


class Foreign:
    """A policy of ours in its own words, as a backend."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        interface = policy.interface
        self.fingerprint = policy.id
        self.metadata: Mapping[str, Any] = {
            "observations": {
                s.name: {"size": s.size, "elements": list(s.elements)} for s in interface.observations
            },
            "cameras": {c.name: {"height": c.height, "width": c.width} for c in interface.cameras},
            "actions": {"size": interface.action.size, "elements": list(interface.action.elements)},
            "history": list(policy.execution.history),
        }

    def open_session(self) -> Foreign:
        return self

    def reset(self, seed: int, task: str) -> None:
        self._policy.reset(seed, real=True)

    def infer(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"actions": self._policy.infer(inputs)}

    def infer_batch(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = np.arange(len(next(iter(inputs.values()))))
        steps = len(self._policy.execution.history)
        signals = {signal.name for signal in self._policy.interface.observations}
        observed = {
            name: np.reshape(values, (len(rows), steps, -1)) if name in signals else values
            for name, values in inputs.items()
        }
        self._policy.reset_batch(rows, np.zeros(len(rows), np.int64), real=True)
        return {"actions": self._policy.infer_batch(observed, rows)}

    def close(self) -> None:
        pass


def run(settings: Settings) -> Section:
    """Inject faults into the maps of every policy, and check; check right maps as well. `TWINLOOP_CHECK_MINUTES` ends a sitting."""
    kept = settings.work / f"policy_check-{SEED}{'-quick' * settings.quick}"
    cells = Cells(kept, settings.say, limit="TWINLOOP_CHECK_MINUTES")
    subject = lru_cache(maxsize=1)(partial(Subject, kept))
    found: list[tuple[str, str, str, bool]] = []
    alarms: list[tuple[str, bool]] = []
    left = 0
    for case in CASES[: 1 if settings.quick else None]:
        faults = cells.numbers(f"{case.name}-maps", partial(_list_faults, subject, case))
        for number in range(-2, 2) if settings.quick else range(-HEALTHY, len(faults or ())):
            made = cells.numbers(f"{case.name}-{number}", partial(_check, subject, case, number))
            if made is None:
                left += 1
            elif number < 0:
                alarms.append((case.name, made["named"] is not None))
            else:
                named, fault = made["named"] or "nothing", faults[number]
                found.append((case.name, fault, named, named == fault))
    return _section(found, alarms, left)


class Subject:
    """A policy with its right map and wrong ones, and what it is checked on."""

    def __init__(self, work: Path, case: Case) -> None:
        policy, self.held_out = _prepare(work, case)
        self.backend = Foreign(policy)
        drafted = draft_interface_map(
            "python:ours:Policy", read_claims(self.backend.metadata), {}, self.held_out.schema
        )
        self.right = _with_gripper(drafted, load_twin(case.twin))
        rng = np.random.default_rng(SEED)
        self.wrong = _inject(self.backend, self.right, self.held_out, rng, 1 if case.cameras else 2)


def _list_faults(subject: Callable[[Case], Subject], case: Case) -> list[str]:
    return [fault for fault, _ in subject(case).wrong]


def _check(subject: Callable[[Case], Subject], case: Case, number: int) -> dict[str, str | None]:
    """The fault that is named in the wrong map of this number; below 0, in the right map."""
    about = subject(case)
    given = about.right if number < 0 else about.wrong[number][1]
    named = check_interface(about.backend, given, about.held_out, seed=1000 * SEED + number).found
    return {"named": None if named is None else named.fault}


def _prepare(work: Path, case: Case) -> tuple[Policy, Dataset]:
    """The trained policy and held-out demonstrations, made once."""
    folder = work / case.name.replace(" ", "-")
    twin = load_twin(case.twin)
    scenes = {
        "twin": case.twin,
        "randomization": {
            "environment": {
                "object_offset_x_m": [-0.05, 0.05],
                "object_offset_y_m": [-0.05, 0.05],
                "object_yaw_rad": [-0.5, 0.5],
            }
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenes.yaml").write_text(yaml.safe_dump(scenes))
    scene = load_randomization(folder / "scenes.yaml", twin)
    cameras = tuple(camera.name for camera in twin.cameras)[:2] if case.cameras else ()
    for name, seed, episodes in (("train", SEED, case.episodes), ("held-out", HELD_OUT, 32)):
        if (folder / name / "meta").exists():
            continue
        if case.quaternion:
            before = work / CASES[0].name.replace(" ", "-") / name
            _write_with_quaternion(open_dataset(before), folder / name)
        else:
            generate(twin, scene, out=folder / name, episodes=episodes, seed=seed, cameras=cameras)
    if not (folder / "policy").exists():
        config = TrainConfig(recipe="sim-only", steps=case.steps, cameras=cameras)
        train(folder / "train", out=folder / "policy", config=config)
    return load_policy(folder / "policy"), open_dataset(folder / "held-out")


def _write_with_quaternion(dataset: Dataset, folder: Path) -> None:
    """The same demonstrations, with the object's rotation as a quaternion in the place of two columns of its matrix."""
    columns = [f"object.r{row}{column}" for column in (1, 2) for row in (1, 2, 3)]
    old = dataset.schema.signal(PERCEIVED)
    at = [old.elements.index(name) for name in columns]
    names = (*old.elements[: at[0]], *QUATERNION, *old.elements[at[-1] + 1 :])
    new = replace(old, shape=(len(names),), units=("m",) * 3 + ("1",) * 4 + ("m",) * 3, elements=names)
    signals = tuple(new if one.name == PERCEIVED else one for one in dataset.schema.signals)
    with make_dataset(folder, replace(dataset.schema, signals=signals)) as writer:
        for episode in dataset:
            seen = episode.signals[PERCEIVED]
            first, second = seen[:, at[:3]], seen[:, at[3:]]
            matrix = np.stack([first, second, np.cross(first, second)], axis=2)
            turn = Rotation.from_matrix(matrix).as_quat(canonical=True, scalar_first=True)
            wide = np.concatenate([seen[:, : at[0]], turn, seen[:, at[-1] + 1 :]], axis=1)
            writer.add(
                make_episode(
                    writer.schema,
                    episode.time_s,
                    {**episode.signals, PERCEIVED: wide.astype(np.float32)},
                    success=episode.success,
                    task=episode.task,
                    provenance=episode.provenance,
                )
            )


def _with_gripper(drafted: InterfaceMap, twin: Twin) -> InterfaceMap:
    """The map with the gripper as a gripper, as most maps have it; its numbers are as before."""
    (action,) = drafted.actions
    assert isinstance(action, JointAction)
    *arm, gripper = action.elements
    low, high = twin.compile_as_written().actuator("gripper").ctrlrange.tolist()
    ends = {"open": high, "closed": low, "opened_at": high, "closed_at": low}
    actions = (
        action.model_copy(update={"elements": tuple(arm)}),
        GripperAction(gripper=gripper, **ends),
    )
    return drafted.model_copy(update={"actions": actions})


def _inject(
    backend: Foreign, right: InterfaceMap, dataset: Dataset, rng: np.random.Generator, count: int
) -> list[tuple[str, InterfaceMap]]:
    """Maps with one wrong convention: of every kind some that are drawn from all that the check would try, and other scales.

    Of faults of images there are two, however few of the others. What changes no action, such as the sign of an element that is always
    0, is no fault.
    """
    recorded = take_rows(dataset, 24, SEED)
    ask = Asker(backend, dataset, None, recorded.rows)
    as_right = ask(right, recorded.rows)

    def matters(wrong: InterfaceMap) -> bool:
        acts = ask(wrong, recorded.rows)
        steps = min(acts.shape[1], as_right.shape[1])
        change = np.abs(acts[:, :steps] - as_right[:, :steps]) / recorded.spread
        return float(change.mean()) > SMALLEST_EFFECT

    units = {
        e: s.units[k if len(s.units) > 1 else 0]
        for s in dataset.schema.signals
        for k, e in enumerate(s.elements)
    }
    by_kind: dict[str, list[Correction]] = {}
    for one in find_corrections(right, units, dataset.schema.rate_hz):
        by_kind.setdefault(one.fault, []).append(one)
    chosen = []
    for kind, all_ in by_kind.items():
        drawn = (all_[place].interface_map for place in rng.permutation(len(all_)))
        wrong = filter(matters, drawn)
        chosen += [(kind, one) for one in islice(wrong, 2 if kind in IMAGE_FAULTS else count)]
    action, *others = right.actions
    assert isinstance(action, JointAction)
    for _ in range(count):
        scale = tuple(rng.choice([0.5, 0.7, 1.4, 2.0], size=len(action.elements)).tolist())
        scaled = (action.model_copy(update={"scale": scale}), *others)
        chosen.append(("normalisation", right.model_copy(update={"actions": scaled})))
    return chosen


def _section(found: list[tuple[str, str, str, bool]], alarms: list[tuple[str, bool]], left: int) -> Section:
    kinds = list(dict.fromkeys(fault for _, fault, _, _ in found))
    rows = tuple(
        (
            kind,
            f"{sum(right for _, fault, _, right in found if fault == kind)} of {sum(fault == kind for _, fault, _, _ in found)}",
            ", ".join(
                sorted(
                    {f"{name} ({case})" for case, fault, name, right in found if fault == kind and not right}
                )
            )
            or "-",
        )
        for kind in kinds
    )
    right, false = sum(one[-1] for one in found), sum(alarm for _, alarm in alarms)
    named = exact_interval(right, max(1, len(found)))
    alarmed = exact_interval(false, max(1, len(alarms)))
    return Section(
        "policy_check",
        "Convention faults of foreign policies",
        (
            Table(
                f"Faults injected into maps of {len(CASES)} policies on two robots",
                ("fault", "named first", "named instead"),
                rows,
            ),
        ),
        (
            Target(
                "the injected fault is named first in at least 95 %",
                f"{named.percent} ({right} of {len(found)})",
                None if left else named.value >= 0.95,
            ),
            Target(
                "at most 2 % false alarms on right maps",
                f"{alarmed.percent} ({false} of {len(alarms)})",
                None if left else alarmed.value <= 0.02,
            ),
        ),
        (
            "Imitation policies of 300 to 600 steps; checks look at 96 rows of 32 held-out demonstrations.",
            *([f"{left} checks are left for another sitting."] if left else []),
        ),
    )
