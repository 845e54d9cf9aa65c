"""docs/security.md is true: its tests are there, its limits and commands are the code's."""

from __future__ import annotations

import re

from pages import Page

from tuner.cli import main as cli
from tuner.experiment import files, reading
from tuner.search import warm_start
from tuner.spec import plain_values, plain_yaml
from tuner.spec import text as spec_text
from tuner.spec.space import parsing
from tuner.vision.datasets.cifar10 import TEST_FILE, TRAIN_FILES

PAGE = Page("docs/security.md")
TEXT = PAGE.text


def test_the_tests_that_hold_it_are_there() -> None:
    assert len(PAGE.named_tests) > 30
    assert PAGE.missing_tests() == []


def test_every_section_is_held_by_some() -> None:
    for section in re.split(r"^#+ ", TEXT, flags=re.MULTILINE)[3:]:
        title, _, body = section.partition("\n")
        assert not body.strip() or "- Held by `tests/" in body, title


def test_its_limits_are_those_of_the_code() -> None:
    assert f"at most {files.LARGEST >> 20} MiB" in TEXT
    assert f"a line of the journal {reading.LONGEST >> 20} MiB" in TEXT
    text = " ".join(TEXT.split())
    for most in (plain_values.MOST, plain_yaml.MOST):
        assert f"{most:,} values in {plain_values.DEEPEST} levels" in text
    assert f"{spec_text.LONGEST:,} characters" in text
    assert f"numbers of {plain_yaml.LONGEST_NUMBER:,} characters" in text
    assert f"A domain may have {parsing.MAX_LENGTH:,} characters" in text
    assert f"limit is {warm_start.MOST_VALUES:,} values" in text
    assert len([*TRAIN_FILES, TEST_FILE]) == 6


def test_the_commands_that_read_a_folder_are_all_there() -> None:
    of_no_folder = {"run", "validate", "spec", "doctor", "submit", "jobs", "logs", "stop"}
    paragraph = TEXT.partition("### None of its code")[2].partition("- Held by")[0]
    named = set(re.findall(r"`(\w+)`", paragraph))
    assert set(cli.cli.commands) - of_no_folder <= named
