"""What an experiment came to, in words."""

from math import log1p

import pytest
from confirmed import retrained, searched
from synthetic import Clock, Writer, change_document, make_folder

import tuner
from tuner.experiment.results.confirmation import describe_best
from tuner.experiment.results.listing import list_experiments
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
    return {
        "val_loss": 1 - accuracy,
        "val_accuracy": accuracy,
        "train_loss": 0.1,
        "lr": 0.2,
    }


@pytest.mark.parametrize(("best", "is_better"), [(0.91, False), (0.99, True)])
def test_best_trial_is_compared_with_the_default_config(storage, best, is_better):
    space = {"lr": "loguniform(0.0001, 1)"}
    search = {
        "strategy": "hyperopt",
        "space": space,
        "points_to_evaluate": [{"lr": 0.1}],
    }
    writer = write_with_baseline(
        storage / "digits", images=200, baseline=0.1, search=search
    )
    writer.trial(0, [metrics(0.9), metrics(0.5)], config={"lr": 0.1}, origin="initial")
    writer.trial(1, [metrics(best)], config={"lr": 0.2})
    writer.end()
    results = writer.results
    sentence = (
        f"val_accuracy {best} is no better than the default config (trial 00000, 0.9)"
    )
    texts = (format_summary(results), format_best(results), repr(advise(results)))
    assert [sentence in " ".join(text.split()) for text in texts] == [not is_better] * 3
    assert results.show()["validation"].get("default") == (None if is_better else 0.9)
    default = results.describe_best(results.trials["00000"])
    assert results.compute_accuracy(default).default is None


def test_summary_says_why_a_trial_with_a_better_epoch_is_not_the_best(
    snapshot, storage
):
    objective = {"metric": "val_accuracy", "mode": "max", "choose": "estimate"}
    make_folder(storage / "digits", objective=objective)
    writer = Writer("results/digits")
    writer.trial(1, [metrics(value) for value in [0.9] * 9])
    writer.trial(2, [metrics(value) for value in [0.2] * 4 + [0.92] + [0.2] * 4])
    writer.end()
    assert writer.results.get_best_trial().trial_id == "00001"
    snapshot(format_summary(writer.results))


def test_summary_of_completed_search(snapshot, storage):
    make_folder(storage / "digits")
    writer = Writer("results/digits", clock=Clock(tick=5.0))
    config = {"lr": 0.003552, "batch_size": 64}
    writer.trial(1, [metrics(0.5), metrics(0.75), metrics(0.625)], config=config)
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
    test = {"trial_id": "00001", "epoch": 2, "test_accuracy": 0.71234, "test_loss": 0.3}
    text = format_summary(writer.results, test)
    snapshot(text)
    assert max(map(len, text.splitlines())) <= 80


def write_with_baseline(folder, *, images, baseline, **spec):
    """A writer of a search that knows the baseline of its validation images."""
    path = make_folder(folder, **spec) / "experiment.json"
    change_document(path, validation={"images": images, "baseline": baseline})
    return Writer(folder)


def format_best(results):
    best = results.describe_best()
    return format_best_trial(best, results.compute_accuracy(best), results.metric)


def test_summary_of_uneven_classes_has_the_macro_recall(snapshot, storage):
    writer = Writer(make_folder(storage / "uneven"))
    writer.trial(0, [{**metrics(0.8), "eval_loss": 0.25}], config={})
    writer.end()
    confusion = {"classes": ["cat", "dog"], "matrix": [[90, 0], [5, 5]]}
    test = {"test_accuracy": 0.95, "images": 100, "confusion": confusion}
    snapshot(format_summary(writer.results, test))


def test_summary_warns_of_accuracy_that_does_not_beat_the_baseline(snapshot, storage):
    writer = write_with_baseline(storage / "digits", images=60, baseline=0.5)
    writer.trial(
        3, [metrics(0.55)], config={"model_args": {"width": 16, "dropout": 1 / 3}}
    )
    writer.end()
    results = writer.results
    snapshot(format_summary(results))
    snapshot(format_best(results))
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
    writer.add(
        "experiment_ended", status="completed", reason="time_budget", never_started=7
    )
    results = writer.results
    snapshot(format_summary(results))
    assert (results.show()["status"], results.show()["ended_by"]) == (
        "completed",
        "time_budget",
    )
    assert "out of time" in format_experiments(list_experiments(storage))


@pytest.mark.parametrize(
    ("trials", "per_hour"), [(19, None), (20, 0.25 * log1p(3600 / 40))]
)
def test_expected_gain_of_another_hour_is_shown_everywhere(
    snapshot, storage, trials, per_hour
):
    writer = Writer(make_folder(storage / "digits", stop={"utility": 0.01}))
    for number in range(trials):
        writer.trial(number, [0.6 - number / 10])
    writer.add("experiment_ended", status="completed", reason="utility")
    results = writer.results
    snapshot("\n".join(format_summary(results).splitlines()[:3]))
    snapshot(format_status(results, now=0.0))
    snapshot.compare_value(
        [tile for tile in Report(results).tiles if tile[0] == "expected gain"]
    )
    shown = results.show()["expected_gain"]
    assert shown == {"per_hour": per_hour and pytest.approx(per_hour), "utility": 0.01}


def test_summary_of_search_elsewhere_prints_a_call(storage):
    spec = {"trainable": "elsewhere", "training": {}, "time_budget_s": 90}
    make_folder(storage / "far", **spec)
    writer = Writer("results/far")
    writer.trial(1, [metrics(0.5)])
    writer.add(
        "experiment_ended", status="completed", reason="time_budget", never_started=3
    )
    writer.kill()
    [go_on] = [
        line for line in format_summary(writer.results).splitlines() if "Go on" in line
    ]
    command = go_on.removeprefix("Go on        ")
    assert command == "tuner.AskTell('results/far', time_budget_s=94)"
    with eval(command, {"tuner": tuner}, {}) as search:
        assert search.suggest() is not None


def test_best_text_of_confirmed_trial_has_mean_and_model(snapshot, tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.90, 0.2: 0.95, 0.3: 0.93})
    retrained(search, [[0.97, 0.98, 0.99]])
    snapshot(format_best_trial(describe_best(search)[0], None, search.metric))


@pytest.mark.parametrize(
    ("reason", "spec", "why"),
    [
        (None, {"num_samples": 3}, "3 completed, all that num_samples allows"),
        (None, {"num_samples": None}, "3 completed, no config is left to try"),
        (None, {"num_samples": 9}, "3 completed, no config is left to try"),
        ("time_budget", {"refit": True}, "3 completed, the refit has the remaining"),
        ("time_budget", {}, None),
        ("target", {"refit": True}, None),
    ],
)
def test_summary_says_why_a_search_ended_before_its_time_budget(
    tmp_path, reason, spec, why
):
    writer = Writer(make_folder(tmp_path / "digits", time_budget_s=600, **spec))
    for number in range(3):
        writer.trial(number, [0.5])
    writer.end(**({"reason": reason} if reason else {}))
    text = format_summary(writer.results)
    head = ", before its time budget of 10m 00s\n3 trials: "
    assert (f"{head}{why}" in text) == (head in text) == bool(why)
    # Which a search without a number of samples refuses
    assert ("--add-samples" in text) == ("num_samples allows" in (why or ""))
