"""Adds the pages outside of docs/ to the site, and points links at them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {  # path on the site -> path in the repository
    "index.md": "README.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/README.md": "examples/README.md",
    **{
        f"benchmarks/{page.name}": f"benchmarks/{page.name}"
        for page in ROOT.glob("benchmarks/*.md")
    },
}
LINKED = ("cluster/*", "examples/*.py", "experiments/*.py")  # files that pages link


def on_files(files: Files, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File, InclusionLevel

    for path, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, path, content=text))
    for pattern in LINKED:
        for file in ROOT.glob(pattern):
            path = file.relative_to(ROOT).as_posix()
            # Included: else `exclude_docs` leaves out Python files
            included = InclusionLevel.INCLUDED
            files.append(
                File.generated(config, path, abs_src_path=str(file), inclusion=included)
            )
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """llms.txt links the Markdown of the pages."""
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, config.site_dir)


def on_page_markdown(markdown: str, **_: object) -> str:
    """The links of a page in the repository as links of the site, where docs/ is the root."""
    markdown = markdown.replace("](../README.md", "](index.md")
    return re.sub(r"\]\((\.\./)?(?:docs|\.\.)/(?!\.)", r"](\1", markdown)
