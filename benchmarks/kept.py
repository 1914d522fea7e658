"""Jobs whose answers are kept one by one, so that a long benchmark goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from benchmarks.report import Settings, commit
from twinloop.datasets.commit import write_atomically


def answers(
    settings: Settings,
    name: str,
    do: Callable[[Any], Any],
    jobs: Mapping[str, Any],
    *,
    workers: int = 2,
) -> dict[str, Any]:
    """What `do` says to every job, by the job's name; those already in benchmarks/work/<name> are not done again.

    Answers are JSON, and `do` and the jobs must pass to another process. An answer knows the job and the commit it was
    made on: a job that has changed is done again, one whose code has changed is not, unless its file is taken away.
    """
    folder = settings.work / (f"{name}-quick" if settings.quick else name)
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {}
    for key, job in jobs.items():
        file = folder / f"{key}.json"
        words = json.loads(file.read_text()) if file.exists() else {}
        if words.get("job") == _mark(job):
            made[key] = words["answer"]
    left = {key: job for key, job in jobs.items() if key not in made}
    if made:
        settings.say.print(f"[dim]{len(made)} of {len(jobs)} answers were kept in {folder.name}[/dim]")
    if not left:
        return {key: made[key] for key in jobs}
    on = commit()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        asked = {pool.submit(do, job): key for key, job in left.items()}
        for answer in as_completed(asked):
            key = asked[answer]
            words = {"job": _mark(left[key]), "commit": on, "answer": answer.result()}
            write_atomically(
                folder / f"{key}.json", json.dumps(words, default=lambda number: number.item()).encode()
            )
            made[key] = words["answer"]
            if len(made) % 20 == 0 or len(jobs) < 40:
                settings.say.print(f"[dim]{len(made)} of {len(jobs)}[/dim]")
    return {key: made[key] for key in jobs}


def made_on(settings: Settings, name: str) -> str:
    """The commits that kept answers were made on, for the notes of a section."""
    folder = settings.work / (f"{name}-quick" if settings.quick else name)
    commits = sorted({json.loads(file.read_text())["commit"] for file in folder.glob("*.json")})
    return f"Answers were made on commit {', '.join(commits)}."


def _mark(job: Any) -> str:
    return hashlib.blake2b(json.dumps(job, sort_keys=True).encode(), digest_size=8).hexdigest()
