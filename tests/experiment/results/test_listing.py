import json

import pytest
from synthetic import START, Clock, Writer, make_folder

from tuner.experiment.files import JOURNAL
from tuner.experiment.results.listing import list_experiments, summarize_experiment
from tuner.experiment.results.results import Results


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
