"""docs/faults.md is true: every test and benchmark that it names is there."""

from __future__ import annotations

import re
from importlib.util import find_spec

from pages import Page

from benchmarks.faults import TARGETS

PAGE = Page("docs/faults.md")
TEXT = PAGE.text


def test_the_tests_that_it_names_are_there() -> None:
    assert len(PAGE.named_tests) > 60
    assert PAGE.missing_tests() == []


def test_every_case_has_been_tried_by_something() -> None:
    cases = [line for line in TEXT.splitlines() if line.startswith("| ")]
    cases = [line for line in cases if line != "| what | outcome | tried by |"]
    assert [line for line in cases if not re.search(r"`(tests/|benchmarks\.)", line)] == []


def test_the_benchmark_has_the_targets_that_it_names() -> None:
    for targets in re.findall(r"`benchmarks\.faults[^`]*--targets (\w+)`", TEXT):
        assert targets in TARGETS
    assert find_spec("benchmarks.faults") is not None
