"""Tables for the terminal, and the curve of one trial."""

from pathlib import Path

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.results.listing import Listed
from tuner.experiment.results.trial_rows import build_trial_rows
from tuner.reporting.doctor import Finding
from tuner.reporting.tables import format_experiments, format_findings, format_trial, format_trials

COUNTS = {"completed": 3, "stopped": 8, "failed": 1, "running": 0, "interrupted": 0}


def listed(name, **changes):
    fields = {"status": "completed", "counts": COUNTS, "metric": "val_loss", "best": 0.03125}
    return Listed(name, Path("results") / name, **{**fields, "started": 1.7e9, **changes})


def test_experiments_table_removes_control_characters():
    assert "\x1b" not in format_experiments([listed("a\x1b[31mb\nc")])
    assert len(format_experiments([listed("a\nb")]).splitlines()) == 2


GOOD = Finding("machine", "CPUs", "4 of 4")
SLOW = Finding("machine", "disk", "slow \x1b[31m", "warning", "buy another")
BROKEN = Finding("versions", "ray", "not installed", "broken", "pip install ray")


def test_findings_text_shows_advice_and_verdict():
    assert format_findings([GOOD, SLOW, BROKEN]).splitlines() == [
        "machine   CPUs  ok       4 of 4",
        "machine   disk  warning  slow  [31m",
        "versions  ray   broken   not installed",
        "",
        "warning  machine, disk: buy another",
        "broken  versions, ray: pip install ray",
        "",
        "A search would not work: 1 finding.",
    ]


@pytest.fixture
def results(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.75, 0.625], config={"lr": 0.1, "model": "cnn"})
    writer.trial(1, [0.25], end="stopped", config={"lr": 0.2, "model": "cnn"})
    writer.trial(2, error=("oom", "\x1b[31mno memory"), config={"lr": 0.3, "model": "cnn"})
    writer.end()
    return writer.results


def test_trials_table_shows_varying_hyperparameters(results):
    assert format_trials(build_trial_rows(results), results.objective).splitlines() == [
        "TRIAL  STATUS     VAL_ACCURACY  EPOCH  OF  TIME  lr",
        "00000  completed  0.75          2      3   4s    0.1",
        "00001  stopped    0.25          1      1   2s    0.2",
        "00002  oom                             0   1s    0.3",
    ]
    assert format_trials([], results.objective) == "no trials"


def test_trial_text_has_a_curve(results):
    lines = format_trial(results, results.trials["00000"]).splitlines()
    assert lines[:5] == [
        "trial 00000: completed after 4s",
        "  lr     0.1",
        "  model  cnn",
        "",
        "val_accuracy",
    ]
    assert lines[5] == "0.75 |  *"
    assert lines[-2] == " 0.5 |*"
    assert lines[-1] == "      1   3  epoch"
    assert len(lines) == 5 + 12 + 1
    assert "\x1b" not in format_trial(results, results.trials["00002"])
