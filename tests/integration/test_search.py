"""The driver on real Ray: the experiment's folder to the letter."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from driven import call

from tuner.experiment.events import CHECKPOINT, RESULT, TRIAL_ENDED, TRIAL_STARTED
from tuner.experiment.files import compute_sha256
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.extension import Extension
from tuner.search.run import resume_experiment
from tuner.spec.experiment import build_spec
from tuner.trial.checkpoints import load_state

BUDGET_S = 10
FEWER = {"training.width": 4, "scheduler.max_t": 4, "scheduler.reduction_factor": 2}
DIGITS = {
    "name": "digits",
    "training": {"model": "cnn", "dataset": "digits", "width": 4},
    "search": {
        "space": {"lr": "loguniform(1e-3, 1)", "batch_size": "choice([64, 128])"}
    },
    "objective": {"metric": "val_loss", "mode": "min"},
    "num_samples": 6,
    "seed": 3,
    "scheduler": {"max_t": 1},
}


@pytest.fixture(scope="module")
def done(ray_here, tmp_path_factory):
    """`tuner run digits`, of fewer and smaller trials, in a working directory."""
    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("TUNER_STORAGE", raising=False)
        assignments = (f"{key}={value}" for key, value in FEWER.items())
        options = ("--num-samples", 6, "--seed", 3, "--max-concurrent", 1)
        yield call("run", "digits", *options, *assignments)


@pytest.fixture(scope="module")
def results(done):
    return Results(Path("results", "digits").resolve())


@pytest.fixture(scope="module")
def events(results):
    return list(read(results.folder))


def of(events, trial_id):
    return [event for event in events if event.get("trial_id") == trial_id]


def test_folder_has_files_of_the_contract(results):
    assert sorted(path.name for path in results.folder.iterdir()) == [
        "experiment.json",
        "journal.jsonl",
        "trials",
    ]
    assert sorted(path.name for path in (results.folder / "trials").iterdir()) == list(
        results.trials
    )
    for trial in results.trials:
        names = {
            path.name.split(".")[0]
            for path in (results.folder / "trials" / trial).iterdir()
        }
        measured = {"test"} if trial == results.get_best_trial().trial_id else set()
        assert names == {"events", "checkpoints", "log"} | measured


def test_experiment_json_records_spec_and_versions(results):
    document = json.loads((results.folder / "experiment.json").read_text())
    assert set(document) == {
        "format",
        "spec",
        "seed",
        "versions",
        "git_revision",
        "validation",
    }
    assert (document["format"], document["seed"]) == (1, 3)
    assert build_spec(document["spec"]).model_dump(mode="json") == document["spec"]
    assert document["validation"] == {
        "images": 360,
        "baseline": pytest.approx(37 / 360),
    }
    assert document["versions"]["python"] == platform.python_version()
    assert document["versions"]["torch"] == version("torch")


def test_the_experiment_frames_the_journal(events):
    assert events[0]["event"] == "experiment_started"
    assert events[0]["resumed"] is False
    assert set(events[0]["owner"]) == {"host", "pid", "started"}
    assert (events[-1]["event"], events[-1]["status"]) == (
        "experiment_ended",
        "completed",
    )
    assert [e["time"] for e in events] == sorted(e["time"] for e in events)
    for event in events[1:-1]:
        assert set(event) - {"event", "time"} >= {"trial_id"}


def test_each_trial_starts_reports_and_ends_in_order(results, events):
    for trial_id in results.trials:
        of_trial = of(events, trial_id)
        kinds = [event["event"] for event in of_trial]
        epochs = [event["epoch"] for event in of_trial if event["event"] == RESULT]
        without = [kind for kind in kinds if kind != CHECKPOINT]
        assert without == [TRIAL_STARTED, *[RESULT] * len(epochs), TRIAL_ENDED]
        assert epochs == list(range(1, len(epochs) + 1))
        reported = 0
        for event in of_trial[1:-1]:
            # A checkpoint may come later than its report, not sooner
            reported = event["epoch"] if event["event"] == RESULT else reported
            assert event["epoch"] <= reported
        assert kinds[-2] == CHECKPOINT
        assert of_trial[-2]["epoch"] == epochs[-1]
        assert set(of_trial[0]["config"]) == {
            "lr",
            "momentum",
            "weight_decay",
            "batch_size",
        }
        assert of_trial[-1]["status"] == (
            "completed" if len(epochs) == 4 else "stopped"
        )


def test_newest_and_best_checkpoints_are_kept_intact(results):
    for trial in results.trials.values():
        best = results.best_epoch(trial)
        records = {record.epoch: record for record in trial.checkpoints}
        folder = results.folder / "trials" / trial.trial_id / "checkpoints"
        assert {int(path.name) for path in folder.iterdir()} == {best, trial.last_epoch}
        for epoch in {best, trial.last_epoch}:
            path = results.folder / records[epoch].path
            assert path == folder / str(epoch) / "state.pt"
            assert compute_sha256(path) == records[epoch].sha256


@pytest.mark.slow
def test_same_seed_gives_same_configs_for_any_concurrency(searched):
    sequential = searched(**DIGITS)
    four = searched(**DIGITS, max_concurrent=4)
    assert [t.config for t in sequential.trials.values()] == [
        t.config for t in four.trials.values()
    ]
    assert [t.list_values("val_loss") for t in sequential.trials.values()] == [
        t.list_values("val_loss") for t in four.trials.values()
    ]


@pytest.mark.slow
def test_time_budget_ends_search_and_interrupts_trials(searched):
    results = searched(
        trainable="faulty:Endless",
        training={"epochs": 10**9},
        search={"space": {"does": "choice(['x'])", "lr": "uniform(0, 1)"}},
        scheduler="none",
        time_budget_s=BUDGET_S,
    )
    if not results.trials:  # a busy machine may take longer to start the first trial
        more = Extension(time_budget_s=6 * BUDGET_S)
        results = resume_experiment(results.folder, more=more)
    assert results.status == "completed"
    assert {trial.status for trial in results.trials.values()} == {"interrupted"}
    assert results.get_best_trial().last_epoch > 0
    assert results.history.duration_s >= BUDGET_S
    assert (results.ended_by, results.history.never_started) == ("time_budget", None)


def test_stop_between_checkpoints_keeps_best_checkpoint(searched):
    results = searched(
        trainable="saving:Passing",
        search={"space": {"x": "uniform(0, 1)"}},
        objective={"metric": "loss", "mode": "min"},
        scheduler="none",
        training={"epochs": 50},
        checkpoints={"every_s": 1000},
        stop={"patience_epochs": 3},
        num_samples=1,
    )
    trial = results.get_best_trial()
    assert trial.last_epoch in (7, 8)  # the search may end an epoch after its report
    assert {record.epoch for record in trial.checkpoints} >= {1, 4}
    checkpoint = results.best_checkpoint()
    assert (results.best_epoch(trial), checkpoint.epoch) == (4, 4)
    assert load_state(checkpoint.path, checkpoint.sha256)[
        "epochs"
    ].unique().tolist() == [4]


def test_trials_reuse_earlier_processes(searched):
    results = searched(
        trainable="processes:tell",
        search={"strategy": "bohb", "space": {"x": "uniform(0, 1)"}},
        num_samples=12,
    )
    assert results.counts["completed"] + results.counts["stopped"] == 12
    assert (
        len({trial.results[-1].metrics["pid"] for trial in results.trials.values()})
        == 1
    )
