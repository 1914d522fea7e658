"""Published results: pages follow from the saved files, commits are in the history, and what tuned a constant proves nothing."""

import importlib
import json
import re
import subprocess

import pytest
import yaml

from benchmarks.pages import CLAIMS, format_claims, format_result, split_interval
from benchmarks.report import RESULTS, ROOT, load_results

TUNED = yaml.safe_load((ROOT / "benchmarks/tuned.yaml").read_text())
HASH = re.compile(r"\b[0-9a-f]{7,40}\b")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def expand(cases):
    """Names of cases; a range of numbers FIRST-LAST stands for all of them."""
    for case in cases:
        first, _, last = str(case).partition("-")
        yield from (str(number) for number in range(int(first), int(last) + 1)) if last else (str(case),)


def find_unknown_commits(commits):
    return sorted(
        commit for commit in commits if git("merge-base", "--is-ancestor", commit, "HEAD").returncode != 0
    )


def counted_although_tuned(tuned, results):
    """Cases that set a constant and are counted in a result all the same."""
    cases = {result.name: set(result.cases) for result in results}
    return [
        (entry["benchmark"], case)
        for entry in tuned
        for case in expand(entry["cases"])
        if case in cases[entry["benchmark"]]
    ]


def test_pages_are_those_of_the_saved_results():
    results = load_results()
    assert CLAIMS.read_text() == format_claims(results), "run `python -m benchmarks --pages`"
    for result in results:
        assert (RESULTS / f"{result.name}.md").read_text() == format_result(result), result.name


def test_every_commit_that_is_cited_is_in_the_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no whole git history here: commits cannot be looked up")
    texts = [result.commit for result in load_results()]
    texts += [note for result in load_results() for note in result.notes if "ommit" in note]
    for ledger in (ROOT / "benchmarks/measured").glob("*.json"):
        texts += [entry["commit"] for entry in json.loads(ledger.read_text()).values()]
    commits = {commit for text in texts for commit in HASH.findall(text)}
    assert commits and find_unknown_commits(commits) == []
    assert find_unknown_commits(["0" * 40]) == ["0" * 40]


def test_a_case_that_tuned_a_constant_is_no_evidence():
    results = load_results()
    assert counted_although_tuned(TUNED, results) == []
    counting = next(result for result in results if result.cases)
    entry = {"benchmark": counting.name, "cases": [counting.cases[0]]}
    assert counted_although_tuned([entry], results) == [(counting.name, counting.cases[0])]


def test_results_of_tuned_methods_name_their_cases():
    named = {result.name for result in load_results() if result.cases}
    assert {entry["benchmark"] for entry in TUNED} <= named


@pytest.mark.parametrize(
    "entry", [entry for entry in TUNED if "module" in entry], ids=lambda e: e["constant"]
)
def test_a_tuned_constant_is_where_the_list_says(entry):
    module = importlib.import_module(entry["module"])
    assert hasattr(module, entry["constant"])
    assert set(getattr(module, "TUNED_ON", entry["cases"])) <= set(entry["cases"])


def test_counts_get_an_exact_interval_and_repeats_their_range():
    assert split_interval("0 of 10") == ("0 of 10", "0 to 31 %")
    assert split_interval("39 % on average (38 to 41 %)") == (
        "39 % on average",
        "38 to 41 %, smallest to largest",
    )
    assert split_interval("0.31 s") == ("0.31 s", "-")
    assert split_interval("1.05 [0.95 to 1.20] times") == ("1.05 times", "0.95 to 1.20")
