import json

import pytest
from synthetic import START, Clock, Writer, make_folder

from tuner.errors import UsageError
from tuner.experiment.files import JOURNAL
from tuner.experiment.results.listing import (
    build_trial_rows,
    describe_trial,
    list_experiments,
    select_rows,
    summarize_experiment,
)
from tuner.experiment.results.results import Results

ROWS = [
    {"name": "a", "loss": 0.5, "tags": ["x"], "config": {"lr": 0.1, "o": {"m": 2}}},
    {"name": "b", "loss": None, "tags": [], "config": {"lr": "auto"}},
    {"name": "c", "loss": 0.25, "tags": ["x", "y"]},
]


def test_list_experiments_includes_damaged_folders(tmp_path):
    storage = tmp_path
    writer = Writer(make_folder(storage / "digits"))
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, 0.9, 0.8])
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.end()
    make_folder(storage / "broken")
    (storage / "broken" / JOURNAL).write_text("x\n{}\n")
    (storage / "foreign").mkdir()
    (storage / "foreign/experiment.json").write_text('{"who": "else"}')
    (storage / "notes").mkdir()
    listed = list_experiments(storage)
    assert [entry.name for entry in listed] == ["digits", "broken", "foreign"]
    digits, broken, foreign = listed
    assert (digits.status, digits.best, digits.metric) == ("completed", 0.9, "val_accuracy")
    assert (digits.started, digits.counts["failed"]) == (START + 1, 1)
    assert (broken.status, foreign.status) == ("damaged", "damaged")
    assert "line 1" in (broken.problem or "")
    assert json.loads(json.dumps(digits.as_dict()))["counts"]["completed"] == 1


def test_listed_total_follows_from_the_spec(tmp_path):
    grid = {"strategy": "grid", "space": {"lr": "choice([0.1, 0.2, 0.3])"}}
    endless = {"num_samples": None, "time_budget_s": 60}
    for name, spec in {"control": {"num_samples": 7}, "endless": endless}.items():
        Writer(make_folder(tmp_path / name, **spec)).end()
    Writer(make_folder(tmp_path / "grid", search=grid, num_samples=None)).end()
    unread = {**grid, "points": "of another version"}
    Writer(make_folder(tmp_path / "other", search=unread, num_samples=None)).end()
    totals = {entry.name: entry.total for entry in list_experiments(tmp_path)}
    assert totals == {"control": 7, "endless": None, "grid": 3, "other": None}


@pytest.mark.parametrize("config", [{"lr": 0.1}, {"text": "x" * 100_000}])
def test_listed_with_a_summary_reads_only_the_last_line(tmp_path, config):
    folder = make_folder(tmp_path / "digits")
    writer = Writer(folder)
    trial_id = writer.trial(0, [0.5, 0.7], end=None, config=config)
    writer.kill()
    writer = Writer(folder, resumed=True, clock=Clock(START + 1000))
    writer.add("trial_ended", trial_id=trial_id, status="completed")
    writer.trial(1, [0.9], error=("oom", "m"))
    summary = Results(folder).history.summarize(4)
    writer.add("experiment_ended", status="completed", reason="finish", **summary)
    writer.kill()
    entry = summarize_experiment(folder, read=lambda folder: pytest.fail("it reads the journal"))
    history = Results(folder).history
    assert (entry.status, entry.ended_by, entry.total) == ("completed", "finish", 4)
    assert (entry.counts["completed"], entry.counts["failed"], entry.best) == (1, 1, 0.7)
    assert entry.started == history.started
    assert entry.searched_s == pytest.approx(history.duration_s)
    best = Results(folder).describe_best() | {"metrics": {"val_accuracy": 0.7}}
    assert summary["best"] == {key: best[key] for key in ("trial_id", "config", "epoch", "metrics")}


def test_listed_total_counts_the_trials_that_users_tried(tmp_path):
    folder = make_folder(tmp_path / "digits", num_samples=1)
    with_others = Writer(folder)
    with_others.trial(1, [0.5])
    with_others.trial(2, [0.6])  # before the number of samples was made less
    for number in range(2):
        control = {"verb": "try", "config": {"lr": number}}
        with_others.add("control", id=f"{number}", control=control)
    with_others.end()
    assert summarize_experiment(folder).total == 4


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (None, [0, 1, 2]),
        ("loss < 0.4", [2]),
        ("loss == None", [1]),
        ("'x' in tags and not ('y' in tags)", [0]),
        ("config.lr > 0", [0]),  # what cannot be compared, or is not there, does not match
        ("config.o.m == 2 or name == 'c'", [0, 2]),
        ("name >= 'b'", [1, 2]),
    ],
)
def test_arranged_filters_by_where(where, numbers):
    assert select_rows(ROWS, where=where) == numbers


@pytest.mark.parametrize(
    "where",
    ["los < 1", "loss <", "loss = 1", "config.lrr < 1", "__import__('os')"],
)
def test_arranged_invalid_where_is_refused(where, snapshot):
    with snapshot.raises(UsageError):
        select_rows(ROWS, where=where)
    assert select_rows([], where="los < 1") == []


def test_arranged_sorts_missing_values_last(snapshot):
    assert select_rows(ROWS, sort="loss") == [2, 0, 1]
    assert select_rows(ROWS, sort="loss", reverse=True) == [0, 2, 1]
    assert select_rows(ROWS, sort="config.lr") == [0, 1, 2]  # numbers before text
    assert select_rows(ROWS, sort="tags") == [1, 0, 2]
    assert select_rows(ROWS, where="name == 'c'", sort="config") == [2]
    with snapshot.raises(UsageError):
        select_rows(ROWS, where="name == 'c'", sort="lr")


def test_arranged_reads_names_with_dots_and_slashes():
    rows = [{"val.ms": n, "val/acc": n, "config": {"a.b": n}} for n in (3, 1, 2)]
    assert select_rows(rows, where="val.ms > 1 and value('val/acc') < 3") == [2]
    for name in ("val.ms", "val/acc", "config.a.b"):
        assert select_rows(rows, sort=name) == [1, 2, 0]


def test_trial_rows_have_best_metrics_and_config(snapshot, writer):
    writer.trial(0, [0.5, 0.75, 0.6], config={"lr": 0.1, "status": "mine", "o": {"m": 1}})
    writer.trial(1, error=("oom", "m"))
    writer.end()
    results = writer.results
    rows = build_trial_rows(results)
    snapshot(json.dumps(rows, indent=1))
    reports = describe_trial(results, results.trials["00000"])["reports"]
    assert reports[1] == {"epoch": 2, "val_accuracy": 0.75}
    assert describe_trial(results, results.trials["00001"]) == {
        **rows[1],
        "message": "m",
        "reports": [],
    }
