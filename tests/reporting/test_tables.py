"""The tables of `tuner ls` and `tuner best`."""

from pathlib import Path

from tuner.reporting.tables import best_text, experiments_table, jobs_table
from tuner.results.listing import Listed

COUNTS = {"completed": 3, "stopped": 8, "failed": 1, "running": 0, "interrupted": 0}
BEST = {
    "trial_id": "00007",
    "config": {"lr": 0.123456, "optimizer": "sgd"},
    "epoch": 9,
    "metrics": {"val_loss": 0.0312345, "val_accuracy": 0.99},
    "checkpoint": "results/digits/trials/00007/checkpoints/9/state.pt",
    "shown": "searched",
}


def listed(name, **changes):
    fields = {"status": "completed", "counts": COUNTS, "metric": "val_loss", "best": 0.03125}
    return Listed(name, Path("results") / name, **{**fields, "started": 1.7e9, **changes})


def test_nothing_yet_says_how_to_begin():
    assert experiments_table([]) == "no experiments yet; start with: tuner run digits"


def test_a_line_an_experiment_with_columns_aligned():
    lines = experiments_table([listed("digits"), listed("a-longer-name", best=None)]).splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "TRIALS", "FAILED", "BEST", "STARTED"]
    assert lines[1].split()[:6] == ["digits", "completed", "12", "1", "val_loss", "0.03125"]
    assert len({line.index("completed") for line in lines[1:]}) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_a_damaged_one_is_listed_without_times():
    counts = dict.fromkeys(COUNTS, 0)
    damaged = listed("x", status="damaged", counts=counts, metric=None, best=None, started=None)
    assert experiments_table([damaged]).splitlines()[1].split() == ["x", "damaged", "0", "0"]


def test_a_foreign_name_moves_no_cursor():
    assert "\x1b" not in experiments_table([listed("a\x1b[31mb\nc")])
    assert len(experiments_table([listed("a\nb")]).splitlines()) == 2


def test_the_best_trial():
    assert best_text(BEST).splitlines() == [
        "trial 00007, epoch 9, searched",
        "  metrics",
        "    val_loss      0.03123",
        "    val_accuracy  0.99",
        "  config",
        "    lr            0.1235",
        "    optimizer     sgd",
        "  checkpoint  results/digits/trials/00007/checkpoints/9/state.pt",
    ]


def test_a_best_epoch_without_a_checkpoint_says_so():
    assert best_text(BEST | {"checkpoint": None}).endswith("none kept at this epoch")


def test_jobs_are_listed_with_their_commands():
    from tuner.cluster.jobs import Job

    ended = Job("a", "SUCCEEDED", "tuner run x", 1_000.0, 1_072.0, 0, "")
    waits = Job("bc", "PENDING", "tuner run y", None, None, None, "")
    head, first, second = jobs_table([ended, waits], now=2_000.0).splitlines()
    assert head.split() == ["ID", "STATUS", "STARTED", "TOOK", "COMMAND"]
    assert first.split()[:2] == ["a", "succeeded"]
    assert first.endswith("1m 12s  tuner run x")
    assert second.split() == ["bc", "pending", "tuner", "run", "y"]
    assert jobs_table([], now=0.0).startswith("no jobs yet")
