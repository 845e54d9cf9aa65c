import json

import pytest
from synthetic import START, Writer, ended, make_folder

from tuner.errors import NoUsableTrialError, SpecError, UsageError
from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import build_trial_rows, select_trial_rows
from tuner.reporting.experiment_text import format_summary
from tuner.reporting.trial_tables import format_trials


@pytest.fixture
def folder(tmp_path):
    """Five trials: stopped, completed and best, failed with the top value, completed, silent."""
    folder = make_folder(tmp_path / "digits")
    writer = Writer(folder)
    writer.trial(
        1, [0.5, 0.4], end="stopped", config={"lr": 0.5, "augment": {"shift": 1}}
    )
    writer.trial(2, [0.6, 0.9, 0.8], config={"lr": 0.1, "norm": "group"})
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.trial(4, [0.7, 0.7, 0.85])
    writer.trial(5, [], end="interrupted")
    writer.checkpoint("00002", 2, b"two")
    writer.checkpoint("00002", 3, b"three")
    writer.end()
    return folder


@pytest.mark.parametrize(
    ("scope", "best"),
    [("best", 2), ("all", 2), ("last", 4), ("avg", 2), ("last-5-avg", 2)],
)
def test_get_best_trial_ignores_failed_trials(folder, scope, best):
    assert Results(folder).get_best_trial(scope=scope).trial_id == f"{best:05}"


@pytest.mark.parametrize(
    "arguments",
    [{"metric": "val_acuracy"}, {"mode": "maximum"}, {"scope": "first"}],
)
def test_get_best_trial_invalid_argument_lists_choices(folder, arguments, snapshot):
    with snapshot.raises(UsageError):
        Results(folder).get_best_trial(**arguments)


@pytest.mark.parametrize("late", [{}, {"from_epoch": 2}])
def test_values_that_do_not_count_come_last_and_are_marked(snapshot, tmp_path, late):
    objective = {
        "metric": "val_accuracy",
        "mode": "max",
        "limits": ["ms <= 20"],
        **late,
    }
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    for number, (accuracy, ms) in enumerate([(0.9, 30), (0.5, 20), (0.7, 10)]):
        report = {"val_accuracy": accuracy, "ms": ms}
        writer.trial(number, [report, report], config={"lr": number})
    writer.trial(3, [{"val_accuracy": 0.8, "ms": 9}], config={"lr": 3})
    writer.trial(
        4, [{"val_accuracy": 0.99, "ms": 9}] * 2, error=("nan", "m"), config={"lr": 4}
    )
    results = writer.results
    rows = build_trial_rows(results)
    for sort in ("val_accuracy", "lr", "config.lr"):
        snapshot.compare_value(
            select_trial_rows(rows, sort=sort, where="lr >= 0", reverse=True)
        )
    snapshot(format_trials(rows, results.objective))
    assert ", 1 beyond the limits ms <= 20" in format_summary(results)
    frame = results.dataframe().sort_values("best/val_accuracy", ascending=False)
    snapshot(frame[["trial_id", "status", "best_epoch", "best/val_accuracy"]].to_csv())


def test_trial_whose_late_reports_break_the_limits_is_beyond_them(tmp_path):
    objective = {
        "metric": "val_accuracy",
        "mode": "max",
        "limits": ["ms <= 20"],
        "from_epoch": 2,
    }
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    writer.trial(0, [{"val_accuracy": 0.5, "ms": 9}, {"val_accuracy": 0.5, "ms": 30}])
    results = writer.results
    assert results.beyond == 1
    assert results.describe_unusable("val_accuracy") == "1 beyond the limits ms <= 20"


def test_get_best_trial_without_usable_trials_has_reasons(snapshot, tmp_path):
    objective = {
        "metric": "val_accuracy",
        "mode": "max",
        "limits": ["ms <= 20", "ms > 5"],
    }
    limited = Writer(make_folder(tmp_path / "limited", objective=objective))
    limited.trial(0, [{"val_accuracy": 0.5, "ms": 1}])
    empty = Results(ended(tmp_path / "empty"))
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(1, [0.5], error=("oom", "m"))
    writer.trial(2, [], error=("nan", "m"))
    writer.trial(3, [], error=("nan", "m"))
    writer.trial(4, [{"loss": 0.5}])
    writer.end()
    for results in (limited.results, empty, writer.results):
        for find in (results.get_best_trial, results.best_checkpoint):
            with snapshot.raises(NoUsableTrialError):
                find()
        assert results.show()["best"] is None


def test_best_checkpoint_uses_the_best_saved_epoch_and_says_so(writer, caplog):
    trial_id = writer.trial(1, [0.5, 0.6, 0.9, 0.7])
    for epoch in (2, 4):
        writer.checkpoint(trial_id, epoch)
    writer.end()
    results = writer.results
    assert results.best_checkpoint().epoch == 4
    message = (
        f"trial {trial_id} kept no checkpoint of its best epoch 3: epoch 4 is taken"
    )
    assert caplog.messages == [message]
    assert results.describe_best()["epoch"] == 3
    assert results.describe_best()["checkpoint"] is None


def test_best_json_and_show(snapshot, folder):
    results = Results(folder)
    shown = results.show()
    assert shown["best"] == results.describe_best()
    snapshot(json.dumps(shown, indent=1))


def test_trial_accepts_ids_without_zeros(snapshot, folder):
    results = Results(folder)
    assert results.trial("2") is results.trial("00002")
    for wrong in ("6", "best", "-2", ""):
        with snapshot.raises(UsageError):
            results.trial(wrong)
    assert results.log_path(results.trial("2")) == folder / "trials/00002/log.txt"


def test_status_depends_on_a_live_driver(writer):
    writer.trial(1, [0.5], end=None)
    live = writer.results
    assert (live.status, live.trials["00001"].status) == ("running", "running")
    assert live.get_best_trial().trial_id == "00001"
    writer.kill()
    dead = writer.results
    assert (dead.status, dead.trials["00001"].status) == ("interrupted", "interrupted")
    assert dead.counts["interrupted"] == 1


def test_dataframe_has_a_row_for_each_trial(snapshot, folder):
    frame = Results(folder).dataframe()
    assert frame.loc[0, "started"].timestamp() == START + 2
    snapshot(frame.drop(columns="started").to_csv())


def test_spec_has_the_folders_name_and_storage(folder, tmp_path):
    moved = folder.rename(tmp_path / "elsewhere")
    results = Results(moved)
    assert (results.spec.folder, results.files.path) == (moved, moved)
    assert (results.name, results.document["spec"]["name"]) == ("elsewhere", "digits")
    assert not results.is_confirmation


def test_show_reads_a_spec_of_another_version(snapshot, tmp_path):
    results = Results(ended(tmp_path / "digits", [0.5], of_a_later_version=1))
    assert results.show()["best"]["trial_id"] == "00000"
    with snapshot.raises(SpecError):
        _ = results.spec
