"""A twin is a value: changed by making a new version, named by its content, kept as a plain folder."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinloop.errors import InvalidTwin, TwinloopError, UnknownName, WrongUse
from twinloop.twins import Parameter, Target, Twin, check_twin, list_twins, load_twin, save_twin
from twinloop.twins.parameter import from_plain, plain

BUILT_IN = [
    "cart_pole",
    "cube_toss",
    "double_pendulum",
    "franka_pick_place",
    "franka_push",
    "franka_reach",
    "furuta_pendulum",
    "servo_pendulum",
    "so101",
    "so101_pick_place",
]


def test_the_library_has_the_built_in_twins():
    assert [twin.name for twin in list_twins()] == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_twin_is_consistent(name):
    twin = load_twin(name)
    check_twin(twin)
    assert twin.substeps >= 1
    assert twin.robot and twin.task and twin.description
    for parameter in twin.parameters:
        assert parameter.description, parameter.name
        assert parameter.choices or all(math.isfinite(bound) for bound in parameter.bounds), parameter.name
        assert bool(parameter.targets) == (parameter.stage == "model"), parameter.name


@pytest.mark.parametrize("name", BUILT_IN)
def test_nominal_values_are_those_the_mjcf_was_written_with(name):
    twin = load_twin(name)
    written, nominal = twin.compile_as_written(), twin.make_model()
    for field in twin.patch.fields(twin.patch.names("model")):
        owner = (written.opt, nominal.opt) if field.startswith("opt.") else (written, nominal)
        key = field.removeprefix("opt.")
        np.testing.assert_allclose(getattr(owner[0], key), getattr(owner[1], key), rtol=1e-3, err_msg=field)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_parameter_of_the_model_stage_changes_the_model_and_both_bounds_compile(name):
    twin = load_twin(name)
    for parameter in twin.parameters:
        if parameter.stage != "model":
            continue
        low, high = (twin.make_model({parameter.name: bound}) for bound in parameter.bounds)
        fields = twin.patch.fields([parameter.name])
        changed = any(
            not np.array_equal(getattr(low, f, None), getattr(high, f, None)) for f in fields if "." not in f
        )
        assert changed or fields[0].startswith("opt."), parameter.name


def test_new_values_give_a_new_version_and_leave_the_old_twin_alone():
    twin = load_twin("franka_pick_place")
    heavier = twin.with_values(object_mass_kg=0.3)
    assert twin.parameter("object_mass_kg").nominal == 0.1
    assert heavier.parameter("object_mass_kg").nominal == 0.3
    assert heavier.content_hash != twin.content_hash
    assert heavier.version == f"1+{heavier.content_hash[:8]}"
    assert heavier.parent == twin.content_hash
    assert heavier.make_model().body("object").mass[0] == pytest.approx(0.3)
    assert heavier.with_values(object_mass_kg=0.2).version.startswith("1+")
    assert twin.with_values({"object_mass_kg": 0.3}, version="2").version == "2"


def test_the_same_values_give_the_same_hash_whatever_the_route():
    twin = load_twin("franka_pick_place")
    direct = twin.with_values(object_mass_kg=0.3, clutter_count=2)
    detour = twin.with_values(object_mass_kg=0.5).with_values(object_mass_kg=0.3, clutter_count=2.0)
    assert direct.content_hash == detour.content_hash
    assert direct.with_values(object_mass_kg=0.1, clutter_count=0).content_hash == twin.content_hash


def test_a_twin_cannot_be_edited_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_twin("franka_pick_place").name = "other"


def test_a_value_outside_its_bounds_is_refused_with_the_bounds():
    twin = load_twin("franka_pick_place")
    with pytest.raises(InvalidTwin, match=r"got 30 kg; expected 0.005 to 2 kg"):
        twin.with_values(object_mass_kg=30.0)
    with pytest.raises(InvalidTwin, match="not a finite number"):
        twin.with_values(object_mass_kg=math.nan)
    with pytest.raises(InvalidTwin, match="whole"):
        twin.with_values(clutter_count=1.5)
    with pytest.raises(UnknownName, match="did you mean 'object_mass_kg'"):
        twin.with_values(object_mas_kg=0.2)
    with pytest.raises(UnknownName, match="as_drawn"):
        twin.with_values(object_colour="pinkish")


def test_an_unknown_twin_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'franka_pick_place'"):
        load_twin("franka_pickplace")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_twin_survives_its_own_folder(name, tmp_path):
    twin = load_twin(name).with_values({})
    again = load_twin(save_twin(twin, tmp_path / "kept"))
    assert again == twin
    assert again.content_hash == twin.content_hash
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept"]


def test_a_folder_edited_by_hand_is_a_version_of_its_own(tmp_path):
    saved = load_twin("servo_pendulum")
    file = save_twin(saved, tmp_path / "kept") / "twin.yaml"
    text = file.read_text().replace("nominal: 0.49", "nominal: 5e-1")
    added = "- {name: table_tilt_rad, nominal: 0, bounds: [-0.1, 0.1], unit: rad, dimension: environment, stage: scene}\n"
    file.write_text(text + added)
    edited = load_twin(tmp_path / "kept")
    assert edited.parameter("load_mass_kg").nominal == 0.5
    assert edited.parameter("table_tilt_rad").bounds == (-0.1, 0.1)
    assert edited.version == f"1+{edited.content_hash[:8]}" and edited.parent == saved.content_hash


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nominal: 0.49", "nominal: heavy", r"line \d+, parameter 'load_mass_kg': not a number; got 'heavy'"),
        ("nominal: 0.49", "nominall: 0.49", r"line \d+, parameter 'load_mass_kg': .*did you mean 'nominal'"),
        (
            "nominal: 0.49",
            "nominal: 900",
            r"line \d+, parameter 'load_mass_kg': .*outside its bounds; got 900 kg",
        ),
        ("name: load_mass_kg", "nam: load_mass_kg", r"line \d+, parameter None: "),
        ("control_hz:", "controlhz:", r"key in .*twin.yaml, line 9 is called 'controlhz'"),
    ],
)
def test_a_mistake_in_a_twins_yaml_is_named_with_its_line(tmp_path, old, new, words):
    file = save_twin(load_twin("servo_pendulum"), tmp_path / "kept") / "twin.yaml"
    lines = file.read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if old in line)
    file.write_text("\n".join(lines).replace(old, new, 1))
    with pytest.raises(TwinloopError, match=f"(?s){words}") as found:
        load_twin(tmp_path / "kept")
    said = int(str(found.value).partition("line ")[2].partition(",")[0].split()[0])
    assert at - 1 <= said <= at + 2


def test_saving_over_a_folder_needs_permission(tmp_path):
    twin = load_twin("servo_pendulum")
    save_twin(twin, tmp_path / "kept")
    with pytest.raises(WrongUse, match="exists already"):
        save_twin(twin, tmp_path / "kept")
    save_twin(twin.with_values(load_mass_kg=0.3), tmp_path / "kept", overwrite=True)
    assert load_twin(tmp_path / "kept").parameter("load_mass_kg").nominal == 0.3


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("twin.yaml", "a: [", "not YAML"),
        ("twin.yaml", "- 1", "does not describe a twin"),
        ("twin.yaml", "{name: x, colour: red}", "colour"),
        ("twin.yaml", "{name: x, format: 99}", "newer Twinloop"),
        ("twin.yaml", "{name: x, assets: [../secret]}", "inside the twin's folder"),
        ("twin.yaml", "{name: x, assets: [absent.stl]}", "absent.stl"),
        ("twin.yaml", "{name: x, parameters: [{name: a}]}", "without 'nominal'"),
        ("twin.yaml", "{name: x, parameters: [{name: a, nominal: 1, unti: m}]}", "did you mean 'unit'"),
        ("twin.yaml", "{name: x, roles: {tool: absent}}", "names a site"),
        ("model.xml", "<mujoco><body></mujoco>", "not XML"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(tmp_path, file, text, words):
    folder = save_twin(load_twin("servo_pendulum"), tmp_path / "kept")
    (folder / file).write_text(text)
    with pytest.raises((InvalidTwin, UnknownName), match=words):
        load_twin(folder)


def test_a_folder_without_a_twin_says_so(tmp_path):
    with pytest.raises(InvalidTwin, match="is not a twin"):
        load_twin(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "Bad Name", "nominal": 1.0}, "cannot be used as a name"),
        ({"name": "a", "nominal": 1.0, "unit": "furlong"}, "unit"),
        ({"name": "a", "nominal": 1.0, "dimension": "contcat"}, "did you mean 'contact'"),
        ({"name": "a", "nominal": 1.0, "bounds": (2.0, 0.0)}, "reversed"),
        ({"name": "a", "nominal": 5.0, "bounds": (0.0, 2.0)}, "outside its bounds"),
        (
            {"name": "a", "nominal": 1.0, "stage": "scene", "targets": (Target("opt.timestep"),)},
            "cannot have targets",
        ),
        (
            {"name": "a", "nominal": "b", "choices": ("b",), "targets": (Target("opt.timestep"),)},
            "cannot have targets",
        ),
    ],
)
def test_a_parameter_that_contradicts_itself_is_refused(arguments, words):
    with pytest.raises((InvalidTwin, UnknownName), match=words):
        Parameter(**arguments)


@settings(max_examples=100, deadline=None)
@given(
    nominal=st.floats(-1e6, 1e6),
    width=st.floats(0, 1e6),
    unit=st.sampled_from(["1", "kg", "N·m/rad"]),
    index=st.lists(st.integers(0, 5), max_size=3),
    rule=st.sampled_from(["set", "scale", "add"]),
)
def test_a_parameter_survives_plain_values(nominal, width, unit, index, rule):
    target = Target("geom_size", ("a", "b"), tuple(index), rule, factor=2.0, reference=0.5, power=3.0)
    parameter = Parameter("any", nominal, (nominal - width, nominal + width), unit, targets=(target,))
    assert from_plain(plain(parameter)) == parameter


def test_a_control_period_must_be_a_whole_number_of_steps():
    with pytest.raises(InvalidTwin, match="whole number of physics steps"):
        check_twin(Twin("odd", "<mujoco><option timestep='0.003'/></mujoco>", control_hz=50.0))
