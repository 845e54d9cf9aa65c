"""Options: durations, and flags as the KEY=VALUE that they stand for."""

import click
import pytest
from click.testing import CliRunner

from tuner.cli import options
from tuner.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1d2s", 86402),
    ],
)
def test_durations(text, seconds):
    assert options.duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "10x", "1h 30m", "-5", "1e3", "nan", "inf", "ten", "h1"]
)
def test_duration_rejects_other_text(text):
    with pytest.raises(
        click.BadParameter, match="is no duration; write 90, 90s, 10m or 1h30m"
    ):
        options.duration(text)


def assignments(*arguments):
    texts = []

    @click.command()
    @options.spec
    def command(experiment, assignments, address, **flags):
        texts.extend(options.list_assignments(flags))

    CliRunner().invoke(command, ["digits", *arguments], catch_exceptions=False)
    return texts


def test_flags_are_assignments():
    assert assignments("--refit", "--final") == ['refit="final"']
    with pytest.raises(UsageError, match="leave --no-refit out"):
        assignments("--no-refit", "--final")
    assert assignments() == []
    assert assignments(
        "--time-budget", "2m", "--gpus", "0.25", "--name", "a", "--seed", "0"
    ) == [
        "time_budget_s=120.0",
        "seed=0",
        "resources.gpus=0.25",
        'name="a"',
    ]
    numbers = (
        "num-samples",
        "max-concurrent",
        "seed",
        "cpus",
        "gpus",
        "workers",
        "time-budget",
    )
    texts = ("name", "storage", "data-dir", "from", "search", "scheduler")
    flags = [part for name in (*numbers, *texts) for part in (f"--{name}", "1")]
    assert len(assignments(*flags)) == len(numbers) + len(texts)
