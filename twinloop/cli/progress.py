"""Progress of generation and of the loop's stages on the terminal; imported when they run, with what they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from twinloop.cli import console
from twinloop.datasets.disk_space import format_bytes
from twinloop.stages import Stage, StageListener

if TYPE_CHECKING:
    from twinloop.generation.run import GenerationProgress


@contextmanager
def generation_bar(out: Path) -> Iterator[Callable[[GenerationProgress], None]]:
    """A bar on standard error: episodes, rate, success so far, time left, size on disk; on terminals only."""
    bar = console.make_bar(MofNCompleteColumn(), TextColumn("{task.fields[state]}"))

    def show(progress: GenerationProgress) -> None:
        success = "" if progress.success is None else f", {progress.success:.0%} success"
        left = "" if math.isinf(progress.remaining_s) else f", {format_duration(progress.remaining_s)} left"
        size = f", {format_bytes(progress.bytes_in_all)} in total"
        state = f"{progress.episodes_per_s:.3g}/s{success}{left}{size}"
        bar.update(task, completed=progress.episodes, total=progress.total, state=state)

    try:
        with bar:
            task = bar.add_task("generating", total=None, state="starting workers")
            yield show
    except KeyboardInterrupt:
        console.log(f"interrupted; finished episodes are kept in {out}. Continue with --resume")
        raise


def format_duration(seconds: float) -> str:
    """Format a duration: `1 h 5 min`, `3 min 20 s`, `4.2 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


@contextmanager
def stage_progress() -> Iterator[StageListener]:
    """A bar for the running stage, and a line for every finished one."""
    bar = console.make_bar(TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with bar:
        yield _ProgressListener(bar)


class _ProgressListener(StageListener):
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="", visible=False)

    def on_start(self, name: str) -> None:
        if not console.err.is_terminal:
            console.err.print(f"{name} ...", style="dim")
        self._bar.reset(self._task, description=name, total=None, state="", visible=True)

    def on_progress(self, name: str, done: int, total: int) -> None:
        state = f"{done}/{total}" if total else f"{done}"
        self._bar.update(self._task, completed=done, total=total or None, state=state)

    def on_end(self, stage: Stage[Any]) -> None:
        from twinloop.report.summary import summarize  # with PyTorch, which generation does without

        self._bar.update(self._task, visible=False)
        duration = "from an earlier run" if stage.cached else f"{stage.seconds:.0f} s"
        console.err.print(
            Text.assemble((f"{stage.name:<16}", "bold"), f"  {summarize(stage.result)}  ", (duration, "dim"))
        )
