"""Refits of the real classifier on the digits, by the commands."""

import json

import photos
import pytest
import torch
from driven import call, shown

from tuner.experiment.results.results import Results
from tuner.vision.export.read import read_export

SPEC = {
    "training": {"model": "cnn", "dataset": "digits", "width": 4},
    "search": {"space": {"lr": "choice([0.1, 0.3])"}},
    "objective": {"metric": "val_accuracy", "mode": "max"},
    "scheduler": {"name": "none", "max_t": 4},
    "num_samples": 2,
    "max_concurrent": 1,
}


@pytest.fixture(scope="module")
def here(ray_here, tmp_path_factory):
    """A working directory with a finished search in results/."""
    here = tmp_path_factory.mktemp("refit")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.delenv("TUNER_STORAGE", raising=False)
        (here / "small.json").write_text(json.dumps(SPEC))
        call("run", "small.json", "--refit", "--no-evaluate")
        yield here


def cut_second_epoch(folder):
    """Shorten the journal as a kill in the second epoch leaves it."""
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if '"epoch":2' in line)
    journal.write_text("".join(lines[:cut]))


def test_refit_is_exported_and_a_resume_after_a_kill_gives_the_same_model(here):
    best = shown("best", "small")
    began = Results(here / "results/small-refit").history.started
    refitted = shown("refit", "small")
    assert refitted["best"]["config"] == best["config"]
    assert refitted["best"]["epoch"] == refitted["best"]["metrics"]["epochs_trained"]
    assert refitted["best"]["epoch"] == best["epoch"]
    assert 0 < refitted["test"]["test_accuracy"] <= 1
    folder = here / "results/small-refit"
    assert Results(folder).history.started == began  # by the search itself
    assert shown("show", "small")["refit"] == "small-refit"
    call("export", "small", "--to", "whole")
    refit = read_export("whole").config.refit
    assert (refit.name, refit.trial_id, refit.epoch) == (
        "small",
        best["trial_id"],
        best["epoch"],
    )

    cut_second_epoch(folder)
    assert "refit" not in shown("show", "small")
    call("resume", "small", "--no-evaluate")
    assert Results(folder).history.resumed == 1
    call("export", "small", "--to", "resumed")
    whole, resumed = (read_export(name).load_weights() for name in ("whole", "resumed"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
def test_final_refit_trains_on_all_images_is_never_measured_and_resumes_as_such(here):
    text = call("run", "small.json", "--final", "--name", "all", "num_samples=1").stdout
    assert "  expect at least  tuner evaluate all --trial 00000\n" in text
    assert "test_accuracy" not in text
    cut_second_epoch(here / "results/all-refit")
    assert shown("resume", "all")["refit"] == "all-refit"
    refit = Results(here / "results/all-refit")
    assert (refit.history.resumed, refit.spec.training["train_on"]) == (1, "all")


@pytest.mark.slow
def test_a_folder_begins_with_the_packaged_weights_and_is_refitted(here, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(here / "data"))
    monkeypatch.setenv("TORCH_HOME", str(here / "torch"))  # no other weights
    photos.write(here / "pets", each=8)
    call("run", "folder:pets", "training.image_size=33", "--num-samples", "1")
    call("export", "pets", "--to", "pets_model")
    config = read_export("pets_model").config
    assert config.refit.name == "pets"
    assert config.model.name == shown("show", "pets")["best"]["config"]["model"]
    assert config.input.mean == pytest.approx([127 / 255] * 3)
