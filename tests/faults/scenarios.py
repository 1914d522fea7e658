"""Commands that write, each with what must hold wherever it was cut off, and with what is typed to go on."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.datasets.examples import STATE_ONLY, WITH_CAMERA, toy_episode
from tests.faults.layer import layer
from tests.generation.fakes import fake_work
from tests.logs import examples as logs
from twinloop.consent.records import add_consent, load_consents
from twinloop.consent.withdraw import load_tombstones, withdraw_consent
from twinloop.datasets.export import export
from twinloop.datasets.labels import add_labels, current_outcomes
from twinloop.datasets.merge import merge
from twinloop.datasets.reader import Dataset, open_dataset
from twinloop.datasets.repair import repair
from twinloop.datasets.verify import verify
from twinloop.datasets.writer import DatasetWriter, append_to, make_dataset
from twinloop.episode import Episode, Provenance, Schema
from twinloop.errors import NoDataset, TamperedRecord, TwinloopError
from twinloop.generation.run import run
from twinloop.logs import ingest as ingest_module
from twinloop.logs.ingest import ingest
from twinloop.logs.log_map import parse_map
from twinloop.twin_versions import use_twin
from twinloop.twins import load_twin, save_twin
from twinloop.workspace import find_workspace, init_workspace

Content = Any
"""What a user finds in a folder: JSON values that can be compared."""


def _nothing(folder: Path) -> None:
    """Nothing to prepare."""


def _anything(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    """Nothing can be said about the moment of the crash."""


@dataclass(frozen=True)
class Scenario:
    """A command in an empty folder.

    `check` is called right after a fault with the marks that were passed and the contents before and after an undisturbed
    run; `repeat` is what a user types then. `slow` ones run in the full sweep only.
    """

    name: str
    act: Callable[[Path], object]
    content: Callable[[Path], Content]
    prepare: Callable[[Path], object] = _nothing
    check: Callable[[Path, tuple[str, ...], Content, Content], None] = _anything
    repeat: Callable[[Path], object] | None = None
    slow: bool = False
    imports: tuple[str, ...] = ()
    """Modules that take long to import, which is done once and not in every child."""


def content_of(dataset: Dataset) -> Content:
    """Every episode of a dataset."""
    found = []
    for episode in dataset:
        hashed = hashlib.blake2b(digest_size=8)
        for name in sorted(episode.signals):
            hashed.update(np.ascontiguousarray(episode.signals[name]).tobytes())
        for camera in sorted(episode.frames):
            hashed.update(b"".join(np.ascontiguousarray(frame).tobytes() for frame in episode.frames[camera]))
        found.append(f"{len(episode)} {hashed.hexdigest()} {episode.outcome} {episode.task}")
    return found


def intact(root: Path) -> Content:
    """Every episode of a dataset that must be whole; None where there is none."""
    try:
        dataset = open_dataset(root)
    except NoDataset:
        return None
    checked = verify(root)
    assert checked.ok and not checked.findings, checked.findings
    return content_of(dataset)


def opened(root: Path) -> Content:
    """Every committed episode of a dataset whose last commit may be unfinished."""
    try:
        return content_of(open_dataset(root))
    except NoDataset:
        return []


def all_or_nothing(folder: Path, content: Callable[[Path], Content], before: Content, after: Content) -> None:
    """The content is the one before or the one after."""
    found = content(folder)
    assert found in (before, after), f"neither as before nor as after: {str(found)[:300]}"


def _episode(seed: int, schema: Schema) -> Episode:
    return toy_episode(seed, rows=4 + seed % 3, schema=schema)


def _add(writer: DatasetWriter, upto: int) -> None:
    """Add episodes in commits of two; a mark says how many are committed."""
    with writer:
        layer.mark(str(writer.committed))
        while writer.episodes < upto:
            writer.add(_episode(writer.episodes, writer.schema))
            if writer.episodes % 2 == 0:
                writer.commit()
                layer.mark(str(writer.committed))


def _write(schema: Schema, folder: Path) -> None:
    try:
        writer = append_to(folder / "d")
    except NoDataset:
        writer = make_dataset(folder / "d", schema)
    _add(writer, 4)


def _prepare_dataset(schema: Schema, folder: Path, names: tuple[str, ...] = ("d",)) -> None:
    for number, name in enumerate(names):
        with make_dataset(folder / name, schema) as writer:
            for seed in range(10 * number, 10 * number + 2):
                writer.add(_episode(seed, schema))


def _committed_are_there(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    found = opened(folder / "d")
    assert found == after[: len(found)], "an episode is not what was written"
    assert len(found) >= max(map(int, marks), default=len(before or ())), "committed episodes are lost"


def _merge(folder: Path) -> None:
    merge([folder / "a", folder / "b"], folder / "m")


def _merged(folder: Path) -> Content:
    return [intact(folder / name) for name in "abm"]


def _label(folder: Path) -> None:
    ids = open_dataset(folder / "d").provenance_table().column("episode_id").to_pylist()  # type: ignore[union-attr]
    add_labels(folder / "d", ids, {"success": False, "failure": "dropped"}, by="kim")
    layer.mark("labelled")


def _labelled(folder: Path) -> Content:
    return [intact(folder / "d"), sorted(map(str, current_outcomes(folder / "d").items()))]


def _labels_kept(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    found = _labelled(folder)
    if marks:
        assert found == after


def _damage(folder: Path) -> None:
    _prepare_dataset(STATE_ONLY, folder)
    (folder / "d/meta/stats.json").write_text("{")
    episodes = folder / "d/meta/info.json"
    episodes.write_text(episodes.read_text()[:-20])


def _generate(folder: Path, resume: bool = False) -> None:
    run(fake_work(), 6, folder / "d", workers=1, chunk_episodes=2, resume=resume)


def _regenerate(folder: Path) -> None:
    _generate(folder, resume=(folder / "d").exists() and any((folder / "d").iterdir()))


MAP = "rate_hz: 50\nprovenance: {source: real}\nsignals: {observation.state: {from: q, unit: rad, clock: t}}"


def _prepare_logs(folder: Path) -> None:
    (folder / "logs").mkdir()
    for number in range(3):
        time_s, position, _ = logs.motion(rows=10 + number, seed=number)
        np.savez(folder / f"logs/run_{number}.npz", t=time_s + 0.003, q=position)


def _ingest(folder: Path, resume: bool = False) -> None:
    ingest_module.CHECKPOINT_BYTES = 1
    with Completed(folder / "d"):
        ingest(folder / "logs", folder / "d", parse_map(MAP), resume=resume)


class Completed(suppress):
    """Passes over an error: a command that reported an error after its result was in place says, when repeated, that the result exists."""

    def __init__(self, out: Path) -> None:
        super().__init__(TwinloopError)
        self._there = out.exists()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        known = self._there and error is not None and "exist" in str(error)
        return known and bool(super().__exit__(kind, error, trace))


def _remerge(folder: Path) -> None:
    with Completed(folder / "m"):
        _merge(folder)


def _sign(folder: Path) -> None:
    (folder / "signed.pdf").write_bytes(b"signed")


def _consent(folder: Path) -> None:
    add_consent(
        folder,
        "operator-1",
        ["train"],
        document=folder / "signed.pdf",
        given=date(2026, 1, 1),
        consent_id="c-1",
    )
    layer.mark("recorded")


def _consent_again(folder: Path) -> None:
    with Completed(folder / "consents"):
        _consent(folder)


def _consented(folder: Path) -> Content:
    return sorted(map(str, load_consents(folder).values()))


def _consent_kept(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    found = _consented(folder)
    assert found == after if marks else found in (before, after), found


def _people(folder: Path) -> None:
    """A dataset of two people and a merge that shares its files."""
    _sign(folder)
    _consent(folder)
    for name, seeds in (("a", range(3)), ("b", range(3, 5))):
        with make_dataset(folder / "data" / name, WITH_CAMERA) as writer:
            for seed in seeds:
                consent = "c-1" if seed == 1 else None
                provenance = Provenance(source="real", actor="operator", consent=consent, seed=seed)
                writer.add(toy_episode(seed, rows=4, schema=WITH_CAMERA, provenance=provenance))
    merge([folder / "data/a", folder / "data/b"], folder / "data/m")


def _withdraw(folder: Path) -> None:
    withdraw_consent(folder, "c-1", by="kim", reason="asked to")
    layer.mark("withdrawn")


def _after_withdrawal(folder: Path) -> Content:
    consent = load_consents(folder)["c-1"]
    tombs = [[t["consent"], [r["episode_ids"] for r in t["removals"]]] for t in load_tombstones(folder)]
    left = [intact(folder / "data" / name) for name in ("a", "b", "m")]
    return [left, consent.withdrawn is None, consent.pseudonym, tombs[-1:]]


def _others_kept(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    """Whatever the moment, no episode of anybody else is lost; between two renames a dataset lies beside its name."""
    for name, was, will_be in zip(("a", "b", "m"), before[0], after[0], strict=True):
        root = folder / "data" / name
        if root.exists():
            assert opened(root) in (was, will_be), f"{name} has lost episodes"
        else:
            assert opened(root.with_name(f".{name}.twinloop-removed")) == was, f"{name} is lost"


_TRAINING = ("tests.learning.examples", "twinloop.learning.train", "twinloop.policies.networks.policy")


def _demonstrations(folder: Path) -> None:
    from tests.learning.examples import point

    point(folder / "data", episodes=5)
    _train(folder)  # fills the cache of decoded rows, which is written through mapped memory
    shutil.rmtree(folder / "p")


def _train(folder: Path, resume: bool = False) -> None:
    from tests.learning.examples import TINY
    from twinloop.learning.train import train

    config = replace(TINY, recipe="real-only", steps=4, validate_every=2, batch=4)
    train(real=folder / "data", out=folder / "p", config=config, resume=resume, workspace=folder)


def _retrain(folder: Path) -> None:
    if (folder / "p/policy.json").exists():
        if (
            folder / "p/.training"
        ).exists():  # the command says that the policy is there, and removes what is left
            with suppress(TwinloopError):
                _train(folder, resume=True)
        return
    _train(folder, resume=any(folder.glob("p/*/run.json")))


def _policy(folder: Path, name: str = "p") -> Content:
    """The policy, whose id is the hash of its weights; None where there is none."""
    from twinloop.policies.networks.policy import load_policy

    return load_policy(folder / name).id if (folder / name / "policy.json").exists() else None


def _other_policy(folder: Path) -> None:
    _demonstrations(folder)
    _train(folder)


def _save_policy(folder: Path) -> None:
    from twinloop.policies.networks.policy import load_policy

    load_policy(folder / "p").save(folder / "q")


_saved_policy = partial(_policy, name="q")


_PROMOTING = (*_TRAINING, "mlflow.tracking", "sqlalchemy", "twinloop.promotion.registry")


def _registry(folder: Path) -> Any:
    """The registry of a workspace; this user's keys and notes are on the same disk."""
    from twinloop.promotion.registry import PolicyRegistry

    os.environ["TWINLOOP_CONFIG"] = str(folder / "user")
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # its failures are raised
    return PolicyRegistry(folder / "work")


