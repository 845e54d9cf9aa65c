import json

import pytest
from synthetic import START, Clock, Writer, make_folder

from tuner.experiment.files import JOURNAL
from tuner.experiment.results.listing import list_experiments, summarize_experiment
from tuner.experiment.results.results import Results


def test_list_experiments_includes_damaged_folders(snapshot, tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, 0.9, 0.8])
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.end()
    make_folder(tmp_path / "broken")
    (tmp_path / "broken" / JOURNAL).write_text("x\n{}\n")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/experiment.json").write_text('{"who": "else"}')
    (tmp_path / "notes").mkdir()
    for entry in list_experiments(tmp_path):
        snapshot.compare_value(entry)
        snapshot(json.dumps(entry.as_dict(), indent=1))


def test_listed_total_follows_from_the_spec(tmp_path):
    grid = {"strategy": "grid", "space": {"lr": "choice([0.1, 0.2, 0.3])"}}
    specs = {
        "control": {"num_samples": 7},
        "endless": {"num_samples": None, "time_budget_s": 60},
        "grid": {"num_samples": None, "search": grid},
        "other": {
            "num_samples": None,
            "search": grid | {"points": "of another version"},
        },
    }
    for name, spec in specs.items():
        Writer(make_folder(tmp_path / name, **spec)).end()
    totals = {entry.name: entry.total for entry in list_experiments(tmp_path)}
    assert totals == {"control": 7, "endless": None, "grid": 3, "other": None}


@pytest.mark.parametrize("config", [{"lr": 0.1}, {"text": "x" * 100_000}])
def test_listed_with_a_summary_reads_only_the_last_line(snapshot, tmp_path, config):
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
    entry = summarize_experiment(
        folder, read=lambda folder: pytest.fail("it reads the journal")
    )
    results = Results(folder)
    snapshot.compare_value(entry)
    assert entry.searched_s == pytest.approx(results.history.duration_s)
    best = results.describe_best() | {"metrics": {"val_accuracy": 0.7}}
    assert summary["best"].items() <= best.items()


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
