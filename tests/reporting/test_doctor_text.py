"""The doctor's table."""

import pytest
from rich.console import Console

from tuner.doctor.finding import Finding
from tuner.reporting.doctor_text import doctor_table

GOOD = Finding("machine", "CPUs", "4 of 4")
SLOW = Finding("machine", "disk", "slow \x1b[31m", "warning", "buy another")
BROKEN = Finding("versions", "ray", "not installed", "broken", "pip install ray")


def text(findings):
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(doctor_table(findings))
    return [line.rstrip() for line in capture.get().rstrip().splitlines()]


def test_findings_advice_and_verdict():
    assert text([GOOD, SLOW, BROKEN]) == [
        "machine   CPUs  4 of 4         ok",
        "          disk  slow  [31m     warning",
        "versions  ray   not installed  broken",
        "",
        "warning  machine, disk: buy another",
        "broken  versions, ray: pip install ray",
        "",
        "A search would not work: 1 finding.",
    ]


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([GOOD], "Nothing would break a search."),
        ([GOOD, SLOW], "Nothing would break a search, 1 warning."),
        ([BROKEN, BROKEN], "A search would not work: 2 findings."),
    ],
)
def test_the_verdict(findings, verdict):
    assert text(findings)[-1] == verdict
