"""`twinloop policy`: look at policies, draw how they learned, export one, choose its execution horizon; and where policies are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinloop.cli import console
from twinloop.cli.console import Json
from twinloop.errors import WorkspaceError, WrongUse

if TYPE_CHECKING:
    from twinloop.policies.policy import Policy
    from twinloop.twins import Twin

app = typer.Typer(help="Look at policies and export them.", no_args_is_help=True)


@app.command()
def show(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    json: Json = False,
) -> None:
    """Say what a policy sees and does, what it was trained on and how training went."""
    from twinloop.policies.policy import WORDS, load_policy

    path = policy_path(policy)
    found = load_policy(path)
    if json:
        import json as text

        console.print_json(text.loads((path / WORDS).read_text()))
        return
    training_record, shape, late = found.training_record, found.network.shape, found.execution.latency_steps
    count = sum(weights.numel() for weights in found.network.parameters())
    sees = ", ".join(f"{signal.name} ({signal.size})" for signal in found.interface.observations)
    looks = ", ".join(f"{c.name} ({c.width} x {c.height})" for c in found.interface.cameras)
    lines = {
        "policy": f"{found.name} ({found.id}), {training_record.recipe}, {training_record.created_at}",
        "sees": f"{sees} at steps {', '.join(map(str, found.execution.history))}",
        **({"looks": f"through {looks}"} if looks else {}),
        "does": f"{found.interface.action.size} targets at {found.interface.rate_hz:g} Hz, {shape.chunk} at once, "
        f"{found.execution.n_action_steps} before the next"
        + (f", for {1e3 * late / found.interface.rate_hz:g} ms of delay" if late else ""),
        "network": f"{shape.head}, {count:,} weights",
        "twin": f"{training_record.twin['name']} ({training_record.twin['version']})",
    }
    for entry in training_record.datasets:
        lines[f"{entry['role']} data"] = (
            f"{entry['name']}, {entry['used']} episodes, version {entry['version']}" + describe_idle(entry)
        )
    if training_record.results.get("curve"):
        last = training_record.results["curve"][-1]
        lines["training"] = (
            f"{last['step']} steps of {last['stage']} in {training_record.results['seconds']:.0f} s on {training_record.results.get('device', 'cpu')}, "
            f"validation error {training_record.results['validation']:.4f} (scaled)"
        )
    for name, line in lines.items():
        console.out.print(f"{name:<10} {line}", markup=False)


def describe_idle(entry: Mapping[str, Any]) -> str:
    """Describe the idle frames of a dataset that training dropped; empty where there were hardly any."""
    idle = entry.get("idle_fraction", 0.0)
    return f"; {100 * idle:.0f} % idle frames dropped" if idle >= 0.005 else ""


@app.command()
def curves(
    policies: Annotated[
        list[Path], typer.Argument(metavar="POLICY...", help="Folders or names of policies; drawn together.")
    ],
    out: Annotated[Path, typer.Option(help="The PNG to write.")],
    json: Json = False,
) -> None:
    """Draw learning curves: how the errors on training and held-out data fell, and which weights were kept."""
    from twinloop.policies.policy import load_policy
    from twinloop.report.training_plots import draw_learning

    found = [load_policy(policy_path(policy)) for policy in policies]
    path = draw_learning(found, out)
    if json:
        words = {policy.name: policy.training_record.results["curve"] for policy in found}
        console.print_json({"out": str(path), "curves": words})
    else:
        console.out.print(f"wrote {path}")


@app.command()
def export(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    json: Json = False,
) -> None:
    """Write a policy as ONNX, from raw readings to raw commands, with everything about it in the file's metadata."""
    from twinloop.policies.export import export_onnx
    from twinloop.policies.policy import load_policy

    path = export_onnx(load_policy(policy_path(policy)), out)
    if json:
        console.print_json({"out": str(path), "bytes": path.stat().st_size})
    else:
        console.out.print(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB")


@app.command()
def horizon(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's folder or name.")],
    out: Annotated[Path, typer.Option(help="New folder for the policy with the chosen execution horizon.")],
    twin: Annotated[
        str | None,
        typer.Option(metavar="NAME|FOLDER", help="Try it in this twin; default: the policy's own."),
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes for each horizon.")] = 60,
    seed: Annotated[int, typer.Option(help="Random seed for the scenes, the same for every horizon.")] = 0,
    config: Annotated[
        Path | None,
        typer.Option(help="A generation config: what varies in the twin, besides the training scenes."),
    ] = None,
    json: Json = False,
) -> None:
    """Choose in a twin how many actions of each chunk a policy executes before the next; matters on delayed hardware."""
    from twinloop.datasets.commit import disk_errors
    from twinloop.evaluation.horizon import find_execution_horizon
    from twinloop.generation.processes import usable_cores
    from twinloop.policies.policy import load_policy
    from twinloop.randomization import load_randomization

    loaded = load_policy(policy_path(policy))
    if out.exists():
        raise WrongUse(f"{out} exists already", remedy="choose another folder")
    with disk_errors(out):  # asked before minutes are spent on what cannot be written
        out.mkdir(parents=True)
        out.rmdir()
    cell = twin_for(loaded, twin)
    varied = load_randomization(config, cell) if config else None
    with console.progress_bar("trying") as progress:
        found, horizons = find_execution_horizon(
            loaded, cell, varied, episodes=episodes, seed=seed, threads=usable_cores(), progress=progress
        )
    found.save(out)
    if json:
        tried = found.training_record.results["horizons"]
        words = {
            "out": str(out),
            "id": found.id,
            "n_action_steps": found.execution.n_action_steps,
            "horizons": tried,
        }
        console.print_json(words)
        return
    for one in horizons:
        kept = "  <- kept" if one.n_action_steps == found.execution.n_action_steps else ""
        console.out.print(
            f"{one.n_action_steps} of {loaded.chunk} actions: {one.successes} of {one.episodes}{kept}"
        )
    console.out.print(f"wrote {out}")


def load_late(path: Path, latency_ms: float | None) -> Policy:
    """A policy by folder or name, carried out for this delay where one is given, else as it was saved."""
    from twinloop.policies.policy import load_policy

    loaded = load_policy(policy_path(path))
    return loaded if latency_ms is None else loaded.for_latency(1e-3 * latency_ms)


def policy_path(path: Path) -> Path:
    """A policy's folder, or the one of that name in the workspace."""
    from twinloop.workspace import find_workspace

    if path.exists() or len(path.parts) != 1:
        return path
    try:
        return find_workspace().root / "policies" / path
    except WorkspaceError:
        return path


def twin_for(policy: Policy, twin: str | None) -> Twin:
    """The twin that was named, or the policy's own."""
    from twinloop.twins import load_twin

    name = twin or policy.training_record.twin["name"]
    if name is None:
        raise WrongUse("the policy does not say which twin it is for", remedy="--twin NAME")
    return load_twin(name)
