"""A finding as JSON and as text."""

import doctest

from tuner.reporting.advice import finding
from tuner.reporting.advice.finding import Finding

EDGE = Finding(
    "edge", "high", "Seen 1.\x1b[31m", "It means 2.", "tuner best x", {"n": 3}
)


def test_finding_as_text_has_three_printable_lines():
    seen, meaning, command = EDGE.format_text().split("\n")
    assert seen == "high: Seen 1. [31m"
    assert (meaning, command) == ("  It means 2.", "  $ tuner best x")
    assert EDGE.as_dict()["evidence"]["n"] == 3


def test_finding_examples_hold():
    assert doctest.testmod(finding).failed == 0
