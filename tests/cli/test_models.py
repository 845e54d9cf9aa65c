"""The commands export, evaluate, refit and soup; integration/ trains."""

import json

import photos
from commands import call, fetch_json, refusal
from confirmed import refitted
from handed import CONFIG, trained
from synthetic import read_document

from tuner.errors import SpecError
from tuner.experiment.results.measured_tests import read_best_test, record_test
from tuner.experiment.results.results import Results


def test_export_of_trials_writes_a_table(digits, here):
    assert call("export", "digits", "--trials", "trials.csv").stdout == "trials.csv\n"
    assert len((here / "trials.csv").read_text().splitlines()) == 1 + 4
    assert (
        call("export", "digits", "--trials", "trials.parquet").stdout
        == "trials.parquet\n"
    )
    for lacking in ([], ["--trials", "trials.csv", "--trial", "2"]):
        assert "export needs --to DIR" in refusal("export", "digits", *lacking)


def test_evaluate_of_an_export_equals_the_experiments(here):
    trained(here / "results/hand")
    assert call("export", "hand", "--to", "out").stdout == "out\n"
    ours = fetch_json("evaluate", "hand")
    theirs = fetch_json("evaluate", "out")
    calibrated = {"test_loss": theirs["test_loss"]}  # the export divides its logits
    assert {**ours, **calibrated} == {**theirs, "shown": "searched"}
    assert "test_accuracy" in call("evaluate", "out").stdout
    again = call("evaluate", "hand", "--data", "elsewhere", "--json")
    assert json.loads(again.stdout) == ours
    wrong = "--trial is for an experiment; out is one exported model"
    assert refusal("evaluate", "out", "--trial", "0") == wrong
    moved = refusal("evaluate", "out", "--data", "elsewhere", kind=SpecError)
    assert "data_dir: is not used by dataset 'digits'" in moved


def test_evaluate_prints_images_and_interval(here, data_home):
    folder = photos.write(here / "photos", each=20)
    trained(here / "results/hand", dataset=f"folder:{folder}", image_size=12, epochs=1)
    call("export", "hand", "--to", "out")
    photos.write(here / "new/test", each=10, seed=99)
    measured = fetch_json("evaluate", "out", "--data", "new")
    low, high = measured["test_accuracy_interval"]
    assert (measured["images"], measured["baseline"]) == (30, 1 / 3)
    assert low < measured["test_accuracy"] < high
    assert measured["beats_baseline"] == (low > 1 / 3)
    text = call("evaluate", "out", "--data", "new").stdout
    assert "\nimages             30\n" in text
    assert f"(95 % interval {low:.4f} to {high:.4f})\n" in text
    assert ("does not beat the baseline" in text) == (low <= 1 / 3)
    shown = fetch_json("evaluate", "hand")
    assert (shown["images"], len(shown["test_accuracy_interval"])) == (9, 2)
    assert fetch_json("show", "hand")["test"]["beats_baseline"] is not None


def test_evaluate_labels_writes_the_doubtful_labels(here):
    trained(here / "results/hand")
    assert "training.fit_head=true" in refusal(
        "evaluate", "hand", "--labels", "labels.csv"
    )
    results = Results(here / "results/hand")
    entry = {
        "file": "/a/=1.jpg",
        "label": "rose",
        "suggested": "tulip",
        "probability": 0.75,
    }
    record = {**read_best_test(results), "doubtful_labels": [entry]}
    record_test(results.folder, record["trial_id"], record)
    text = call("evaluate", "hand", "--labels", "labels.csv").stdout
    assert "\n1 label may be wrong (--labels FILE), by label / likelier class\n" in text
    assert "\n  rose / tulip: 1\n" in text
    head, row = (here / "labels.csv").read_text().splitlines()
    assert (head, row) == (
        "file,label,suggested,probability",
        "/a/=1.jpg,rose,tulip,0.75",
    )


def test_evaluate_runs_no_code_beside_an_export(here, monkeypatch):
    out = trained(here / "results/hand").export(here / "out")
    config = read_document(out / "config.json")
    (out / "config.json").write_text(json.dumps(config | {"trainable": "evil:L"}))
    (out / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(out)
    monkeypatch.syspath_prepend(out)
    assert "no code of an export is run" in refusal("evaluate", ".")
    assert not (out / "ran").exists()


def test_refit_shows_a_finished_refit(here):
    refitted(trained(here / "results/hand"))
    shown = fetch_json("refit", "hand", "--no-evaluate")
    assert (shown["name"], shown["status"]) == ("hand-refit", "completed")
    assert shown["best"]["metrics"] == {"epochs_trained": 2, "train_loss": 0.3}
    text = call("refit", "hand", "--no-evaluate").stdout
    assert "refit of trial 00000 of hand, which had val_accuracy" in text


def test_soup_shows_a_table_and_exports_what_it_chooses(here):
    configs = [CONFIG, {**CONFIG, "lr": 0.2}]
    trained(
        here / "results/hand",
        configs=configs,
        spec={"metric": "val_loss", "mode": "min"},
    )
    shown = fetch_json("soup", "hand", "--top", "2", "--to", "out")
    assert [model["model"] for model in shown["models"]] == [
        "single",
        "soup",
        "ensemble",
    ]
    best = min(shown["models"], key=lambda model: model["metrics"]["val_loss"])
    assert (shown["chosen"], shown["export"]) == (best["model"], "out")
    measured = fetch_json("evaluate", "out")
    assert measured["trial_id"] == best["trials"][0]
    text = call("soup", "hand", "--top", "2").stdout
    assert text.startswith(
        "hand, calibrated, on the validation split\n\nMODEL     VAL_LOSS"
    )
    assert text.endswith(f"\nchosen: {best['model']}\n")
