"""The driver on real Ray: the experiment's folder to the letter."""

import itertools
import json
import platform
import struct
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from ray import tune

from tuner.errors import UsageError
from tuner.record.digest import sha256_of
from tuner.record.events import CHECKPOINT, RESULT, TRIAL_ENDED, TRIAL_STARTED
from tuner.record.journal import read
from tuner.search import recorder
from tuner.search import stopping as ending
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.experiment import build_spec

DIGITS = {
    "name": "digits",
    "training": {"model": "cnn", "dataset": "digits", "width": 4},
    "search": {"space": {"lr": "loguniform(1e-3, 1)", "batch_size": "choice([64, 128])"}},
    "objective": {"metric": "val_loss", "mode": "min"},
    "scheduler": {"max_t": 4, "grace_period": 1, "reduction_factor": 2},
    "num_samples": 6,
    "seed": 3,
}
GATELESS = {"strategy": "grid", "space": {"does": "grid_search(['good', 'good'])"}}


@pytest.fixture(scope="module")
def search(searched):
    """A search on digits, and what its `tune.run` returned, with all that Tune knows of trials."""
    kept, run, forget = [], tune.run, recorder._forget
    tune.run = lambda *args, **kwargs: kept.append(run(*args, **kwargs)) or kept[-1]
    recorder._forget = lambda trial: None
    try:
        results = searched(**DIGITS)
    finally:
        tune.run, recorder._forget = run, forget
    return results, kept[0]


@pytest.fixture(scope="module")
def results(search):
    return search[0]


@pytest.fixture(scope="module")
def events(results):
    return list(read(results.folder))


def of(events, trial_id):
    return [event for event in events if event.get("trial_id") == trial_id]


def test_the_folder_holds_what_the_contract_names_and_no_more(results):
    assert sorted(path.name for path in results.folder.iterdir()) == [
        "experiment.json",
        "journal.jsonl",
        "trials",
    ]
    assert sorted(path.name for path in (results.folder / "trials").iterdir()) == list(
        results.trials
    )
    for trial in results.trials:
        names = {path.name.split(".")[0] for path in (results.folder / "trials" / trial).iterdir()}
        assert names == {"events", "checkpoints", "log"}


def test_experiment_json_says_what_ran_where(results):
    document = json.loads((results.folder / "experiment.json").read_text())
    assert set(document) == {"format", "spec", "seed", "versions", "git_revision"}
    assert (document["format"], document["seed"]) == (1, 3)
    assert build_spec(document["spec"]).model_dump(mode="json") == document["spec"]
    assert document["versions"]["python"] == platform.python_version()
    assert document["versions"]["torch"] == version("torch")


def test_the_experiment_frames_the_journal(events):
    assert events[0]["event"] == "experiment_started"
    assert events[0]["resumed"] is False
    assert set(events[0]["owner"]) == {"host", "pid", "started"}
    assert (events[-1]["event"], events[-1]["status"]) == ("experiment_ended", "completed")
    assert [e["time"] for e in events] == sorted(e["time"] for e in events)
    for event in events[1:-1]:
        assert set(event) - {"event", "time"} >= {"trial_id"}


def test_trials_are_numbered_in_order_of_creation(results):
    assert list(results.trials) == [f"{number:05}" for number in range(6)]


