"""The examples are valid, short, and listed with the figures that they record.

tests/integration/test_examples.py runs them.
"""

import re
import shlex

import pytest
from commands import call
from pages import EXAMPLES, ROOT, Page

ROWS = {
    cells[0]: cells[1:]
    for cells in re.findall(
        r"(?m)^\| \[(\w+)\.py\]\(\1\.py\) \| .+ \| (.+) \| (\w+) ([\d.]+) \|$",
        Page("examples/README.md").text,
    )
}
LONGEST = 110  # lines


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_valid(example, working_dir):
    example.skip_without_packages()
    (working_dir / "examples").symlink_to(ROOT / "examples")
    command, output = example.sessions[0]
    _, _, *arguments = shlex.split(command)
    done = call("validate", *arguments)
    assert not done.exception, done.output
    [trials] = re.findall(r"(?m)^ +(\d+) trials: ", output)
    assert re.search(rf"(?m)^  Trials +{trials},", done.stdout), done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_is_short_and_listed_as_recorded(example):
    assert example.text.count("\n") <= LONGEST
    duration, metric, value = ROWS[example.name]
    output = example.sessions[0][1]
    assert f"completed in {duration}\n" in output
    assert re.search(rf"(?m)^ +{metric} +{value}\b", output)
