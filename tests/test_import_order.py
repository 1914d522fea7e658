"""Imports only ever point down the list in docs/architecture.md."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "twinloop"


def layer_of_each_module() -> dict[str, int]:
    block = re.search(r"```layers\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    assert block, "docs/architecture.md has no ```layers block"
    lines = block.group(1).splitlines()
    return {name: depth for depth, line in enumerate(lines) for name in line.split()}


def top_level_modules() -> set[str]:
    return {
        p.stem
        for p in PACKAGE.iterdir()
        if p.name != "__init__.py" and (p.suffix == ".py" or (p / "__init__.py").exists())
    }


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("twinloop.")}


def test_the_layer_list_names_every_module_and_nothing_else():
    assert set(layer_of_each_module()) == top_level_modules()


def test_imports_only_point_down():
    layer = layer_of_each_module()
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if str(inside) == "__init__.py":
            continue
        here = inside.parts[0].removesuffix(".py")
        for there in imports_of(path) - {here}:
            if there in layer and layer[there] <= layer[here]:
                wrong.append(f"{inside} imports twinloop.{there}, which is not below it")
    assert not wrong, "\n".join(wrong)


def test_monitoring_and_planning_need_no_learning():
    """Deployed robots have no use for torch: statistics are in `stats`."""
    paths = [path for name in ("monitoring", "planning", "stats") for path in (PACKAGE / name).rglob("*.py")]
    assert not [str(path) for path in paths if "learning" in imports_of(path)]
