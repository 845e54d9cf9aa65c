"""The driver on real Ray: the experiment's folder to the letter."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from driven import call
from gated import assert_sound

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


def list_names(folder):
    return {path.name for path in folder.iterdir()}


def test_folder_has_files_of_the_contract(results):
    assert list_names(results.folder) == {"experiment.json", "journal.jsonl", "trials"}
    assert list_names(results.folder / "trials") == {*results.trials}
    for trial in results.trials:
        names = {n.split(".")[0] for n in list_names(results.folder / "trials" / trial)}
        measured = {"test"} if trial == results.get_best_trial().trial_id else set()
        assert names == {"events", "checkpoints", "log"} | measured


def test_experiment_json_records_spec_and_versions(results):
    document = json.loads((results.folder / "experiment.json").read_text())
    keys = "format spec seed versions git_revision validation"
    assert {*document} == {*keys.split()}
    assert (document["format"], document["seed"]) == (1, 3)
    assert build_spec(document["spec"]).model_dump(mode="json") == document["spec"]
    baseline = pytest.approx(37 / 360)
    assert document["validation"] == {"images": 360, "baseline": baseline}
    assert document["versions"]["python"] == platform.python_version()
    assert document["versions"]["torch"] == version("torch")


def test_journal_is_sound_and_framed_by_the_experiment(results, events):
    assert_sound(results.folder, trials=6)
    first, *between, last = events
    assert (first["event"], first["resumed"]) == ("experiment_started", False)
    assert set(first["owner"]) == {"host", "pid", "started"}
    assert (last["event"], last["status"]) == ("experiment_ended", "completed")
    assert [e["time"] for e in events] == sorted(e["time"] for e in events)
    assert all({*event} >= {"event", "time", "trial_id"} for event in between)


def test_each_trial_starts_reports_and_ends_in_order(results, events):
    for trial_id in results.trials:
        started, *between, ended = [e for e in events if e.get("trial_id") == trial_id]
        names = {"lr", "momentum", "weight_decay", "batch_size"}
        assert (started["event"], {*started["config"]}) == (TRIAL_STARTED, names)
        reported = 0
        assert {event["event"] for event in between} == {RESULT, CHECKPOINT}
        for event in between:
            # A checkpoint may come later than its report, not sooner
            reported = event["epoch"] if event["event"] == RESULT else reported
            assert event["epoch"] <= reported
        assert (between[-1]["event"], between[-1]["epoch"]) == (CHECKPOINT, reported)
        status = "completed" if reported == 4 else "stopped"
        assert (ended["event"], ended["status"]) == (TRIAL_ENDED, status)


def test_newest_and_best_checkpoints_are_kept_intact(results):
    for trial in results.trials.values():
        kept = {results.best_epoch(trial), trial.last_epoch}
        records = {record.epoch: record for record in trial.checkpoints}
        folder = results.folder / "trials" / trial.trial_id / "checkpoints"
        assert list_names(folder) == {*map(str, kept)}
        for epoch in kept:
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
