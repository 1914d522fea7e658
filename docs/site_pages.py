"""MkDocs hook: pages that live outside docs/ join the site, and links in any page follow them there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def outside_pages() -> dict[Path, str]:
    """Markdown files outside docs/ that belong to the site, each with its address in the site."""
    pages = {
        ROOT / "README.md": "index.md",
        ROOT / "CHANGELOG.md": "reference/changes.md",
        ROOT / "CONTRIBUTING.md": "reference/contributing.md",
        ROOT / "benchmarks/RESULTS.md": "research/benchmarks.md",
    }
    for path in sorted((ROOT / "benchmarks/results").glob("*.md")):
        pages[path] = f"research/benchmarks/{path.name}"
    return pages


def on_files(files: Any, config: Any) -> Any:
    """Add the outside pages, except those for which docs/ has its own."""
    for path, address in outside_pages().items():
        if files.get_file_from_path(address) is None:
            files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links from places in the repository to places in the site."""
    addresses = outside_pages()
    source = next((path for path, address in addresses.items() if address == page.file.src_uri), None)
    source = source if page.file.generated_by else None
    source = source or ROOT / "docs" / page.file.src_uri

    def follow(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[2]))
        if target in addresses:
            address = addresses[target]
        elif target.is_relative_to(ROOT / "docs"):
            address = target.relative_to(ROOT / "docs").as_posix()
        else:
            return match[0]
        start = Path(page.file.src_uri).parent
        return f"{match[1]}{os.path.relpath(address, start)}{match[3]}"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(follow, part) for part in parts)
