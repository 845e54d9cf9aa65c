"""docs/faults.md is true: every test and benchmark that it names is there."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from benchmarks.faults import TARGETS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def test_the_tests_that_it_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 60
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, function


def test_every_case_has_been_tried_by_something() -> None:
    cases = [line for line in TEXT.splitlines() if line.startswith("| ")]
    cases = [line for line in cases if line != "| what | outcome | tried by |"]
    assert [line for line in cases if not re.search(r"`(tests/|benchmarks\.)", line)] == []


def test_the_benchmark_has_the_targets_that_it_names() -> None:
    for targets in re.findall(r"`benchmarks\.faults[^`]*--targets (\w+)`", TEXT):
        assert targets in TARGETS
    assert find_spec("benchmarks.faults") is not None
