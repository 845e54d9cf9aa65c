"""What an experiment came to, in words."""

import json
from math import log1p

import pytest
from confirmed import retrained, searched
from synthetic import Clock, Writer, make_folder, read_document

import tuner
from tuner.experiment.results.confirmation import describe_best
from tuner.experiment.results.listing import list_experiments
from tuner.experiment.results.results import Results
from tuner.reporting.advice import advise
from tuner.reporting.experiment_tables import format_experiments
from tuner.reporting.experiment_text import format_best_trial, format_summary
from tuner.reporting.live_view import format_status
from tuner.reporting.report import Report


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_STORAGE", "results")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def metrics(accuracy):
    return {"val_loss": 1 - accuracy, "val_accuracy": accuracy, "train_loss": 0.1, "lr": 0.2}


@pytest.mark.parametrize(("best", "is_better"), [(0.91, False), (0.99, True)])
def test_best_trial_is_compared_with_the_default_config(storage, best, is_better):
    search = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.0001, 1)"}}
    folder = make_folder(
        storage / "digits", search={**search, "points_to_evaluate": [{"lr": 0.1}, {"lr": 0.2}]}
    )
    writer = Writer(with_baseline(folder, images=200, baseline=0.1))
    writer.trial(0, [metrics(0.9), metrics(0.5)], config={"lr": 0.1}, origin="initial")
    writer.trial(1, [metrics(best)], config={"lr": 0.2})
    writer.end()
    results = Results(folder)
    sentence = f"val_accuracy {best} is no better than the default config (trial 00000, 0.9)"
    [shown] = describe_best(results)
    advice = repr(advise(results))
    texts = (
        format_summary(results),
        format_best_trial(shown, results.compute_accuracy(shown), results.metric),
        advice,
    )
    assert [sentence in " ".join(text.split()) for text in texts] == [not is_better] * 3
    assert results.show()["validation"].get("default") == (None if is_better else 0.9)
    default = results.describe_best(results.trials["00000"])
    assert results.compute_accuracy(default).default is None


def test_summary_of_completed_search(snapshot, storage):
    make_folder(storage / "digits")
    writer = Writer("results/digits", clock=Clock(tick=5.0))
    writer.trial(
        1, [metrics(0.5), metrics(0.75), metrics(0.625)], config={"lr": 0.003552, "batch_size": 64}
    )
    writer.trial(2, [metrics(0.25)], end="stopped")
    long = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.1 GiB total "
        "capacity), at train.py:12 in step: x = self.model(y)"
    )
    writer.trial(3, [], error=("nan", "val_loss is nan at epoch 1"))
    writer.trial(4, [metrics(0.9)], error=("oom", long))
    writer.trial(5, [], error=("oom", "another"))
    log = storage / "digits/trials/00004/log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("...")
    writer.end()
    results = writer.results
    test = {"trial_id": "00001", "epoch": 2, "test_accuracy": 0.71234, "test_loss": 0.3}
    text = format_summary(results, test)
    snapshot(text)
    assert max(map(len, text.splitlines())) <= 80


def with_baseline(folder, **validation):
    path = folder / "experiment.json"
    document = read_document(path)
    path.write_text(json.dumps({**document, "validation": validation}))
    return folder


def test_summary_of_uneven_classes_has_the_macro_recall(snapshot, storage):
    writer = Writer(make_folder(storage / "uneven"))
    writer.trial(0, [{**metrics(0.8), "eval_loss": 0.25}], config={})
    writer.end()
    confusion = {"classes": ["cat", "dog"], "matrix": [[90, 0], [5, 5]]}
    test = {"test_accuracy": 0.95, "images": 100, "confusion": confusion}
    snapshot(format_summary(writer.results, test))


def test_summary_warns_of_accuracy_that_does_not_beat_the_baseline(snapshot, storage):
    writer = Writer(with_baseline(make_folder(storage / "digits"), images=60, baseline=0.5))
    writer.trial(3, [metrics(0.55)], config={"model_args": {"width": 16, "dropout": 1 / 3}})
    writer.end()
    results = writer.results
    snapshot(format_summary(results))
    best = results.describe_best()
    snapshot(format_best_trial(best, results.compute_accuracy(best), results.metric))
    assert results.show()["validation"]["beats_baseline"] is False


