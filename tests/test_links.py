"""Links between the pages lead somewhere, and CONTRIBUTING shows every package."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = [*sorted(ROOT.glob("docs/*.md")), ROOT / "docs/llms.txt"]
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
PAGES += [ROOT / "examples/README.md", *ROOT.glob("benchmarks/*.md")]


def headings(page):
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_a_file_and_heading(page):
    links = re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", page.read_text())
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in headings(target), f"{path}#{anchor}"


def test_llms_txt_links_every_page():
    links = re.findall(r"^- \[.+\]\((.+)\): .+$", DOCS[-1].read_text(), re.MULTILINE)
    assert sorted(links) == [page.name for page in DOCS[:-1]]


def test_contributing_shows_every_package():
    layout = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layout")[2]
    packages = {path.parent.name for path in (ROOT / "tuner").glob("*/__init__.py")}
    assert set(re.findall(r"^  (\w+)/ ", layout, flags=re.MULTILINE)) == packages
    for path in re.findall(r"`(tuner/[\w/]+(?:\.py|/))`", layout):
        assert (ROOT / path).exists() or "NAME" in path, path
