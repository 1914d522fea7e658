"""`twinloop gap` and `twinloop rank`: how far a twin is from real episodes, and whether both rank policies alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import twinloop
from twinloop.cli import console
from twinloop.cli.options import Json, PolicyMap, RealData, Threads, WorkspaceTwin, split_names
from twinloop.cli.places import find_workspace, load_policy, load_twin

if TYPE_CHECKING:
    from twinloop.gap.ranking import Rankings
    from twinloop.gap.result import Measure
    from twinloop.gap.success import Pair, Rate

SimData = Annotated[
    Path | None,
    Option(
        metavar="DATASET",
        help="Simulated episodes to compare with. Default: the twin's replay of the real commands and, for quantities that replay cannot give, a small generated set.",
    ),
]
EvaluatedPolicy = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        help="Evaluate this policy in the twin and compare its success with its real episodes.",
    ),
]
Only = Annotated[
    str | None,
    Option(metavar="DIMENSION,...", help="Measure these dimensions only, such as latency,contact."),
]
Conditions = Annotated[
    Path | None,
    Option(
        metavar="FILE.csv",
        help="Conditions of real episodes: a column 'episode' (number or id) and one per condition, such as object, light, clutter, participant.",
    ),
]
Episodes = Annotated[int, Option(min=1, help="Maximum number of episodes from each dataset, spread evenly.")]
Out = Annotated[
    Path | None,
    Option(
        metavar="FILE.html",
        help="The report, beside which FILE.json holds the numbers; default: gap.html in the workspace's reports/, or here.",
    ),
]
RealRates = Annotated[
    str,
    Option(
        metavar="FILE[:KEY]",
        help="Real success rates: JSON {task: {policy: rate}} (under KEY), the output of `twinloop evaluate --json`, or CSV with columns policy, success, task, episodes.",
    ),
]


def gap(
    real: RealData,
    twin: WorkspaceTwin = None,
    sim: SimData = None,
    policy: EvaluatedPolicy = None,
    map_file: PolicyMap = None,
    only: Only = None,
    conditions: Conditions = None,
    episodes: Episodes = 100,
    generated: Annotated[int, Option(min=3, help="Episodes to generate without --sim.")] = 8,
    trials: Annotated[int, Option(min=1, help="Trials of --policy in the twin.")] = 100,
    seed: Annotated[int, Option(help="Random seed for resampling and generated episodes.")] = 0,
    threads: Threads = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Measure how far a twin is from reality: per dimension, each difference with unit, interval and sample size.

    Differences are simulation minus reality. A dimension that cannot be measured says which data it needs; it is never reported as zero.
    """
    from twinloop.gap.conditions import load_conditions
    from twinloop.gap.evidence import Options
    from twinloop.records import save_record
    from twinloop.report.gap_page import write_gap_page

    workspace = find_workspace()
    cell = load_twin(twin, workspace)
    with console.progress_bar("measuring the gap") as bar:
        found = twinloop.measure_gap(
            real,
            cell,
            sim,
            policy=load_policy(policy, interface_map=map_file, twin=twin) if policy else None,
            only=split_names(only) or None,
            conditions=load_conditions(conditions) if conditions else None,
            options=Options(seed, episodes, generated, trials, threads=threads),
            on_progress=lambda _, done, total: bar(done, total),
        )
    page = write_gap_page(found, out or (workspace.root / "reports" if workspace else Path()) / "gap.html")
    save_record(found, page.with_suffix(".json"))
    console.print_result(json, found.as_json() | {"report": page}, lambda: _print(found, page))


def rank(
    real: RealRates,
    sim: Annotated[str, Option(metavar="FILE[:KEY]", help="Simulated success rates, in the same format.")],
    trials: Annotated[
        int | None, Option(min=1, help="Trials behind each rate, if the files do not say.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed for resampling.")] = 0,
    json: Json = False,
) -> None:
    """Compare how simulation and reality rank policies: MMRV and Pearson, task by task, with 95 % intervals."""
    from twinloop.gap.ranking import load_ratings

    found = twinloop.rank_policies(load_ratings(real, trials), load_ratings(sim, trials), seed=seed)
    console.print_result(json, found.as_json(), lambda: _print_ranking(found))


def _print_ranking(found: Rankings) -> None:
    rows = [
        (one.task, str(len(one.policies)), _span(one.mmrv, one.mmrv_interval), _span(one.pearson, one.pearson_interval),
         f"{one.mean_gap:+.3f}")
        for one in found.tasks
    ]  # fmt: skip
    if len(rows) > 1:
        mmrv, pearson = _span(found.mmrv, found.mmrv_interval), _span(found.pearson, found.pearson_interval)
        rows.append(("all tasks", str(found.pairs), mmrv, pearson, ""))
    console.print_table(("task", "policies", "MMRV, 95 %", "Pearson, 95 %", "sim - real"), rows)


def _span(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" if interval is None else f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _print(found: twinloop.Gap, page: Path) -> None:
    rows = []
    for name, one in found.dimensions.items():
        if not one.evaluated:
            rows.append((name, "not evaluated", "", "", f"needs {one.not_evaluated[0].needs}"))
        for index, measure in enumerate(one.headlines if one.evaluated else ()):
            size = difference(measure) + ("  gap" if measure in one.shown else "")
            episodes = " / ".join(str(n) for n in (measure.episodes, measure.sim_episodes) if n)
            rows.append((name if index == 0 else "", measure.name, size, episodes, measure.against))
    console.print_table(("dimension", "measure", "sim - real, 95 %", "episodes", "against"), rows)
    _print_success(found)
    what = "stand-in" if found.standin else "real"
    shown = ", ".join(found.shown) or "none of the evaluated dimensions"
    console.out.print(f"{found.twin} against {found.episodes} {what} episodes; gap in: {shown}")
    console.print_lines(f"note: {note}" for note in found.notes)
    console.out.print(f"report {page}")


def difference(measure: Measure) -> str:
    """A difference with its interval and unit."""
    unit = "" if measure.unit == "1" else f" {measure.unit}"
    return f"{measure.value:+.3g} [{measure.low:.3g}, {measure.high:.3g}]{unit}"


def _print_success(found: twinloop.Gap) -> None:
    success = found.success
    if success.needs:
        console.out.print(f"success: not evaluated, needs {success.needs}")
        if success.overall.real is None:
            return
    rows = [
        (f"{one.condition} {one.slice}".strip(), _rate(one.real), _rate(one.sim), _points(one))
        for one in (success.overall, *success.slices)
    ]
    console.print_table(("success", "robot, 95 %", "simulation, 95 %", "sim - real, points"), rows)


def _rate(rate: Rate | None) -> str:
    return "-" if rate is None else f"{rate.percent} of {rate.episodes}"


def _points(pair: Pair) -> str:
    by = pair.difference
    return "-" if by is None else f"{100 * by.value:+.0f} [{100 * by.low:.0f}, {100 * by.high:.0f}]"
