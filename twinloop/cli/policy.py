"""`twinloop policy`: show policies, plot how they learned, export one, choose its execution horizon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import twinloop
from twinloop.cli import console, policy_map
from twinloop.cli.options import Json, PolicyName, PolicyNames, PolicyTwin, SceneConfig, WorkspaceFolder
from twinloop.cli.places import (
    find_policy,
    load_own_policy,
    load_policy,
    load_policy_twin,
    require_new,
    require_workspace,
)

if TYPE_CHECKING:
    from twinloop.policies.listing import PolicySummary

LONGEST_LINE = 200

app = typer.Typer(
    help="Show policies, export them, and choose their execution horizon.", no_args_is_help=True
)

app.command("map")(policy_map.propose_map)
app.command("check")(policy_map.check_map)


@app.command("ls")
def list_(workspace: WorkspaceFolder = Path(), json: Json = False) -> None:
    """List the policies of a workspace, as their records say: recipe, twin, data and how well they learned."""
    from twinloop.policies.listing import list_policies

    found = list_policies(require_workspace(workspace).root)

    def row(one: PolicySummary) -> tuple[Any, ...]:
        last = one.curve[-1].validation if one.curve else None
        error = "-" if last is None else f"{last:.4g}"
        recipe = one.problem or ("foreign" if one.foreign else one.recipe)
        return one.name, one.id[:16], recipe, one.twin or "-", len(one.datasets), error, one.folder

    columns = ("policy", "id", "recipe", "twin", "datasets", "validation error", "folder")
    console.print_list(json, found, columns, row, "there is no policy yet: twinloop train")


@app.command()
def show(policy: PolicyName, json: Json = False) -> None:
    """Show what a policy observes and commands and how it was trained; of an address, what the policy there says of itself."""
    from twinloop.cli.registry import open_registry
    from twinloop.policies.networks.policy import METADATA
    from twinloop.policies.open import is_address, is_map

    if is_address(policy) or is_map(policy):
        return _show_foreign(policy, json)
    loaded = load_policy(policy)
    if json:
        folder = find_policy(Path(policy))
        if not folder.exists():
            folder = open_registry().policy_folder(loaded.id)
        console.out.print((folder / METADATA).read_text())
        return None
    if isinstance(loaded, twinloop.Policy):
        console.print_lines(f"{name:<10} {line}" for name, line in _describe(loaded).items())
    else:
        console.print_lines(f"{name:<10} {line}" for name, line in _describe_any(loaded).items())
    return None


def _show_foreign(address: str, json: bool) -> None:
    """Print what the policy at an address says of itself; of a map, also what it makes of it."""
    from twinloop.policies.backends.protocol import open_backend
    from twinloop.policies.open import is_map

    found = twinloop.load_interface_map(address) if is_map(address) else None
    backend = open_backend(found.policy if found else address)
    metadata = {name: backend.metadata[name] for name in sorted(backend.metadata)}
    value = {"address": found.policy if found else address, "fingerprint": backend.fingerprint}
    lines = {"address": value["address"], "fingerprint": backend.fingerprint}
    lines |= {name: _shorten(part) for name, part in metadata.items()}
    backend.close()
    if found is not None and found.twin is not None:
        lines |= _describe_any(load_policy(address))
    console.print_result(
        json,
        value | {"metadata": metadata},
        lambda: console.print_lines(f"{name:<12} {line}" for name, line in lines.items()),
    )


def _describe_any(policy: twinloop.PolicyLike) -> dict[str, str]:
    interface, execution = policy.interface, policy.execution
    observes = ", ".join(f"{signal.name} ({signal.size})" for signal in interface.observations)
    cameras = ", ".join(f"{c.name} ({c.width} x {c.height})" for c in interface.cameras)
    return {
        "policy": f"{policy.name} ({policy.id})",
        "observes": f"{observes} at steps {', '.join(map(str, execution.history))}",
        **({"cameras": cameras} if cameras else {}),
        "commands": f"{interface.action.size} targets at {interface.rate_hz:g} Hz, {execution.n_action_steps} executed before the next",
    }


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} ... ({len(text)} characters)"


def _describe(policy: twinloop.Policy) -> dict[str, str]:
    record, interface, execution = policy.training_record, policy.interface, policy.execution
    observes = ", ".join(f"{signal.name} ({signal.size})" for signal in interface.observations)
    cameras = ", ".join(f"{c.name} ({c.width} x {c.height})" for c in interface.cameras)
    late = execution.latency_steps
    delay = f", for {1e3 * late / interface.rate_hz:g} ms of delay" if late else ""
    weights = sum(weights.numel() for weights in policy.network.parameters())
    lines = {
        "policy": f"{policy.name} ({policy.id}), {record.recipe}, {record.created_at}",
        "observes": f"{observes} at steps {', '.join(map(str, execution.history))}",
        **({"cameras": cameras} if cameras else {}),
        "commands": f"{interface.action.size} targets at {interface.rate_hz:g} Hz, {policy.chunk} per chunk, "
        f"{execution.n_action_steps} executed before the next{delay}",
        "network": f"{policy.network.shape.head}, {weights:,} weights",
        "twin": f"{record.twin['name']} ({record.twin['version']})",
    }
    for entry in record.datasets:
        used = f"{entry['name']}, {entry['used']} episodes, version {entry['version']}"
        lines[f"{entry['role']} data"] = used + describe_idle(entry)
    if record.results.get("curve"):
        last, results = record.results["curve"][-1], record.results
        lines["training"] = (
            f"{last['step']} steps of {last['stage']} in {results['seconds']:.0f} s on {results.get('device', 'cpu')}, "
            f"validation error {results['validation']:.4f} (scaled)"
        )
    return lines


def describe_idle(entry: Mapping[str, Any]) -> str:
    """Describe the idle frames of a dataset that training dropped; empty where there were hardly any."""
    idle = entry.get("idle_fraction", 0.0)
    return f"; {100 * idle:.0f} % idle frames dropped" if idle >= 0.005 else ""


@app.command()
def curves(
    policies: PolicyNames, out: Annotated[Path, Option(help="The PNG to write.")], json: Json = False
) -> None:
    """Plot learning curves: errors on training and held-out data, and which weights were kept."""
    from twinloop.report.training_plots import draw_learning

    found = [load_own_policy(policy) for policy in policies]
    path = draw_learning(found, out)
    results = {policy.name: policy.training_record.results["curve"] for policy in found}
    console.print_result(json, {"out": path, "curves": results}, f"wrote {path}")


@app.command()
def export(
    policy: PolicyName, out: Annotated[Path, Option(help="The ONNX file to write.")], json: Json = False
) -> None:
    """Write a policy as ONNX, from raw readings to raw commands, with everything about it in the file's metadata."""
    from twinloop.policies.networks.export import export_onnx

    path = export_onnx(load_own_policy(policy), out)
    size = path.stat().st_size
    console.print_result(json, {"out": path, "bytes": size}, f"wrote {path}: {size / 1e6:.2f} MB")


