"""The front end that ships is the build of the sources beside it, and holds nothing that a browser would fetch elsewhere."""

import re
from hashlib import sha256
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
STATIC = REPOSITORY / "twinloop" / "studio" / "static"
FRONTEND = REPOSITORY / "frontend"


def read_manifest() -> dict[str, str]:
    lines = (STATIC / "sources.sha256").read_text().splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def test_the_built_files_are_the_build_of_the_sources() -> None:
    manifest = read_manifest()
    changed = [
        path
        for path, digest in manifest.items()
        if not (REPOSITORY / path).is_file() or sha256((REPOSITORY / path).read_bytes()).hexdigest() != digest
    ]
    assert changed == [], "build again: make studio"


def test_no_source_and_no_built_file_is_missing_from_the_manifest() -> None:
    sources = [path for path in (FRONTEND / "src").rglob("*") if path.is_file()]
    built = [path for path in STATIC.rglob("*") if path.is_file() and path.name != "sources.sha256"]
    listed = {path.relative_to(REPOSITORY).as_posix() for path in (*sources, *built)}
    assert listed - set(read_manifest()) == set(), "build again: make studio"


def test_the_built_files_are_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) < 1_600_000


def test_pages_run_no_inline_script_and_fetch_nothing_from_elsewhere() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)
    assert not re.findall(r"(?:src|href)=\"(?!/)[^\"]*\"", page)
    for style in STATIC.rglob("*.css"):
        assert not re.findall(r"url\(\"?(?!\"?(?:\./|data:))[^)]*\)|@import", style.read_text())


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (FRONTEND / "package-lock.json").read_text()