def _champions(folder: Path, count: int) -> None:
    """Policies p0, p1, ..., of which the first `count` are promoted one after the other, and a key to sign with."""
    from tests.learning.examples import TINY, point
    from twinloop.learning.train import train
    from twinloop.promotion.keys import make_key

    (folder / "work").mkdir()
    registry = _registry(folder)
    make_key("ann")
    data = point(folder / "data", episodes=5)
    for number in range(count + 1):
        config = replace(TINY, recipe="real-only", steps=1, seed=number)
        train(real=data, out=folder / f"p{number}", config=config)
    for number in range(count):
        _promote(folder, number, registry)


def _promote(folder: Path, number: int, registry: Any = None) -> None:
    from twinloop.policies.networks.policy import load_policy

    policy = load_policy(folder / f"p{number}")
    (registry or _registry(folder)).promote(policy, None, by="ann", override="better")
    layer.mark("promoted")


def _roll_back(folder: Path) -> None:
    _registry(folder).roll_back(by="ann", reason="drops the cup")
    layer.mark("rolled back")


def _after_repair(act: Callable[[Path], object], folder: Path) -> Any:
    """What a user types after an error that names its remedy: the repair, and the command again."""
    try:
        return act(folder)
    except TamperedRecord as error:
        assert error.remedy == "twinloop registry repair", error
        _registry(folder).record.repair()
        return act(folder)


