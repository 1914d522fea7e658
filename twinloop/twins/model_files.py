"""What a model that others wrote may read and how large it may become; checked before MuJoCo sees it.

MuJoCo opens whatever path a model names and allocates whatever size it asks for. A model may therefore only name files
below its own folder, below the ROS package that holds it, or below folders that the user names, and every size that it
asks for is bounded.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import mujoco
import numpy as np

from twinloop.errors import InvalidTwin

MAX_FILE_BYTES = 256 << 20
MAX_BYTES = 1 << 30
"""Most bytes of all files of a model."""
MAX_XML_FILES = 1000
MAX_PIXELS = 1 << 26
"""Most pixels of an image and cells of a height field: 8192 x 8192."""
MAX_PARTS = 1_000_000
"""Most elements of a model, with replicated and composite parts counted."""
MAX_MEMORY = 4 << 30
"""Most bytes that a model may reserve with `<size memory=...>`."""
MIN_TIMESTEP_S = 1e-6

FILE_ATTRIBUTES = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
FOLDER_ATTRIBUTES = ("meshdir", "texturedir", "assetdir")
XML_TAGS = ("include", "model")
"""Elements whose file is a model itself."""
_COUNTED = ("nuserdata", "nkey", "njmax", "nconmax", "nstack")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50, "e": 1 << 60}

Element = ElementTree.Element


class ModelFiles:
    """Reads the files of one model, and no others.

    Args:
        model: The model's file.
        folders: Further folders that its files may lie in.
    """

    def __init__(self, model: Path, folders: Sequence[str | Path] = ()) -> None:
        self.model = model
        package = [folder for folder in model.resolve().parents if (folder / "package.xml").is_file()]
        self.folders = [model.resolve().parent, *package[:1], *(Path(folder).resolve() for folder in folders)]
        self._bytes = 0

    def read(self, path: Path) -> bytes:
        """Return the content of a file.

        Raises:
            InvalidTwin: It lies outside the model's folders, is no regular file, is missing or too large.
        """
        place = path.resolve()
        if not any(place.is_relative_to(folder) for folder in self.folders):
            raise InvalidTwin(
                f"{self.model} refers to a file outside its folder",
                got=path,
                expected=f"a file below {' or '.join(map(str, self.folders))}",
                remedy="if you trust the model, name the folder: --asset-folder FOLDER",
            )
        try:
            facts = place.stat()
            if not stat.S_ISREG(facts.st_mode):
                raise InvalidTwin(f"{self.model} refers to something that is not a file", got=path)
            self._bytes += facts.st_size
            if facts.st_size > MAX_FILE_BYTES or self._bytes > MAX_BYTES:
                raise InvalidTwin(
                    f"the files of {self.model} are too large",
                    got=f"{path} of {facts.st_size / 1e6:,.0f} MB, {self._bytes / 1e6:,.0f} MB in all",
                    expected=f"at most {MAX_FILE_BYTES / 1e6:,.0f} MB each and {MAX_BYTES / 1e6:,.0f} MB in all",
                )
            return place.read_bytes()
        except OSError as error:
            raise InvalidTwin(f"{self.model} refers to a missing file", got=path) from error

    def find_in_package(self, name: str, inside: PurePosixPath) -> Path | None:
        """Find `package://name/inside` in the model's folders, on ROS_PACKAGE_PATH, or in a package around the model."""
        named = [folder for folder in self.model.resolve().parents if folder.name == name]
        self.folders += [folder for folder in named if not Path.home().is_relative_to(folder)]
        searched = [Path(p).resolve() for p in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if p]
        self.folders += [folder for folder in searched if folder not in self.folders]
        candidates = [place for folder in self.folders for place in (folder / name / inside, folder / inside)]
        return next((place for place in candidates if place.is_file()), None)


def parse_xml(content: bytes, file: Path | str) -> Element:
    """Return the root element of a model.

    Raises:
        InvalidTwin: The content is not XML.
    """
    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InvalidTwin(f"{file} is not XML", got=str(error), expected="an MJCF or URDF model") from error


def check_mjcf(files: ModelFiles) -> None:
    """Check the files that MuJoCo opens while it parses an MJCF, and the sizes of what they describe.

    Meshes, textures and height fields are opened later, when the model is compiled; read them with `files`.
    """
    home = files.model.parent
    pending, seen = [files.model], set()
    while pending:
        path = pending.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        if len(seen) > MAX_XML_FILES:
            raise InvalidTwin(f"{files.model} includes too many files", expected=f"at most {MAX_XML_FILES}")
        root = parse_xml(files.read(path), path)
        check_sizes(root, path)
        for element, name in _named_files(root):
            if element.tag in (*XML_TAGS, "flexcomp"):
                folders = [home, path.parent, *(home / folder for folder in _asset_folders(root))]
                found = [place for folder in folders if (place := folder / name).exists()]
                for place in found:
                    files.read(place)
                if element.tag in XML_TAGS:
                    pending += found


