"""docs/security.md states the limits and commands of the code."""

from __future__ import annotations

import re

from pages import Page

from tuner.cli import main as cli
from tuner.experiment import files, reading
from tuner.search import warm_start
from tuner.spec import plain_values, plain_yaml
from tuner.spec import text as spec_text
from tuner.spec.space import parsing

TEXT = " ".join(Page("docs/security.md").text.split())


def test_security_page_states_the_limits_of_the_code() -> None:
    assert f"at most {files.LARGEST >> 20} MiB" in TEXT
    assert f"a line of the journal {reading.LONGEST >> 20} MiB" in TEXT
    for most in (plain_values.MOST, plain_yaml.MOST):
        assert f"{most:,} values" in TEXT
    assert f"{spec_text.LONGEST:,} characters" in TEXT
    assert f"numbers of {plain_yaml.LONGEST_NUMBER:,} characters" in TEXT
    assert f"A domain may have {parsing.MAX_LENGTH:,} characters" in TEXT
    assert f"limit is {warm_start.MOST_VALUES:,} values" in TEXT


def test_security_page_names_every_command_that_reads_a_folder() -> None:
    of_no_folder = {"run", "validate", "spec", "doctor", "submit", "jobs", "logs", "stop"}
    section = TEXT.partition("### None of its code")[2].partition("### ")[0]
    assert set(cli.cli.commands) - of_no_folder <= set(re.findall(r"`(\w+)`", section))
