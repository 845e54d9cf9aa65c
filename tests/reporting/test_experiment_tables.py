"""The list of experiments for the terminal."""

from pathlib import Path

from tuner.experiment.results.listing import Listed
from tuner.reporting.experiment_tables import format_experiments

COUNTS = {"completed": 3, "stopped": 8, "failed": 1, "running": 0, "interrupted": 0}


def listed(name, **changes):
    fields = {
        "status": "completed",
        "counts": COUNTS,
        "metric": "val_loss",
        "best": 0.03125,
    }
    return Listed(
        name, Path("results") / name, **{**fields, "started": 1.7e9, **changes}
    )


def test_experiments_table_removes_control_characters():
    assert "\x1b" not in format_experiments([listed("a\x1b[31mb\nc")])
    assert len(format_experiments([listed("a\nb")]).splitlines()) == 2