@app.command()
def horizon(
    policy: PolicyName,
    out: Annotated[Path, Option(help="New folder for the policy with the chosen execution horizon.")],
    twin: PolicyTwin = None,
    episodes: Annotated[int, Option(help="Episodes for each horizon.")] = 60,
    seed: Annotated[int, Option(help="Random seed for the scenes, the same for every horizon.")] = 0,
    config: SceneConfig = None,
    json: Json = False,
) -> None:
    """Choose in a twin how many actions of each chunk a policy executes before the next; matters on delayed hardware."""
    from twinloop.datasets.commit import disk_errors
    from twinloop.generation.processes import usable_cores

    loaded = load_own_policy(policy)
    require_new(out)
    with disk_errors(out):  # before minutes are spent on a result that cannot be written
        out.mkdir(parents=True)
        out.rmdir()
    cell = load_policy_twin(loaded, twin)
    varied = twinloop.load_randomization(config, cell) if config else None
    with console.progress_bar("evaluating") as progress:
        found, horizons = twinloop.find_execution_horizon(
            loaded, cell, varied, episodes=episodes, seed=seed, threads=usable_cores(), on_progress=progress
        )
    found.save(out)
    chosen, tried = found.execution.n_action_steps, found.training_record.results["horizons"]
    results = {"out": out, "id": found.id, "n_action_steps": chosen, "horizons": tried}
    lines = [
        f"{one.n_action_steps} of {loaded.chunk} actions: {one.successes} of {one.episodes}"
        + ("  <- kept" if one.n_action_steps == chosen else "")
        for one in horizons
    ]
    console.print_result(json, results, "\n".join([*lines, f"wrote {out}"]))


@app.command(name="lerobot-server")
def lerobot_server(
    out: Annotated[Path, Option(help="The Python file to write.")], json: Json = False
) -> None:
    """Write the program that serves LeRobot checkpoints by openpi's protocol; it runs in LeRobot's environment, without Twinloop."""
    program = Path(twinloop.__file__).parents[1] / "twinloop_lerobot_server.py"
    require_new(out)
    out.write_bytes(program.read_bytes())
    text = (
        f"wrote {out}; in LeRobot's environment: pip install msgpack websockets, then python {out} CHECKPOINT"
    )
    console.print_result(json, {"out": out}, text)
