"""A model that others wrote takes nothing from the disk but its own files, and no more memory than a robot needs."""

import struct

import pytest

from tests.twins.test_user_model import MJCF, URDF, write_stl
from twinloop.errors import InvalidTwin
from twinloop.twins import load_twin, make_twin_from_model, save_twin
from twinloop.twins.model_files import MAX_PIXELS

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s2I", 13, b"IHDR", 1 << 15, 1 << 15)
ARM = '<body><joint name="hinge"/><geom size="0.1"/></body>'


def model(assets="", world=ARM, before=""):
    return f"<mujoco>{before}<asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>"


@pytest.fixture
def downloaded(tmp_path):
    """A folder with a downloaded model, and files beside it that are none of its business."""
    write_stl(tmp_path / "private/scan.stl")
    (tmp_path / "private/secret.png").write_bytes(b"secret")
    (tmp_path / "private/more.xml").write_text("<mujoco/>")
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


@pytest.mark.parametrize(
    "text",
    [
        model('<texture name="t" type="2d" file="ROOT/private/secret.png"/>'),
        model('<texture name="t" type="cube" fileright="../private/secret.png"/>'),
        model('<mesh name="m" file="scan.stl"/>', before='<compiler meshdir="../private"/>'),
        model('<mesh name="m" file="link.stl"/>'),
        model('<hfield name="h" size="1 1 1 1" file="../private/secret.png"/>'),
        model(before='<include file="../private/more.xml"/>'),
        model(before='<include file="own.xml"/>'),
        model('<model name="m" file="ROOT/private/more.xml"/>'),
        URDF.replace("package://two_links/meshes/part.stl", "../private/scan.stl"),
        URDF.replace("package://two_links/meshes/part.stl", "file://ROOT/private/scan.stl"),
        URDF.replace("package://two_links/meshes/part.stl", "package://x/../private/scan.stl"),
        URDF.replace("package://two_links/meshes/part.stl", "package://model/../private/scan.stl"),
    ],
)
def test_a_model_takes_no_files_from_elsewhere(downloaded, text):
    (downloaded / "link.stl").symlink_to(downloaded.parent / "private/scan.stl")
    (downloaded / "own.xml").write_text('<mujoco><include file="../private/more.xml"/></mujoco>')
    file = downloaded / "model.xml"
    file.write_text(text.replace("ROOT", str(downloaded.parent)))
    with pytest.raises(InvalidTwin, match=r"outside its folder|missing mesh"):
        make_twin_from_model(file)


def test_folders_that_the_user_names_may_be_taken_from(downloaded):
    file = downloaded / "model.xml"
    file.write_text(MJCF.replace('meshdir="parts"', 'meshdir="../private"').replace("part.stl", "scan.stl"))
    twin = make_twin_from_model(file, asset_folders=[downloaded.parent / "private"])
    assert list(twin.assets) == ["scan.stl"]


def test_a_model_may_take_files_from_its_own_package(tmp_path):
    write_stl(tmp_path / "package/meshes/part.stl")
    (tmp_path / "package/package.xml").touch()
    (tmp_path / "package/urdf").mkdir()
    file = tmp_path / "package/urdf/arm.urdf"
    for name in ("../meshes/part.stl", "package://renamed/meshes/part.stl"):
        file.write_text(URDF.replace("package://two_links/meshes/part.stl", name))
        assert list(make_twin_from_model(file).assets) == ["part.stl"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (model('<hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/>'), "hfield>: too large"),
        (model('<hfield name="h" size="1 1 1 1" file="hills.bin"/>'), "height field of 50000 x 50000"),
        (
            model('<texture name="t" builtin="flat" type="2d" width="100000" height="100000"/>'),
            "texture>: too large",
        ),
        (model('<texture name="t" type="2d" file="wide.png"/>'), "32768 x 32768 pixels"),
        (
            model(world=f'<replicate count="2000"><replicate count="2000">{ARM}</replicate></replicate>'),
            "too many",
        ),
        (model(world='<flexcomp name="f" type="grid" count="500 500 500"/>'), "too many parts"),
        (model(before='<size memory="500G"/>'), "memory>: too large"),
        (model(before='<size nuserdata="2000000000"/>'), "size>: too large"),
        (model(before='<option timestep="nan"/>'), "time step must be a positive number"),
        (model(before='<option timestep="1e-12"/>'), "time step must be a positive number"),
        (model(before='<include file="model.xml"/>'), "model.xml"),
        ("<a>" * 100_000, "not XML"),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_allocated(downloaded, text, words):
    (downloaded / "hills.bin").write_bytes(struct.pack("<2i", 50_000, 50_000))
    (downloaded / "wide.png").write_bytes(PNG)
    file = downloaded / "model.xml"
    file.write_text(text)
    with pytest.raises(InvalidTwin, match=words):
        make_twin_from_model(file)


def test_a_limit_of_pixels_lets_real_textures_through():
    assert MAX_PIXELS >= 8192 * 8192


@pytest.fixture
def saved(tmp_path):
    write_stl(tmp_path / "parts/part.stl")
    (tmp_path / "cell.xml").write_text(MJCF)
    return save_twin(make_twin_from_model(tmp_path / "cell.xml"), tmp_path / "saved")


def test_a_saved_twin_refers_to_its_own_assets_only(saved, tmp_path):
    assert load_twin(saved).assets.keys() == {"part.stl"}
    text = (saved / "model.xml").read_text()
    (saved / "model.xml").write_text(text.replace("part.stl", str(tmp_path / "parts/part.stl")))
    with pytest.raises(InvalidTwin, match="not an asset of its twin"):
        load_twin(saved)
    (saved / "model.xml").write_text(text)
    (saved / "part.stl").unlink()
    (saved / "part.stl").symlink_to(tmp_path / "parts/part.stl")
    with pytest.raises(InvalidTwin, match="outside its folder"):
        load_twin(saved)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("twin.yaml", b"[" * 100_000, "levels of nesting"),
        ("twin.yaml", b"\xff\xfe\xfa", "not YAML"),
        ("twin.yaml", b"name: a\nassets: 7", "does not describe"),
        ("twin.yaml", b"name: a\nformat: new", "bad format number"),
        ("model.xml", b"\xff\xfe\xfa", "not XML"),
        ("model.xml", b'<mujoco><option timestep="nan"/></mujoco>', "time step"),
    ],
)
def test_a_damaged_twin_says_what_is_wrong(saved, name, content, words):
    (saved / name).write_bytes(content)
    with pytest.raises(InvalidTwin, match=words):
        load_twin(saved)