def test_summary_of_interrupted_search_has_resume_command(snapshot, storage):
    writer = Writer(make_folder(storage / "digits"))
    writer.trial(1, [0.5], end=None)
    writer.kill()
    snapshot(format_summary(writer.results))


def test_summary_out_of_time_has_resume_command(snapshot, storage):
    writer = Writer(make_folder(storage / "digits", time_budget_s=90.0))
    writer.trial(0, [0.5])
    writer.trial(1, [0.5], end="interrupted")
    writer.add("experiment_ended", status="completed", reason="time_budget", never_started=7)
    results = writer.results
    snapshot(format_summary(results))
    assert (results.show()["status"], results.show()["ended_by"]) == ("completed", "time_budget")
    assert "out of time" in format_experiments(list_experiments(storage))


@pytest.mark.parametrize(
    ("trials", "value", "per_hour"),
    [(19, "not known yet", None), (20, "1.1 of val_accuracy", 0.25 * log1p(3600 / 40))],
)
def test_summary_and_report_show_what_another_hour_is_expected_to_bring(
    storage, trials, value, per_hour
):
    writer = Writer(make_folder(storage / "digits", stop={"utility": 0.01}))
    for number in range(trials):
        writer.trial(number, [0.6 - number / 10])
    writer.add("experiment_ended", status="completed", reason="utility")
    results = writer.results
    lines = format_summary(results).splitlines()
    assert lines[0].startswith("digits: little more expected after")
    assert lines[2] == f"expected of another hour: {value} (ends below 0.01)"
    assert lines[2] in format_status(results, now=0.0)
    shown = results.show()["expected_gain"]
    assert shown == {"per_hour": per_hour and pytest.approx(per_hour), "utility": 0.01}
    [tile] = [tile for tile in Report(results).tiles if tile[0] == "expected gain"]
    assert tile[1] == value.removesuffix(" of val_accuracy")


def test_summary_of_search_elsewhere_prints_a_call(storage):
    spec = {"trainable": "elsewhere", "training": {}, "time_budget_s": 90}
    make_folder(storage / "far", **spec)
    writer = Writer("results/far")
    writer.trial(1, [metrics(0.5)])
    writer.add("experiment_ended", status="completed", reason="time_budget", never_started=3)
    writer.kill()
    [go_on] = [line for line in format_summary(writer.results).splitlines() if "Go on" in line]
    command = go_on.removeprefix("Go on        ")
    assert command == "tuner.AskTell('results/far', time_budget_s=94)"
    with eval(command, {"tuner": tuner}, {}) as search:
        assert search.suggest() is not None


def test_summary_without_usable_trial_counts_failures(snapshot, storage):
    writer = Writer(make_folder(storage / "digits"))
    writer.trial(1, [], error=("exception", "\x1b[31mboom\n\nat line 3"))
    writer.end("failed")
    snapshot(format_summary(writer.results))


def test_best_text_of_confirmed_trial_has_mean_and_model(snapshot, tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.90, 0.2: 0.95, 0.3: 0.93})
    retrained(search, [[0.97, 0.98, 0.99]])
    snapshot(format_best_trial(describe_best(search)[0], None, search.metric))


@pytest.mark.parametrize("reason", [None, "time_budget", "target"])
def test_summary_says_that_a_search_ended_before_its_time_budget(tmp_path, reason):
    writer = Writer(make_folder(tmp_path / "digits", time_budget_s=600))
    for number in range(3):
        writer.trial(number, [0.5])
    writer.end(**({"reason": reason} if reason else {}))
    text = format_summary(Results(tmp_path / "digits"))
    is_early = reason is None
    assert (", before its time budget of 10m" in text) == is_early
    assert ("--add-samples 3" in text) == is_early