def _promoted(folder: Path) -> Content:
    """Champion and actions of a registry that must be intact."""
    registry = _registry(folder)
    registry.verify()
    return [registry.state().aliases["champion"], [entry.action for entry in registry.entries()]]


def _one_champion(folder: Path, marks: tuple[str, ...], before: Content, after: Content) -> None:
    """The champion is the one before or, for certain once the command has ended, the one after."""
    champion, _ = _after_repair(_promoted, folder)
    assert champion in ((after[0],) if marks else (before[0], after[0])), f"champion {champion}"


def _prepare_workspace(folder: Path) -> None:
    init_workspace(folder / "w", load_twin("servo_pendulum"))


def _twin(folder: Path) -> Content:
    root = folder / "w/twins/servo_pendulum"
    return load_twin(root).content_hash if root.exists() else None


def _overwrite_twin(folder: Path) -> None:
    twin = load_twin("servo_pendulum")
    lighter = replace(twin, mjcf=twin.mjcf.replace("</mujoco>", "<!-- lighter -->\n</mujoco>"))
    save_twin(lighter, folder / "w/twins/servo_pendulum", overwrite=True)


def _use_twin(folder: Path) -> None:
    if not (folder / "w/twins/other").exists():
        save_twin(load_twin("cart_pole"), folder / "w/twins/other")
    use_twin(find_workspace(folder / "w"), "twins/other", "tried")


