"""A twin on disk: a plain folder of `twin.yaml`, `model.xml` and the files the model refers to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

try:
    from yaml import CSafeDumper as SafeDumper
except ImportError:  # PyYAML without libyaml
    from yaml import SafeDumper  # type: ignore[assignment]

from twinloop.durable import replace_durably, swap_folders, sync, sync_tree
from twinloop.episode import Camera
from twinloop.errors import InvalidTwin, TwinloopError, UnknownName, WrongUse
from twinloop.twins.model_files import ModelFiles, check_assets
from twinloop.twins.parameter import Parameter, from_plain, plain
from twinloop.twins.twin import Twin, check_twin
from twinloop.yaml_files import parse_yaml

FORMAT = 1
KEYS = tuple(part.name for part in fields(Twin) if part.name != "mjcf")


def save_twin(twin: Twin, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a twin as a folder of plain files; it appears under its name only when it is complete.

    Args:
        twin: the twin.
        path: the folder to write.
        overwrite: replace an existing folder.

    Returns:
        The folder.

    Raises:
        WrongUse: the folder exists and `overwrite` is false.
    """
    folder = Path(path)
    if folder.exists() and not overwrite:
        raise WrongUse(f"{folder} exists already", remedy="choose another name, or pass overwrite=True")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staged = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    try:
        (staged / "model.xml").write_text(twin.mjcf)
        for name, content in twin.assets.items():
            file = staged / safe_place(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (staged / "twin.yaml").write_text(
            yaml.dump(_description(twin), Dumper=SafeDumper, sort_keys=False, allow_unicode=True, width=110)
        )
        if folder.exists():
            sync_tree(staged)
            swap_folders(staged, folder)
            sync(folder.parent)
        else:
            replace_durably(staged, folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; a name that no file can have is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def load_twin_folder(path: str | Path) -> Twin:
    """Read a folder written by `save_twin`, or by hand.

    A folder that was edited since is a version of its own: its parent is the twin that was saved.
    """
    folder = Path(path)
    description = folder / "twin.yaml"
    if not is_folder(folder) or not description.is_file():
        raise InvalidTwin(f"{folder} is not a twin", expected="a folder with twin.yaml and model.xml")
    files = ModelFiles(description)
    content = files.read(description)
    try:
        words: dict[str, Any] = parse_yaml(content)
    except yaml.YAMLError as error:
        raise InvalidTwin(f"{description} is not YAML", got=str(error)) from error
    text = content.decode()
    if not isinstance(words, dict) or "name" not in words:
        raise InvalidTwin(f"{description} does not describe a twin", expected="a mapping with a name")
    number = words.pop("format", FORMAT)
    if not isinstance(number, int):
        raise InvalidTwin(f"{description}: bad format number", got=number, expected=FORMAT)
    if number > FORMAT:
        raise InvalidTwin(f"{description} was written by a newer Twinloop", remedy="upgrade twinloop")
    recorded = words.pop("content_hash", None)
    for key in words:
        if key not in KEYS:
            raise UnknownName(f"key in {description}, line {_find_line(text, key)}", key, KEYS)
    parameters = tuple(_read_parameters(words.get("parameters") or (), description, text))
    try:
        mjcf = files.read(folder / "model.xml")
        assets = {name: files.read(folder / safe_place(name)) for name in words.get("assets") or ()}
        check_assets(mjcf, assets, folder / "model.xml")
        twin = Twin(
            **{
                **words,
                "mjcf": mjcf.decode(),
                "assets": assets,
                "parameters": parameters,
                "cameras": tuple(Camera(**camera) for camera in words.get("cameras", ())),
                "distractors": tuple(words.get("distractors", ())),
            }
        )
        check_twin(twin)
    except (TypeError, AttributeError, UnicodeDecodeError) as error:
        raise InvalidTwin(f"{description} does not describe a twin", got=str(error)) from error
    if recorded is None or recorded == twin.content_hash:
        return twin
    base = twin.version.split("+")[0]
    return replace(twin, version=f"{base}+{twin.content_hash[:8]}", parent=str(recorded))


def _read_parameters(entries: Sequence[Any], description: Path, text: str) -> Iterator[Parameter]:
    """The parameters of a description; what is wrong with one is said with its line."""
    for index, entry in enumerate(entries):
        try:
            yield from_plain(entry)
        except (TwinloopError, TypeError, ValueError, IndexError, AttributeError) as error:
            name = entry.get("name") if isinstance(entry, dict) else entry
            line = _find_line(text, "parameters", index)
            raise InvalidTwin(f"{description}, line {line}, parameter {name!r}: {error}") from error


def _find_line(text: str, key: str, index: int | None = None) -> int:
    """The line, from 1, of a key of a YAML mapping, or of an entry of the sequence that it holds."""
    for name, value in yaml.compose(text, Loader=yaml.SafeLoader).value:
        if name.value == key:
            return int((name if index is None else value.value[index]).start_mark.line) + 1
    return 1


def _description(twin: Twin) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "name": twin.name,
        "version": twin.version,
        "content_hash": twin.content_hash,
        "parent": twin.parent,
        "description": twin.description,
        "robot": twin.robot,
        "task": twin.task,
        "control_hz": twin.control_hz,
        "cameras": [asdict(camera) for camera in twin.cameras],
        "home": dict(twin.home),
        "roles": dict(twin.roles),
        "distractors": list(twin.distractors),
        "assets": sorted(twin.assets),
        "parameters": [plain(parameter) for parameter in twin.parameters],
    }


def safe_place(name: str) -> PurePosixPath:
    """Where an asset lies below the twin's folder; raises `InvalidTwin` for one that would lie elsewhere."""
    path = PurePosixPath(str(name))
    if path.is_absolute() or ".." in path.parts or name in ("twin.yaml", "model.xml"):
        raise InvalidTwin("an asset must lie inside the twin's folder", got=name)
    return path
