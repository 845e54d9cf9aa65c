"""Links between the pages: each file is there, and each heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", page.read_text())
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in headings(target), f"{path}#{anchor}"