def _used_twin(folder: Path) -> Content:
    root = find_workspace(folder / "w").root
    return find_workspace(root).twin


def _init(folder: Path) -> None:
    if not (folder / "w/twinloop.yaml").exists():
        init_workspace(folder / "w", load_twin("servo_pendulum"))


def _workspace(folder: Path) -> Content:
    return _used_twin(folder) if (folder / "w/twinloop.yaml").exists() else None


def _export(folder: Path) -> None:
    with Completed(folder / "rows.parquet"):
        export(folder / "d", folder / "rows.parquet", "transitions")


def _exported(folder: Path) -> Content:
    path = folder / "rows.parquet"
    return hashlib.blake2b(path.read_bytes()).hexdigest() if path.exists() else None


def _either(content: Callable[[Path], Content]) -> Callable[[Path, tuple[str, ...], Content, Content], None]:
    return lambda folder, marks, before, after: all_or_nothing(folder, content, before, after)


def _dataset(folder: Path) -> Content:
    return intact(folder / "d")


SCENARIOS = (
    Scenario("write", partial(_write, STATE_ONLY), _dataset, check=_committed_are_there),
    Scenario(
        "append",
        partial(_write, WITH_CAMERA),
        _dataset,
        partial(_prepare_dataset, WITH_CAMERA),
        _committed_are_there,
        slow=True,
    ),
    Scenario(
        "merge",
        _merge,
        _merged,
        partial(_prepare_dataset, WITH_CAMERA, names=("a", "b")),
        _either(_merged),
        _remerge,
        slow=True,
    ),
    Scenario("label", _label, _labelled, partial(_prepare_dataset, STATE_ONLY), _labels_kept),
    Scenario("repair", lambda f: repair(f / "d"), _dataset, _damage, slow=True),
    Scenario("export", _export, _exported, partial(_prepare_dataset, STATE_ONLY), _either(_exported)),
    Scenario("generate", _generate, _dataset, check=_committed_are_there, repeat=_regenerate, slow=True),
    Scenario(
        "ingest",
        _ingest,
        _dataset,
        _prepare_logs,
        _either(_dataset),
        partial(_ingest, resume=True),
        slow=True,
    ),
    Scenario("consent", _consent, _consented, _sign, _consent_kept, _consent_again),
    Scenario("withdraw", _withdraw, _after_withdrawal, _people, _others_kept, slow=True),
    Scenario(
        "train", _train, _policy, _demonstrations, _either(_policy), _retrain, slow=True, imports=_TRAINING
    ),
    Scenario(
        "policy",
        _save_policy,
        _saved_policy,
        _other_policy,
        _either(_saved_policy),
        slow=True,
        imports=_TRAINING,
    ),
    Scenario(
        "promote",
        partial(_promote, number=1),
        _promoted,
        partial(_champions, count=1),
        _one_champion,
        partial(_after_repair, partial(_promote, number=1)),
        slow=True,
        imports=_PROMOTING,
    ),
    Scenario(
        "rollback",
        _roll_back,
        _promoted,
        partial(_champions, count=2),
        _one_champion,
        partial(_after_repair, _roll_back),
        slow=True,
        imports=_PROMOTING,
    ),
    Scenario("init", _init, _workspace, check=_either(_workspace)),
    Scenario("twin", _overwrite_twin, _twin, _prepare_workspace, _either(_twin)),
    Scenario("use twin", _use_twin, _used_twin, _prepare_workspace, _either(_used_twin)),
)
