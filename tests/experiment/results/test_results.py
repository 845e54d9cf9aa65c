import json

import pytest
from synthetic import START, Writer, ended, make_folder

from tuner.errors import NoUsableTrialError, SpecError, UsageError
from tuner.experiment.results.comparison import curve_of
from tuner.experiment.results.listing import arranged_trials, trial_rows
from tuner.experiment.results.results import Results
from tuner.experiment.results.statistics import VALIDATION
from tuner.reporting.experiment_text import summary
from tuner.reporting.tables import trials_table


@pytest.fixture
def folder(tmp_path):
    """Five trials: stopped, completed and best, failed with the top value, completed, silent."""
    folder = make_folder(tmp_path / "digits")
    writer = Writer(folder)
    writer.trial(1, [0.5, 0.4], end="stopped", config={"lr": 0.5, "augment": {"shift": 1}})
    writer.trial(2, [0.6, 0.9, 0.8], config={"lr": 0.1, "norm": "group"})
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.trial(4, [0.7, 0.7, 0.85])
    writer.trial(5, [], end="interrupted")
    writer.checkpoint("00002", 2, b"two")
    writer.checkpoint("00002", 3, b"three")
    writer.end()
    return folder


@pytest.mark.parametrize(
    ("scope", "best"), [("best", 2), ("all", 2), ("last", 4), ("avg", 2), ("last-5-avg", 2)]
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


def test_no_trial_beyond_the_limits_is_the_best(tmp_path):
    limits = ["ms <= 20"]
    objective = {"metric": "val_accuracy", "mode": "max", "limits": limits}
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    for number, (accuracy, ms) in enumerate([(0.99, 30), (0.5, 20), (0.7, 10)]):
        earlier = {"val_accuracy": accuracy - 0.1, "ms": ms, "val_loss": 1 - accuracy}
        writer.trial(number, [earlier, {**earlier, "val_accuracy": accuracy}])
    writer.trial(3, [{"val_accuracy": 0.6, "ms": 15}, {"val_accuracy": 0.9, "ms": 25}])
    for epoch in (1, 2):
        writer.checkpoint("00003", epoch)
    results = Results(writer.folder)
    assert [trial.trial_id for trial in results.top()] == ["00002", "00003", "00001"]
    assert results.history.best.trial_id == results.show()["best"]["trial_id"] == "00002"
    assert results.get_best_trial("val_loss", "min").trial_id == "00002"
    assert results.best_epoch(results.trial("3")) == 1
    assert results.best_checkpoint(results.trial("3")).epoch == 1
    assert results.best_json(results.trial("0"))["epoch"] == 2  # shown where it is named
    assert curve_of(results.history, results.objective).best == (0.4, 0.5, 0.6, 0.7)
    rows = [row.get("beyond_limits", False) for row in trial_rows(results)]
    assert rows == [True, False, False, False]
    assert ", 1 beyond the limits ms <= 20" in summary(results)
    assert "completed, beyond limits" in trials_table(trial_rows(results), results.objective)


@pytest.mark.parametrize("is_late", [False, True])
def test_values_that_do_not_count_come_last_and_are_marked(tmp_path, is_late):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": ["ms <= 20"]}
    objective |= {"from_epoch": 2} if is_late else {}
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    for number, (accuracy, ms) in enumerate([(0.9, 30), (0.5, 20), (0.7, 10)]):
        report = {"val_accuracy": accuracy, "ms": ms}
        writer.trial(number, [report, report], config={"lr": number})
    writer.trial(3, [{"val_accuracy": 0.8, "ms": 9}], config={"lr": 3})
    writer.trial(4, [{"val_accuracy": 0.99, "ms": 9}] * 2, error=("nan", "m"), config={"lr": 4})
    results = Results(writer.folder)
    rows = trial_rows(results)
    order = arranged_trials(rows, sort="val_accuracy", reverse=True)
    assert order == ([2, 1, 4, 0, 3] if is_late else [3, 2, 1, 4, 0])
    assert arranged_trials(rows, sort="lr", where="lr >= 0") == [0, 1, 2, 3, 4]
    assert arranged_trials(rows, sort="config.lr", reverse=True) == [4, 3, 2, 1, 0]
    table = trials_table(rows, results.objective)
    assert ("completed, before epoch 2" in table) == is_late
    assert table.count("completed, beyond limits") == 1
    frame = results.dataframe().sort_values("best/val_accuracy", ascending=False)
    usable = frame[frame["status"] != "failed"]["trial_id"].map(int).tolist()
    assert usable == ([2, 1, 0, 3] if is_late else [3, 2, 1, 0])
    assert frame["best_epoch"].isna().sum() == (2 if is_late else 1)


def test_trial_whose_late_reports_break_the_limits_is_beyond_them(tmp_path):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": ["ms <= 20"], "from_epoch": 2}
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    writer.trial(0, [{"val_accuracy": 0.5, "ms": 9}, {"val_accuracy": 0.5, "ms": 30}])
    results = Results(writer.folder)
    assert results.beyond == 1
    assert results.why_unusable("val_accuracy") == "1 beyond the limits ms <= 20"


def test_get_best_trial_without_usable_trials_has_reasons(snapshot, tmp_path):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": ["ms <= 20", "ms > 5"]}
    writer = Writer(make_folder(tmp_path / "limited", objective=objective))
    writer.trial(0, [{"val_accuracy": 0.5, "ms": 1}])
    with snapshot.raises(NoUsableTrialError):
        Results(writer.folder).get_best_trial()
    writer = Writer(make_folder(tmp_path / "digits"))
    with snapshot.raises(NoUsableTrialError):
        Results(writer.folder).get_best_trial()
    writer.trial(1, [0.5], error=("oom", "m"))
    writer.trial(2, [], error=("nan", "m"))
    writer.trial(3, [], error=("nan", "m"))
    writer.trial(4, [{"loss": 0.5}])
    writer.end()
    results = Results(writer.folder)
    with snapshot.raises(NoUsableTrialError):
        results.get_best_trial()
    with pytest.raises(NoUsableTrialError):
        results.best_checkpoint()
    assert results.show()["best"] is None


def test_best_checkpoint_uses_the_best_saved_epoch_and_says_so(tmp_path, caplog):
    writer = Writer(make_folder(tmp_path / "digits"))
    trial_id = writer.trial(1, [0.5, 0.6, 0.9, 0.7])
    for epoch in (2, 4):
        writer.checkpoint(trial_id, epoch)
    writer.end()
    results = Results(writer.folder)
    assert results.best_checkpoint().epoch == 4
    message = f"trial {trial_id} kept no checkpoint of its best epoch 3: epoch 4 is taken"
    assert caplog.messages == [message]
    assert results.best_json()["epoch"] == 3
    assert results.best_json()["checkpoint"] is None


def test_best_json_and_show(folder):
    results = Results(folder)
    path = folder / "trials/00002/checkpoints/2/state.pt"
    best = {
        "trial_id": "00002",
        "config": {"lr": 0.1, "norm": "group"},
        "epoch": 2,
        "metrics": {"val_accuracy": 0.9},
        "checkpoint": str(path),
        "shown": "searched",
    }
    assert results.best_json() == best
    assert results.show() == {
        "name": "digits",
        "status": "completed",
        "counts": results.counts,
        "best": best,
    }


def test_trial_accepts_ids_without_zeros(snapshot, folder):
    results = Results(folder)
    assert results.trial("2") is results.trial("00002")
    for wrong in ("6", "best", "-2", ""):
        with snapshot.raises(UsageError):
            results.trial(wrong)
    assert results.log_path(results.trial("2")) == folder / "trials/00002/log.txt"


def test_status_depends_on_a_live_driver(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(1, [0.5], end=None)
    live = Results(writer.folder)
    assert (live.status, live.trials["00001"].status) == ("running", "running")
    assert live.get_best_trial().trial_id == "00001"
    writer.kill()
    dead = Results(writer.folder)
    assert (dead.status, dead.trials["00001"].status) == ("interrupted", "interrupted")
    assert dead.counts["interrupted"] == 1
    again = Writer(writer.folder, resumed=True)
    again.trial(1, [0.6], first=2)
    again.end()
    assert [report.epoch for report in Results(writer.folder).trials["00001"].results] == [1, 2]
    assert Results(writer.folder).status == "completed"


def test_dataframe_has_a_row_for_each_trial(folder):
    frame = Results(folder).dataframe()
    assert " ".join(frame.columns) == (
        "trial_id status seed config/lr config/augment/shift config/norm last/val_accuracy "
        "best/val_accuracy best_epoch epochs started duration_s error message"
    )
    assert list(frame["trial_id"]) == ["00001", "00002", "00003", "00004", "00005"]
    two = frame.iloc[1]
    assert (two["last/val_accuracy"], two["best/val_accuracy"]) == (0.8, 0.9)
    assert (two["best_epoch"], two["epochs"], two["duration_s"]) == (2, 3, 4.0)
    assert frame.loc[2, "error"] == "oom"
    assert frame.loc[2, "message"] == Results(folder).trial("3").error.message
    assert frame["seed"].tolist() == [1] * 5
    assert frame.loc[0, "started"].timestamp() == START + 2
    assert frame["best_epoch"].isna().tolist() == [False] * 4 + [True]


def test_spec_has_the_folders_name_and_storage(folder, tmp_path):
    moved = folder.rename(tmp_path / "elsewhere")
    results = Results(moved)
    assert (results.spec.name, results.spec.storage) == ("elsewhere", str(tmp_path))
    assert results.spec.folder == moved
    assert (results.name, results.document["spec"]["name"]) == ("elsewhere", "digits")
    assert results.spec is results.spec
    assert (results.files.path, results.files.name) == (moved, "elsewhere")
    assert not results.is_confirmation


def test_show_reads_a_spec_of_another_version(snapshot, tmp_path):
    results = Results(ended(tmp_path / "digits", [0.5], of_a_later_version=1))
    assert results.show()["best"]["trial_id"] == "00000"
    with snapshot.raises(SpecError):
        _ = results.spec


def test_best_checkpoint_beyond_the_limits_is_of_the_epoch_that_is_shown(tmp_path, caplog):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": ["val_accuracy < 0.1"]}
    writer = Writer(make_folder(tmp_path / "digits", objective=objective))
    trial_id = writer.trial(1, [0.5, 0.9, 0.7])
    for epoch in (2, 3):
        writer.checkpoint(trial_id, epoch)
    writer.end()
    results = Results(writer.folder)
    trial = results.trial(trial_id)
    assert results.best_checkpoint(trial).epoch == results.best_json(trial)["epoch"] == 2
    assert caplog.messages == []


def defaults_first(tmp_path, first, **fields):
    """Results of a search whose trial 00000 has the default config, and reported `first`."""
    config = {"lr": 0.1}
    search = {"strategy": "random", "space": {"lr": "loguniform(0.0001, 1)"}}
    search |= {"points_to_evaluate": [config]}
    writer = Writer(make_folder(tmp_path / "digits", search=search, **fields))
    path = writer.folder / "experiment.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {VALIDATION: {"images": 100, "baseline": 0.1}}))
    first(writer, config)
    writer.trial(1, [{"val_accuracy": 0.9, "ms": 1}], config={"lr": 0.3})
    return Results(writer.folder)


def started(writer, config):
    writer.add("trial_started", trial_id="00000", config=config)


def failed(writer, config):
    writer.trial(0, [{"val_accuracy": 0.95, "ms": 1}], config=config, error=("exception", "no"))


def beyond(writer, config):
    writer.trial(0, [{"val_accuracy": 0.95, "ms": 9}], config=config)


def reported(writer, config):
    writer.trial(0, [{"val_accuracy": 0.85, "ms": 1}], config=config)


@pytest.mark.parametrize(
    ("first", "default"), [(started, None), (failed, None), (beyond, None), (reported, 0.85)]
)
def test_the_default_config_is_compared_if_its_report_counts(tmp_path, first, default):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": ["ms <= 5"]}
    results = defaults_first(tmp_path, first, objective=objective)
    accuracy = results.accuracy(results.best_json())
    assert accuracy.value == 0.9
    assert (accuracy.default and accuracy.default.value) == default
    assert results.show()["best"]["trial_id"] == "00001"
