"""What `twinloop` exports is documented for its reader: arguments, results, errors, units; and short enough to call."""

import ast
import inspect
import re
import textwrap

import pytest

from docs.api_page import exports, split_docstring

FUNCTIONS = {name: item for name, item in exports().items() if inspect.isfunction(item)}
UNDOCUMENTED = set(
    """append_to choose_mix draw load_diagnosis load_policy make_dataset merge monitor
    open_dataset query split train""".split()
)
"""Functions whose docstrings still lack arguments, results or errors. Take a name out when its docstring is complete."""

DOCUMENTED = [name for name in FUNCTIONS if name not in UNDOCUMENTED]
MOST_PARAMETERS = 8
LONGER = {
    "anchor": "one more, a callback",
    "run_loop": "two callbacks among them",
    "choose_mix": "to be shortened with a config",
    "design_excitation": "to be shortened with a config",
    "diagnose": "to be shortened with a config",
    "gate": "policies, twin, robot and supervisor beside its config",
    "generate": "to be shortened: a config and a job exist",
    "ingest": "one more, a callback",
    "make_episode": "one more: each is a field of the episode",
    "monitor": "to be shortened with a config",
    "train": "to be shortened: a config exists",
    "watch_drift": "to be shortened with the config of identify",
}
"""Functions with more parameters than that, each with the reason."""

UNIT = re.compile(
    r"\b(seconds?|s|ms|hours?|Hz|rad|m|cm|degrees?|N·m|unit|probability|rate|fraction|weight|0 to 1)\b",
    re.IGNORECASE,
)


def test_the_functions_are_exported():
    assert {"generate", "ingest", "identify", "train", "gate", "monitor"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_an_exported_function_documents_arguments_results_and_errors(name):
    function = FUNCTIONS[name]
    description, sections = split_docstring(function)
    first = description.splitlines()[0]
    assert first.endswith("."), "the first line is a sentence"
    signature = inspect.signature(function)
    arguments = re.findall(r"^\*{0,2}(\w+): \S", sections.get("Args", ""), re.MULTILINE)
    assert arguments == list(signature.parameters)
    if signature.return_annotation not in ("None", None):
        assert sections.get("Returns") or sections.get("Yields")
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    if any(isinstance(node, ast.Raise) for node in ast.walk(tree)):
        assert re.match(r"\w+: \S", sections.get("Raises", "")), "it raises; say what and when"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_real_number_among_the_arguments_has_a_unit(name):
    function = FUNCTIONS[name]
    _, sections = split_docstring(function)
    texts = dict(re.findall(r"^(\w+): (.*(?:\n[ ]+.*)*)", sections.get("Args", ""), re.MULTILINE))
    for parameter in inspect.signature(function).parameters.values():
        if re.fullmatch(r"float( \| None)?", str(parameter.annotation)):
            assert UNIT.search(texts.get(parameter.name, "")), f"{parameter.name} has no unit"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_exported_function_has_few_parameters_or_a_config(name):
    count = len(inspect.signature(FUNCTIONS[name]).parameters)
    assert count <= MOST_PARAMETERS or name in LONGER, f"{count} parameters; take a config object"


def test_no_exception_names_a_function_that_is_gone():
    assert set(LONGER) | UNDOCUMENTED <= set(FUNCTIONS)