def test_each_trial_starts_reports_and_ends_in_order(results, events):
    for trial_id in results.trials:
        told = of(events, trial_id)
        kinds = [event["event"] for event in told]
        assert kinds == [
            TRIAL_STARTED,
            *[RESULT, CHECKPOINT] * (len(kinds) // 2 - 1),
            TRIAL_ENDED,
        ]
        epochs = [event["epoch"] for event in told if event["event"] == RESULT]
        assert epochs == list(range(1, len(epochs) + 1))
        assert set(told[0]["config"]) == {"lr", "batch_size"}
        assert told[-1]["status"] == ("completed" if len(epochs) == 4 else "stopped")


def test_asha_stopped_some_and_not_all(results):
    assert results.counts["stopped"]
    assert results.counts["completed"]
    assert {t.last_epoch for t in results.trials.values()} <= {1, 2, 4}


def test_reports_hold_every_metric(events):
    metrics = {name for event in events if event["event"] == RESULT for name in event["metrics"]}
    assert metrics >= {"train_loss", "val_loss", "val_accuracy", "lr", "images_per_s", "epoch_s"}


def test_the_newest_and_the_best_checkpoint_stay_and_are_what_was_written(results):
    for trial in results.trials.values():
        best = results.best_epoch(trial)
        records = {record.epoch: record for record in trial.checkpoints}
        folder = results.folder / "trials" / trial.trial_id / "checkpoints"
        assert {int(path.name) for path in folder.iterdir()} == {best, trial.last_epoch}
        for epoch in {best, trial.last_epoch}:
            path = results.folder / records[epoch].path
            assert path == folder / str(epoch) / "state.pt"
            assert sha256_of(path) == records[epoch].sha256


def test_tensorboard_reads_every_report(results):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for trial in results.trials.values():
        board = EventAccumulator(str(results.folder / "trials" / trial.trial_id)).Reload()
        points = [(point.step, point.value) for point in board.Scalars("val/loss")]
        assert points == [(epoch, single(value)) for epoch, value in trial.values("val_loss")]
        best = [point.value for point in board.Scalars("best/val_loss")]
        losses = (single(value) for _, value in trial.values("val_loss"))
        assert best == list(itertools.accumulate(losses, min))


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


@pytest.mark.parametrize("scope", ["last", "avg", "last-5-avg", "all"])
@pytest.mark.parametrize("metric", ["val_loss", "val_accuracy", "train_loss"])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_best_trial_is_that_of_rays_analysis(search, metric, mode, scope):
    results, analysis = search
    theirs = analysis.get_best_trial(metric, mode, scope=scope)
    ours = results.get_best_trial(metric, mode, scope=scope)
    assert ours.trial_id == theirs.config["trial_id"]
    assert ours.config == theirs.config["config"]
    if scope == "all":
        assert results.get_best_trial(metric, mode, scope="best") == ours


def test_a_finished_experiment_is_resumed_to_nothing(results, events):
    again = resume_experiment(results.folder)
    assert again.trials == results.trials
    added = list(read(results.folder))[len(events) :]
    assert [event["event"] for event in added] == ["experiment_started", "experiment_ended"]
    assert added[0]["resumed"] is True


def test_an_experiment_that_exists_is_not_overwritten(results):
    with pytest.raises(UsageError, match=r"exists .* tuner resume digits"):
        run_experiment(build_spec(results.spec))


def test_the_same_seed_gives_the_same_configs_one_at_a_time_and_all_at_once(searched):
    short = {**DIGITS, "scheduler": {"max_t": 1}}
    one = searched(**short, max_concurrent=1)
    four = searched(**short, max_concurrent=4)
    assert [t.config for t in one.trials.values()] == [t.config for t in four.trials.values()]
    assert [t.values("val_loss") for t in one.trials.values()] == [
        t.values("val_loss") for t in four.trials.values()
    ]


def test_another_seed_gives_other_configs(results):
    other = build_spec({**DIGITS, "seed": 4}).search.build(4)
    assert other.suggest("00000") != results.trials["00000"].config


def test_a_grid_runs_every_cell_once(searched):
    results = searched(
        **{
            **DIGITS,
            "search": {
                "strategy": "grid",
                "space": {"lr": "grid_search([0.1, 0.2])", "batch_size": "choice([64, 128])"},
            },
            "num_samples": None,
            "scheduler": {"max_t": 1},
        }
    )
    assert [tuple(trial.config.values()) for trial in results.trials.values()] == [
        (0.1, 64),
        (0.1, 128),
        (0.2, 64),
        (0.2, 128),
    ]


def test_a_time_budget_ends_the_search_and_interrupts_what_runs(ray_here, tmp_path, monkeypatch):
    def clock():
        """Stands still until something is reported; then the budget is spent."""
        journal = tmp_path / "x" / "journal.jsonl"
        return 61.0 if journal.exists() and '"result"' in journal.read_text() else 0.0

    monkeypatch.setattr(ending, "time", SimpleNamespace(monotonic=clock))
    spec = build_spec(
        {
            "name": "x",
            "trainable": "faulty:Endless",
            "training": {"epochs": 10**9},
            "search": {"space": {"does": "choice(['x'])", "lr": "uniform(0, 1)"}},
            "scheduler": "none",
            "time_budget_s": 60,
            "storage": str(tmp_path),
        }
    )
    results = run_experiment(spec)
    assert results.status == "completed"
    assert {trial.status for trial in results.trials.values()} == {"interrupted"}
    assert results.get_best_trial().last_epoch > 0


def test_a_search_without_a_scheduler_runs_every_trial_to_its_end(searched):
    results = searched(
        trainable="faulty:Learner",
        training={"epochs": 2},
        search=GATELESS,
        scheduler="none",
    )
    assert [t.last_epoch for t in results.trials.values()] == [2, 2]
    assert results.counts["completed"] == 2


@pytest.mark.parametrize("strategy", ["random", "hyperopt"])
def test_as_many_processes_run_the_trials_as_run_at_a_time(searched, strategy):
    results = searched(
        trainable="processes:tell",
        search={"strategy": strategy, "space": {"x": "uniform(0, 1)"}},
        num_samples=12,
        max_concurrent=2,
    )
    processes = {trial.results[-1].metrics["pid"] for trial in results.trials.values()}
    assert results.counts["completed"] + results.counts["stopped"] == 12
    assert len(processes) <= 2
