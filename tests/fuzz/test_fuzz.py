"""Readers of files and messages end in our own errors, whatever they read: the corpus, and a few changes of it."""

import random

import pytest

from tests.fuzz.mutate import mutate
from tests.fuzz.targets import CORPUS, TARGETS, call, seeds

CHANGED = 8
"""Inputs of each target that are changed at random; `python -m benchmarks --only faults` reads many more."""


@pytest.mark.parametrize("name", TARGETS)
def test_only_our_own_errors_escape_a_reader(name, tmp_path):
    (tmp_path / "seeds").mkdir()
    corpus = list(seeds(name, tmp_path / "seeds"))
    rng = random.Random(name)
    refused = 0
    for content in (*corpus, *(mutate(rng, corpus) for _ in range(CHANGED))):
        error = call(TARGETS[name], content, tmp_path)
        refused += error is not None
        assert error is None or len(str(error).splitlines()) <= 3, str(error)
    assert refused or name in (
        "yaml",
        "names",
        "select",
        "condition",
        "stage",
        "reached",
        "running",
        "settings",
    )


def test_every_folder_of_the_corpus_belongs_to_a_target():
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