def check_assets(mjcf: bytes, assets: Mapping[str, bytes], file: Path | str) -> None:
    """Check that a model refers to nothing but its own assets, and the sizes of what it describes.

    Args:
        mjcf: The model.
        assets: The files that it may refer to, by name.
        file: Where the model was read, for errors.
    """
    pending = [mjcf]
    for _ in range(MAX_XML_FILES):
        if not pending:
            break
        root = parse_xml(pending.pop(), file)
        check_sizes(root, file)
        folders = ["", *_asset_folders(root)]
        for element, name in _named_files(root):
            own = [path for folder in folders if (path := str(PurePosixPath(folder, name))) in assets]
            if not own:
                raise InvalidTwin(
                    f"{file} refers to a file that is not an asset of its twin",
                    got=name,
                    available=sorted(assets),
                )
            check_content(assets[own[0]], name, height_field=element.tag == "hfield")
            if element.tag in XML_TAGS:
                pending.append(assets[own[0]])


def check_sizes(root: Element, file: Path | str) -> None:
    """Refuse a model whose elements ask for absurd amounts of memory."""
    pending, parts = [(root, 1.0)], 0.0
    while pending:
        element, times = pending.pop()
        count = (
            _product(element.get("count", "1"))
            if element.tag in ("replicate", "composite", "flexcomp")
            else 1.0
        )
        times *= count
        parts += times
        _require(parts <= MAX_PARTS, file, f"<{element.tag}>: too many parts", f"at most {MAX_PARTS:,}")
        if element.tag in ("hfield", "texture"):
            sides = ("nrow", "ncol") if element.tag == "hfield" else ("width", "height")
            size = _product(" ".join(element.get(side, "1") for side in sides))
            _require(
                size <= MAX_PIXELS, file, f"<{element.tag}>: too large", f"at most {MAX_PIXELS:,} points"
            )
        if element.tag == "size":
            reserved = _memory(element.get("memory", "0"))
            _require(
                reserved <= MAX_MEMORY, file, "<size memory>: too large", f"at most {MAX_MEMORY:,} bytes"
            )
            counts = _product(max((element.get(name, "1") for name in _COUNTED), key=_product))
            _require(counts <= MAX_PARTS * 10, file, "<size>: too large", f"at most {MAX_PARTS * 10:,}")
        pending += [(child, times) for child in element]


def check_content(content: bytes, name: str, *, height_field: bool) -> None:
    """Refuse an image or height field whose header announces an absurd size, or more than the file holds."""
    if content[:8] == b"\x89PNG\r\n\x1a\n" and len(content) >= 24:
        width, height = struct.unpack(">2I", content[16:24])
        _require(width * height <= MAX_PIXELS, name, f"{width} x {height} pixels", f"at most {MAX_PIXELS:,}")
    elif height_field:
        rows, columns = struct.unpack("<2i", content[:8].ljust(8, b"\0"))
        held = rows > 0 and columns > 0 and 8 + 4 * rows * columns == len(content)
        _require(held, name, f"a height field of {rows} x {columns}", f"{len(content)} bytes that hold it")


def check_timestep(model: mujoco.MjModel, file: Path | str) -> None:
    """Refuse a time step that is not a positive number."""
    step = float(model.opt.timestep)
    if not (np.isfinite(step) and step >= MIN_TIMESTEP_S):
        raise InvalidTwin(
            f"{file}: the time step must be a positive number",
            got=f"{step} s",
            expected=f">= {MIN_TIMESTEP_S} s",
        )


def _named_files(root: Element) -> Iterator[tuple[Element, str]]:
    """Yield every element that names a file, with the name."""
    for element in root.iter():
        for attribute in FILE_ATTRIBUTES:
            if name := element.get(attribute):
                yield element, name


def _asset_folders(root: Element) -> list[str]:
    return [
        folder
        for compiler in root.iter("compiler")
        for attribute in FOLDER_ATTRIBUTES
        if (folder := compiler.get(attribute))
    ]


def _product(text: str) -> float:
    """The product of the numbers in an attribute; what is no number counts as 1, and MuJoCo refuses it."""
    product = 1.0
    for word in text.split():
        try:
            product *= max(abs(float(word)), 1.0)
        except ValueError:
            continue
    return product if product == product else float("inf")


def _memory(text: str) -> float:
    text = text.strip().lower()
    unit = _UNITS.get(text[-1:], 1)
    return _product(text.rstrip("kmgtpe")) * unit


def _require(held: bool, file: Path | str, what: str, expected: str) -> None:
    if not held:
        raise InvalidTwin(f"{file}: {what}", expected=expected)
